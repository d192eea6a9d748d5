// The shared worker: all tabs of a browser have one stream.
import {Hub} from './stream.js';

/** @type {Hub | null} */
let hub = null;

/** Who gets the lock of this name knows that the worker is gone. Without locks, nobody learns it. */
const lock = `braise-worker-${Math.random()}`;
/** @type {Promise<unknown>} */
const held = new Promise((yes) => {
	navigator.locks?.request(lock, () => {
		yes(null);
		return new Promise(() => {});
	});
});

/** @param {MessageEvent} event */
const connected = (event) => {
	const port = event.ports[0];
	const client = {send: (/** @type {any} */ message) => port.postMessage(message)};
	held.then(() => client.send({kind: 'lock', data: lock}));
	port.onmessage = ({data}) => {
		hub ??= new Hub(data.base);
		const now = hub;
		if (data.lock) navigator.locks.request(data.lock, () => now.leave(client)); // the tab is closed, or crashed
		else if (data.gone) now.leave(client);
		else if (data.who !== undefined) now.login(client, data.who);
		else now.want(client, data.id, data.wish);
	};
};
/** @type {any} */ (self).onconnect = connected;
