// What is loaded when it is first shown, or when somebody is about to follow a link to it.
import {base} from './api.js';
import {draft, keep} from './drafts.js';
import {h, html, useEffect, useLayoutEffect, useRef, useState} from './ui.js';

/** @type {{at: RegExp, read: () => Promise<void>}[]} */
const all = [];

/** What a file lacks shows in its place, with a button to try again; beginning anew gets the files of one version. */
const anew = () => fetch(new URL('../../livez', base)).then(() => location.reload(), () => {});

const fresh = 5000; // ms after which the server may have been upgraded since the page came

/**
 * Whether the server still has the files that fit those which are here. If not, and somebody waits for one, the page
 * begins anew, as its state is in the URL; once a minute at most, for servers may be of several versions.
 * @param {boolean} waits
 */
async function fits(waits) {
	if (performance.now() < fresh) return true;
	const {status} = await fetch(new URL('here', import.meta.url)).catch(() => ({status: 0}));
	if (status !== 410) return true;
	if (!waits) return false;
	if (Date.now() - (draft('anew') ?? 0) < 60_000) return true;
	keep('anew', Date.now());
	location.reload();
	return new Promise(() => {});
}

/**
 * A component of a module that is not loaded yet.
 * @param {() => Promise<any>} load @param {string} name of the component
 * @param {RegExp} at the fragments of links that lead to it @param {boolean} [screen] whether it is a whole screen
 * @returns {any}
 */
function later(load, name, at, screen) {
	/** @type {any} */
	let Part = null;
	const read = async (waits = false) => {
		if (!Part && await fits(waits)) Part = (await load())[name];
	};
	all.push({at, read});
	return (/** @type {any} */ props) => {
		const [state, setState] = useState(Part ? 'read' : '');
		const focused = useRef(false);
		useEffect(() => {
			if (state) return;
			read(true).then(() => {
				focused.current = document.activeElement?.id === 'main';
				setState('read');
			}, () => setState('failed'));
		}, []);
		useLayoutEffect(() => { // the screen that comes has the focus of its place
			if (focused.current && screen) document.getElementById('main')?.focus({preventScroll: true});
		}, [state]);
		if (Part) return html`<${Part} ...${props} />`;
		return h(screen ? 'main' : 'section', screen ? {id: 'main', tabIndex: -1} : null, state === 'failed'
			? html`<div class="trouble" role="alert"><strong>A part of the page could not be loaded.</strong>
				<p><button type="button" onClick=${anew}>Try again</button></p></div>` : html`<p class="soft">Reading…</p>`);
	};
}

const run = String.raw`^#/runs/[^/?]+`;
/** A tab of a run. @param {string} name @param {() => Promise<any>} load */
const tab = (name, load) => later(load, name, new RegExp(`${run}/${name.toLowerCase()}`));

export const Answer = later(() => import('./answer.js'), 'Answer', /^#answer=/, true);
export const Runs = later(() => import('./runs.js'), 'Runs', /^(#\/(runs)?(\?.*)?)?$/, true);
export const Run = later(() => import('./run.js'), 'Run', new RegExp(`${run}(/(?!fork)|\\?|$)`), true);
export const Fork = later(() => import('./fork.js'), 'Fork', new RegExp(`${run}/fork`), true);
export const Compare = later(() => import('./compare.js'), 'Compare', /^#\/compare/, true);
export const Inbox = later(() => import('./inbox.js'), 'Inbox', /^#\/inbox/, true);
export const Recipes = later(() => import('./recipe.js'), 'Recipes', /^#\/recipes/, true);
export const Recipe = later(() => import('./recipe.js'), 'Recipe', /^#\/recipes/, true);

export const Graph = later(() => import('./graph.js'), 'Graph', new RegExp(String.raw`(${run}(/graph)?|^#/recipes/[^/?]+(/plan)?)(\?|$)`));
export const Time = tab('Time', () => import('./time.js'));
export const Steps = tab('Steps', () => import('./steps.js'));
export const Trace = tab('Trace', () => import('./trace.js'));
export const Result = tab('Result', () => import('./result.js'));
export const Detail = later(() => import('./detail.js'), 'Detail', new RegExp(`${run}/.*[?&]step=`));
export const StepEvents = later(() => import('./trace.js'), 'StepEvents', /[?&]part=events/);
export const Talk = later(() => import('./talk.js'), 'Talk', /[?&]part=talk/);
export const Source = later(() => import('./source.js'), 'Source', /^#\/recipes\/[^/?]+\/source/);
export const Start = later(() => import('./start.js'), 'Start', /^#\/recipes\/./);

/** Loads what a place shows. @param {string} hash */
function ahead(hash) {
	for (const {at, read} of all) if (at.test(hash)) read().catch(() => {}); // it says so where it is shown
}

/** @param {Event} event */
const near = ({target}) => {
	const link = target instanceof Element && /** @type {HTMLAnchorElement | null} */ (target.closest('a[href^="#"]'));
	if (link) ahead(link.hash);
};
addEventListener('pointerover', near);
addEventListener('focusin', near);
addEventListener('hashchange', () => ahead(location.hash));
ahead(location.hash);
