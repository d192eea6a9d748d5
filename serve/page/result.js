// How a run ended: its inputs, output or error, what it used, and who did what.
import {get, may, url} from './api.js';
import {Fault, StepLink} from './step.js';
import {count, dollars, ended, word} from './format.js';
import {Value} from './json.js';
import {Empty, Lasts, Moment, Text} from './parts.js';
import {html} from './ui.js';

/** What acts are called. @type {Record<string, string>} */
const acts = {start: 'started it', answer: 'answered', send: 'sent a value', change: 'changed the recipe', cancel: 'cancelled it', drop: 'asked too late'};

/** @param {{run: import('./types').RunView}} props */
export function Result({run}) {
	const {usage, error, large} = run;
	const output = async () => (await get(['runs', run.runId, 'output'])).output;
	return html`<div class="result">
		<section aria-label="Result"><h2>${error ? 'Error' : 'Output'}</h2>
			${error && html`<${Fault} code=${error.code} message=${error.message}>${error.step && html`at <${StepLink} to=${error.step} />`}<//>`}
			${run.phase === 'ok' ? html`<${Value} value=${run.output ?? null} bytes=${large?.output} load=${output} name="output" />`
		: !error && html`<${Empty}>${ended(run.phase) ? 'It has no output.' : `It has none yet: the run is ${word(run.phase)}.`}<//>`}</section>
		<section aria-label="Inputs"><h2>Inputs</h2>${large?.inputs !== undefined ? html`<p class="soft">They are too large to be shown; the journal has them.</p>`
		: run.inputs ? html`<${Value} value=${run.inputs} load=${output} name="inputs" />` : html`<${Empty}>It has none.<//>`}</section>
		${usage && html`<section aria-label="Usage"><h2>Usage of models</h2><dl class="facts"><dt>calls</dt><dd>${usage.calls}</dd><dt>tokens in</dt><dd>${
			count(usage.inputTokens)}</dd><dt>tokens out</dt><dd>${count(usage.outputTokens)}</dd>${usage.costUsd > 0 && html`<dt>cost</dt><dd>${dollars(usage.costUsd)}</dd>`}</dl></section>`}
		<section aria-label="Acts"><h2>Who did what</h2><table><tbody>${run.acts.map((act) => html`<tr><td><${Moment} at=${act.at} /></td><td dir="auto">${act.by || 'nobody named'}</td>
			<td>${acts[act.what] ?? act.what}${act.decision && html` <strong>${act.decision}</strong>`}${act.pause && html` <code>${act.pause}</code>`}${
			act.channel && html` to <code>${act.channel}</code>`}${act.reason && html`: <${Text} of=${act.reason} />`}</td></tr>`)}</tbody></table></section>
		<section aria-label="Executions"><h2>Executions</h2><table><thead><tr><th scope="col">from</th><th scope="col">lasted</th><th scope="col">by</th><th scope="col">process</th></tr></thead>
			<tbody>${run.executions.map((one) => html`<tr><td><${Moment} at=${one.from} /></td><td><${Lasts} from=${one.from} to=${one.to} /></td><td>${one.by}</td><td class="mono wrap">${one.owner}</td></tr>`)}</tbody></table></section>
		<section aria-label="Export"><h2>Export</h2><p class="row"><a href=${url(['runs', run.runId, 'output']).href} download=${`${run.runId}.json`}>Outcome, JSON</a>${
			may('operate') && html`<a href=${url(['runs', run.runId, 'journal']).href} download=${`${run.runId}.jsonl`}>Journal, JSON lines</a>`}</p></section></div>`;
}
