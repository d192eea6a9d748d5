// When the steps of a run worked.
import {clock, ended, length, word} from './format.js';
import {State, tick, Trouble} from './parts.js';
import {place, setQuery} from './place.js';
import {Rows} from './rows.js';
import {endOf, position, stretches, ticks, timeAt} from './scale.js';
import {Name, Pages, useLineKeys, useLines} from './steps.js';
import {html, useMemo, useRef, useState} from './ui.js';

/** @typedef {import('./steps.js').Line} Line */

/**
 * The bars of steps over time. The part that is shown is in the URL, in ms since the run began: t=FROM-TO.
 * @param {{run: import('./types').RunView, at?: string, pick: (step: string) => void}} props
 */
export function Time({run, at, pick}) {
	const live = !ended(run.phase) && run.phase !== 'waiting';
	if (live) tick.value; // read: bars grow each second
	const now = live ? Date.now() : Math.max(Date.parse(run.updatedAt), run.phase === 'waiting' ? Date.now() : 0);
	const list = useMemo(() => stretches(run, now), [run, live && Math.floor(now / 1000)]);
	const {lines: all, problem, fold, page} = useLines(run);
	/** When a step began, or began to wait for a yes. @type {(step: Line['step']) => string | undefined} */
	const begun = (step) => step.startedAt ?? run.pending.find((one) => one.step === step.step)?.createdAt;
	const lines = useMemo(() => all.filter((line) => begun(line.step)), [all]);
	const row = useLineKeys(lines, at, pick, fold);
	const [drag, setDrag] = useState(/** @type {[number, number] | null} */ (null));
	const held = useRef(/** @type {[number, number] | null} */ (null));
	const axis = useRef(/** @type {any} */ (null));

	const begin = list[0].from;
	const last = list[list.length - 1].to;
	const part = /^(\d+)-(\d+)$/.exec(place.value.query.get('t') ?? '');
	const from = part ? Math.min(begin + Number(part[1]), last - 1) : begin;
	const to = part ? Math.min(Math.max(begin + Number(part[2]), from + 1), last) : last;
	const left = position(list, from);
	const width = position(list, to) - left || 1;
	/** Where a time is, in % of what is shown. @param {number} t */
	const x = (t) => (position(list, t) - left) / width * 100;
	/** Shows a part of the axis. @param {number} a @param {number} z */
	const show = (a, z) => {
		const end = list[list.length - 1].at + list[list.length - 1].width;
		const [t0, t1] = [timeAt(list, Math.max(0, a)), timeAt(list, Math.min(end, z))].map((t) => Math.round(t - begin));
		setQuery({t: t0 <= 0 && t1 >= last - begin - 1 ? undefined : `${t0}-${Math.max(t0 + 5, t1)}`});
	};
	const zoom = (/** @type {number} */ by) => show(left + width / 2 - width * by / 2, left + width / 2 + width * by / 2);
	const pan = (/** @type {number} */ by) => show(...(by < 0 ? /** @type {const} */ ([Math.max(0, left + width * by), Math.max(0, left + width * by) + width])
		: /** @type {const} */ ([left + width * by, left + width + width * by])));
	/** @param {any} event the place of a pointer, as a share of what is shown */
	const place01 = (event) => {
		const rect = axis.current.getBoundingClientRect();
		return Math.min(1, Math.max(0, (event.clientX - rect.left) / rect.width));
	};
	/** Events come before the page is drawn again. @param {[number, number] | null} to */
	const drags = (to) => setDrag(held.current = to);
	const pointer = {
		onPointerDown: (/** @type {any} */ event) => {
			if (event.button !== 0 || event.clientX < axis.current.getBoundingClientRect().left) return;
			drags([place01(event), place01(event)]);
		},
		onPointerMove: (/** @type {any} */ event) => {
			if (held.current) drags(event.buttons & 1 ? [held.current[0], place01(event)] : null);
		},
		onPointerUp: () => {
			const [a, z] = held.current ?? [0, 0];
			if (Math.abs(z - a) > 0.01) show(left + Math.min(a, z) * width, left + Math.max(a, z) * width);
			drags(null);
		},
	};
	const key = (/** @type {KeyboardEvent} */ event) => {
		if (event.ctrlKey || event.altKey || event.metaKey || /** @type {HTMLElement} */ (event.target).closest('input')) return;
		/** @type {Record<string, () => void>} */
		const actions = {'+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => setQuery({t: undefined}),
			ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25)};
		if (!actions[event.key]) return;
		event.preventDefault();
		actions[event.key]();
	};
	const inside = (/** @type {number} */ a, /** @type {number} */ z) => z >= from && a <= to;
	const span = (/** @type {number} */ a, /** @type {number} */ z) => {
		const [l, r] = [Math.max(0, x(a)), Math.min(100, x(z))];
		return {left: `${l}%`, width: `${Math.max(0, r - l)}%`};
	};
	const bar = (/** @type {Line} */ line, /** @type {number} */ i, /** @type {any} */ style) => {
		const {step} = line;
		if (line.pages) return html`<div key=${`pages ${step.step}`} class="line" style=${style}><span class="pages"><${Pages} line=${line} page=${page} /></span></div>`;
		const [a, z] = [Date.parse(begun(step) ?? ''), endOf(step, now)];
		const lasts = length(z - a) + (step.attempts && step.attempts > 1 ? ` ×${step.attempts}` : '');
		const words = `${step.step}: ${word(step.status)}, from ${clock(begun(step))}, ${length(z - a)}${step.attempts && step.attempts > 1 ? `, ${step.attempts} attempts` : ''}`;
		return html`<div key=${step.step} class=${`line ${step.step === at ? 'picked' : ''} ${i === row ? 'now' : ''}`} style=${style} data-step=${step.step}>
			<span class="who"><${State} of=${step.status} brief /><${Name} line=${line} fold=${fold} pick=${pick} at=${at} /></span>
			<span class="track">${inside(a, z) && html`<button type="button" class=${`bar ${step.status}`} style=${span(a, z)} data-from=${a - begin} data-to=${z - begin}
				title=${words} aria-label=${words} onClick=${() => pick(step.step)}></button><span class=${`lasts num ${x(z) > 88 && x(a) < 12 ? 'inside' : ''}`} style=${x(z) <= 88 ? {left: `${x(z)}%`}
				: {right: x(a) < 12 ? '4px' : `${100 - x(a)}%`}}>${lasts}</span>`}</span>
		</div>`;
	};
	return html`<div class="time" onKeyDown=${key}>
		<div class="row tools" role="group" aria-label="Time">
			<button type="button" title="All of it (0)" onClick=${() => setQuery({t: undefined})}>Fit</button>
			<button type="button" aria-label="Shorter part" title="Shorter part (+)" onClick=${() => zoom(0.5)}>+</button>
			<button type="button" aria-label="Longer part" title="Longer part (-)" onClick=${() => zoom(2)}>−</button>
			<span class="soft">${length(last - begin)} in all${list.some((one) => one.folded) && ', long waits are folded'}. Drag over the bars to enlarge a part.</span>
		</div>
		<${Trouble} of=${problem} />
		<div class="bars" ...${pointer}>
			<div class="line head"><span class="who soft">since ${clock(run.startedAt)}</span><span class="track" ref=${axis}>
				${ticks(list, from, to, Math.min(8, Math.round(innerWidth / 150))).map((t) => html`<span key=${t} class="tick num" style=${{left: `${x(t)}%`}}>${t === begin ? '0' : length(t - begin)}</span>`)}</span></div>
			<div class="line"><span class="who soft">executions</span><span class="track">${run.executions.map((one, i) => {
				const [a, z] = [Date.parse(one.from), one.to ? Date.parse(one.to) : now];
				return inside(a, z) && html`<span key=${i} class="execution" style=${span(a, z)} title=${`execution ${i + 1} on ${one.owner}, ${clock(one.from)}, ${length(z - a)}`}>${i + 1}</span>`;
			})}</span></div>
			<div class="under" aria-hidden="true"><span class="who"></span><span class="track">
				${run.executions.slice(1).map((one, i) => inside(Date.parse(one.from), Date.parse(one.from)) && html`<span key=${i} class="begins" style=${{left: `${x(Date.parse(one.from))}%`}}></span>`)}
				${list.map((one) => one.folded && inside(one.from, one.to) && html`<span key=${one.from} class="folded" style=${span(one.from, one.to)}><em>${length(one.to - one.from)}</em></span>`)}
				${drag && html`<span class="drag" style=${{left: `${Math.min(...drag) * 100}%`, width: `${Math.abs(drag[1] - drag[0]) * 100}%`}}></span>`}</span></div>
			<${Rows} all=${lines} height=${28} label="Times of the steps" at=${row} row=${bar} />
		</div>
	</div>`;
}
