// What a pause asks, and the answer to it: in the inbox, and by a link.
import {keep} from './drafts.js';
import {Form, misfit, Refusal} from './form.js';
import {byItself, size} from './format.js';
import {Json} from './json.js';
import {Markdown} from './markdown.js';
import {Left, Moment, useSend} from './parts.js';
import {html, useRef} from './ui.js';

/** @typedef {import('./types').Pause} Pause */

/** What the decisions about a call with unknown outcome do: the button, and what to know before. @type {Record<string, string[]>} */
const unknown = {
	retry: ['Call again', 'With the same key. A tool that ignores keys may do it twice.'],
	result: ['It happened: take the result', 'Nothing is called. The step has the result above.'],
	fail: ['Let the step fail', 'Nothing is called. The recipe says what follows.'],
};

/** What asks, if that is no step of a recipe. @param {Pause} p */
const reasonOf = ({reason}) => (reason === 'indeterminate' ? 'the outcome of a call is unknown' : reason?.replace('limits.', 'limit '));

/** Where the draft of an answer is kept. @param {Pause} p */
export const draftOf = (p) => `answer/${p.runId}/${p.id}/${p.question}`;

/** What a prompt says below its first line, which is the title: if that is a heading or a paragraph. @param {string} prompt */
function below(prompt) {
	const [, heading, line, rest = ''] = /^\s*(#+ +)?([^\n]*)(\n[^]*)?$/.exec(prompt) ?? [];
	return (heading || /^(\n\s*\n|\s*$)/.test(rest)) && !/\]\(|^(?:[>*-]|\d+\.) |^```/.test(line) ? rest.trim() : prompt;
}

/** What is asked, and all that somebody must know to decide. @param {{pause: Pause, run?: any}} props run: a link to the run */
export function Asked({pause: p, run}) {
	const call = p.call;
	const text = below(p.prompt ?? '');
	/** @type {[string, any][]} */
	const about = [
		['of', html`${p.recipe} · ${p.step} ${run}`],
		['asks', p.kind === 'external' ? html`event <code>${p.reason}</code>` : reasonOf(p)],
		['since', html`<${Moment} at=${p.createdAt} />`],
		['expires', p.expiresAt && html`<${Left} at=${p.expiresAt} />`],
		['continues', p.retryAt && html`by itself <${Left} at=${p.retryAt} />`],
		['to', p.to?.join(', ')],
		['four eyes', p.fourEyes && 'not whoever began the run'],
		['begun by', p.startedBy],
		['tool', call && html`<code>${call.tool}</code>`],
		['key', call && html`<code>${call.key}</code>`],
		['attempt', call?.attempt],
		['called', call?.at && html`<${Moment} at=${call.at} />`],
		['owner', call?.owner && html`<span title=${call.owner}>${call.owner.split('/')[0]}</span>`],
		['processes', call?.pids?.join(', ')],
	];
	return html`<dl class="about">${about.filter(([, v]) => v).map(([name, v]) => html`<div key=${name}><dt>${name}</dt><dd dir="auto">${v}</dd></div>`)}</dl>
		${text && html`<div class="prompt" dir="auto"><${Markdown} text=${text} /></div>`}
		${call?.arguments !== undefined && html`<h3>Arguments</h3><${Json} value=${call.arguments} />`}
		${call?.given !== undefined && html`<h3>A person said</h3><${Json} value=${call.given} />`}
		${p.show !== undefined && html`<h3>Shown</h3><div class="show">${typeof p.show === 'string' ? html`<pre dir="auto">${p.show}</pre>` : html`<${Json} value=${p.show} open=${3} />`}</div>`}
		${Object.entries(p.large ?? {}).map(([name, n]) => html`<p class="hint">${name} has ${size(n)}: too much to show here; the run's page has it.</p>`)}`;
}

/** The decisions that send no form: there is nothing to fill in. */
const formless = ['reject', 'retry', 'fail'];

/**
 * The form and the decisions of a pause. No key alone decides: a button has to be reached and pressed.
 * @param {{pause: Pause, send: (answer: any) => Promise<unknown>, done: (decision: string) => void, many?: number}} props
 *   send is given the body of an answer; its Problem shows at the fields; many: how many pauses get the answer
 */
export function Decide({pause, send, done, many}) {
	const filled = useRef({value: /** @type {any} */ (undefined), wrong: /** @type {import('./fields.js').Wrong[]} */ ([])});
	const decisions = pause.decisions ?? [];
	const words = pause.reason === 'indeterminate' ? unknown : {};
	const schema = pause.schema ?? (!decisions.length || decisions.includes('result') ? {} : undefined);
	const ofCall = pause.show?.tool && pause.show.keys; // a question about a call of an agent, whose rejection may have a reason
	const draft = many ? undefined : draftOf(pause);
	const {sending, problem, send: decide} = useSend(async ({decision, force}) => {
		const {value, wrong} = filled.current;
		const withForm = schema !== undefined && !formless.includes(decision);
		if (withForm && wrong.length) throw misfit(wrong);
		await send({
			...(!decision ? {value: value ?? null} : {decision, ...(withForm ? {form: value} : ofCall && decision === 'reject' && value?.reason && {form: {reason: value.reason}})}),
			question: pause.question, force,
		});
		if (draft) keep(draft, undefined);
		done(words[decision]?.[0] ?? decision);
		return true;
	});
	if (byItself(pause)) return html`<p class="empty">Nobody needs to answer: the step continues by itself.</p>`;
	const buttons = (decisions.length ? decisions : ['']).map((one, i) => {
		const [word, about] = words[one] ?? [one || 'Answer'];
		const button = html`<button type="button" key=${one} class=${i || about ? '' : 'main'} disabled=${!!sending} aria-busy=${sending?.decision === one}
			aria-describedby=${about && one} onClick=${() => decide({decision: one})}>${word}${many ? ` (${many})` : ''}</button>`;
		return about ? html`<p key=${one} class="row">${button}<span class="hint" id=${one}>${about}</span></p>` : button;
	});
	return html`<section class="decide" aria-label="Answer">
		${schema !== undefined && html`<${Form} schema=${schema} name=${decisions.length ? 'form' : 'value'} draft=${draft} problem=${problem}
			label=${pause.schema ? 'answer' : decisions.length ? 'result' : 'what came with the event'}
			changed=${(/** @type {any} */ value, /** @type {any} */ wrong) => {
				filled.current = {value, wrong};
			}} />`}
		<div class=${words === unknown ? '' : 'row'}>${buttons}</div>
		<${Refusal} of=${problem} />
		${problem?.code === 'call.alive' && html`<p><button type="button" disabled=${!!sending} onClick=${() => decide({decision: 'retry', force: true})}>Call again although it lives</button></p>`}
	</section>`;
}
