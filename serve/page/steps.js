// The steps of a run as a list.
import {get, useLoaded} from './api.js';
import {count, word} from './format.js';
import {Empty, Lasts, Moment, State, Trouble, useKeys} from './parts.js';
import {place, setQuery} from './place.js';
import {Rows} from './rows.js';
import {has} from './states.js';
import {whyNot} from './step.js';
import {html, useEffect, useMemo, useRef, useState} from './ui.js';

/** @typedef {import('./types').HistoryStep} HistoryStep */
/**
 * A line of the list: a step, or the pages of the items of one.
 * @typedef {{step: HistoryStep, depth: number, folds?: 'open' | 'shut', pages?: {from: number, of: number}}} Line
 */

const page = 100; // items
const states = ['failed', 'waiting', 'running', 'succeeded', 'pending', 'skipped', 'cancelled'];

/** How many items a foreach has. @param {HistoryStep} step */
const itemsOf = (step) => Object.values(step.items ?? {}).reduce((a, b) => a + b, 0);

/** How deep a step is in bodies. @param {string} path */
const depthOf = (path) => path.split('/').length - 1;

/** The name of a step in its body, with the round of a loop, #2/check, or the agent's call of a tool, notes.read#2/check. @param {string} path */
const nameOf = (path) => /([^/]*\.[^/]*#\d+\/|#\d+\/)?[^/]*$/.exec(path)?.[0] ?? path;

/**
 * The steps of a run as lines: each foreach that is open has a page of its items below it. Which are open is in the
 * URL: items=FROM:PATH,…
 * @param {import('./types').RunView} run @param {string} state '': any @param {string} text that the path or the error has
 */
export function useLines(run, state = '', text = '') {
	const open = new Map((place.value.query.get('items') ?? '').split(',').filter(Boolean).map((one) => {
		const at = one.indexOf(':');
		return [one.slice(at + 1), Number(one.slice(0, at)) || 0];
	}));
	const key = JSON.stringify([run.runId, ...open, state]);
	const {value, problem, reload} = useLoaded(async (signal) => new Map(await Promise.all([...open].map(async ([path, from]) =>
		/** @type {const} */ ([path, (await get(['runs', run.runId, 'steps', path, 'items'], {from, limit: page, status: state}, signal)).items])))), key);
	useEffect(reload, [run]);
	const last = useRef(value); // stays until the next page is there
	last.current = value ?? last.current;
	const items = last.current;
	/** @param {Map<string, number>} next */
	const set = (next) => setQuery({items: [...next].map(([path, from]) => `${from}:${path}`).join()});
	const lines = useMemo(() => {
		/** @type {Line[]} */
		const all = [];
		let outer = '';
		for (const step of run.steps) {
			const foreach = !!step.items && !(outer && step.step.startsWith(`${outer}/`));
			if (foreach) outer = step.step;
			const fits = (!state || step.status === state || !!step.items?.[state]) && (!text || has(`${step.step} ${step.error?.message ?? ''} ${step.uses ?? ''}`, text));
			if (!fits) continue;
			const depth = depthOf(step.step);
			const opened = open.has(step.step);
			all.push({step, depth, folds: foreach ? (opened ? 'open' : 'shut') : undefined});
			if (!foreach || !opened) continue;
			const of = state ? step.items?.[state] ?? 0 : itemsOf(step);
			if (of > page) all.push({step, depth: depth + 1, pages: {from: open.get(step.step) ?? 0, of}});
			for (const item of items?.get(step.step) ?? []) all.push({step: item, depth: depth + 1});
		}
		return all;
	}, [run, items, key, text]);
	return {
		lines, problem,
		/** Shows or hides the items of a foreach. @param {string} path */
		fold(path) {
			if (!open.delete(path)) open.set(path, 0);
			set(open);
		},
		/** @param {string} path @param {number} from */
		page(path, from) {
			open.set(path, from);
			set(open);
		},
	};
}

/** The pages of the items of a foreach. @param {{line: Line, page: (path: string, from: number) => void}} props */
export function Pages({line, page: show}) {
	const {from, of} = /** @type {{from: number, of: number}} */ (line.pages);
	const to = Math.min(of, from + page);
	return html`<button type="button" class="quiet" disabled=${!from} onClick=${() => show(line.step.step, Math.max(0, from - page))}>← earlier</button>
		<span class="soft num">${from + 1} to ${to} of ${of}</span>
		<button type="button" class="quiet" disabled=${to >= of} onClick=${() => show(line.step.step, to)}>later →</button>`;
}

/** The name of a step, with what unfolds its items. @param {{line: Line, full?: boolean, fold: (path: string) => void, pick: (step: string) => void, at?: string}} props */
export function Name({line, full, fold, pick, at}) {
	const {step, depth, folds} = line;
	const items = itemsOf(step);
	return html`<span class="name" style=${{paddingLeft: `${full ? 0 : depth * 16}px`}}>${folds ? html`<button type="button" class="quiet" aria-expanded=${folds === 'open'}
		aria-label=${`Items of ${step.step}`} onClick=${() => fold(step.step)}>${folds === 'open' ? '▾' : '▸'}</button>` : html`<span class="unfolds"></span>`}
		<button type="button" class="pick" title=${step.step} aria-current=${step.step === at ? 'true' : undefined} onClick=${() => pick(step.step)}
			dir="auto">${full ? step.step : nameOf(step.step)}</button>${items > 0 && html`<span class="soft num">${step.items?.succeeded ?? 0}/${items}${
			step.items?.failed ? html`, ${step.items.failed} ✗` : ''}</span>`}</span>`;
}

/**
 * The keys of a list of lines: j and k go through it, Enter picks, x unfolds items.
 * @param {Line[]} lines @param {string | undefined} at @param {(step: string) => void} pick @param {(path: string) => void} fold
 * @returns {number} the line that the keys are at; -1: none
 */
export function useLineKeys(lines, at, pick, fold) {
	const [cursor, setCursor] = useState('');
	const find = (/** @type {string | undefined} */ path) => lines.findIndex((line) => !line.pages && line.step.step === path);
	const now = find(cursor || at);
	const go = (/** @type {number} */ by) => {
		let i = now;
		do i += by; while (lines[i]?.pages);
		if (lines[i]) setCursor(lines[i].step.step);
	};
	useKeys({j: () => go(1), k: () => go(-1), Enter: () => lines[now] && pick(lines[now].step.step),
		x: () => lines[now]?.folds && fold(lines[now].step.step)});
	useEffect(() => setCursor(''), [at]);
	return now;
}

/** @param {HistoryStep} step */
const tokens = (step) => (step.usage?.inputTokens ?? 0) + (step.usage?.outputTokens ?? 0);

/** @param {{run: import('./types').RunView, at?: string, pick: (step: string) => void}} props */
export function Steps({run, at, pick}) {
	const {query} = place.value;
	const state = query.get('state') ?? '';
	const text = query.get('text') ?? '';
	const {lines, problem, fold, page: show} = useLines(run, state, text);
	const now = useLineKeys(lines, at, pick, fold);
	/** @type {Map<string, number>} */
	const counts = new Map();
	for (const step of run.steps) counts.set(step.status, 1 + (counts.get(step.status) ?? 0));
	const row = (/** @type {Line} */ line, /** @type {number} */ i, /** @type {any} */ style) => {
		const {step} = line;
		if (line.pages) return html`<div key=${`pages ${step.step}`} class="line" style=${style} role="row" aria-rowindex=${i + 2}><span role="cell" class="pages"><${Pages} line=${line} page=${show} /></span></div>`;
		const error = (step.error ? `${step.error.code}: ${step.error.message}` : '') || whyNot(step);
		return html`<div key=${step.step} class=${`line ${step.step === at ? 'picked' : ''} ${i === now ? 'now' : ''}`} style=${style} role="row" aria-rowindex=${i + 2} data-step=${step.step}>
			<span role="cell"><${State} of=${step.status} /></span>
			<span role="cell"><${Name} line=${line} full=${!!text} fold=${fold} pick=${pick} at=${at} /></span>
			<span role="cell" class="mono" title=${step.uses}>${step.uses}</span>
			<span role="cell"><${Moment} at=${step.startedAt} /></span>
			<span role="cell"><${Lasts} from=${step.startedAt} to=${step.endedAt ?? (step.status === 'running' || step.status === 'waiting' ? undefined : step.startedAt)} /></span>
			<span role="cell" class="num">${step.attempts}</span>
			<span role="cell" class="num">${tokens(step) ? count(tokens(step)) : ''}</span>
			<span role="cell" class="error" title=${error} dir="auto">${error}</span>
		</div>`;
	};
	return html`<div class="steps">
		<div class="row tools">
			<div class="row" role="group" aria-label="State">${['', ...states].map((one) => (one === '' || one === state || counts.get(one)) && html`<button key=${one} type="button"
				aria-pressed=${state === one} onClick=${() => setQuery({state: one})}>${one ? html`<${State} of=${one} /> ${counts.get(one) ?? 0}` : `all ${run.steps.length}`}</button>`)}</div>
			<input type="search" placeholder="Step, tool or error" aria-label="Filter the steps" value=${text}
				onInput=${(/** @type {any} */ event) => setQuery({text: event.target.value})} />
			<span class="soft num" role="status">${(state || text) && `${lines.length} ${state && word(state)} ${lines.length === 1 ? 'step' : 'steps'}`}</span>
		</div>
		<${Trouble} of=${problem} />
		<div role="table" aria-label="Steps" aria-rowcount=${lines.length + 1} class="table">
			<div class="line head" role="row" aria-rowindex="1">${['State', 'Step', 'Uses', 'Started', 'Lasts', 'Attempts', 'Tokens', 'Error'].map((name) => html`<span role="columnheader">${name}</span>`)}</div>
			<${Rows} all=${lines} height=${30} label="Steps" role="rowgroup" at=${now} row=${row} />
		</div>
		${!lines.length && html`<${Empty}>${run.steps.length ? 'No step is so.' : 'No step has begun.'}<//>`}
	</div>`;
}
