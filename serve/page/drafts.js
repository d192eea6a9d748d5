// What somebody has typed and not sent. It lives as long as the tab, so that no reload loses it. No token is ever in it.

const prefix = 'braise:';

/** @param {string} key @returns {any} undefined: there is none */
export function draft(key) {
	try {
		return JSON.parse(sessionStorage.getItem(prefix + key) ?? '') ?? undefined;
	} catch {
		return undefined;
	}
}

/** @param {string} key @param {any} what undefined removes it */
export function keep(key, what) {
	try {
		if (what === undefined) sessionStorage.removeItem(prefix + key);
		else sessionStorage.setItem(prefix + key, JSON.stringify(what));
	} catch {
		// The storage is full, or switched off: the draft lasts until the page is left.
	}
}

/** The key of a body: the same one as long as the body is the same and nothing has come of it. @param {string} at @param {string} body */
export function keyOf(at, body) {
	const last = draft(at);
	if (last?.body === body) return last.key;
	const key = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
	keep(at, {body, key});
	return key;
}
