// One stream of the server for many listeners.
import {rounds} from './exact.js';

/** @typedef {{send(message: any): void}} Client a tab */
/** @typedef {import('./live.js').Wish} Wish */
/** @typedef {{client: Client, id: number, wish: Wish, after: Map<string, number>}} Listener */

const retryTime = 2000;
const silence = 40_000; // the server says something every 15 s
const maxRuns = 1000; // in one stream

/**
 * Hub holds the stream: what it asks for is what its listeners want together. A stream that breaks is opened again at
 * once, and if that fails, every two seconds, or when the server says; but not if the person may not have it.
 */
export class Hub {
	/** @param {string} base the URL of the API */
	constructor(base) {
		this.base = base;
		/** @type {Map<Client, Map<number, Listener>>} */
		this.clients = new Map();
		/** @type {AbortController | null} */
		this.connection = null;
		this.asked = ''; // what the connection is about
		/** The number of the last event that came, by run. @type {Map<string, number>} */
		this.sent = new Map();
		this.who = '';
		this.timer = 0;
		this.paused = false;
		/** What keeps the stream from going on; '': nothing. @type {{status: number, text: string}} */
		this.trouble = {status: 0, text: ''};
		addEventListener('online', () => { // of the machine: do not wait until the silence is noticed
			this.connection?.abort();
			this.connection = null;
			this.soon(0);
		});
	}

	/** Sets what a listener wants; null: nothing any more. @param {Client} client @param {number} id @param {Wish | null} wish */
	want(client, id, wish) {
		const mine = this.clients.get(client) ?? new Map();
		if (!this.clients.has(client)) client.send({kind: 'trouble', data: this.trouble.text});
		this.clients.set(client, mine);
		if (wish) mine.set(id, {client, id, wish, after: new Map((wish.runs ?? []).map((run) => [run.id, run.after]))});
		else mine.delete(id);
		this.soon(20);
	}

	/** A tab is gone. @param {Client} client */
	leave(client) {
		this.clients.delete(client);
		this.soon(20);
	}

	/** Somebody logged in or out in a tab: the others look who it is. @param {Client} client @param {string} name */
	login(client, name) {
		if (name === this.who) return;
		this.who = name;
		for (const other of this.clients.keys()) if (other !== client) other.send({kind: 'who', data: name});
		this.soon(20);
	}

	/** A stream is not needed while nobody looks. @param {boolean} yes */
	pause(yes) {
		this.paused = yes;
		this.soon(20);
	}

	/** @param {number} ms */
	soon(ms) {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.connect(), ms);
	}

	listeners() {
		return [...this.clients.values()].flatMap((mine) => [...mine.values()]);
	}

	/** What all listeners want. Of too many runs, those that were asked for last. */
	wish() {
		/** @type {Map<string, number>} */
		const runs = new Map();
		let list = false;
		let inbox = false;
		for (const one of this.listeners()) {
			for (const [id, after] of one.after) {
				if (/^[a-z0-9][\w.-]{0,127}$/i.test(id)) runs.set(id, Math.min(after, runs.get(id) ?? Infinity));
			}
			list ||= !!one.wish.list;
			inbox ||= !!one.wish.inbox;
		}
		return {runs: [...runs].slice(-maxRuns).map(([id, after]) => ({id, after})), list, inbox};
	}

	/** Makes the stream such as the listeners want it; one that already is goes on. */
	async connect() {
		const wish = this.wish();
		const nothing = this.paused || (wish.runs.length === 0 && !wish.list && !wish.inbox);
		const key = nothing ? '' : JSON.stringify([this.who, wish.runs.map((run) => run.id).sort(), wish.list, wish.inbox]);
		const behind = wish.runs.some((run) => run.after < (this.sent.get(run.id) ?? 0));
		if (key === this.asked && this.connection && !behind) return;
		this.connection?.abort();
		this.connection = null;
		this.asked = key;
		if (nothing) return;
		const connection = new AbortController();
		this.connection = connection;
		this.sent = new Map(wish.runs.map((run) => [run.id, run.after]));
		let wait = retryTime * (0.75 + Math.random() / 2); // not all browsers at the same time
		const begun = Date.now();
		try {
			await this.read(wish, connection);
			if (Date.now() - begun > retryTime) wait = 100; // it went well until now
		} catch (err) {
			if (this.connection !== connection) return; // another one has taken its place, or none is needed
			const {status = 0, text = 'The server cannot be reached.', seconds = 0} = /** @type {any} */ (err);
			this.tell(status, text);
			wait = Math.max(wait, seconds * 1000);
		}
		if (this.connection !== connection) return;
		this.connection = null;
		// Who may not have the stream gets no other, until somebody wants another one.
		if (![400, 401, 403].includes(this.trouble.status)) this.soon(wait);
	}

	/** Reads the stream until it ends. It throws if it cannot be had. @param {any} wish @param {AbortController} connection */
	async read(wish, connection) {
		let watchdog = setTimeout(() => connection.abort(), silence);
		try {
			const response = await fetch(new URL('stream', this.base), {
				method: 'POST', body: JSON.stringify(wish), signal: connection.signal, credentials: 'same-origin',
				headers: {'Content-Type': 'application/json', Accept: 'text/event-stream'},
			});
			if (!response.ok || !response.body) {
				const body = await response.json().catch(() => null);
				throw {status: response.status, text: body?.error?.message, seconds: Number(response.headers.get('Retry-After'))};
			}
			this.tell(0, '');
			for (const one of this.listeners()) if (one.after.size) one.client.send({kind: 'batch', data: [{to: one.id, kind: 'gap'}]});
			const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
			let rest = '';
			for (;;) {
				const {done, value} = await reader.read().catch(() => ({done: true, value: ''}));
				if (done || this.connection !== connection) return;
				clearTimeout(watchdog);
				watchdog = setTimeout(() => connection.abort(), silence);
				const parts = (rest + value).split('\n\n');
				rest = /** @type {string} */ (parts.pop());
				/** @type {Map<Client, any[]>} */
				const out = new Map();
				for (const part of parts) this.message(part, out);
				for (const [client, data] of out) client.send({kind: 'batch', data});
			}
		} finally {
			clearTimeout(watchdog);
		}
	}

	/** @param {string} text one message @param {Map<Client, any[]>} out what goes to whom */
	message(text, out) {
		let kind = '';
		let data = '';
		for (const line of text.split('\n')) {
			if (line.startsWith('event: ')) kind = line.slice(7);
			else if (line.startsWith('data: ')) data = line.slice(6);
		}
		if (!data) return;
		const body = JSON.parse(data);
		/** @param {Listener} one @param {string} what @param {any} about */
		const pass = (one, what, about) => {
			const all = out.get(one.client) ?? [];
			all.push({to: one.id, kind: what, data: about});
			out.set(one.client, all);
		};
		for (const one of this.listeners()) {
			const after = one.after.get(body.runId);
			switch (kind) {
			case '':
				if (after === undefined || body.event.seq <= after) break;
				if (body.event.seq) one.after.set(body.runId, body.event.seq);
				pass(one, 'event', rounds(data) ? data : body.event); // a port would round it
				break;
			case 'reset':
				if (after === undefined || after === body.next) break;
				one.after.set(body.runId, body.next);
				pass(one, 'reset', {seq: body.next});
				break;
			case 'end':
				if (one.after.delete(body.runId)) pass(one, 'end', body.phase ?? '');
				this.asked = ''; // who wants the run from now on gets a new stream
				break;
			case 'run':
				if (one.wish.list) pass(one, kind, body);
				break;
			case 'lists':
				if (one.wish.list || one.wish.inbox) pass(one, kind, body);
				break;
			case 'inbox':
				if (one.wish.inbox) pass(one, kind, body);
			}
		}
		if (kind === '' && body.event.seq) this.sent.set(body.runId, body.event.seq);
		else if (kind === 'reset') this.sent.set(body.runId, body.next);
	}

	/** Tells all tabs what keeps the stream from going on. @param {number} status @param {string} text */
	tell(status, text) {
		if (status === this.trouble.status && text === this.trouble.text) return;
		this.trouble = {status, text};
		for (const client of this.clients.keys()) client.send({kind: 'trouble', data: text, status});
	}
}
