// The list of runs. Runs in view change in place; new ones come when they are asked for.
import {get, may, post, useLoaded} from './api.js';
import {FilterBar, filterOf, lets} from './filter.js';
import {ended, firstLine, spent, visible, word} from './format.js';
import {watchRuns} from './live.js';
import {Act, Dialog, Empty, Lasts, Moment, State, Tabs, Trouble, useKeys} from './parts.js';
import {place, ref} from './place.js';
import {html, useEffect, useRef, useState} from './ui.js';

/** @typedef {import('./types').Run & {gone?: boolean}} Row gone: it was deleted */
/** @typedef {import('./filter.js').Filter} Filter */

const phases = ['running', 'queued', 'waiting', 'interrupted', 'error', 'ok', 'cancelled'];
const most = 1000; // what the server counts to
const countsTime = 1500; // between looks at the counts while runs change

/** @param {string} text */
const later = (text) => Date.parse(text);

/**
 * What is in view. Rows keep their places, whatever happens; what would change them is counted.
 * @typedef {object} View
 * @property {string} key of the filter and the page
 * @property {Row[]} rows
 * @property {Set<string>} fresh the ids of new runs
 * @property {string} [next] the cursor of the next page
 * @property {Record<string, number>} [counts]
 */

/** The row after a change; of two states the one that was written later. @param {Row} old @param {Row | undefined} now */
const newer = (old, now) => (now && later(now.updatedAt) >= later(old.updatedAt) ? now : old);

/**
 * The view after a page of the server was read.
 * @param {View} view @param {import('./types').Runs} page @param {string} key @param {boolean} replace
 * @returns {View}
 */
function merge(view, page, key, replace) {
	const counts = page.counts ?? (view.key === key ? view.counts : undefined);
	if (replace || view.key !== key || view.rows.length === 0) return {key, rows: page.runs, fresh: new Set(), next: page.next, counts};
	const read = new Map(page.runs.map((run) => [run.runId, run]));
	const last = page.next ? later(page.runs[page.runs.length - 1].startedAt) : -Infinity;
	const shown = new Set(view.rows.map((run) => run.runId));
	const rows = view.rows.map((row) => {
		if (read.has(row.runId)) return newer(row, read.get(row.runId));
		return later(row.startedAt) > last && lets(filterOf(), row) ? {...row, gone: true} : row;
	});
	const top = later(view.rows[0].startedAt);
	const fresh = page.runs.filter((run) => !shown.has(run.runId) && later(run.startedAt) >= top).map((run) => run.runId);
	return {...view, rows, counts, fresh: new Set([...view.fresh, ...fresh])};
}

/**
 * The view after one run has changed.
 * @param {View} view @param {Row} run @param {boolean} first whether it is the first page
 * @returns {View}
 */
function touch(view, run, first) {
	const at = view.rows.findIndex((row) => row.runId === run.runId);
	if (at >= 0) {
		const rows = view.rows.slice();
		rows[at] = newer(rows[at], run);
		return {...view, rows};
	}
	if (!first || view.fresh.has(run.runId) || !lets(filterOf(), run)) return view;
	if (view.rows[0] && later(run.startedAt) < later(view.rows[0].startedAt)) return view;
	return {...view, fresh: new Set([...view.fresh, run.runId])};
}

/** What a run does now, why it failed, or what it waits for. @param {{run: Row}} props */
function Why({run}) {
	if (run.gone) return html`<em>deleted</em>`;
	if (run.error) {
		const {step, code, message} = run.error;
		return html`<bdi>${step && html`<b>${step}</b>: `}${visible(message)} <code>${code}</code></bdi>`;
	}
	if (run.phase === 'queued') return run.queue ? html`in queue <b>${run.queue}</b>` : 'in no queue: nobody takes it by itself';
	if (!run.now || ended(run.phase)) return null;
	const {step, text, until} = run.now;
	const what = firstLine(text) || (until && 'continues by itself');
	return html`<bdi><b>${visible(step)}</b>${what && `: ${visible(what)}`}${until && html`, at <${Moment} at=${until} />`}</bdi>`;
}

/** @param {{run: Row, marked: boolean, mark: (id: string) => void}} props */
function Line({run, marked, mark}) {
	const over = run.endedAt ?? (run.phase === 'interrupted' || run.gone ? run.updatedAt : undefined);
	const redo = may('operate') && !run.gone;
	return html`<tr class=${`${marked ? 'marked' : ''} ${run.gone ? 'gone' : ''}`} data-run=${run.runId}>
		<td class="pick"><input type="checkbox" checked=${marked} aria-label=${`Mark ${run.runId}`} onChange=${() => mark(run.runId)} /></td>
		<td class="phase"><${State} of=${run.phase} /></td>
		<td class="what"><a class="open" href=${ref(['runs', run.runId])}><b>${run.recipe}</b> <span class="mono id">${run.runId}</span></a>${
		run.parent && html` <a class="soft" href=${ref(['compare'], {a: run.parent, b: run.runId})} title="Compare with the run that it was forked from">fork</a>`}
			${Object.entries(run.labels ?? {}).map(([key, value]) => html`<a class="label" key=${key} href=${ref(['runs'], {label: `${key}=${value}`})}><bdi>${visible(`${key}=${value}`)}</bdi></a>`)}</td>
		<td class="why"><${Why} run=${run} />${redo && run.phase === 'interrupted' && html` <${Act} class="small" do=${() => post(['runs', run.runId, 'recover'])}>Recover<//>`}
			${redo && (run.phase === 'error' || run.phase === 'interrupted') && html` <a class="button small" href=${ref(['runs', run.runId, 'fork'], {at: run.error?.step})}>Fork</a>`}</td>
		<td class="by"><bdi>${visible(run.by ?? '')}</bdi></td>
		<td class="when"><${Moment} at=${run.startedAt} /></td>
		<td class="lasts"><${Lasts} from=${run.startedAt} to=${over} /></td>
		<td class="spent num">${spent(run.usage)}</td>
	</tr>`;
}

/** Does one thing to several runs, and says what came of each. @param {{act: 'cancel' | 'recover', runs: string[], close: () => void}} props */
function Bulk({act, close, ...props}) {
	const [runs] = useState(props.runs); // they change when it is done
	const [results, setResults] = useState(/** @type {import('./types').BulkResult[] | undefined} */ (undefined));
	const reason = useRef(/** @type {HTMLInputElement | null} */ (null));
	const some = runs.length === 1 ? '1 run' : `${runs.length} runs`;
	const name = act === 'cancel' ? 'Cancel' : 'Recover';
	const send = async () => setResults((await post(['bulk'], {do: act, runs, reason: reason.current?.value || undefined})).results);
	if (results) {
		const failed = results.filter((one) => one.error);
		return html`<${Dialog} title=${`${name} ${some}`} close=${close}>
			<p role="status">${results.length - failed.length} of ${results.length} are recorded; a worker carries it out.</p>
			<ul class="results">${failed.map((one) => html`<li key=${one.runId}><a href=${ref(['runs', one.runId])} class="mono">${one.runId}</a>: ${one.error?.message}${
				one.error?.hint && html`<br /><span class="hint">${one.error.hint}</span>`}</li>`)}</ul><//>`;
	}
	return html`<${Dialog} title=${`${name} ${some}?`} close=${close}><div class="stack">
		<p>${act === 'cancel' ? 'What they have done is rolled back, and they end for good.' : 'A worker resumes them where they stopped.'}</p>
		${act === 'cancel' && html`<label>Reason <input ref=${reason} placeholder="for people" /></label>`}
		<${Act} class="main" do=${send}>${`${name} ${some}`}<//></div><//>`;
}

/** What to do where no run is. @param {{filter: Filter, older: boolean}} props */
function None({filter, older}) {
	if (older) return html`<${Empty}>There are no older runs.<//>`;
	const {phase, ...rest} = filter;
	if (Object.values(rest).some((value) => value.length)) {
		return html`<${Empty}>No run is like that. <a href=${ref(['runs'])}>Show all runs</a><//>`;
	}
	if (phase) return html`<${Empty}>No run is ${word(phase)} now. <a href=${ref(['runs'])}>Show all runs</a><//>`;
	return html`<${Empty}>There are no runs yet. <a href=${ref(['recipes'])}>Choose a recipe</a> and start one${
		may('start') ? '' : ', or ask somebody who may'}.<//>`;
}

/** @param {{filter: Filter, counts?: Record<string, number>}} props */
function Phases({filter, counts}) {
	const many = (/** @type {number} */ n, /** @type {boolean} */ more) => ` ${n.toLocaleString('en')}${more ? '+' : ''}`;
	const all = counts && Math.min(most, Object.values(counts).reduce((sum, n) => sum + n, 0));
	const tab = (/** @type {string} */ phase) => {
		const n = !counts ? undefined : phase ? counts[phase] : all;
		return {name: phase, href: ref(['runs'], {...filter, phase}), text: html`${phase ? html`<${State} of=${phase} />` : 'all'}<span class="num">${
			n !== undefined && many(n, n >= most)}</span>`};
	};
	return html`<${Tabs} label="Phase" now=${filter.phase} all=${['', ...phases].map(tab)} />`;
}

/** Goes to the row above or below, by its link. @param {number} by */
function step(by) {
	const links = [...document.querySelectorAll('tr a.open')];
	const at = links.indexOf(/** @type {any} */ (document.activeElement?.closest('tr')?.querySelector('a.open')));
	/** @type {any} */ (links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + by))])?.focus();
}

export function Runs() {
	const filter = filterOf();
	const pages = place.value.query.getAll('after'); // the cursors of this page and those before it
	const key = JSON.stringify([filter, pages.at(-1)]);
	const {value, problem, reload} = useLoaded((signal) => get(['runs'], {...filter, now: true, after: pages.at(-1)}, signal), key);
	const [view, setView] = useState(/** @type {View} */ ({key: '', rows: [], fresh: new Set()}));
	const [marked, setMarked] = useState(/** @type {Set<string>} */ (new Set()));
	const [bulk, setBulk] = useState(/** @type {'cancel' | 'recover' | undefined} */ (undefined));
	const now = useRef({reload, first: true, replace: false, timer: 0});
	Object.assign(now.current, {reload, first: pages.length === 0});

	useEffect(() => {
		if (!value) return;
		setView((old) => merge(old, value, key, now.current.replace));
		now.current.replace = false;
	}, [value]);
	useEffect(() => {
		const off = watchRuns((run) => {
			if (run) setView((old) => touch(old, run, now.current.first));
			now.current.timer ||= setTimeout(() => {
				now.current.timer = 0;
				now.current.reload();
			}, run ? countsTime : 0);
		});
		return () => {
			off();
			clearTimeout(now.current.timer);
		};
	}, []);

	const lines = useRef(new Map());
	const mark = (/** @type {string} */ id) => setMarked((old) => {
		const some = new Set(old);
		if (!some.delete(id)) some.add(id);
		return some;
	});
	/** A row is made anew only if it changes. @param {Row} run */
	const line = (run) => {
		const before = lines.current.get(run.runId);
		const on = marked.has(run.runId);
		if (before?.run === run && before.on === on) return before.made;
		if (lines.current.size > 500) lines.current.clear();
		const made = html`<${Line} key=${run.runId} run=${run} marked=${on} mark=${mark} />`;
		lines.current.set(run.runId, {run, on, made});
		return made;
	};
	const apply = () => {
		now.current.replace = true;
		reload();
		/** @type {HTMLElement | null} */ (document.querySelector('main'))?.focus({preventScroll: true}); // the button goes
	};
	const left = view.rows.filter((run) => run.gone || !lets(filter, run)).length;
	const news = view.key === key && [view.fresh.size && `${view.fresh.size} new`, left && `${left} changed`].filter(Boolean).join(', ');
	useKeys({
		j: () => step(1), k: () => step(-1), n: () => news && apply(),
		x: () => {
			const id = document.activeElement?.closest('tr')?.dataset.run;
			if (id) mark(id);
		},
	});
	const chosen = view.rows.filter((run) => marked.has(run.runId) && !run.gone);
	const alive = chosen.filter((run) => !ended(run.phase));
	const stopped = chosen.filter((run) => run.phase === 'interrupted' || (!run.queue && !ended(run.phase)));
	const page = (/** @type {string[]} */ after) => ref(['runs'], {...filter, after});
	return html`<main id="main" tabindex="-1" class="runs"><h1 class="hidden">Runs</h1>
		<${Phases} filter=${filter} counts=${view.counts} /><${FilterBar} filter=${filter} /><${Trouble} of=${problem} />
		<div class="row tools" aria-live="polite">
			${news && html`<button type="button" class="main news" onClick=${apply}>${news}</button>`}
			${may('operate') && alive.length > 0 && html`<button type="button" onClick=${() => setBulk('cancel')}>${`Cancel ${alive.length}`}</button>`}
			${may('operate') && stopped.length > 0 && html`<button type="button" onClick=${() => setBulk('recover')}>${`Recover ${stopped.length}`}</button>`}
			${chosen.length === 2 && html`<a class="button" href=${ref(['compare'], {a: chosen[1].runId, b: chosen[0].runId})}>Compare</a>`}
			${chosen.length > 0 && html`<button type="button" class="quiet" onClick=${() => setMarked(new Set())}>Unmark ${chosen.length}</button>`}
		</div>
		${view.rows.length > 0 && html`<table aria-busy=${view.key !== key} aria-label="Runs"><thead><tr><th class="pick"><span class="hidden">Mark</span></th><th>State</th><th>Run</th>
			<th>What it does</th><th>By</th><th>Started</th><th>Lasts</th><th>Used</th></tr></thead><tbody>${view.rows.map(line)}</tbody></table>`}
		${view.rows.length === 0 && view.key === key && !problem && html`<${None} filter=${filter} older=${pages.length > 0} />`}
		<nav class="row" aria-label="Pages">${pages.length > 0 && html`<a href=${page(pages.slice(0, -1))}>← newer</a>`}${
		view.key === key && view.next && html`<a href=${page([...pages, view.next])}>older →</a>`}</nav>
		${bulk && html`<${Bulk} act=${bulk} runs=${(bulk === 'cancel' ? alive : stopped).map((run) => run.runId)} close=${() => setBulk(undefined)} />`}
	</main>`;
}
