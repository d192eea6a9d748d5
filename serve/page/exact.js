// JSON without a loss: a number that JavaScript would round stays the text that it is.

/** @type {any} */
const exactly = JSON;

/** The value of the text of a number. @param {string} text */
export function number(text) {
	const near = Number(text);
	return String(near) === text || !exactly.rawJSON ? near : exactly.rawJSON(text);
}

/** Reads JSON. @param {string} text @returns {any} */
export const parse = (text) => exactly.parse(text, (/** @type {string} */ _, /** @type {any} */ v, /** @type {any} */ at) =>
	(typeof v === 'number' && at?.source ? number(at.source) : v));

/** Whether JSON of a server may have a number that JavaScript would round: one of 16 digits. @param {string} text */
export const rounds = (text) => /[:,[\s]-?\d{16}/.test(text);

/** Reads JSON of a server. @param {string} text @returns {any} */
export const read = (text) => (rounds(text) ? parse(text) : JSON.parse(text)); // that is much faster

/** Whether something is a number that parse kept as its text. @param {any} v @returns {boolean} */
export const isExact = (v) => !!exactly.isRawJSON?.(v);
