// Where the user is. All of it is in the fragment of the URL: #/runs/r-01/trace?step=draft
import {signal} from './ui.js';

/**
 * @typedef {object} Place
 * @property {string[]} path decoded segments: ['runs', 'r-01', 'trace']
 * @property {URLSearchParams} query
 */

/** The place that the URL has by now; the browser tells of a change a little later. @returns {Place} */
export function read() {
	const text = location.hash.startsWith('#/') ? location.hash.slice(2) : '';
	const cut = text.indexOf('?');
	const path = (cut < 0 ? text : text.slice(0, cut)).split('/').filter(Boolean).map((part) => {
		try {
			return decodeURIComponent(part);
		} catch {
			return part;
		}
	});
	return {path, query: new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1))};
}

/** The present place. */
export const place = signal(read());

addEventListener('hashchange', () => {
	place.value = read();
});

/**
 * The reference to a place: ref(['runs', id], {step: 'draft'}). Members that are undefined, null, false or '' are left
 * out; a list gives a member several times.
 * @param {string[]} path
 * @param {Record<string, unknown>} [query]
 */
export function ref(path, query) {
	const all = new URLSearchParams();
	for (const [name, value] of Object.entries(query ?? {})) {
		for (const one of Array.isArray(value) ? value : [value]) {
			if (one !== undefined && one !== null && one !== false && one !== '') all.append(name, String(one));
		}
	}
	const text = all.toString();
	return '#/' + path.map(encodeURIComponent).join('/') + (text && '?' + text);
}

/**
 * The reference to a place with other members of its query; undefined removes one.
 * @param {Record<string, unknown>} changes @param {Place} [of] none: the present place
 */
export const here = (changes, {path, query} = place.value) =>
	ref(path, {...Object.fromEntries([...query.keys()].map((name) => [name, query.getAll(name)])), ...changes});

/** Go to a place: a new entry of the browser's history. @param {string} to */
export function go(to) {
	location.hash = to;
}

/** Change the present place without a new entry of the history. @param {string} to */
export function replace(to) {
	history.replaceState(null, '', to);
	place.value = read();
}

/**
 * Change members of the query of the present place; undefined removes one.
 * @param {Record<string, unknown>} changes
 */
export function setQuery(changes) {
	replace(here(changes, read()));
}
