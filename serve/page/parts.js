// Parts that several screens have.
import {Problem} from './api.js';
import {ago, between, clock, length, sign, size, visible, word} from './format.js';
import {html, signal, useEffect, useId, useLayoutEffect, useRef, useSignal, useState} from './ui.js';

/** Counts up each second, for what shows how long something takes. */
export const tick = signal(0);
setInterval(() => {
	if (!document.hidden) tick.value++;
}, 1000);

/** A state of a run or a step, by sign and word. @param {{of: string, brief?: boolean}} props */
export function State({of, brief}) {
	return html`<span class="state ${of}" title=${word(of)}><span class="sign" aria-hidden="true">${sign(of)}</span>${
		brief ? html`<span class="hidden">${word(of)}</span>` : word(of)}</span>`;
}

/** A moment; how long ago it is shows on hover. @param {{at?: string}} props */
export const Moment = ({at}) => (at ? html`<time dateTime=${at} title=${`${at}, ${ago(at)}`}>${clock(at)}</time>` : null);

/**
 * How long something takes that has begun, and may have ended. Only its text changes: each tenth of a second at first,
 * then each second.
 * @param {{from?: string, to?: string}} props
 */
export function Lasts({from, to}) {
	const text = useSignal('');
	useLayoutEffect(() => {
		let timer = 0;
		const show = () => {
			const ms = from ? between(from, to) : NaN;
			text.value = length(ms);
			if (from && !to) timer = setTimeout(show, ms < 9950 ? 100 : 1000);
		};
		show();
		return () => clearTimeout(timer);
	}, [from, to]);
	return html`<span class="num">${text}</span>`;
}

/** What went wrong. @param {{of?: Problem}} props */
export function Trouble({of}) {
	if (!of) return null;
	return html`<div class="trouble" role="alert"><strong>${of.message}</strong>${of.hint && html`<p>${of.hint}</p>`}${
		of.code && html` <code>${of.code}</code>`}</div>`;
}

/** Says that nothing is there. @param {{children?: any}} props */
export const Empty = ({children}) => html`<p class="empty">${children}</p>`;

/** How long there is left. @param {{at?: string}} props */
export function Left({at}) {
	tick.value; // read, so that it is rendered each second
	return at ? html`<time dateTime=${at} title=${at} class="num">${ago(at)}</time>` : null;
}

const piece = 2000; // characters of a text that show at first

/** A text of a model, a tool or a person. A long one shows piece by piece. @param {{of: string}} props */
export function Text({of}) {
	const [shown, setShown] = useState(piece);
	const left = of.length - shown;
	return html`<span class="text" dir="auto">${visible(left > 0 ? of.slice(0, shown) : of)}</span>${left > 0 && html`<button
		type="button" class="quiet more" onClick=${() => setShown(shown + Math.max(piece, shown * 8))}>… ${size(left)} more</button>`}`;
}

/** A button that copies a text. Tab passes by one with a class. @param {{text: () => string, label: string, class?: string, children?: any}} props */
export function Copy(props) {
	const [done, setDone] = useState(false);
	const copy = async () => {
		await navigator.clipboard.writeText(props.text());
		setDone(true);
		setTimeout(() => setDone(false), 1500);
	};
	return html`<button type="button" class=${`quiet copy ${props.class ?? ''}`} tabindex=${props.class ? -1 : undefined} title=${props.label}
		aria-label=${props.label} hidden=${!navigator.clipboard} onClick=${copy}>${done ? '✓' : props.children ?? 'copy'}</button>`;
}

/** Gives a value as a file. @param {string} name @param {unknown} value */
export function download(name, value) {
	const link = document.createElement('a');
	link.href = URL.createObjectURL(new Blob([typeof value === 'string' ? value : JSON.stringify(value, null, 2)]));
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Tabs, as links; the arrow keys move between them. @param {{label: string, now: string, all: {name: string, href: string, text: any}[]}} props */
export function Tabs({label, now, all}) {
	/** @param {KeyboardEvent} event */
	const move = (event) => {
		const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
		if (!step) return;
		const links = [.../** @type {HTMLElement} */ (event.currentTarget).querySelectorAll('a')];
		const at = links.indexOf(/** @type {any} */ (document.activeElement));
		links[(at + step + links.length) % links.length]?.focus();
		event.preventDefault();
	};
	return html`<nav class="tabs" aria-label=${label} onKeyDown=${move}>${all.map((tab) => html`<a key=${tab.name}
		href=${tab.href} aria-current=${tab.name === now ? 'page' : undefined}>${tab.text}</a>`)}</nav>`;
}

/**
 * A dialog over the page. Escape and the button Close end it.
 * @param {{title: string, close: () => void, children?: any}} props
 */
export function Dialog({title, close, children}) {
	const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
	const id = useId();
	useLayoutEffect(() => {
		const before = /** @type {HTMLElement | null} */ (document.activeElement);
		box.current?.showModal();
		return () => before?.focus?.();
	}, []);
	return html`<dialog ref=${box} aria-labelledby=${id} onCancel=${(/** @type {Event} */ event) => {
		event.preventDefault();
		close();
	}}><header><h2 id=${id}>${title}</h2><button type="button" class="quiet" onClick=${close}>Close</button></header>${children}</dialog>`;
}

/**
 * What a button sends: one thing at a time, and none after one that was taken, unless work says that there may be more.
 * @param {(what: any) => Promise<boolean | void>} work
 * @returns {{sending: any, problem: Problem | undefined, send: (what?: any) => Promise<void>}} sending: what is sent now
 */
export function useSend(work) {
	const busy = useRef(false);
	const [sending, setSending] = useState(/** @type {any} */ (undefined));
	const [problem, setProblem] = useState(/** @type {Problem | undefined} */ (undefined));
	return {sending, problem, send: async (what = true) => {
		if (busy.current) return;
		busy.current = true;
		setSending(what);
		setProblem(undefined);
		try {
			if (!await work(what)) return;
		} catch (err) {
			setProblem(err instanceof Problem ? err : new Problem(0, {error: err}));
		}
		busy.current = false;
		setSending(undefined);
	}};
}

/**
 * A button that does something on the server. While it does, it cannot be pressed; what goes wrong shows beside it.
 * @param {{do: () => Promise<unknown>, class?: string, disabled?: boolean, title?: string, children?: any}} props
 */
export function Act(props) {
	const {sending, problem, send} = useSend(async () => {
		await props.do();
		return true;
	});
	return html`<button type="button" class=${props.class} title=${props.title} disabled=${sending || props.disabled}
		aria-busy=${!!sending} onClick=${() => send()}>${props.children}</button><${Trouble} of=${problem} />`;
}

/**
 * Keys of a screen: {j: next, 'g r': runs}. None works while something is typed, or with Ctrl, Alt or Meta.
 * @param {Record<string, (event: KeyboardEvent) => void>} keys
 */
export function useKeys(keys) {
	const now = useRef(keys);
	now.current = keys;
	useEffect(() => {
		let first = '';
		let at = 0;
		/** @param {KeyboardEvent} event */
		const pressed = (event) => {
			const on = /** @type {HTMLElement} */ (event.target);
			if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
			if (on.closest?.('input:not([type=checkbox]), textarea, select, [contenteditable], dialog')) return;
			const two = event.timeStamp - at < 1000 && first ? `${first} ${event.key}` : '';
			const action = (two && now.current[two]) || now.current[event.key];
			first = event.key;
			at = event.timeStamp;
			if (action) {
				event.preventDefault();
				first = '';
				action(event);
			}
		};
		addEventListener('keydown', pressed);
		return () => removeEventListener('keydown', pressed);
	}, []);
}
