// The form that starts a run of a recipe.
import {getText, may, post, url, useLoaded} from './api.js';
import {draft, keep, keyOf} from './drafts.js';
import {parse} from './exact.js';
import {Form, misfit, Refusal} from './form.js';
import {Trouble, useSend} from './parts.js';
import {go, place, ref} from './place.js';
import {html, useRef, useSignal, useState} from './ui.js';

/** What a start has beside inputs. */
const beside = {properties: {
	labels: {type: 'string', format: 'text', description: 'one key=value a line'},
	queue: {type: 'string', description: 'without one, the first queue of the server'},
	key: {type: 'string', title: 'idempotency key', description: 'starts with one key are one run; without it, the page makes one'},
}, type: 'object'};

/** @param {string} text lines of key=value @returns {Record<string, string> | undefined} */
function labelsOf(text) {
	const lines = text.split('\n').map((line) => line.trim()).filter(Boolean);
	const wrong = lines.find((line) => !line.includes('='));
	if (wrong) throw misfit([{data: {path: '/beside/labels'}, message: `${JSON.stringify(wrong)} is not key=value`}]);
	return lines.length ? Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])) : undefined;
}

/** A word for sh. @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a command. @param {{of: {value: {recipe: string, body: string, key: string} | string}}} props */
function Curl({of}) {
	const now = of.value;
	if (typeof now === 'string') return html`<p class="hint">${now}</p>`;
	return html`<pre class="curl">${[
		`curl -sS -X POST ${quoted(url(['recipes', now.recipe, 'runs']).href)}`, '-H "Authorization: Bearer $BRAISE_TOKEN"',
		`-H 'Content-Type: application/json'`, `-H ${quoted(`Idempotency-Key: ${now.key}`)}`, `--data-raw ${quoted(now.body)}`,
	].join(' \\\n  ')}</pre>`;
}

/** @param {{recipe: import('./types').RecipeView, inputs: any, at: string}} props at: where drafts are kept */
function Filled({recipe, inputs, at}) {
	const given = useRef({inputs: /** @type {any} */ ({}), beside: /** @type {any} */ ({}), wrong: /** @type {any[]} */ ([])});
	const request = useSignal(/** @type {any} */ (''));
	const [curl, setCurl] = useState(false);
	/** The request as it would be sent now. */
	const built = () => {
		if (given.current.wrong.length) throw misfit(given.current.wrong);
		const {labels = '', queue, key} = given.current.beside ?? {};
		const body = JSON.stringify({inputs: given.current.inputs ?? {}, labels: labelsOf(labels), queue});
		return {recipe: recipe.name, body, key: key || keyOf(`${at}/key`, body)};
	};
	const typed = () => {
		if (!curl) return;
		try {
			request.value = built();
		} catch {
			request.value = 'Complete the form first.';
		}
	};
	const {sending, problem, send} = useSend(async () => {
		const {body, key} = built();
		const {runId} = await post(['recipes', recipe.name, 'runs'], parse(body), {'Idempotency-Key': key});
		for (const part of ['', '/beside', '/key']) keep(at + part, undefined);
		go(ref(['runs', runId]));
	});
	return html`<${Form} schema=${recipe.inputs} value=${inputs} name="inputs" draft=${at} problem=${problem} changed=${(/** @type {any} */ value, /** @type {any[]} */ wrong) => {
			Object.assign(given.current, {inputs: value, wrong});
			typed();
		}} />
		<details open=${draft(`${at}/beside`) !== undefined}><summary>Labels, queue, key</summary><${Form} schema=${beside} name="beside" draft=${`${at}/beside`} problem=${problem}
			changed=${(/** @type {any} */ value) => {
				given.current.beside = value;
				typed();
			}} /></details>
		<p class="row"><button type="button" class="main" disabled=${sending} aria-busy=${!!sending} onClick=${() => send()}>Start</button>
			<button type="button" aria-expanded=${curl} onClick=${() => setCurl(!curl)}>curl</button></p>
		<${Refusal} of=${problem} />
		${curl && html`<${Shown} typed=${typed}><${Curl} of=${request} /><//>`}`;
}

/** Calls typed when it shows. @param {{typed: () => void, children?: any}} props */
function Shown({typed, children}) {
	useState(() => queueMicrotask(typed));
	return children;
}

/** @param {{recipe: import('./types').RecipeView, inputs?: any}} props inputs: those of a run that is run again */
export function Start({recipe, inputs}) {
	const again = place.value.query.get('again') ?? '';
	const run = useLoaded(async () => (again && inputs === undefined ? parse(await getText(['runs', again])) : {inputs}), again);
	if (!may('start')) return html`<section aria-label="Run it"><p class="hint">To start a run takes the role start.</p></section>`;
	if (!recipe.inputs) return html`<section aria-label="Run it"><p class="hint">The recipe has never compiled: there is nothing to start.</p></section>`;
	return html`<section aria-label="Run it" class="start"><h2>Run it</h2><${Trouble} of=${run.problem} />
		${run.value?.large?.inputs && html`<p class="hint">The inputs of run ${again} are too large to be filled in.</p>`}
		${(run.value || run.problem) && html`<${Filled} key=${again} recipe=${recipe} inputs=${run.value?.inputs} at=${`start/${recipe.name}/${again}`} />`}</section>`;
}
