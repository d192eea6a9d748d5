// The conversation of an agent or a model, as it goes on.
import {read} from './exact.js';
import {Json} from './json.js';
import {Markdown} from './markdown.js';
import {length} from './format.js';
import {Empty, Text} from './parts.js';
import {place, setQuery} from './place.js';
import {html, useEffect, useLayoutEffect, useRef, useState} from './ui.js';

/** @typedef {import('./pieces.js').Pieces} Pieces */
/** @typedef {import('./types').HistoryWork} Work */
/** @typedef {import('./types').HistoryToolCall} ToolCall */

const most = 60; // messages that show at first: the last ones

/**
 * @param {{step: import('./types').StepView, pieces: Pieces}} props
 */
export function Talk({step, pieces}) {
	const raw = place.value.query.has('raw');
	const box = useRef(/** @type {HTMLElement | null} */ (null));
	const low = useRef(!step.endedAt); // whether one reads at the bottom, which new text then keeps in view
	useEffect(() => pieces.read(), [step]);
	const put = useRef(0); // where it was put: one who is above has scrolled, though no event says so yet
	const grown = () => {
		const on = box.current;
		if (!on || !low.current) return;
		low.current = on.scrollTop >= put.current - 1;
		if (low.current) on.scrollTop = on.scrollHeight;
		put.current = on.scrollTop;
	};
	useLayoutEffect(grown);
	const scrolled = () => {
		const on = box.current;
		if (on) low.current = on.scrollHeight - on.scrollTop - on.clientHeight < 40;
	};
	const work = step.work ?? modelWork(step);
	return html`<p class="row"><label><input type="checkbox" checked=${raw} onChange=${() => setQuery({raw: raw ? undefined : 1})} /> as plain text</label></p>
		<div class="talk" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label="Conversation">
			<${Loop} work=${work} pieces=${pieces} raw=${raw} grown=${grown} /></div>`;
}

/** A call of a model as a conversation. @param {import('./types').StepView} step @returns {Work} */
function modelWork({step, input, output}) {
	const messages = [];
	if (input?.system) messages.push({role: 'system', text: input.system});
	if (Array.isArray(input?.messages)) messages.push(...input.messages);
	else if (input?.prompt !== undefined) messages.push({role: 'user', text: input.prompt});
	if (output !== undefined && output !== null) messages.push({role: 'assistant', text: typeof output?.text === 'string' ? output.text : JSON.stringify(output, null, 2)});
	return {path: step, messages, calls: [], usage: {input_tokens: 0, output_tokens: 0}};
}

/** What an agent, or a child of one, said and did. @param {{work: Work, pieces: Pieces, raw: boolean, grown: () => void}} props */
function Loop({work, pieces, raw, grown}) {
	const [shown, setShown] = useState(most);
	const {messages} = work;
	const asked = messages.flatMap((one) => one.tool_calls ?? []);
	/** The calls are those that were asked for last: what a memory had before has none. @type {Map<any, ToolCall>} */
	const calls = new Map(work.calls.map((call, i) => [asked[asked.length - work.calls.length + i], call]));
	const ids = new Set(asked.map((one) => one.id));
	const children = new Map((work.children ?? []).map((child) => [Number(child.path.match(/#(\d+)$/)?.[1] ?? 0), child]));
	const told = new Set(work.calls.map((call) => call.call));
	const from = Math.max(0, messages.length - shown);
	const nested = (/** @type {Work} */ child) => html`<details class="child"><summary><strong>${child.agent ?? 'agent'}</strong> <code>${child.path}</code> ${
		child.stop ?? 'at work'}</summary><${Loop} work=${child} pieces=${pieces} raw=${raw} grown=${grown} /></details>`;
	return html`${from > 0 && html`<button type="button" class="quiet more" onClick=${() => setShown(shown + most)}>${from} earlier messages</button>`}
		${messages.slice(from).map((one, i) => (one.role === 'tool' && ids.has(one.tool_call_id) ? null : html`<${Message} key=${from + i} of=${one} raw=${raw}>${
			(one.tool_calls ?? []).map((/** @type {any} */ wish) => {
				const call = calls.get(wish);
				const child = call && children.get(call.call);
				return html`<${Call} key=${wish.id} wish=${wish} call=${call} answer=${messages.find((m) => m.tool_call_id === wish.id)?.text} />${child && nested(child)}`;
			})}<//>`))}
		${[...children].filter(([call]) => !told.has(call)).map(([, child]) => nested(child))}
		<${Live} path=${work.path} pieces=${pieces} raw=${raw} grown=${grown} empty=${!messages.length} />
		${work.stop && work.stop !== 'answer' && html`<p class="soft">It stopped: ${work.stop}</p>`}`;
}

/** The answer that is being written. @param {{path: string, pieces: Pieces, raw: boolean, grown: () => void, empty: boolean}} props */
function Live({path, pieces, raw, grown, empty}) {
	pieces.changed.value;
	const piece = pieces.texts.get(path);
	useLayoutEffect(grown, [piece?.text]);
	if (!piece) return empty ? html`<${Empty}>Nothing has been said yet.<//>` : null;
	return html`<${Message} of=${{role: 'assistant', text: piece.text}} raw=${raw} live=${!piece.done} />`;
}

/** @param {{of: any, raw: boolean, live?: boolean, children?: any}} props */
function Message({of, raw, live, children}) {
	const plain = raw || (of.role !== 'assistant' && of.role !== 'user');
	return html`<section class=${`said ${of.role}`} aria-label=${of.role} aria-busy=${live}><h4>${of.role}</h4>${
		of.text && (plain ? html`<${Text} of=${of.text} />` : html`<${Markdown} text=${of.text} />`)}${live && html`<span class="cursor" aria-hidden="true">▍</span>`}${children}</section>`;
}

/** A call of a tool, folded. @param {{wish: any, call?: ToolCall, answer?: string}} props */
function Call({wish, call, answer}) {
	const [open, setOpen] = useState(false);
	const result = call?.result ?? answer;
	const failed = !!call?.error;
	const done = call ? call.done : answer !== undefined;
	const state = failed ? 'failed' : done ? 'succeeded' : 'running';
	const took = call?.startedAt && call.endedAt ? length(Date.parse(call.endedAt) - Date.parse(call.startedAt)) : '';
	return html`<details class="call" open=${open} onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
		<summary><code>${wish.name}</code> <span class="args">${brief(wish.arguments)}</span> <span class=${`state ${state}`}>${
			failed ? `✗ ${call?.error}` : done ? '✓' : '● running'}</span> <span class="soft num">${took}</span></summary>
		${open && html`<${Json} value=${wish.arguments} label="Arguments" />${result !== undefined && html`<h5>${failed ? 'Error' : 'Result'}</h5><${Result} text=${result} />`}`}
	</details>`;
}

/** What a tool gave, as a tree if it is JSON. @param {{text: string}} props */
function Result({text}) {
	let value;
	try {
		value = /^\s*[[{]/.test(text) ? read(text) : undefined;
	} catch {
		value = undefined;
	}
	return value === undefined ? html`<${Text} of=${text} />` : html`<${Json} value=${value} label="Result" />`;
}

/** The beginning of a value. @param {any} value */
const brief = (value) => {
	const text = JSON.stringify(value) ?? '';
	return html`<${Text} of=${text.length > 80 ? `${text.slice(0, 80)}…` : text} />`;
};
