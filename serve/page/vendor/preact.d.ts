export type ComponentChild = any;
export function h(type: any, props: any, ...children: any[]): any;
export function render(tree: any, into: Element): void;
export const Fragment: any;
