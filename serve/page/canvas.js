// A drawing that is panned and zoomed. Only what is near the view is rendered.
import {Edges, Fold, groupsOf, isBox, meets, Step, Texture} from './picture.js';
import {urgentOf} from './states.js';
import {html, useEffect, useLayoutEffect, useMemo, useRef, useState} from './ui.js';

/** Where the drawing is: the place of its corner in the view, and its scale. @typedef {{x: number, y: number, k: number}} View */
/** What buttons do with a canvas. @typedef {{fit: () => void, zoom: (by: number) => void, next: (by: number) => void}} Handle */

const smallest = 0.02;
const largest = 3;
const readable = 0.75;
const margin = 0.25; // of the view, rendered on each side of it
const settleTime = 120; // ms after the last change of scale until it is rendered sharply
const mostDetailed = 500; // nodes that are rendered with text
const mostFarDetailed = 120; // those if the text cannot be read
const mostTabs = 60; // nodes among which Tab moves: one of a larger picture is no way through

/** @param {number} v @param {number} from @param {number} to */
const clamp = (v, from, to) => Math.min(Math.max(v, from), Math.max(from, to));

/**
 * @param {{drawing: import('./picture.js').Drawing, sums: import('./picture.js').Sums, at?: string, pick: (id: string) => void,
 *   fold: (id: string) => void, handle: {current: Handle | null}}} props at: the step that is picked
 */
export function Canvas({drawing, sums, at, pick, fold, handle}) {
	const box = useRef(/** @type {any} */ (null));
	const sheet = useRef(/** @type {any} */ (null));
	const frame = useRef(/** @type {any} */ (null));
	const view = useRef(/** @type {View} */ ({x: 0, y: 0, k: 1}));
	const timer = useRef(0);
	const [size, setSize] = useState([0, 0]);
	/** The view that the sheet was placed for; panning moves it. */
	const [base, setBase] = useState(/** @type {View | null} */ (null));
	/** The view that is rendered, with a margin. */
	const [seen, setSeen] = useState(/** @type {View | null} */ (null));
	const [now, setNow] = useState(at ?? '');
	const nodes = useMemo(() => new Map(drawing.nodes.map((n) => [n.id, n])), [drawing]);
	const [w, h] = size;

	/** Shows the present view, by moving what is rendered. */
	const apply = () => {
		const {x, y, k} = view.current;
		if (base && sheet.current) {
			const r = k / base.k;
			sheet.current.style.transform = `translate(${w * margin * (1 - r) + x - base.x * r}px, ${h * margin * (1 - r) + y - base.y * r}px) scale(${r})`;
		}
		if (frame.current) {
			const small = scaleOf(drawing) / k;
			Object.assign(frame.current.style, {transform: `translate(${-x * small}px, ${-y * small}px)`, width: `${w * small}px`, height: `${h * small}px`});
		}
	};
	const settle = () => {
		clearTimeout(timer.current);
		timer.current = 0;
		setBase({...view.current});
		setSeen({...view.current});
	};
	/** @param {View} to */
	const move = ({x, y, k}) => {
		view.current = {k, x: clamp(x, 60 - drawing.width * k, w - 60), y: clamp(y, 60 - drawing.height * k, h - 60)};
		apply();
		if (!base) return settle();
		const r = k / base.k;
		const {x: x1, y: y1} = view.current;
		if (r < 0.5 || r > 2) return settle();
		if (!seen || Math.hypot((x1 - seen.x * r) / w, (y1 - seen.y * r) / h) > margin / 2) setSeen({x: x1 / r, y: y1 / r, k: base.k});
		if (r !== 1) {
			clearTimeout(timer.current);
			timer.current = setTimeout(settle, settleTime);
		}
	};
	/** Zooms at a point of the view. @param {number} by @param {number} px @param {number} py */
	const zoomAt = (by, px = w / 2, py = h / 2) => {
		const {x, y, k} = view.current;
		const to = clamp(k * by, smallest, largest);
		move({k: to, x: px - (px - x) * to / k, y: py - (py - y) * to / k});
	};
	const fit = () => {
		const k = clamp(Math.min(w / drawing.width, h / drawing.height), smallest, 1);
		move({k, x: (w - drawing.width * k) / 2, y: (h - drawing.height * k) / 2});
	};
	/** @param {string} id */
	const centre = (id) => {
		const n = nodes.get(id);
		if (!n) return;
		const k = Math.max(view.current.k, readable);
		move({k, x: w / 2 - (n.x + n.width / 2) * k, y: h / 2 - (n.y + Math.min(n.height / 2, 100)) * k});
	};
	/** Brings a step into view, unless it is there. @param {string} id */
	const reveal = (id) => {
		const n = nodes.get(id);
		if (!n) return;
		const {x, y, k} = view.current;
		const [left, top] = [n.x * k + x, n.y * k + y];
		const low = isBox(n) ? 40 : n.height;
		if (k < 0.3 || left < 0 || top < 0 || left + Math.min(n.width * k, w) > w || top + low * k > h) centre(id);
	};
	/** The first view: all that is readable, else what is picked, failed, waits or runs, else the beginning. */
	const start = () => {
		view.current = {x: 0, y: 0, k: 1};
		const all = Math.min(w / drawing.width, h / drawing.height);
		const first = at && nodes.has(at) ? at : urgentOf([...nodes.keys()], sums);
		if (all >= readable) fit();
		else if (first) centre(first);
		else move({k: 1, x: drawing.direction === 'LR' ? 8 : Math.max(8, (w - drawing.width) / 2), y: drawing.direction === 'LR' ? Math.max(8, (h - drawing.height) / 2) : 8});
	};
	/** Goes to another step by the keyboard. @param {number} by */
	const next = (by) => {
		const ids = [...nodes.keys()];
		const i = ids.indexOf(now);
		const id = ids[i < 0 ? (by > 0 ? 0 : ids.length - 1) : (i + by + ids.length) % ids.length];
		if (id) show(id);
	};
	/** @param {string} id */
	const show = (id) => {
		if (id === now) focus(); // else it follows
		setNow(id);
		reveal(id);
	};
	const focus = () => (box.current.querySelector(`[data-id="${CSS.escape(now)}"]`) ?? box.current).focus({preventScroll: true});
	handle.current = {fit, zoom: zoomAt, next};

	useLayoutEffect(() => {
		const watch = new ResizeObserver(() => setSize([box.current.clientWidth, box.current.clientHeight]));
		watch.observe(box.current);
		setSize([box.current.clientWidth, box.current.clientHeight]);
		return () => {
			watch.disconnect();
			clearTimeout(timer.current);
		};
	}, []);
	/** The drawing that is shown, and the step that stays where it is when the next one comes. */
	const shown = useRef({drawing: /** @type {any} */ (null), nodes, kept: '', focus: false});
	useLayoutEffect(() => {
		if (!w || !h) return;
		const before = shown.current;
		shown.current = {drawing, nodes, kept: '', focus: false};
		const [old, here] = [before.nodes.get(before.kept), nodes.get(before.kept)];
		if (before.drawing === drawing) settle();
		else if (before.drawing && old && here) {
			const {x, y, k} = view.current;
			move({k, x: x + (old.x - here.x) * k, y: y + (old.y - here.y) * k});
			settle();
		} else start();
		if (before.focus) focus();
	}, [drawing, w, h]);
	useLayoutEffect(apply, [base, size]);
	useEffect(() => {
		if (!at || !w) return;
		setNow(at);
		reveal(at);
	}, [at]);
	useEffect(() => { // the focus follows, if it is in the picture
		if (now && box.current.contains(document.activeElement)) focus();
	}, [now, base]);

	/** @param {string} id */
	const toggle = (id) => {
		Object.assign(shown.current, {kept: id, focus: box.current.contains(document.activeElement)});
		fold(id);
	};
	const moved = usePointer(box, view, move, zoomAt);
	/** @param {any} event */
	const click = (event) => {
		if (moved.current) return;
		const on = event.target.closest('[data-fold]');
		if (on) return toggle(on.getAttribute('data-fold'));
		let id = event.target.closest('[data-id]')?.getAttribute('data-id');
		if (!id) {
			const {left, top} = box.current.getBoundingClientRect();
			const {x, y, k} = view.current;
			const [px, py] = [(event.clientX - left - x) / k, (event.clientY - top - y) / k];
			id = drawing.nodes.findLast((n) => !isBox(n) && meets(n, {left: px, right: px, top: py, bottom: py}))?.id;
		}
		if (!id) return;
		setNow(id);
		pick(id);
	};
	/** @param {KeyboardEvent} event */
	const key = (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey) return;
		if (event.key === 'Tab') {
			const ids = [...nodes.keys()];
			const by = event.shiftKey ? -1 : 1;
			const id = ids[(event.target === box.current ? Math.min(0, -by) : ids.indexOf(now)) + by];
			if (!id || ids.length > mostTabs) return; // it leaves the picture at both ends
			event.preventDefault();
			show(id);
			return;
		}
		const {x, y, k} = view.current;
		const body = nodes.get(now)?.kind === 'body';
		/** @type {Record<string, () => void>} */
		const actions = {
			ArrowLeft: () => move({k, x: x + 80, y}), ArrowRight: () => move({k, x: x - 80, y}),
			ArrowUp: () => move({k, x, y: y + 80}), ArrowDown: () => move({k, x, y: y - 80}),
			Enter: () => now && pick(now), ' ': () => body && toggle(now),
		};
		const action = actions[event.key];
		if (!action) return;
		event.preventDefault();
		event.stopPropagation();
		action();
	};

	const area = seen && {left: (-w * margin - seen.x) / seen.k, top: (-h * margin - seen.y) / seen.k,
		right: (w * (1 + margin) - seen.x) / seen.k, bottom: (h * (1 + margin) - seen.y) / seen.k};
	const near = useMemo(() => (area ? drawing.nodes.filter((n) => n.id === now || meets(n, area)) : []), [drawing, seen, size, now]);
	const groups = useMemo(() => groupsOf(drawing), [drawing]);
	const edges = groups.filter((one) => area && one.left <= area.right && one.right >= area.left && one.top <= area.bottom && one.bottom >= area.top);
	const far = near.length > (base && base.k < 0.4 ? mostFarDetailed : mostDetailed);
	const full = far ? near.filter((n) => n.id === now || n.id === at) : near;
	/** Steps as they were rendered last. @type {{current: Map<string, any>}} */
	const done = useRef(new Map());
	const before = done.current;
	done.current = new Map();
	/** @param {import('./picture.js').Node} n */
	const step = (n) => {
		const given = [n, sums.get(n.id), n.id === at, n.id === now];
		const old = before.get(n.id);
		const element = old?.given.every((/** @type {any} */ one, /** @type {number} */ i) => one === given[i]) ? old.element
			: html`<${Step} key=${n.id} n=${n} sum=${given[1]} picked=${given[2]} now=${given[3]} />`;
		done.current.set(n.id, {given, element});
		return element;
	};
	return html`<div class="canvas" ref=${box} tabindex="0" role="application" onClick=${click} onKeyDown=${key}
		aria-label="Plan. Arrow keys pan, plus and minus zoom, Tab, n and p go to another step, Enter picks it, Space folds it.">
		<svg ref=${sheet} class=${`sheet ${far ? 'far' : ''}`} width=${w * (1 + 2 * margin)} height=${h * (1 + 2 * margin)} style=${{left: `${-w * margin}px`, top: `${-h * margin}px`}}>
			${base && html`<g transform=${`translate(${base.x + w * margin} ${base.y + h * margin}) scale(${base.k})`}>
				${far ? html`<${Texture} nodes=${near.filter(isBox)} sums=${sums} />` : full.filter(isBox).map(step)}
				<${Edges} groups=${far ? [{...edges[0], edges: edges.flatMap((group) => group.edges)}] : edges} flat=${drawing.direction === 'LR'} at=${at} far=${far} />
				${far && html`<${Texture} nodes=${near.filter((n) => !isBox(n))} sums=${sums} />`}
				${full.filter((n) => !isBox(n)).map(step)}
				${!far && near.filter((n) => n.kind === 'body').map((n) => html`<${Fold} key=${n.id} n=${n} />`)}
			</g>`}
		</svg>
		${(drawing.width * readable > w || drawing.height * readable > h) && html`<${Minimap} drawing=${drawing} sums=${sums} frame=${frame}
			ready=${apply} go=${(/** @type {number} */ x, /** @type {number} */ y) => move({k: view.current.k, x: w / 2 - x * view.current.k, y: h / 2 - y * view.current.k})} />`}
	</div>`;
}

/**
 * Pans by dragging, and zooms by the wheel, or by two fingers.
 * @param {{current: any}} box @param {{current: View}} view @param {(to: View) => void} move
 * @param {(by: number, x: number, y: number) => void} zoomAt @returns {{current: boolean}} whether the last press was a drag
 */
function usePointer(box, view, move, zoomAt) {
	const moved = useRef(false);
	const now = useRef({move, zoomAt});
	now.current = {move, zoomAt};
	useEffect(() => {
		const of = box.current;
		/** @type {Map<number, {x: number, y: number, fromX: number, fromY: number}>} */
		const fingers = new Map();
		/** @param {any} event */
		const down = (event) => {
			if (event.button !== 0 || event.target.closest('.minimap')) return;
			moved.current = fingers.size > 0;
			fingers.set(event.pointerId, {x: event.clientX, y: event.clientY, fromX: event.clientX, fromY: event.clientY});
		};
		/** @param {any} event */
		const drag = (event) => {
			const one = fingers.get(event.pointerId);
			if (!one) return;
			const {clientX: x, clientY: y} = event;
			if (!moved.current && Math.hypot(x - one.fromX, y - one.fromY) < 4) return;
			if (!moved.current || !of.hasPointerCapture(event.pointerId)) of.setPointerCapture(event.pointerId);
			moved.current = true;
			const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
			const {left, top} = of.getBoundingClientRect();
			if (other) {
				const by = Math.hypot(x - other.x, y - other.y) / Math.max(1, Math.hypot(one.x - other.x, one.y - other.y));
				now.current.zoomAt(by, (x + other.x) / 2 - left, (y + other.y) / 2 - top);
			} else {
				const {x: x0, y: y0, k} = view.current;
				now.current.move({k, x: x0 + x - one.x, y: y0 + y - one.y});
			}
			one.x = x;
			one.y = y;
		};
		/** @param {any} event */
		const up = (event) => fingers.delete(event.pointerId);
		/** @param {WheelEvent} event */
		const wheel = (event) => {
			event.preventDefault();
			const {left, top} = of.getBoundingClientRect();
			const lines = event.deltaMode === 1 ? 16 : 1;
			now.current.zoomAt(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - left, event.clientY - top);
		};
		const all = /** @type {[string, any][]} */ ([['pointerdown', down], ['pointermove', drag], ['pointerup', up], ['pointercancel', up], ['wheel', wheel]]);
		for (const [name, action] of all) of.addEventListener(name, action, {passive: false});
		return () => {
			for (const [name, action] of all) of.removeEventListener(name, action);
		};
	}, []);
	return moved;
}

const [wide, high] = [180, 120]; // pixels of the small picture at most

/** The scale of the small picture. @param {import('./picture.js').Drawing} drawing */
const scaleOf = ({width, height}) => Math.min(wide / width, high / height);

/**
 * The whole drawing, small, with a frame around what is in view.
 * @param {{drawing: import('./picture.js').Drawing, sums: import('./picture.js').Sums, frame: {current: any}, ready: () => void,
 *   go: (x: number, y: number) => void}} props frame: gets the frame; ready: it is there; go: shows a place of the drawing
 */
function Minimap({drawing, sums, frame, ready, go}) {
	const {width, height} = drawing;
	const k = scaleOf(drawing);
	useLayoutEffect(ready, [drawing]);
	/** @param {any} event */
	const point = (event) => {
		if (!(event.buttons & 1)) return;
		if (event.type === 'pointerdown') event.currentTarget.setPointerCapture(event.pointerId);
		const {left, top} = event.currentTarget.getBoundingClientRect();
		go((event.clientX - left) / k, (event.clientY - top) / k);
	};
	const texture = useMemo(() => html`<${Texture} nodes=${drawing.nodes.filter(isBox)} sums=${sums} /><${Texture}
		nodes=${drawing.nodes.filter((n) => !isBox(n))} sums=${sums} />`, [drawing, sums]);
	return html`<div class="minimap" aria-hidden="true" onPointerDown=${point} onPointerMove=${point} onClick=${(/** @type {Event} */ event) => event.stopPropagation()}>
		<svg width=${Math.max(20, width * k)} height=${Math.max(20, height * k)} viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="xMinYMin">${texture}</svg>
		<div class="frame" ref=${frame}></div></div>`;
}
