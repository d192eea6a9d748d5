export function useState<T>(first: T | (() => T)): [T, (next: T | ((old: T) => T)) => void];
export function useRef<T>(first: T): {current: T};
export function useEffect(run: () => void | (() => void), inputs?: unknown[]): void;
export function useLayoutEffect(run: () => void | (() => void), inputs?: unknown[]): void;
export function useMemo<T>(make: () => T, inputs: unknown[]): T;
export function useCallback<T extends Function>(f: T, inputs: unknown[]): T;
export function useId(): string;
export function useErrorBoundary(): [any, () => void];
