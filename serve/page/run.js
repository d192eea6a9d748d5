// One run, live: its graph, times, steps, trace, result and diagnostics, and what can be done to it.
import {get, useLoaded} from './api.js';
import {Actions} from './acts.js';
import {Fault, StepLink, Wait} from './step.js';
import {ended, spent} from './format.js';
import {Detail, Graph, Result, Steps, Time, Trace} from './later.js';
import {watchRun} from './live.js';
import {Copy, Empty, Lasts, Moment, State, Tabs, Text, Trouble, tick, useKeys} from './parts.js';
import {go, here, place, ref} from './place.js';
import {Pieces} from './pieces.js';
import {html, useEffect, useState} from './ui.js';

/** @typedef {import('./types').RunView} RunView */

const tabs = ['graph', 'time', 'steps', 'trace', 'result', 'diagnostics'];
const pollTime = 10; // seconds after which a run is looked at without an event: a process that dies tells nobody

/** A run that is read again when something happens, and the answers that are being written in it. @param {string} id */
function useRun(id) {
	const loaded = useLoaded((signal) => /** @type {Promise<RunView>} */ (get(['runs', id], {}, signal)), id);
	const [pieces] = useState(() => new Pieces());
	const [deleted, setDeleted] = useState(false);
	const {value, reload} = loaded;
	const begun = !!value;
	const over = !!value && ended(value.phase);
	useEffect(() => {
		if (!value || over) return;
		return watchRun(id, value.events, {
			event: (event) => {
				pieces.add(event);
				reload();
			},
			delta: (event) => pieces.add(event), gap: () => pieces.gap(), reset: reload, end: (phase) => (phase ? reload() : setDeleted(true)),
		});
	}, [id, begun, over]);
	useEffect(() => {
		if (!over) return tick.subscribe((n) => void (n > 0 && n % pollTime === 0 && reload()));
	}, [id, over]);
	return {...loaded, pieces, deleted};
}

/** @param {{id: string, tab: string}} props */
export function Run({id, tab}) {
	const {value: run, problem, reload, pieces, deleted} = useRun(id);
	const query = place.value.query;
	const step = query.get('step') ?? '';
	const to = (/** @type {string} */ name, /** @type {Record<string, unknown>} */ more = {}) =>
		here(more, {path: ['runs', id, name], query});
	const pick = (/** @type {string} */ path) => go(to(tab, {step: path, part: undefined, istate: undefined, ifrom: undefined}));
	useKeys({...Object.fromEntries(tabs.map((name, i) => [String(i + 1), () => go(to(name))])),
		Escape: () => step && go(to(tab, {step: undefined, part: undefined}))});
	if (!run) return html`<main id="main" tabindex="-1"><h1>Run ${id}</h1>${problem ? html`<${Trouble} of=${problem} />` : html`<p class="soft">Reading…</p>`}</main>`;
	const found = run.diagnostics.length;
	return html`<main id="main" tabindex="-1" class="run">
		<${Header} run=${run} reload=${reload} />
		${deleted && html`<p class="trouble">The run was deleted.</p>`}
		<${Trouble} of=${problem} />
		<${Why} run=${run} />
		<${Tabs} label="Views of the run" now=${tab} all=${tabs.map((name) => ({name, href: to(name),
			text: name[0].toUpperCase() + name.slice(1) + (name === 'diagnostics' && found ? ` ${found}` : '')}))} />
		<div class=${step ? 'split' : ''}>
			<div class="view">${view(tab, run, step, pick)}</div>
			${step && html`<${Detail} key=${step} run=${run} step=${step} part=${query.get('part') ?? ''} pieces=${pieces} />`}
		</div></main>`;
}

/** What a tab shows. @param {string} tab @param {RunView} run @param {string} at @param {(step: string) => void} pick */
function view(tab, run, at, pick) {
	switch (tab) {
	case 'time': return html`<${Time} run=${run} at=${at} pick=${pick} />`;
	case 'steps': return html`<${Steps} run=${run} at=${at} pick=${pick} />`;
	case 'trace': return html`<${Trace} run=${run} pick=${pick} />`;
	case 'result': return html`<${Result} run=${run} />`;
	case 'diagnostics': return html`<${Diagnostics} list=${run.diagnostics} />`;
	}
	return html`<${Graph} digest=${run.digest} steps=${run.steps} at=${at} pick=${pick} />`;
}

/** What the run is, and what can be done to it. @param {{run: RunView, reload: () => void}} props */
function Header({run, reload}) {
	const {runId, executions, labels, parent} = run;
	const last = executions.at(-1);
	const to = run.endedAt ?? (run.phase === 'interrupted' ? run.updatedAt : undefined);
	return html`<header class="about"><h1><a href=${ref(['recipes', run.recipe])}>${run.recipe}</a> <${State} of=${run.phase} /></h1>
		<p class="row facts"><span><code>${runId}</code><${Copy} label="Copy the id" text=${() => runId} /></span>
			<span>${run.by && html`by <bdi>${run.by}</bdi> `}<${Moment} at=${run.startedAt} /></span><span>lasts <${Lasts} from=${run.startedAt} to=${to} /></span>
			${last && html`<span title=${last.owner}>execution ${executions.length}${run.phase === 'running' ? ' on' : ', last on'} ${last.owner.split('/')[0]}</span>`}
			${run.queue && html`<span>queue <code>${run.queue}</code></span>`}
			${Object.entries(labels ?? {}).map(([key, value]) => html`<a class="chip" key=${key} dir="auto" href=${ref(['runs'], {label: `${key}=${value}`})}>${key}=${value}</a>`)}
			${parent && html`<span>fork of <a href=${ref(['runs', parent])}><code>${parent}</code></a> (<a href=${ref(['compare'], {a: parent, b: runId})}>compare</a>)</span>`}
			${run.usage && html`<span class="num">${spent(run.usage)}</span>`}</p>
		<${Actions} run=${run} reload=${reload} /></header>`;
}

/** Why the run failed, or what it waits for. @param {{run: RunView}} props */
function Why({run}) {
	if (run.error) {
		return html`<${Fault} code=${run.error.code} message=${run.error.message}>${run.error.step && html`at <${StepLink} to=${run.error.step} />`}<//>`;
	}
	const stopped = !ended(run.phase) && run.acts.find((one) => one.what === 'cancel');
	if (run.refused) return html`<${Fault} code=${run.refused.code} message=${run.refused.message + (run.refused.hint ? `\n  hint: ${run.refused.hint}` : '')} />`;
	if (run.phase === 'interrupted') return html`<p class="why">No process executes it any more. Recover it, and a worker resumes it.</p>`;
	if (run.phase === 'queued') {
		return html`<p class="why">${run.queue ? html`It waits for a worker of the queue <code>${run.queue}</code>.` : 'It has no queue, so that no worker takes it by itself. Recover it.'}</p>`;
	}
	return (stopped || run.pending.length > 0) && html`<ul class="why">${stopped && html`<li>■ ${stopped.by || 'Somebody'} has cancelled it${stopped.reason &&
		html`: <${Text} of=${stopped.reason} />`}. What has to run at the end still runs.</li>`}${run.pending.slice(0, 20).map((one) => html`<li key=${one.id}>‖ waits at <${StepLink} to=${one.step} />: <${Wait} of=${one} /></li>`)}${
		run.pending.length > 20 && html`<li><a href=${ref(['inbox'], {all: 1})}>${run.pending.length - 20} more</a></li>`}</ul>`;
}

/** @param {{list: any[]}} props */
function Diagnostics({list}) {
	if (!list.length) return html`<${Empty}>There are none.<//>`;
	return html`<ul class="diagnostics">${list.map((one) => html`<li class=${one.level}><${Fault} code=${one.code} message=${`${one.level === 'warn' ? 'warning' : one.level}: ${
		one.message}`}>${one.step && html`at <${StepLink} to=${one.step} />`}<//></li>`)}</ul>`;
}
