// A list of which only the rows in view are rendered.
import {html, useEffect, useLayoutEffect, useRef, useState} from './ui.js';

const spare = 8; // rows rendered above and below
const guess = 200; // the height of a tall row that was not rendered yet

/**
 * @template T
 * @param {{all: T[], height: number, row: (one: T, index: number, style: {top: string}) => any, at?: number, tall?: number[],
 *   follow?: boolean, class?: string, label: string, role?: string}} props height: of a row, in pixels; row: its element has
 *   the style; at: the row to keep in view, which is always rendered, as it may have the focus; tall: the rows that may be
 *   higher; follow: who looks at the end sees what comes; label: what is listed
 */
export function Rows({all, height, row, at = -1, tall = [], follow, class: name = '', label, role = 'group'}) {
	const box = useRef(/** @type {HTMLElement | null} */ (null));
	const heights = useRef(/** @type {Map<T, number>} */ (new Map())); // of tall rows
	const low = useRef(false); // the end is in view
	const drawn = useRef('');
	const watch = useRef(/** @type {ResizeObserver | null} */ (null));
	const [, draw] = useState(0);
	const top = (/** @type {number} */ i) => tall.reduce((sum, j) => (j < i ? sum + (heights.current.get(all[j]) ?? guess) - height : sum), i * height);
	/** The row at a place. @param {number} y */
	const rowAt = (y) => {
		let first = 0;
		for (let end = all.length; first < end;) {
			const middle = (first + end) >> 1;
			if (top(middle + 1) <= y) first = middle + 1;
			else end = middle;
		}
		return first;
	};
	const range = () => {
		const {scrollTop, clientHeight} = box.current ?? {scrollTop: 0, clientHeight: 600};
		return [Math.max(0, rowAt(scrollTop) - spare), Math.min(all.length, rowAt(scrollTop + clientHeight) + 1 + spare)];
	};
	const scrolled = () => {
		if (!box.current) return; // a late event of a list that is gone
		const {scrollTop, scrollHeight, clientHeight} = box.current;
		low.current = !!follow && scrollTop > 0 && scrollHeight - scrollTop - clientHeight < 4;
		if (String(range()) !== drawn.current) draw((n) => n + 1);
	};
	const [from, to] = range();
	drawn.current = `${from},${to}`;
	const indices = [...Array(Math.max(0, to - from)).keys()].map((i) => from + i);
	if (at >= 0 && at < all.length && (at < from || at >= to)) indices.push(at);
	useEffect(() => {
		watch.current = new ResizeObserver(() => draw((n) => n + 1));
		watch.current.observe(/** @type {HTMLElement} */ (box.current));
		return () => watch.current?.disconnect();
	}, []);
	useLayoutEffect(() => {
		const of = box.current;
		if (!of || at < 0) return;
		const y = top(at);
		if (y < of.scrollTop) of.scrollTop = y;
		else if (y + height > of.scrollTop + of.clientHeight) of.scrollTop = y + height - of.clientHeight;
		scrolled();
	}, [at]);
	useLayoutEffect(() => {
		const of = /** @type {HTMLElement} */ (box.current);
		if (low.current) of.scrollTop = of.scrollHeight;
		let changed = false;
		for (const i of tall) {
			const element = /** @type {HTMLElement | undefined} */ (of.firstElementChild?.children[indices.indexOf(i)]);
			if (!element) continue;
			watch.current?.observe(element);
			changed ||= heights.current.get(all[i]) !== element.offsetHeight;
			heights.current.set(all[i], element.offsetHeight);
		}
		if (changed) draw((n) => n + 1);
	});
	return html`<div class="rows ${name}" ref=${box} onScroll=${scrolled} tabindex="0" role=${role} aria-label=${label}>
		<div class="rows-all" style=${{height: `${top(all.length)}px`}}>${indices.map((i) => row(all[i], i, {top: `${top(i)}px`}))}</div>
	</div>`;
}
