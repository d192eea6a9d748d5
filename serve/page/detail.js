// One step of a run: its input, output, conversation and events.
import {get, may, useLoaded} from './api.js';
import {ended, planID, spent} from './format.js';
import {Value} from './json.js';
import {StepEvents, Talk} from './later.js';
import {Empty, Lasts, Moment, State, Tabs, Trouble} from './parts.js';
import {here, place, ref, setQuery} from './place.js';
import {Fault, StepLink, Wait, whyNot} from './step.js';
import {html, useEffect, useRef} from './ui.js';

/** @typedef {import('./types').RunView} RunView */
/** @typedef {import('./types').StepView} StepView */
/** @typedef {import('./types').HistoryStep} Step */

const over = (/** @type {string} */ status) => !['pending', 'running', 'waiting'].includes(status);

/** @param {{run: RunView, step: string, part: string, pieces: import('./pieces.js').Pieces}} props part: input, output, talk, events or inside */
export function Detail({run, step, part, pieces}) {
	const rounds = run.steps.some((one) => one.step === step) ? [] : run.steps.filter((one) => planID(one.step) === step);
	const path = rounds.length === 1 ? rounds[0].step : step;
	const title = html`<header class="row"><h2>${path}</h2><span class="space"></span><button type="button" class="quiet" aria-label="Close the step"
		onClick=${() => setQuery({step: undefined, part: undefined})}>✕</button></header>`;
	return html`<aside class="detail" aria-label=${`Step ${path}`}>${title}${rounds.length > 1
		? html`<p>It has run in ${rounds.length} rounds:</p><${List} steps=${rounds} />` : html`<${One} key=${path} run=${run} path=${path} part=${part} pieces=${pieces} />`}</aside>`;
}

/** @param {{run: RunView, path: string, part: string, pieces: import('./pieces.js').Pieces}} props */
function One({run, path, part, pieces}) {
	const {value: step, problem, reload} = useLoaded((signal) =>
		/** @type {Promise<StepView>} */ (get(['runs', run.runId, 'steps', path], {brief: true}, signal)), `${run.runId} ${path}`);
	const listed = run.steps.find((one) => one.step === path);
	const first = useRef(true);
	useEffect(() => {
		if (!first.current && (!step || !over(step.status) || (listed && listed.status !== step.status))) reload();
		first.current = false;
	}, [run]);
	if (!step) return html`<${Trouble} of=${problem} />`;
	const pauses = run.pending.filter((one) => one.step === path || one.step.startsWith(`${path}/`));
	const around = outside(run, path);
	return html`<p class="row"><${State} of=${step.status} />${step.uses && html`<span>${step.uses}</span>`}${
		step.startedAt && html`<${Moment} at=${step.startedAt} /><${Lasts} from=${step.startedAt} to=${step.endedAt ?? (ended(run.phase) || run.phase === 'interrupted' ? run.updatedAt : undefined)} />`}${
		(step.attempts ?? 0) > 1 && html`<span>attempt ${step.attempts}</span>`}${step.reason && html`<span class="soft">${whyNot(step)}</span>`}<span class="soft">${
		spent(used(step.usage))}</span>${step.finish && step.finish !== 'stop' && html`<span>finish: ${step.finish}</span>`}</p>
		<p class="row">${around && html`in <${StepLink} to=${around} />`}${may('operate') && step.status !== 'pending' && html`<a href=${ref(['runs', run.runId, 'fork'], {at: planID(path)})}>Fork here…</a>`}</p>
		<${Trouble} of=${problem} />
		${step.error && html`<${Fault} code=${step.error.code} message=${step.error.message} />`}
		${pauses.map((one) => html`<p class="waits">‖ <${Wait} of=${one} /></p>`)}
		${step.agent?.calls?.map((call) => html`<p>● ${call.tool ? html`calls <code>${call.tool}</code>` : 'asks its model'} <span class="soft">${call.path === path ? '' : call.path}</span></p>`)}
		<${Parts} run=${run} step=${step} part=${part} pieces=${pieces} />`;
}

/** The step or item around a path; '': none that can be shown. @param {RunView} run @param {string} path */
function outside(run, path) {
	if (path.endsWith(']')) return path.slice(0, path.lastIndexOf('['));
	const cut = path.lastIndexOf('/');
	if (cut < 0) return '';
	const outer = path.slice(0, cut);
	return run.steps.some((one) => one.step === outer) || outer.endsWith(']') ? outer : outer.replace(/#\d+$/, '');
}

/** Usage as runs have it. @param {import('./types').CheckpointUsage | undefined} usage */
const used = (usage) => usage && {...usage, costUsd: (usage.micros ?? 0) / 1e6};

/** The parts of a step. @param {{run: RunView, step: StepView, part: string, pieces: import('./pieces.js').Pieces}} props */
function Parts({run, step, part, pieces}) {
	const talks = !!step.work || (step.uses === 'model' && !step.items) || (step.uses === 'agent' && !step.items);
	const inside = !!step.items || !!step.inside?.length;
	const all = [['input', 'Input'], ['output', 'Output'], ...(talks ? [['talk', 'Conversation']] : []),
		...(inside ? [['inside', step.items ? 'Items' : 'Inside']] : []), ['events', 'Events']];
	const usual = inside ? 'inside' : talks && (step.work || !over(step.status)) ? 'talk' : step.status === 'succeeded' ? 'output' : 'input';
	const now = all.some(([name]) => name === part) ? part : usual;
	const load = async () => (await get(['runs', run.runId, 'steps', step.step]))[now];
	let shown;
	if (now === 'talk') shown = html`<${Talk} step=${step} pieces=${pieces} />`;
	else if (now === 'events') shown = html`<${StepEvents} run=${run} step=${step.step} />`;
	else if (now === 'inside') shown = step.items ? html`<${Items} run=${run} step=${step} />` : html`<${List} steps=${step.inside ?? []} />`;
	else {
		const bytes = step.large?.[now];
		const value = now === 'input' ? step.input : step.output;
		shown = value === undefined && bytes === undefined
			? html`<${Empty}>${now === 'input' ? 'It has no input, or none is recorded.' : over(step.status) ? 'It has no output.' : 'It has no output yet.'}<//>`
			: html`<${Value} key=${now} value=${value} bytes=${bytes} load=${load} name=${`${now}-of-${step.step}`} />`;
	}
	return html`<${Tabs} label="Parts of the step" now=${now} all=${all.map(([name, text]) => ({name, text, href: here({part: name})}))} />${shown}`;
}

/** Steps to choose from. @param {{steps: Step[]}} props */
function List({steps}) {
	return html`<ul class="choose">${steps.map((one) => html`<li key=${one.step}><${State} of=${one.status} brief /> <${StepLink} to=${one.step} /> <span class="soft">${
		one.startedAt && html`<${Lasts} from=${one.startedAt} to=${one.endedAt} />`} ${one.error?.message ?? ''}</span></li>`)}</ul>`;
}

const pageSize = 100;

/** The items of a foreach, by pages and by status. @param {{run: RunView, step: StepView}} props */
function Items({run, step}) {
	const status = place.value.query.get('istate') ?? '';
	const from = Number(place.value.query.get('ifrom') ?? 0);
	const path = run.steps.find((one) => one.step === step.step && one.items) ? step.step : '';
	const {value, problem, reload} = useLoaded((signal) => /** @type {Promise<import('./types').Steps>} */ (
		get(['runs', run.runId, 'steps', step.step, 'items'], {status, from: from || undefined, limit: pageSize}, signal)), JSON.stringify([run.runId, step.step, status, from]));
	const first = useRef(true);
	useEffect(() => {
		if (!first.current) reload();
		first.current = false;
	}, [step]);
	const outer = foreachOf(run, step.step);
	if (problem?.status === 404 && outer) return html`<p>It runs in each item of <${StepLink} to=${outer} />. Choose one there.</p>`;
	const last = value?.items.at(-1)?.step;
	const next = value?.items.length === pageSize && last ? Number(last.match(/\[(\d+)\]$/)?.[1]) + 1 : 0;
	return html`<p class="row">${['', ...Object.keys(step.items ?? {})].map((one) => html`<a key=${one} class="chip" aria-current=${one === status ? 'true' : undefined}
			href=${here({istate: one, ifrom: undefined})}>${one ? html`<${State} of=${one} /> ${step.items?.[one]}` : 'all'}</a>`)}</p>
		<${Trouble} of=${problem} />
		${value && html`<${List} steps=${value.items} />`}
		${value && !value.items.length && html`<${Empty}>There is no such item${path ? '' : ' yet'}.<//>`}
		<p class="row">${from > 0 && html`<a href=${here({ifrom: undefined})}>First</a>`}${next > 0 && html`<a href=${here({ifrom: next})}>Next ${pageSize}</a>`}</p>`;
}

/** The foreach around a path of the plan; '': there is none. @param {RunView} run @param {string} path */
function foreachOf(run, path) {
	for (let cut = path.lastIndexOf('/'); cut > 0; cut = path.lastIndexOf('/', cut - 1)) {
		const outer = path.slice(0, cut);
		if (run.steps.some((one) => one.step === outer && one.items)) return outer;
	}
	return '';
}
