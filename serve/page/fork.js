// A new run that shares what another has done before a step.
import {get, getText, may, post, useLoaded} from './api.js';
import {keep, keyOf} from './drafts.js';
import {parse} from './exact.js';
import {Form, misfit, Refusal} from './form.js';
import {Empty, State, Trouble, useSend} from './parts.js';
import {go, place, ref, setQuery} from './place.js';
import {html, useRef} from './ui.js';

/** The paths of the steps of a plan, in its order. @param {any[]} steps @returns {string[]} */
const idsOf = (steps) => steps.flatMap((step) => [step.id, ...idsOf(step.body ?? [])]);

/** The kinds of steps that compute: a fork computes them again, whatever output it is given. */
const computed = ['set', 'recipe', 'loop', 'fork', 'switch', 'fail', 'send', 'receive'];

/** Stands for the inputs among the names of steps. */
const whole = '/';

/** A run with its plan. @param {string} id */
async function runOf(id) {
	const run = parse(await getText(['runs', id]));
	return {run: /** @type {import('./types').RunView} */ (run), ids: idsOf((await get(['plans', run.digest])).steps)};
}

/**
 * JSON that is edited.
 * @param {{of: string, label: string, load: () => Promise<any>, draft: string, problem?: import('./api.js').Problem, changed: (value: any, wrong: any[]) => void, drop: () => void}} props
 */
function Edit({of, label, load, draft, problem, changed, drop}) {
	const loaded = useLoaded(load, '');
	return html`<div class="edit"><${Trouble} of=${loaded.problem} />${loaded.value !== undefined && html`<${Form} schema=${{title: label}} value=${loaded.value} name=${of}
		draft=${draft} problem=${problem} changed=${changed} />`}<button type="button" onClick=${drop}>Leave it as it was</button></div>`;
}

/** @param {{id: string}} props */
export function Fork({id}) {
	const loaded = useLoaded(() => runOf(id), id);
	const at = place.value.query.get('at') ?? '';
	const edits = place.value.query.getAll('edit');
	const all = useRef(/** @type {Map<string, {value: any, wrong: any[]}>} */ (new Map()));
	const outputs = edits.filter((one) => one !== whole);
	const inputs = edits.includes(whole);
	const {value} = loaded;
	const step = at || value?.run.steps.find((one) => one.status === 'failed' || one.status === 'waiting')?.step || value?.ids[0] || '';
	const dry = useLoaded(async () => (step ? post(['runs', id, 'fork'], {
		at: step, dry: true, outputs: Object.fromEntries(outputs.map((one) => [one, null])), ...(inputs ? {inputs: {}} : {}),
	}) : undefined), JSON.stringify([step, edits]));
	const draft = (/** @type {string} */ one) => `fork/${id}/${one}`;
	const {sending, problem, send} = useSend(async () => {
		const used = [...all.current].filter(([one]) => edits.includes(one));
		const wrong = used.flatMap(([, one]) => one.wrong);
		if (wrong.length) throw misfit(wrong);
		const body = {
			at: step, outputs: Object.fromEntries(used.filter(([one]) => one !== whole).map(([one, {value: v}]) => [one, v ?? null])),
			...(inputs ? {inputs: all.current.get(whole)?.value ?? {}} : {}),
		};
		const runId = keyOf(draft('key'), JSON.stringify(body)); // sent twice, it is one run
		await post(['runs', id, 'fork'], {...body, runId}).catch((err) => {
			if (err.code !== 'run.exists') throw err;
		});
		for (const one of [...edits, 'key']) keep(draft(one), undefined);
		go(ref(['runs', runId]));
	});
	if (!value) return html`<main id="main" tabindex="-1"><h1>Fork</h1>${loaded.problem ? html`<${Trouble} of=${loaded.problem} />` : html`<${Empty}>Loading…<//>`}</main>`;
	const edit = (/** @type {string} */ one, /** @type {boolean} */ on) => setQuery({at: step, edit: on ? [...edits, one] : edits.filter((other) => other !== one)});
	const state = (/** @type {string} */ one) => value.run.steps.find((other) => other.step === one);
	const editor = (/** @type {string} */ one, /** @type {string} */ of, /** @type {string} */ label, /** @type {() => Promise<any>} */ load) => html`<${Edit} key=${one} of=${of}
		label=${label} load=${load} draft=${draft(one)} problem=${problem} changed=${(/** @type {any} */ v, /** @type {any[]} */ wrong) => all.current.set(one, {value: v, wrong})}
		drop=${() => edit(one, false)} />`;
	return html`<main id="main" tabindex="-1" class="fork"><h1>Fork <a href=${ref(['runs', id])}>${id}</a></h1>
		<p class="hint">A fork is a new run of ${value.run.recipe}. It keeps what steps have done, up to the one that you choose.</p>
		<label class="field"><span class="name">Run again from</span><select value=${step} onChange=${(/** @type {any} */ event) => setQuery({at: event.currentTarget.value})}>
			${value.ids.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
		<${Trouble} of=${dry.problem} />
		<div class="two"><section aria-label="Stands"><h2>Stands</h2>${inputs
			? editor(whole, 'inputs', 'inputs', async () => value.run.inputs ?? {})
			: html`<p class="row">inputs <button type="button" onClick=${() => edit(whole, true)}>Edit the inputs</button></p>`}
			<ul class="plain">${dry.value?.stands.filter((/** @type {string} */ one) => !outputs.includes(one)).map((/** @type {string} */ one) => html`<li key=${one} class="row"><${State} of="succeeded" brief /><bdi>${one}</bdi>
				${state(one)?.status === 'succeeded' && !computed.includes(state(one)?.uses ?? '') && html`<button type="button" onClick=${() => edit(one, true)}>Edit output of ${one}</button>`}</li>`)}</ul>
			${dry.value && !dry.value.stands.length && html`<${Empty}>No step stands.<//>`}
			${outputs.map((one) => editor(one, `outputs/${one}`, `output of ${one}`, async () => parse(await getText(['runs', id, 'steps', one])).output ?? null))}
		</section><section aria-label="Runs again"><h2>Runs again</h2>
			<ul class="plain">${dry.value?.again.map((/** @type {string} */ one) => html`<li key=${one} class="row"><${State} of=${state(one)?.status ?? 'pending'} brief /><bdi>${one}</bdi></li>`)}</ul></section></div>
		${may('operate') ? html`<p class="row"><button type="button" class="main" disabled=${sending || !!dry.problem} aria-busy=${!!sending} onClick=${() => send()}>Fork</button></p>`
			: html`<p class="hint">To fork a run takes the role operate.</p>`}
		<${Refusal} of=${problem} /></main>`;
}
