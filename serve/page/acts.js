// What people do to a run: each act asks in a dialog, but for those that cannot do harm.
import {del, may, post} from './api.js';
import {ended} from './format.js';
import {Act, Dialog, Trouble, useSend} from './parts.js';
import {go, ref} from './place.js';
import {html, useState} from './ui.js';

/** @typedef {import('./types').RunView} RunView */

/** @param {{run: RunView, reload: () => void}} props */
export function Actions({run, reload}) {
	const [asks, setAsks] = useState('');
	const {runId, phase, recipe} = run;
	const close = () => setAsks('');
	const over = ended(phase);
	const operates = may('operate');
	const agents = run.steps.filter((one) => one.agent && (one.status === 'running' || one.status === 'waiting')).map((one) => one.step);
	const recover = async () => {
		await post(['runs', runId, 'recover']);
		reload();
	};
	const ask = (/** @type {string} */ what, /** @type {string} */ text, /** @type {boolean} */ now) =>
		now && html`<button type="button" onClick=${() => setAsks(what)}>${text}</button>`;
	const props = {run, close, done: () => {
		close();
		reload();
	}};
	return html`<div class="row acts">
		${ask('cancel', 'Cancel…', operates && !over)}
		${operates && (phase === 'interrupted' || (phase === 'queued' && !run.queue)) && html`<${Act} do=${recover}>Recover<//>`}
		${operates && html`<a class="button" href=${ref(['runs', runId, 'fork'], {at: run.error?.step})}>Fork…</a>`}
		${may('start') && html`<a class="button" href=${ref(['recipes', recipe], {again: runId})}>Run again…</a>`}
		${ask('send', 'Send to a channel…', operates && !over)}
		${ask('tell', 'Tell an agent…', operates && agents.length > 0)}
		${ask('delete', 'Delete…', operates && phase !== 'running')}
	</div>
	${asks === 'cancel' && html`<${Cancel} ...${props} />`}
	${asks === 'send' && html`<${Send} ...${props} />`}
	${asks === 'tell' && html`<${Tell} ...${props} agents=${agents} />`}
	${asks === 'delete' && html`<${Delete} ...${props} />`}`;
}

/** @typedef {{run: RunView, close: () => void, done: () => void}} Asked */

/**
 * A dialog with a form. What goes wrong shows in it.
 * @param {{title: string, button: string, close: () => void, send: (form: FormData) => Promise<unknown>, children?: any}} props
 */
function Ask({title, button, close, send, children}) {
	const ask = useSend(async (form) => void await send(form));
	const submit = (/** @type {SubmitEvent} */ event) => {
		event.preventDefault();
		ask.send(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)));
	};
	return html`<${Dialog} title=${title} close=${close}><form class="stack" onSubmit=${submit}>${children}<${Trouble} of=${ask.problem} />
		<button class="main" disabled=${!!ask.sending}>${button}</button></form><//>`;
}

/** @param {Asked} props */
function Cancel({run, close, done}) {
	const again = run.acts.some((act) => act.what === 'cancel') || run.pending.some((one) => one.call);
	return html`<${Ask} title="Cancel the run" button="Cancel the run" close=${close} send=${async (/** @type {FormData} */ form) => {
		await post(['runs', run.runId, 'cancel'], {reason: form.get('reason') || undefined, force: form.has('force') || undefined});
		done();
	}}>
		<p>It is rolled back and ends for good. It cannot be resumed; a fork can go on from where it was.</p>
		<label>Reason <input name="reason" autocomplete="off" /></label>
		${again && html`<label><input type="checkbox" name="force" /> Also if the outcome of a call is unknown</label>`}<//>`;
}

/** @param {Asked} props */
function Send({run, close, done}) {
	return html`<${Ask} title="Send to a channel" button="Send" close=${close} send=${async (/** @type {FormData} */ form) => {
		const text = String(form.get('value'));
		let value;
		try {
			value = JSON.parse(text);
		} catch {
			throw {message: 'the value is no JSON', hint: 'text stands in quotes: "paid"'};
		}
		await post(['runs', run.runId, 'channels', String(form.get('channel'))], {value});
		done();
	}}>
		<label>Channel <input name="channel" required autocomplete="off" defaultValue=${run.pending.find((one) => one.kind === 'external')?.reason} /></label>
		<label>Value, as JSON <textarea name="value" rows="4" cols="50" required></textarea></label><//>`;
}

/** @param {Asked & {agents: string[]}} props */
function Tell({run, close, done, agents}) {
	return html`<${Ask} title="Tell an agent" button="Tell" close=${close} send=${async (/** @type {FormData} */ form) => {
		await post(['runs', run.runId, 'tell'], {step: form.get('step'), text: form.get('text')});
		done();
	}}>
		<label>Agent <select name="step">${agents.map((step) => html`<option key=${step}>${step}</option>`)}</select></label>
		<label>Note <textarea name="text" rows="4" cols="50" required></textarea></label>
		<p class="hint">It reads the note before it asks its model again.</p><//>`;
}

/** @param {Asked} props */
function Delete({run, close}) {
	return html`<${Ask} title="Delete the run" button="Delete for good" close=${close} send=${async (/** @type {FormData} */ form) => {
		if (String(form.get('id')).trim() !== run.runId) throw {message: 'that is not the id of this run', hint: run.runId};
		await del(['runs', run.runId]);
		go(ref(['runs']));
	}}>
		<p>Its journal is removed from the store. This cannot be undone.</p>
		<label>Type the id, <code>${run.runId}</code> <input name="id" required autocomplete="off" size="44" /></label><//>`;
}
