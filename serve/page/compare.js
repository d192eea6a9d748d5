// Two runs beside each other: what differs, and on demand what does not.
import {get, useLoaded} from './api.js';
import {isExact} from './exact.js';
import {between, dollars, length, spent, visible} from './format.js';
import {Empty, Moment, State, Trouble} from './parts.js';
import {place, ref, setQuery} from './place.js';
import {html, useEffect, useState} from './ui.js';

/** @typedef {import('./types').RunView} RunView */
/** @typedef {{path: string, a: any, b: any}} Difference a member that one side has not is undefined there */

const most = 100; // differences, and steps whose outputs are read
const atOnce = 4;

/** @param {any} v */
const isNode = (v) => typeof v === 'object' && v !== null && !isExact(v);

/**
 * The places at which two JSON values differ, at most as many as out has room for.
 * @param {any} a @param {any} b @param {string} [path] @param {Difference[]} [out]
 * @returns {Difference[]}
 */
export function differences(a, b, path = '', out = []) {
	if (Object.is(a, b) || (isExact(a) && isExact(b) && a.rawJSON === b.rawJSON) || out.length >= most) return out;
	if (!isNode(a) || !isNode(b) || Array.isArray(a) !== Array.isArray(b)) {
		out.push({path, a, b});
		return out;
	}
	for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
		const at = Array.isArray(a) ? `${path}[${name}]` : /^[\w-]+$/.test(name) ? `${path}${path && '.'}${name}` : `${path}[${JSON.stringify(name)}]`;
		differences(Object.hasOwn(a, name) ? a[name] : undefined, Object.hasOwn(b, name) ? b[name] : undefined, at, out);
	}
	return out;
}

/** A value in a few words; all of it when it is opened. @param {{of: any}} props */
function Value({of}) {
	if (of === undefined) return html`<span class="soft">none</span>`;
	const text = visible(JSON.stringify(of, null, 1));
	if (text.length <= 120) return html`<code><bdi>${text}</bdi></code>`;
	return html`<details><summary><code><bdi>${text.slice(0, 100)}…</bdi></code></summary><pre dir="auto">${text.slice(0, 100_000)}</pre></details>`;
}

/** @param {{all: Difference[], name: string}} props */
function Differences({all, name}) {
	return html`${all.map((one) => html`<tr key=${name + one.path}><th scope="row"><code><bdi>${visible(name + (one.path && (one.path[0] === '[' ? '' : '.') + one.path))}</bdi></code></th>
		<td><${Value} of=${one.a} /></td><td><${Value} of=${one.b} /></td><td></td></tr>`)}${
		all.length >= most && html`<tr><td colspan="4" class="soft">Only the first ${most} differences are shown.</td></tr>`}`;
}

/** By how much b is more, with its sign. @param {number} a @param {number} b @param {(n: number) => string} show */
function change(a, b, show) {
	const n = b - a;
	return !Number.isFinite(n) || !show(Math.abs(n)) || n === 0 ? '' : `${n < 0 ? '−' : '+'}${show(Math.abs(n))}`;
}

/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<RunView>} */
const load = (id, signal) => get(['runs', id], {}, signal);

/**
 * The outputs of steps that both runs have finished, by path: read a few at a time.
 * @param {RunView | undefined} a @param {RunView | undefined} b @param {string[]} steps
 */
function useOutputs(a, b, steps) {
	const [outputs, setOutputs] = useState(/** @type {Map<string, Difference[]>} */ (new Map()));
	const key = JSON.stringify([a?.runId, a?.updatedAt, b?.runId, b?.updatedAt, steps]);
	useEffect(() => {
		const abort = new AbortController();
		const left = steps.slice();
		setOutputs(new Map());
		const read = async () => {
			for (let step = left.shift(); a && b && step !== undefined && !abort.signal.aborted; step = left.shift()) {
				const at = step;
				const [one, two] = await Promise.all([a, b].map((run) => get(['runs', run.runId, 'steps', at], {}, abort.signal)));
				if (!abort.signal.aborted) setOutputs((old) => new Map(old).set(at, differences(one.output, two.output)));
			}
		};
		for (let i = 0; i < atOnce; i++) read().catch(() => {});
		return () => abort.abort();
	}, [key]);
	return outputs;
}

/** @param {import('./types').HistoryStep | undefined} step */
const lasted = (step) => (step?.startedAt && step.endedAt ? between(step.startedAt, step.endedAt) : NaN);

/** One step of both. @param {{a?: import('./types').HistoryStep, b?: import('./types').HistoryStep}} props */
function StepLine({a, b}) {
	const side = (/** @type {import('./types').HistoryStep | undefined} */ step) => html`<td>${step
		? html`<${State} of=${step.status} /> <span class="num soft">${length(lasted(step))}</span> ${step.error && html`<code>${step.error.code}</code><br /><bdi class="soft">${visible(step.error.message).slice(0, 300)}</bdi>`}` : html`<span class="soft">none</span>`}</td>`;
	const more = [change(lasted(a), lasted(b), length), change(tokens(a), tokens(b), (n) => String(n))];
	return html`<tr><th scope="row"><bdi>${visible((a ?? b)?.step ?? '')}</bdi></th>${side(a)}${side(b)}<td class="num">${more[0]}${more[1] && html`<br />${more[1]} tokens`}</td></tr>`;
}

/** @param {{usage?: {inputTokens?: number, outputTokens?: number}} | undefined} of */
const tokens = (of) => (of?.usage?.inputTokens ?? 0) + (of?.usage?.outputTokens ?? 0);

/** @param {{a: RunView, b: RunView, all: boolean}} props */
function Both({a, b, all}) {
	const paths = [...new Set([...a.steps, ...b.steps].map((one) => one.step))];
	const [of, to] = [a, b].map((run) => new Map(run.steps.map((one) => [one.step, one])));
	const finished = paths.filter((path) => of.get(path)?.status === 'succeeded' && to.get(path)?.status === 'succeeded');
	const outputs = useOutputs(a, b, finished.slice(0, most));
	const inputs = differences(a.inputs, b.inputs);
	const differ = paths.filter((path) => {
		const [one, two] = [of.get(path), to.get(path)];
		return one?.status !== two?.status || one?.error?.code !== two?.error?.code || one?.error?.message !== two?.error?.message || (outputs.get(path)?.length ?? 0) > 0;
	});
	const result = [...differences(a.output, b.output), ...differences(a.error, b.error, 'error')];
	const spans = [a, b].map((run) => between(run.startedAt, run.endedAt ?? run.updatedAt));
	const cost = [a, b].map((run) => run.usage?.costUsd ?? 0);
	const head = (/** @type {RunView} */ run) => html`<td><a href=${ref(['runs', run.runId])}><b>${run.recipe}</b> <span class="mono">${run.runId}</span></a><br />
		<${State} of=${run.phase} /> <${Moment} at=${run.startedAt} /></td>`;
	const unread = finished.slice(0, most).length - outputs.size;
	return html`<p role="status">Inputs: ${inputs.length || 'none'} ${inputs.length === 1 ? 'differs' : 'differ'}. Steps: ${differ.length || 'none'} ${differ.length === 1 ? 'differs' : 'differ'}${
		unread > 0 && ` so far, ${unread} are being read`}.${finished.length > most && ` The outputs of the first ${most} steps are compared.`}</p>
		<table><thead><tr><td></td>${head(a)}${head(b)}<th scope="col">Difference</th></tr></thead><tbody>
			<tr><th scope="row">Lasts</th>${spans.map((ms) => html`<td class="num">${length(ms)}</td>`)}<td class="num">${change(spans[0], spans[1], length)}</td></tr>
			<tr><th scope="row">Used</th>${[a, b].map((run) => html`<td class="num">${spent(run.usage) || '–'}</td>`)}<td class="num">${change(tokens(a), tokens(b), (n) => `${n} tokens`)}${
				cost[0] !== cost[1] && html`<br />${change(cost[0], cost[1], dollars)}`}</td></tr>
			${a.digest !== b.digest && html`<${Texts} a=${a} b=${b} />`}
			<${Part} name="Inputs" /><${Differences} all=${inputs} name="inputs" />${inputs.length === 0 && html`<${Same} />`}
			${result.length > 0 && html`<${Part} name="Result" /><${Differences} all=${result} name="output" />`}
			<${Part} name="Steps" />${paths.filter((path) => all || differ.includes(path)).map((path) => html`<${StepLine} key=${path} a=${of.get(path)} b=${to.get(path)} />
				<${Differences} all=${outputs.get(path) ?? []} name="output" />`)}${differ.length === 0 && !all && html`<${Same} />`}
		</tbody></table>`;
}

const Same = () => html`<tr><td colspan="4" class="soft">No difference.</td></tr>`;

/** @param {{name: string}} props */
const Part = ({name}) => html`<tr class="part"><th colspan="4" scope="colgroup">${name}</th></tr>`;

/** The plans of two texts of a recipe. @param {{a: RunView, b: RunView}} props */
function Texts({a, b}) {
	const {value, problem} = useLoaded((signal) => Promise.all([a, b].map((run) => get(['plans', run.digest], {}, signal))), a.digest + b.digest);
	const [one, two] = (value ?? []).map(({recipe, version, steps}) => ({recipe, version, steps: named(steps)}));
	const all = value ? differences(one, two) : [];
	return html`<${Part} name="The recipe is another text" /><tr><th scope="row">digest</th>${[a, b].map((run) => html`<td class="mono">${run.digest.slice(0, 19)}…</td>`)}<td></td></tr>
		<${Differences} all=${all} name="plan" />${value && all.length === 0 && html`<tr><td colspan="4" class="soft">The plans are the same: only texts inside of steps differ.</td></tr>`}${
		problem && html`<tr><td colspan="4"><${Trouble} of=${problem} /></td></tr>`}`;
}

/** The steps of a plan by their ids, so that one more step is one difference. @param {any[]} steps @returns {any} */
const named = (steps) => Object.fromEntries(steps.map((step) => [step.id, {...step, body: step.body && named(step.body)}]));

/** The screen of a comparison: #/compare?a=ID&b=ID, with all=1 for what is alike, too. */
export function Compare() {
	const {query} = place.value;
	const [a, b] = [query.get('a') ?? '', query.get('b') ?? ''];
	const all = query.get('all') === '1';
	const {value, problem} = useLoaded((signal) => Promise.all([a, b].map((id) => load(id, signal))), `${a} ${b}`);
	if (!a || !b) return html`<main id="main" tabindex="-1"><h1>Compare</h1><${Empty}>Mark two runs in the <a href=${ref(['runs'])}>list of runs</a>, and press Compare.<//></main>`;
	return html`<main id="main" tabindex="-1" class="compare"><h1>Compare</h1><div class="row">
		<label><input type="checkbox" checked=${all} onChange=${() => setQuery({all: all ? undefined : 1})} /> all steps, not only those that differ</label>
		<a href=${ref(['compare'], {a: b, b: a, all: all && 1})}>swap</a></div>
		<${Trouble} of=${problem} />${value && html`<${Both} key=${a + b} a=${value[0]} b=${value[1]} all=${all} />`}</main>`;
}
