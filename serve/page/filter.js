// Which runs the list has: all of it is in the URL.
import {get, me, useLoaded} from './api.js';
import {go, place, ref, setQuery} from './place.js';
import {html, useEffect, useId, useRef, useState} from './ui.js';

/**
 * @typedef {object} Filter
 * @property {string} phase '': any
 * @property {string} recipe
 * @property {string[]} label each key=value
 * @property {string} q the beginning of the id
 * @property {string} from a time of the API
 * @property {string} to
 * @property {string} queue
 * @property {string} parent
 */

/** The filter of the present place. Who may see some recipes only sees those of one at a time. @returns {Filter} */
export function filterOf() {
	const {query} = place.value;
	const one = (/** @type {string} */ name) => query.get(name) ?? '';
	const only = me.value?.recipes ?? [];
	return {
		phase: one('phase'), recipe: one('recipe') || (only.length > 1 ? only[0] : ''), label: query.getAll('label'), q: one('q'),
		from: one('from'), to: one('to'), queue: one('queue'), parent: one('parent'),
	};
}

/** Whether a filter lets a run through. @param {Filter} f @param {import('./types').Run} run */
export function lets(f, run) {
	const at = Date.parse(run.startedAt);
	return (!f.phase || f.phase === run.phase) && (!f.recipe || f.recipe === run.recipe) && run.runId.startsWith(f.q)
		&& f.label.every((text) => run.labels?.[text.slice(0, text.indexOf('='))] === text.slice(text.indexOf('=') + 1))
		&& (!f.from || at >= Date.parse(f.from)) && (!f.to || at < Date.parse(f.to))
		&& (!f.queue || f.queue === run.queue) && (!f.parent || f.parent === run.parent);
}

/** The time of the API of what a field for local times has, and the other way round. @param {string} text */
const utc = (text) => (text ? new Date(text).toISOString() : '');
/** @param {string} text */
const local = (text) => {
	const at = new Date(text);
	return Number.isNaN(at.getTime()) ? '' : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

/**
 * A field of the filter. What is typed takes effect after a moment; what changes elsewhere shows unless it is typed in.
 * @param {{label: string, value: string, set: (text: string) => void, type?: string, hint?: string, list?: string[]}} props
 */
function Field({label, value, set, type, hint, list}) {
	const [text, setText] = useState(value);
	const said = useRef(value);
	const timer = useRef(0);
	const id = useId();
	useEffect(() => {
		if (value !== said.current) {
			clearTimeout(timer.current);
			setText(value);
		}
		said.current = value;
	}, [value]);
	useEffect(() => () => clearTimeout(timer.current), []);
	const say = (/** @type {string} */ now) => {
		clearTimeout(timer.current);
		if (now.trim() === said.current) return;
		said.current = now.trim();
		set(said.current);
	};
	return html`<label>${label} <input type=${type ?? 'text'} value=${text} placeholder=${hint} list=${list && id} autocomplete="off"
		spellcheck=${false} onInput=${(/** @type {any} */ event) => {
			const now = event.target.value;
			setText(now);
			clearTimeout(timer.current);
			timer.current = setTimeout(() => say(now), 300);
		}} onChange=${(/** @type {any} */ event) => say(event.target.value)} />${
		list && html`<datalist id=${id}>${list.map((one) => html`<option value=${one} />`)}</datalist>`}</label>`;
}

/** The fields of the filter. @param {{filter: Filter}} props */
export function FilterBar({filter}) {
	const recipes = useLoaded((signal) => get(['recipes'], {}, signal), '').value?.recipes.map((/** @type {any} */ one) => one.name);
	const set = (/** @type {string} */ name) => (/** @type {any} */ value) => setQuery({[name]: value, after: undefined});
	const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {object} */ more) => html`<${Field} label=${label}
		value=${/** @type {any} */ (filter)[name]} set=${set(name)} ...${more} />`;
	const rest = filter.from || filter.to || filter.queue || filter.parent;
	const any = rest || filter.recipe || filter.q || filter.label.length > 0;
	return html`<form class="filter row" role="search" aria-label="Runs" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
		${field('q', 'Id', {type: 'search', hint: '01a2…'})}
		${me.value?.recipes
		? html`<label>Recipe <select value=${filter.recipe} onChange=${(/** @type {any} */ event) => set('recipe')(event.target.value)}>${
			me.value.recipes.map((name) => html`<option>${name}</option>`)}</select></label>`
		: field('recipe', 'Recipe', {list: recipes ?? []})}
		<${Field} label="Labels" value=${filter.label.join(' ')} hint="customer=4711" set=${(/** @type {string} */ text) => set('label')(text.split(/\s+/).filter(Boolean))} />
		<details open=${!!rest || undefined}><summary>More</summary><div class="row">
			${['from', 'to'].map((name) => html`<${Field} key=${name} label=${name === 'from' ? 'Started from' : 'Started before'} type="datetime-local"
				value=${local(/** @type {any} */ (filter)[name])} set=${(/** @type {string} */ text) => set(name)(utc(text))} />`)}
			${field('queue', 'Queue', {})}${field('parent', 'Forks of', {hint: 'id of a run'})}
		</div></details>
		${any && html`<button type="button" class="quiet" onClick=${() => go(ref(['runs'], {phase: filter.phase}))}>Clear</button>`}
	</form>`;
}
