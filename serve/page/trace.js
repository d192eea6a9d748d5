// The events of a run.
import {get, Problem} from './api.js';
import {planID, visible} from './format.js';
import {Json} from './json.js';
import {watchRun} from './live.js';
import {Empty, Trouble, useKeys} from './parts.js';
import {place, read, setQuery} from './place.js';
import {Rows} from './rows.js';
import {html, useEffect, useLayoutEffect, useRef, useState} from './ui.js';

/** @typedef {import('./types').RunView} RunView */
/** @typedef {{e: any, hay: string}} Row an event, and the text in which words are looked for */

const pageSize = 10_000;
const rowHeight = 26;

/** Whether a path is that of a step or of something in it. @param {string} path @param {string} step */
const within = (path, step) => path.startsWith(step) && /^([[#/]|$)/.test(path.slice(step.length));

/** @param {any} e @returns {Row} */
const rowOf = (e) => ({e, hay: `${e.kind} ${e.step ?? ''} ${e.data ? JSON.stringify(e.data) : ''}`.toLowerCase()});

/**
 * The events of a run: those that are recorded, page by page, then each that comes. The list grows in place.
 * @param {RunView} run @param {string} step '': of all steps
 */
function useEvents(run, step) {
	const [state, setState] = useState({rows: /** @type {Row[]} */ ([]), n: 0, whole: false, problem: /** @type {Problem | undefined} */ (undefined)});
	useEffect(() => {
		const abort = new AbortController();
		/** @type {Row[]} */
		const rows = [];
		let next = 0;
		let stop = () => {};
		let timer = 0;
		const tell = (/** @type {{whole: boolean, problem?: Problem}} */ more) => setState({rows, n: rows.length, problem: undefined, ...more});
		const read = async () => {
			stop();
			try {
				for (let last = Infinity; next < last;) {
					const page = await get(['runs', run.runId, 'events'], {after: next || undefined, limit: pageSize, step}, abort.signal);
					for (const e of page.events) rows.push(rowOf(e));
					({next, last} = page);
					tell({whole: next >= last});
				}
			} catch (err) {
				if (abort.signal.aborted) return;
				tell({whole: false, problem: /** @type {Problem} */ (err)});
				timer = setTimeout(read, 3000);
				return;
			}
			stop = watchRun(run.runId, next, {reset: read, event: (e) => {
				next = e.seq;
				if (step && !within(e.step ?? '', step)) return;
				rows.push(rowOf(e));
				timer ||= setTimeout(() => {
					timer = 0;
					tell({whole: true});
				}, 100);
			}});
		};
		read();
		return () => {
			abort.abort();
			stop();
			clearTimeout(timer);
		};
	}, [run.runId, step]);
	return state;
}

/** @param {{run: RunView, pick: (step: string) => void}} props */
export function Trace({run, pick}) {
	const query = place.value.query;
	const {rows, n, whole, problem} = useEvents(run, '');
	const kind = query.get('kind') ?? '';
	const inside = query.get('in') ?? '';
	const [words, setWords] = useWords();
	const {shown, kinds} = useFilter(rows, kind, inside, words);
	const input = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.currentTarget).value;
	return html`<div class="trace">
		<form class="row" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
			<input type="search" placeholder="words" aria-label="Words in the events" value=${words} onInput=${(/** @type {Event} */ event) => setWords(input(event))} />
			<select aria-label="Kind of events" value=${kind} onChange=${(/** @type {Event} */ event) => setQuery({kind: input(event)})}>
				<option value="">all kinds</option>${[...kinds].sort().map(([name, count]) => html`<option key=${name} value=${name}>${name} (${count})</option>`)}${
				kind && !kinds.has(kind) && html`<option value=${kind}>${kind} (0)</option>`}</select>
			<input list="trace-steps" placeholder="step" aria-label="Step of the events" value=${inside} onChange=${(/** @type {Event} */ event) => setQuery({in: input(event)})} />
			<datalist id="trace-steps">${run.steps.slice(0, 300).map((one) => html`<option key=${one.step} value=${one.step} />`)}</datalist>
			<label><input type="checkbox" checked=${query.has('clock')} onChange=${() => setQuery({clock: query.has('clock') ? undefined : 1})} /> time of day</label>
			<span class="soft num" role="status">${shown.length === n ? `${n} events` : `${shown.length} of ${n} events`}${whole || problem ? '' : ', reading…'}</span>
		</form>
		<${Trouble} of=${problem} />
		<${List} rows=${shown} begun=${Date.parse(run.startedAt)} pick=${pick} keys />
		${whole && !shown.length && html`<${Empty}>${n ? 'No event is like that.' : 'Nothing has happened yet.'}<//>`}</div>`;
}

/**
 * The rows that a filter lets through, and how many events each kind has. Rows that are new are looked at alone.
 * @param {Row[]} rows @param {string} kind @param {string} inside @param {string} words
 */
function useFilter(rows, kind, inside, words) {
	const kept = useRef(/** @type {any} */ (null));
	const key = JSON.stringify([kind, inside, words]);
	if (kept.current?.rows !== rows) kept.current = {rows, kinds: new Map(), counted: 0};
	const now = kept.current;
	if (now.key !== key) Object.assign(now, {key, shown: [], upTo: 0});
	const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
	for (; now.upTo < rows.length; now.upTo++) {
		const row = rows[now.upTo];
		const path = row.e.step ?? '';
		if ((!kind || row.e.kind === kind) && parts.every((one) => row.hay.includes(one))
			&& (!inside || within(path, inside) || within(planID(path), inside))) now.shown.push(row);
	}
	for (; now.counted < rows.length; now.counted++) {
		const name = rows[now.counted].e.kind;
		now.kinds.set(name, (now.kinds.get(name) ?? 0) + 1);
	}
	return /** @type {{shown: Row[], kinds: Map<string, number>}} */ (now);
}

/** The words that are looked for: at once here, a little later in the URL. @returns {[string, (text: string) => void]} */
function useWords() {
	const there = place.value.query.get('q') ?? '';
	const [words, setWords] = useState(there);
	const put = useRef({text: there, timer: 0});
	useEffect(() => {
		if (there !== put.current.text) setWords(put.current.text = there); // by Back, or a link
	}, [there]);
	useEffect(() => () => clearTimeout(put.current.timer), []);
	return [words, (text) => {
		setWords(text);
		clearTimeout(put.current.timer);
		put.current.timer = setTimeout(() => {
			if ((read().query.get('q') ?? '') === there) setQuery({q: put.current.text = text}); // else it changed meanwhile
		}, 250);
	}];
}

/** The events of one step. @param {{run: RunView, step: string}} props */
export function StepEvents({run, step}) {
	const {rows, n, whole, problem} = useEvents(run, step);
	return html`<div class="trace"><${Trouble} of=${problem} />
		<${List} rows=${rows} begun=${Date.parse(run.startedAt)} />
		${whole && !n && html`<${Empty}>The journal has no events of this step.<//>`}</div>`;
}

/**
 * Events, each of which unfolds.
 * @param {{rows: Row[], begun: number, pick?: (step: string) => void, keys?: boolean}} props keys: j and k work wherever
 *   the focus is
 */
function List({rows, begun, pick, keys}) {
	const query = place.value.query;
	const open = new Set(query.getAll('event').map(Number));
	const box = useRef(/** @type {HTMLElement | null} */ (null));
	const [active, setActive] = useState(-1); // the row that has the focus
	const focus = useRef(false);
	useLayoutEffect(() => {
		if (focus.current) /** @type {HTMLElement | null} */ (box.current?.querySelector(`[data-i="${active}"] .fold`))?.focus({preventScroll: true});
		focus.current = false;
	});
	const toggle = (/** @type {number} */ seq) => setQuery({event: open.has(seq) ? [...open].filter((one) => one !== seq) : [...open, seq]});
	const move = (/** @type {number} */ by) => {
		if (!rows.length) return;
		const next = Math.min(rows.length - 1, Math.max(0, active + by));
		focus.current = next !== active;
		setActive(next);
	};
	useKeys(keys ? {j: () => move(1), k: () => move(-1)} : {});
	/** @param {KeyboardEvent} event */
	const pressed = (event) => {
		const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / rowHeight) - 1);
		const by = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity}[event.key];
		if (by === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
		event.preventDefault();
		move(by);
	};
	const row = (/** @type {Row} */ {e}, /** @type {number} */ i, /** @type {{top: string}} */ style) => {
		const unfolded = open.has(e.seq);
		return html`<div key=${e.seq} class=${`event ${tone(e)}`} role="listitem" aria-setsize=${rows.length} aria-posinset=${i + 1} data-i=${i} style=${style}>
			<div class="line" onClick=${() => toggle(e.seq)}>
				<button type="button" class="quiet fold" aria-expanded=${unfolded} onFocus=${() => setActive(i)} onClick=${(/** @type {Event} */ event) => {
					event.stopPropagation();
					toggle(e.seq);
				}}>${unfolded ? '▾' : '▸'} <time dateTime=${e.at} title=${e.at}>${query.has('clock') ? daytime(e.at) : since(begun, e.at)}</time> ${e.kind}</button>
				${e.step && (pick ? html`<button type="button" class="quiet link" onClick=${(/** @type {Event} */ event) => {
					event.stopPropagation();
					pick(e.step);
				}}>${visible(e.step)}</button>` : html`<span>${visible(e.step)}</span>`)}
				<span class="soft what" dir="auto">${brief(e.data)}</span>
			</div>
			${unfolded && html`<${Json} value=${e} open=${3} label=${`Event ${e.seq}`} />`}</div>`;
	};
	return html`<div ref=${box} onKeyDown=${pressed}><${Rows} all=${rows} height=${rowHeight} row=${row} at=${active} tall=${[...open].map((seq) => indexOf(rows, seq)).filter((i) => i >= 0)}
		follow class="events" label="Events" role="list" /></div>`;
}

/** The index of the event with a number; -1: it is not there. @param {Row[]} rows @param {number} seq */
function indexOf(rows, seq) {
	let low = 0;
	for (let high = rows.length; low < high;) {
		const middle = (low + high) >> 1;
		if (rows[middle].e.seq < seq) low = middle + 1;
		else high = middle;
	}
	return rows[low]?.e.seq === seq ? low : -1;
}

/** Whether an event tells of a failure. @param {any} e */
const tone = (e) => (/error|failed|exhausted/.test(e.kind) || e.data?.status === 'failed' || e.data?.error || e.data?.code ? 'bad' : e.kind === 'step.waiting' || e.kind === 'run.paused' ? 'waits' : '');

/** @param {string} at */
const daytime = (at) => new Date(at).toLocaleTimeString(undefined, {hour12: false, hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3});

/** @param {number} begun @param {string} at */
const since = (begun, at) => `+${((Date.parse(at) - begun) / 1000).toFixed(3)}`;

/** The beginning of what an event tells. @param {any} data */
const brief = (data) => (data ? visible(Object.entries(data).map(([name, value]) =>
	`${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', ').slice(0, 200)) : '');
