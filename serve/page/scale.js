// The scale of the times of a run: long waits are folded.

/** A stretch of time; width is its share of the axis. @typedef {{from: number, to: number, folded: boolean, at: number, width: number}} Stretch */

const longest = 5 * 60_000; // a wait beyond this is folded
const foldShare = 0.04; // of what is not folded

/** What only waits. */
const waits = ['human', 'wait', 'receive'];

/** @param {string | undefined} text */
const ms = (text) => (text ? Date.parse(text) : NaN);

/** When a step ended, in ms; one that runs or waits has not ended yet. @param {import('./types').HistoryStep} step @param {number} now */
export const endOf = (step, now) => (step.endedAt ? ms(step.endedAt) : step.status === 'running' || step.status === 'waiting' ? now : ms(step.startedAt));

/**
 * The stretches of a run, from its start to its end, or to now. Where no execution worked, or all steps waited, for
 * over five minutes, time is folded.
 * @param {import('./types').RunView} run @param {number} now in ms
 */
export function stretches(run, now) {
	const begin = ms(run.startedAt);
	let end = run.endedAt ? ms(run.endedAt) : now;
	const outer = new Set(run.steps.flatMap((step) => step.step.split('/').map((_, i, parts) => parts.slice(0, i).join('/').replace(/#\d+$/, ''))));
	const executions = run.executions.length ? run.executions.map((one) => [ms(one.from), one.to ? ms(one.to) : end]) : [[begin, end]];
	/** When something worked, and moments when something happened. @type {[number, number][]} */
	const busy = [[begin, begin]];
	for (const [from, to] of executions) busy.push([from, from], [to, to]);
	for (const step of run.steps) {
		if (!step.startedAt) continue;
		const from = ms(step.startedAt);
		const to = endOf(step, now);
		end = Math.max(end, to);
		busy.push([from, from], [to, to]);
		if (step.status === 'waiting' || waits.includes(step.uses ?? '') || outer.has(step.step)) continue;
		for (const [a, z] of executions) if (a < to && from < z) busy.push([Math.max(a, from), Math.min(z, to)]);
	}
	busy.push([end, end]);
	busy.sort((a, b) => a[0] - b[0]);
	/** @type {Stretch[]} */
	const list = [];
	let from = begin;
	let reached = begin;
	for (const [a, z] of busy) {
		if (a - reached > longest) {
			if (reached > from) list.push({from, to: reached, folded: false, at: 0, width: 0});
			list.push({from: reached, to: a, folded: true, at: 0, width: 0});
			from = a;
		}
		reached = Math.max(reached, z);
	}
	list.push({from, to: Math.max(reached, from + 1), folded: false, at: 0, width: 0});
	const work = list.reduce((sum, one) => sum + (one.folded ? 0 : one.to - one.from), 0);
	let at = 0;
	for (const one of list) {
		one.at = at;
		one.width = one.folded ? Math.max(work, 1) * foldShare : one.to - one.from;
		at += one.width;
	}
	return list;
}

/** Where a time is on the axis. @param {Stretch[]} list @param {number} t in ms */
export function position(list, t) {
	const one = list.find(({to}) => t <= to) ?? list[list.length - 1];
	return one.at + Math.min(1, Math.max(0, (t - one.from) / (one.to - one.from))) * one.width;
}

/** The time at a place of the axis. @param {Stretch[]} list @param {number} at */
export function timeAt(list, at) {
	const one = list.find((s) => at <= s.at + s.width) ?? list[list.length - 1];
	return one.from + Math.min(1, Math.max(0, (at - one.at) / one.width)) * (one.to - one.from);
}

const second = 1000;
const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400].map((s) => s * second)];

/** Round times to write on an axis, at most so many. @param {Stretch[]} list @param {number} from @param {number} to @param {number} most */
export function ticks(list, from, to, most) {
	const begin = list[0].from;
	const span = position(list, to) - position(list, from);
	const step = steps.find((s) => span / s <= most) ?? steps[steps.length - 1] * Math.ceil(span / most / steps[steps.length - 1]);
	const all = [];
	for (const one of list) {
		if (one.folded) continue;
		const last = Math.min(one.to, to);
		for (let t = begin + Math.ceil((Math.max(one.from, from) - begin) / step) * step; t <= last; t += step) all.push(t);
	}
	return all;
}
