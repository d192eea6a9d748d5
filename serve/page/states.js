// How far the steps of a plan are, summed up over items and rounds.
import {planID} from './format.js';

/**
 * @typedef {object} Sum
 * @property {string} state of the step: the worst of its states
 * @property {string} text how often it is there, if that is not once: 37/40, 1 ✗
 */

/** The states that show first, if a step has several. */
const order = ['failed', 'waiting', 'running', 'cancelled', 'pending', 'succeeded', 'skipped'];

/** What is best looked at first. */
const urgent = ['failed', 'waiting', 'running'];

/** @param {Map<string, number>} counts */
const worst = (counts) => order.find((state) => counts.get(state)) ?? 'pending';

/** @param {Map<string, number>} counts @param {boolean} items */
function text(counts, items) {
	let all = 0;
	for (const n of counts.values()) all += n;
	if (!items && all < 2) return '';
	const failed = counts.get('failed') ?? 0;
	const waiting = counts.get('waiting') ?? 0;
	return (items ? `${counts.get('succeeded') ?? 0}/${all}` : `×${all}`) +
		(failed ? `, ${failed} ✗` : '') + (waiting ? `, ${waiting} ‖` : '');
}

/**
 * Sums up steps by their paths in the plan. The state of a foreach is its own, the counts are those of its items.
 * @param {import('./types').HistoryStep[]} steps @returns {Map<string, Sum>}
 */
export function sumUp(steps) {
	/** @type {Map<string, {own: Map<string, number>, items: Map<string, number>}>} */
	const all = new Map();
	/** The foreach that is listed last. */
	let outer = '';
	for (const step of steps) {
		const id = planID(step.step);
		const one = all.get(id) ?? {own: new Map(), items: new Map()};
		all.set(id, one);
		for (const [state, n] of Object.entries(step.items ?? {})) one.items.set(state, n + (one.items.get(state) ?? 0));
		const inside = outer !== '' && id.startsWith(`${outer}/`);
		if (step.items && !inside) outer = id;
		if (!step.items || !inside) one.own.set(step.status, 1 + (one.own.get(step.status) ?? 0));
	}
	const sums = new Map();
	for (const [id, {own, items}] of all) {
		const counts = items.size ? items : own;
		sums.set(id, {state: worst(own.size ? own : items), text: text(counts, items.size > 0)});
	}
	return sums;
}

/**
 * The first of some steps that failed, else that waits, else that runs; '' if there is none. Of a step and those in its
 * body it is the innermost.
 * @param {string[]} ids in plan order @param {Map<string, Sum>} sums
 */
export function urgentOf(ids, sums) {
	for (const state of urgent) {
		let found = '';
		for (const id of ids) {
			if (sums.get(id)?.state === state && (!found || id.startsWith(`${found}/`))) found = id;
		}
		if (found) return found;
	}
	return '';
}

/** Whether a text is found in another one; the case does not count. @param {string} text @param {string} wanted */
export const has = (text, wanted) => text.toLowerCase().includes(wanted.toLowerCase());
