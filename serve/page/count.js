// The pending pauses that somebody may see, and how many wait for them.
import {get, may, me, useLoaded} from './api.js';
import {watchPauses} from './live.js';
import {html, useEffect} from './ui.js';

const most = 200;

/**
 * The pauses of a query, up to most of them. Who sees some recipes only asks for each.
 * @param {Record<string, unknown>} query @param {AbortSignal} [signal]
 */
export async function pausesOf(query, signal) {
	/** @type {import('./types').Pause[]} */
	const all = [];
	let more = false;
	const recipes = query.recipe ? [query.recipe] : me.value?.recipes ?? [undefined];
	for (const recipe of recipes) {
		let after;
		for (let pages = 0; pages < 10; pages++) {
			const {pauses, next} = await get(['pauses'], {...query, recipe, limit: 100, after}, signal);
			all.push(...pauses);
			after = next;
			if (!next || all.length >= most) break;
		}
		more ||= !!after;
	}
	const order = (/** @type {import('./types').Pause} */ p) => (query.sort === 'expiring' ? p.expiresAt ?? '9' : p.createdAt);
	if (recipes.length > 1) all.sort((a, b) => (query.sort === 'expiring' ? 1 : -1) * order(a).localeCompare(order(b)));
	return {pauses: all, more};
}

/** @param {{reload: () => void}} loaded */
export const useWatch = ({reload}) => useEffect(() => watchPauses(reload), [reload]);

/** How many pauses this person may answer, beside the link to the inbox. */
export function InboxCount() {
	const list = useLoaded((signal) => (may('answer') ? pausesOf({mine: true}, signal) : Promise.resolve({pauses: [], more: false})), me.value?.name ?? '');
	useWatch(list);
	const n = list.value?.pauses.length ?? 0;
	return n ? html`<span class="badge">${n}${list.value?.more ? '+' : ''}<span class="hidden"> waiting for you</span></span>` : null;
}
