// What happens, as it happens: one stream for all tabs of the browser, held by the shared worker w.js.
import {base, get, may, me} from './api.js';
import {read} from './exact.js';
import {effect, signal} from './ui.js';

/**
 * @typedef {object} RunListener
 * @property {(event: any) => void} event an event of the run; event.seq is its number
 * @property {(event: any) => void} [delta] a piece of a model's answer that is being written
 * @property {() => void} [gap] the stream began anew: pieces may be missing
 * @property {() => void} [reset] events are left out: read the run again
 * @property {(phase: string) => void} [end] the run has ended; '': it was deleted
 */

/** @typedef {{runs?: {id: string, after: number}[], list?: boolean, inbox?: boolean}} Wish */

let next = 1;
/** @type {Map<number, {wish: Wish, got: (kind: string, data: any) => void}>} */
const listeners = new Map();

/** Why nothing is live, in words; '': everything is. */
export const trouble = signal('');

/** Takes a message to the hub of streams; undefined: there is none yet. @type {((message: any) => void) | undefined} */
let post;

/** @param {any} message */
function tell(message) {
	post ??= connect();
	post({base: base.href, ...message});
}

/** @param {{data: any}} message of the hub */
function heard({data: {kind, data, status}}) {
	switch (kind) {
	case 'batch':
		for (const one of data) {
			if (one.kind === 'event' && typeof one.data === 'string') one.data = read(one.data).event;
			const listener = listeners.get(one.to);
			if (one.data?.seq && listener?.wish.runs) listener.wish.runs[0].after = one.data.seq;
			listener?.got(one.kind, one.data);
		}
		break;
	case 'trouble':
		trouble.value = data;
		if (status === 401) look();
		break;
	case 'who':
		if (data !== (me.value?.name ?? '')) look();
		break;
	case 'lock': // it is ours when the worker is gone
		navigator.locks.request(data, () => {
			post = undefined;
			rejoin();
		});
	}
}

/** Asks the server who is logged in. */
const look = () => get(['me']).then((who) => {
	if (who.name !== me.value?.name) me.value = who;
}, () => {});

/** Says once more what is wanted, from where we are. */
function rejoin() {
	for (const [id, one] of listeners) tell({id, wish: one.wish});
}

function connect() {
	if (typeof SharedWorker !== 'function') return alone();
	const policy = /** @type {any} */ (globalThis).trustedTypes;
	rules ??= policy?.createPolicy('braise', {createScriptURL: (/** @type {string} */ text) => text});
	const text = new URL('w.js', import.meta.url).href;
	// A worker lives as long as any tab: a new version of the page has one of its own, as its files have other URLs.
	const worker = new SharedWorker(rules ? rules.createScriptURL(text) : text, {type: 'module', name: 'braise'});
	worker.onerror = () => { // a browser without modules in workers
		post = alone();
		rejoin();
	};
	worker.port.onmessage = heard;
	navigator.locks?.request(`braise-tab-${Math.random()}`, (lock) => {
		worker.port.postMessage({base: base.href, lock: lock?.name});
		return new Promise(() => {}); // until the tab is gone
	});
	return (/** @type {any} */ message) => worker.port.postMessage(message);
}

/** The policy of Trusted Types of the page. @type {any} */
let rules;

/** Without a shared worker each tab has a stream of its own, while it is seen. */
function alone() {
	const client = {send: (/** @type {any} */ data) => heard({data})};
	const own = import('./stream.js').then(({Hub}) => {
		const hub = new Hub(base.href);
		document.addEventListener('visibilitychange', () => hub.pause(document.hidden));
		return hub;
	});
	return async (/** @type {any} */ {id, wish, who}) => {
		if (id) (await own).want(client, id, wish);
		else if (who !== undefined) (await own).login(client, who);
	};
}

addEventListener('pagehide', () => post?.({gone: true}));
addEventListener('pageshow', (event) => {
	if (event.persisted) rejoin();
});
document.addEventListener('visibilitychange', () => {
	if (!document.hidden) look(); // the cookie may be another, or be over
});

let known = false; // once somebody was logged in
effect(() => {
	const who = me.value?.name;
	known ||= !!who;
	if (known) tell({who: who ?? ''});
});

/** @param {Wish} wish @param {(kind: string, data: any) => void} got @returns {() => void} */
function listen(wish, got) {
	const id = next++;
	listeners.set(id, {wish, got});
	tell({id, wish});
	return () => {
		listeners.delete(id);
		tell({id, wish: null});
	};
}

/**
 * Watches a run from behind the event with a number.
 * @param {string} id @param {number} after @param {RunListener} listener
 * @returns {() => void} ends it
 */
export function watchRun(id, after, listener) {
	return listen({runs: [{id, after}]}, (kind, data) => {
		if (kind === 'event') (data.seq ? listener.event : listener.delta)?.(data);
		else if (kind === 'gap') listener.gap?.();
		else if (kind === 'reset') listener.reset?.();
		else if (kind === 'end') listener.end?.(data);
	});
}

/**
 * Watches the list of runs. changed gets a run as the list has it, or null: any may have changed.
 * @param {(run: import('./types').Run | null) => void} changed @returns {() => void} ends it
 */
export function watchRuns(changed) {
	return listen({list: true}, (kind, data) => {
		if (kind === 'run') changed(data);
		else if (kind === 'lists') changed(null);
	});
}

const pollTime = 5000;

/**
 * Watches the pending pauses. Who may not read runs gets no stream: then they are looked at every 5 seconds.
 * @param {() => void} changed @returns {() => void} ends it
 */
export function watchPauses(changed) {
	let stop = () => {};
	const off = effect(() => {
		stop();
		if (may('read')) {
			stop = listen({inbox: true}, (kind) => {
				if (kind === 'inbox' || kind === 'lists') changed();
			});
		} else {
			const timer = setInterval(changed, pollTime);
			stop = () => clearInterval(timer);
		}
	});
	return () => {
		off();
		stop();
	};
}
