// Numbers, times and states as people read them.

/** @typedef {'queued'|'running'|'waiting'|'interrupted'|'ok'|'error'|'cancelled'} Phase */

/** The sign and the word of each state of a run and of a step: never colour alone. @type {Record<string, [string, string]>} */
const signs = {
	queued: ['○', 'queued'], running: ['●', 'running'], waiting: ['‖', 'waiting'], interrupted: ['⚠', 'interrupted'],
	ok: ['✓', 'ok'], error: ['✗', 'failed'], cancelled: ['■', 'cancelled'],
	pending: ['·', 'pending'], succeeded: ['✓', 'succeeded'], failed: ['✗', 'failed'], skipped: ['–', 'skipped'],
	paused: ['‖', 'waiting'],
};

/** @param {string} state @returns {string} */
export const sign = (state) => signs[state]?.[0] ?? '?';

/** @param {string} state @returns {string} */
export const word = (state) => signs[state]?.[1] ?? state;

/** Whether a run in this phase will not change any more. @param {string} phase */
export const ended = (phase) => phase === 'ok' || phase === 'error' || phase === 'cancelled';

/** A length of time: 6 ms, 0.3 s, 12 s, 3 m 05 s, 2 h 10 m, 4 d 3 h. @param {number} ms */
export function length(ms) {
	if (!(ms >= 0)) return '';
	if (ms < 99.5) return `${Math.round(ms)} ms`;
	if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
	const s = Math.round(ms / 1000);
	const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
	if (s < 60) return `${s} s`;
	if (s < 3600) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
	if (s < 86_400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} m`;
	return `${Math.floor(s / 86_400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** The time between two moments of the API; to may be missing: now. @param {string} from @param {string} [to] */
export const between = (from, to) => (from ? Math.max(0, (to ? Date.parse(to) : Date.now()) - Date.parse(from)) : NaN);

/** The time of day, with the date unless it is today. @param {string | undefined} text */
export function clock(text) {
	if (!text) return '';
	const at = new Date(text);
	const time = at.toLocaleTimeString(undefined, {hour12: false});
	return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

/** How long ago, or how long until: 3 m ago, in 2 d. @param {string | undefined} text */
export function ago(text) {
	if (!text) return '';
	const ms = Date.now() - Date.parse(text);
	const about = length(Math.abs(ms)).split(' ').slice(0, 2).join(' ').replace(/\.\d/, '');
	return ms >= 0 ? `${about} ago` : `in ${about}`;
}

/** A count: 812, 3.1k, 2.4M. @param {number} n */
export function count(n) {
	if (n < 1000) return String(n);
	return n < 999_950 ? `${(n / 1000).toFixed(1)}k` : `${(n / 1e6).toFixed(1)}M`;
}

/** A size: 812 B, 3.1 kB. @param {number} n */
export const size = (n) => (n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);

/** An amount of money: $1.25, $0.00006. @param {number} usd */
export const dollars = (usd) => `$${Math.abs(usd) < 0.005 && usd ? String(Number(usd.toPrecision(2))) : usd.toFixed(2)}`;

/** Tokens and cost of models. @param {{inputTokens?: number, outputTokens?: number, costUsd?: number} | undefined} usage */
export function spent(usage) {
	if (!usage) return '';
	const tokens = (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0);
	const parts = [];
	if (tokens) parts.push(tokens === 1 ? '1 token' : `${count(tokens)} tokens`);
	if (usage.costUsd) parts.push(dollars(usage.costUsd));
	return parts.join(', ');
}

/** The first line of a text, without marks of Markdown. @param {string | undefined} text */
export const firstLine = (text) => text?.split('\n').map((one) => one.replace(/^(?:(?:#+|[>*-])\s+)+/, '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
	.replace(/(\*\*|__|`)(.*?)\1/g, '$2').trim()).find(Boolean) ?? '';

/** Whether a pause ends by itself: nobody is asked. @param {import('./types').Pause} p */
export const byItself = (p) => !!p.retryAt && !p.decisions?.length;

/** What a pause waits for, in a line. @param {import('./types').Pause} p */
export function titleOf(p) {
	const line = firstLine(p.prompt);
	if (line) return line;
	if (p.kind === 'external') return `waits for ${p.reason}`;
	return byItself(p) ? 'continues by itself' : p.reason || p.step;
}

/** The path in the plan of the path of a step: verify[2]/check#3 is verify/check. @param {string} path */
export const planID = (path) => path.replace(/\[\d+\]|#\d+/g, '');

/**
 * A text in which nothing plays tricks: control characters, lone surrogates and characters that turn the direction of
 * what follows stand as escapes.
 * @param {string} text
 */
export const visible = (text) => text.replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\p{Surrogate}/gu,
	(one) => (one === '\r' ? '' : `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`));
