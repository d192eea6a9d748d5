// Requests to the API of the server.
import {read} from './exact.js';
import {effect, signal, useEffect, useRef, useState} from './ui.js';

/** The URL of the API, wherever the server is mounted. */
export const base = new URL('../../api/v1/', import.meta.url);

/** Who is logged in; null: nobody, or not known yet. @type {import('./vendor/signals.js').Signal<import('./types').Me | null>} */
export const me = signal(null);

/** Whether the server can be reached, and can use its store. */
export const online = signal(true);

effect(() => {
	if (online.value) return undefined;
	const timer = setInterval(() => fetch(new URL('../../readyz', base)).then(({ok}) => {
		online.value = ok;
	}, () => {}), 1000);
	return () => clearInterval(timer);
});

/** Whether the person has one of the roles. @param {...string} roles */
export function may(...roles) {
	const has = me.value?.roles ?? [];
	return has.includes('operate') || roles.some((role) => has.some((one) => one === role));
}

/** What went wrong with a request, in the words of the server. */
export class Problem extends Error {
	/** @param {number} status 0: there was no answer @param {any} body */
	constructor(status, body) {
		super(body?.error?.message ?? (status ? `the server answered ${status}` : 'the server cannot be reached'));
		this.status = status;
		/** @type {string} */
		this.code = body?.error?.code ?? '';
		/** @type {string} */
		this.hint = body?.error?.hint ?? '';
		/** @type {string} */
		this.step = body?.error?.step ?? '';
		/** @type {import('./types').Diagnostic[]} */
		this.diagnostics = body?.diagnostics ?? [];
	}
}

/**
 * The URL of a route; segments are encoded, members of the query that are undefined or '' left out, lists repeated.
 * @param {string[]} path @param {Record<string, unknown>} [query]
 */
export function url(path, query) {
	const to = new URL(path.map(encodeURIComponent).join('/'), base);
	for (const [name, value] of Object.entries(query ?? {})) {
		for (const one of Array.isArray(value) ? value : [value]) {
			if (one !== undefined && one !== '') to.searchParams.append(name, String(one));
		}
	}
	return to;
}

/** @param {string | URL} to @param {RequestInit} [init] */
async function request(to, init) {
	let response;
	try {
		response = await fetch(to, {credentials: 'same-origin', ...init});
	} catch (err) {
		if (init?.signal?.aborted) throw err;
		online.value = false;
		throw new Problem(0, null);
	}
	if (response.status === 503) online.value = false;
	if (response.ok || response.status === 304) return response;
	const body = await response.json().catch(() => null);
	if (response.status === 401) me.value = null;
	throw new Problem(response.status, body);
}

/** What was read last, by URL. @type {Map<string, {tag: string, body: any}>} */
const seen = new Map();

/**
 * Reads a resource as JSON. The same object comes again if it has not changed.
 * @param {string[]} path @param {Record<string, unknown>} [query] @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, query, signal) {
	const to = url(path, query).href;
	const before = seen.get(to);
	const response = await request(to, {signal, headers: before ? {'If-None-Match': before.tag} : {}});
	if (response.status === 304 && before) return before.body;
	const body = read(await response.text());
	const tag = response.headers.get('ETag');
	seen.delete(to);
	if (tag) seen.set(to, {tag, body});
	if (seen.size > 50) seen.delete(/** @type {string} */ (seen.keys().next().value));
	return body;
}

/** Reads a resource as text. @param {string[]} path @param {Record<string, unknown>} [query] */
export async function getText(path, query) {
	return (await request(url(path, query))).text();
}

/**
 * Sends a body and returns the answer; undefined if it has none.
 * @param {string[]} path @param {unknown} [body] @param {Record<string, string>} [headers]
 * @returns {Promise<any>}
 */
export async function post(path, body = {}, headers = {}) {
	const response = await request(url(path), {
		method: 'POST', body: JSON.stringify(body), headers: {'Content-Type': 'application/json', ...headers},
	});
	return response.status === 204 ? undefined : response.json();
}

/** Deletes a resource. @param {string[]} path */
export async function del(path) {
	await request(url(path), {method: 'DELETE', headers: {'Content-Type': 'application/json'}});
}

/**
 * @template T
 * @typedef {object} Loaded
 * @property {T | undefined} value what was read last; it stays while it is read again
 * @property {Problem | undefined} problem of the last attempt
 * @property {() => void} reload reads it again, soon: several calls within 200 ms are one
 */

/**
 * Reads something when the component begins, when key changes, and when reload is called. If the server cannot be
 * reached, it tries again by itself.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load @param {string} key
 * @returns {Loaded<T>}
 */
export function useLoaded(load, key) {
	const [state, setState] = useState(/** @type {{key: string, value?: T, problem?: Problem}} */ ({key}));
	const reload = useRef(() => {});
	useEffect(() => {
		const abort = new AbortController();
		let timer = 0;
		let busy = false;
		let again = false;
		const attempt = async () => {
			timer = 0;
			if (busy) {
				again = true;
				return;
			}
			busy = true;
			try {
				const value = await load(abort.signal);
				if (!abort.signal.aborted) setState((old) => (old.value === value && !old.problem && old.key === key ? old : {key, value}));
			} catch (err) {
				if (abort.signal.aborted) return;
				const problem = err instanceof Problem ? err : new Problem(0, {error: {message: String(err)}});
				setState((old) => ({key, value: old.key === key ? old.value : undefined, problem}));
				if (problem.status === 0 || problem.status === 503) timer = setTimeout(attempt, 2000);
			} finally {
				busy = false;
			}
			if (again && !abort.signal.aborted) {
				again = false;
				reload.current();
			}
		};
		reload.current = () => {
			if (!timer && !abort.signal.aborted) timer = setTimeout(attempt, 200);
		};
		attempt();
		return () => {
			abort.abort();
			clearTimeout(timer);
		};
	}, [key]);
	const current = state.key === key;
	return {value: current ? state.value : undefined, problem: current ? state.problem : undefined, reload: reload.current};
}
