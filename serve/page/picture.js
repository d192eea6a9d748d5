// The elements of a drawing of a plan, and where they are.
import {sign, word} from './format.js';
import {html, useMemo} from './ui.js';

/** @typedef {import('./types').DrawingDrawing} Drawing */
/** @typedef {import('./types').DrawingNode} Node */
/** @typedef {Map<string, import('./states.js').Sum>} Sums */
/** A part of a drawing, in its pixels. @typedef {{left: number, top: number, right: number, bottom: number}} Area */

/** Whether a step is a box with its body inside. @param {Node} n */
export const isBox = (n) => n.kind === 'body' && !n.folded;

/** @param {Node} n @param {Area} area */
export const meets = (n, {left, top, right, bottom}) => n.x < right && n.x + n.width > left && n.y < bottom && n.y + n.height > top;

/** Edges that are near each other, and where they are; key is '' if it has all of few. @typedef {Area & {key: string, edges: Drawing['edges']}} Group */

const cell = 400; // pixels: edges that begin in one such square are a group
const mostDashed = 80; // edges that may have dashes, and are one group: browsers draw these slowly

/** All edges in groups: one that stays in view is not rendered again. @param {Drawing} drawing */
export function groupsOf({edges}) {
	/** @type {Map<string, Group>} */
	const groups = new Map();
	for (const edge of edges) {
		const [left, top] = edge.points[0];
		const key = edges.length > mostDashed ? `${Math.floor(left / cell)} ${Math.floor(top / cell)}` : '';
		const group = groups.get(key) ?? {key, left, top, right: left, bottom: top, edges: []};
		groups.set(key, group);
		group.edges.push(edge);
		for (const [x, y] of edge.points) {
			group.left = Math.min(group.left, x);
			group.top = Math.min(group.top, y);
			group.right = Math.max(group.right, x);
			group.bottom = Math.max(group.bottom, y);
		}
	}
	return [...groups.values()];
}

const head = 7; // the length of the head of an arrow

/** The lines and the heads of edges, as one path each. @param {Drawing['edges']} edges @param {boolean} flat to the right */
function pathsOf(edges, flat) {
	const along = flat ? 0 : 1;
	let lines = '';
	let heads = '';
	for (const {points} of edges) {
		const [x, y] = points[points.length - 1];
		let [a, b] = points[0];
		lines += `M${a} ${b}`;
		for (let i = 1; i < points.length; i++) {
			let [c, d] = points[i];
			if (i === points.length - 1) {
				if (flat) c = Math.max(a, c - head);
				else d = Math.max(b, d - head);
			}
			const half = ([a, b][along] + [c, d][along]) / 2;
			if (flat ? b === d : a === c) lines += `L${c} ${d}`;
			else lines += flat ? `C${half} ${b} ${half} ${d} ${c} ${d}` : `C${a} ${half} ${c} ${half} ${c} ${d}`;
			[a, b] = [c, d];
		}
		heads += flat ? `M${x} ${y}l${-head} -4v8Z` : `M${x} ${y}l-4 ${-head}h8Z`;
	}
	return {lines, heads};
}

/** Edges; those of the step that is picked are marked. @param {{groups: Group[], flat: boolean, at?: string, far: boolean}} props */
export function Edges({groups, flat, at, far}) {
	return html`${groups.map((group) => html`<${Edging} key=${group.key} group=${group} flat=${flat} far=${far}
		at=${at && group.edges.some((e) => e.from === at || e.to === at) ? at : ''} />`)}`;
}

/** The edges of one group. @param {{group: Group, flat: boolean, at: string, far: boolean}} props */
function Edging({group, flat, at, far}) {
	return useMemo(() => html`${['data', 'order', 'picked'].map((kind) => {
		const {lines, heads} = pathsOf(group.edges.filter((e) => (at && (e.from === at || e.to === at) ? 'picked' : e.kind) === kind), flat);
		return lines && html`<g key=${kind} class="edges ${kind} ${group.key && 'dense'}"><path class="line" d=${lines} />${!far && html`<path class="head" d=${heads} />`}</g>`;
	})}`, [group, flat, at, far]);
}

/** The signs of states as lines in a square of 40, for steps that are too small for text. @type {Record<string, string>} */
const strokes = {
	succeeded: 'm4 22l12 12l20 -26', failed: 'm6 6l28 28m0 -28l-28 28', running: 'm8 20a12 12 0 1 0 24 0a12 12 0 1 0 -24 0', waiting: 'm12 4v32m16 -32v32',
	skipped: 'm6 20h28', cancelled: 'm8 8h24v24h-24z',
};

/** Many nodes as one path for each state, and one for its signs. @param {{nodes: Node[], sums: Sums}} props */
export function Texture({nodes, sums}) {
	/** @type {Map<string, [string, string]>} */
	const paths = new Map();
	for (const n of nodes) {
		const state = isBox(n) ? 'box' : sums.get(n.id)?.state ?? '';
		const [shapes, signs] = paths.get(state) ?? ['', ''];
		paths.set(state, [`${shapes}M${n.x} ${n.y}h${n.width}v${n.height}h${-n.width}Z`,
			strokes[state] ? `${signs}M${n.x + n.width / 2 - 20} ${n.y + n.height / 2 - 20}${strokes[state]}` : '']);
	}
	return html`${[...paths].map(([state, [shapes, signs]]) => html`<path key=${state} class="texture ${state === 'box' ? '' : 'node '}${state}" d=${shapes} />${
		signs && html`<path key=${`${state} sign`} class="texture-sign ${state}" d=${signs} />`}`)}`;
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/**
 * A step: its name, what it uses, its state as a sign, and how often it is there.
 * @param {{n: Node, sum?: import('./states.js').Sum, picked: boolean, now: boolean}} props
 */
export function Step({n, sum, picked, now}) {
	const state = sum?.state ?? '';
	const box = isBox(n);
	const uses = cut(n.uses, 32);
	const marks = `${n.when ? ' ?' : ''}${n.foreach ? ' ×n' : ''}${n.finally ? ' at the end' : ''}${n.folded ? ` +${n.children}` : ''}`;
	const words = [n.id, n.uses, state && word(state), sum?.text, n.when && 'on a condition', n.foreach && 'for each item', n.finally && 'however the others end',
		n.folded && `${n.children} steps inside`].filter(Boolean).join(', ');
	const name = `node ${state}${box ? ' box' : ''}${n.when ? ' when' : ''}${picked ? ' picked' : ''}${now ? ' now' : ''}`;
	const wide = (sum?.text.length ?? 0) * 6.2 + 10;
	const left = box ? 6 : n.width - wide - 2; // of the counts
	return html`<g class=${name} data-id=${n.id} role="button" tabindex="-1" aria-pressed=${picked}
		transform=${`translate(${n.x} ${n.y})`}><title>${words}</title>
		${(n.folded || n.foreach) && !box && html`<rect class="shape" x="4" y="4" width=${n.width} height=${n.height} rx="6" />`}
		<rect class="shape" width=${n.width} height=${n.height} rx="6" />
		${!box && html`<rect class="tint uses-${n.uses}" x="5" y="8" width="4" height=${n.height - 16} rx="2" />`}
		<text class="label" x=${box ? 12 : 15} y=${box ? 17 : 19}>${n.label}</text>
		<text class="caption" x=${box ? 12 : 15} y=${box ? 31 : 34}>${uses}${marks}</text>
		${state && html`<circle class="badge" cx=${n.width - 4} cy="1" r="9" /><text class="sign" x=${n.width - 4} y="5">${sign(state)}</text>`}
		${sum?.text && html`<rect class="count" x=${left} y=${n.height - 6} width=${wide} height="16" rx="8" />
			<text class="times" x=${left + wide / 2} y=${n.height + 6}>${sum.text}</text>`}
	</g>`;
}

/** What folds and unfolds the body of a step. @param {{n: Node}} props */
export function Fold({n}) {
	const [x, y] = n.folded ? [n.x - 4, n.y + n.height - 10] : [n.x + n.width - 34, n.y + 3];
	return html`<g class="fold" data-fold=${n.id} role="button" tabindex="-1" aria-expanded=${!n.folded}
		aria-label=${`${n.folded ? 'Unfold' : 'Fold'} ${n.id}`} transform=${`translate(${x} ${y})`}>
		<rect width="18" height="18" rx="4" /><path d=${n.folded ? 'M5 9h8M9 5v8' : 'M5 9h8'} /></g>`;
}
