export interface Signal<T> { value: T; peek(): T; subscribe(f: (value: T) => void): () => void }
export interface ReadonlySignal<T> { readonly value: T; peek(): T; subscribe(f: (value: T) => void): () => void }
export function signal<T>(value: T): Signal<T>;
export function computed<T>(f: () => T): ReadonlySignal<T>;
export function effect(f: () => void | (() => void)): () => void;
export function batch<T>(f: () => T): T;
export function untracked<T>(f: () => T): T;
export function useSignal<T>(value: T): Signal<T>;
export function useComputed<T>(f: () => T): ReadonlySignal<T>;
export function useSignalEffect(f: () => void | (() => void)): void;
