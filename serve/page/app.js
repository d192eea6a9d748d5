// The page: who is logged in, which screen shows, and what all screens have around them.
import {get, may, me, online, post, Problem} from './api.js';
import {InboxCount} from './count.js';
import {Answer, Compare, Fork, Inbox, Recipe, Recipes, Run, Runs} from './later.js';
import {trouble} from './live.js';
import {Login} from './login.js';
import {Dialog, useKeys} from './parts.js';
import {go, place, ref, replace} from './place.js';
import {effect, html, render, useErrorBoundary, useLayoutEffect, useRef, useState} from './ui.js';

/** The keys that work on every screen, and those of the screens, for the help. */
const help = [
	['g r', 'runs'], ['g i', 'inbox'], ['g c', 'recipes'], ['/', 'search'], ['j, k', 'next, previous'], ['Enter', 'open'],
	['x', 'mark'], ['n', 'show new runs'], ['?', 'this help'], ['1 … 6', 'of a run: its views'], ['Escape', 'of a run: close the step'],
	['+, -, 0', 'of a plan: larger, smaller, all of it'], ['n, p', 'of a plan: next, previous step'], ['c, p', 'of JSON: copy the value, the path'],
];

/** The screen of a place. @param {{at: import('./place.js').Place}} props */
function Screen({at}) {
	const [name, id, part] = at.path;
	switch (name ?? home()) {
	case 'inbox': return html`<${Inbox} />`;
	case 'recipes': return id ? html`<${Recipe} key=${id} name=${id} />` : html`<${Recipes} />`;
	case 'compare': return html`<${Compare} />`;
	case 'runs':
		if (id && part === 'fork') return html`<${Fork} key=${id} id=${id} />`;
		if (id) return html`<${Run} key=${id} id=${id} tab=${part ?? 'graph'} />`;
		return html`<${Runs} />`;
	}
	return html`<main id="main" tabindex="-1"><h1>There is no such screen</h1><p><a href="#/">Begin here</a></p></main>`;
}

/** The first screen: who may not look at runs has the inbox. */
const home = () => (may('read') || !may('answer') ? 'runs' : 'inbox');

/** Says what failed in a screen. Another place begins anew. @param {{at: import('./place.js').Place}} props */
function Guard({at}) {
	const [problem, again] = useErrorBoundary();
	useLayoutEffect(() => again(), [at]);
	if (!problem) return html`<${Screen} at=${at} />`;
	return html`<main id="main" tabindex="-1"><h1>This screen failed</h1>
		<p>It is a fault of the page, not of the run. Other screens work.</p>
		<pre>${String(problem?.stack ?? problem)}</pre><p><button type="button" onClick=${again}>Try again</button></p></main>`;
}

/** @param {{close: () => void}} props */
function Help({close}) {
	return html`<${Dialog} title="Keys" close=${close}><dl class="keys">${help.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl><//>`;
}

/** What is wrong with the connection, if anything. */
function Banner() {
	const text = !online.value ? 'The server cannot be reached, or cannot use its store. Trying again…'
		: trouble.value ? `Nothing is live now: ${trouble.value}` : '';
	return html`<div class="banner" role="status" hidden=${!text}>${text}</div>`;
}

/** The name of a place, for the title of the tab. @param {string[]} path */
function title([name, id]) {
	const screen = name ?? home();
	return `${id ?? screen[0].toUpperCase() + screen.slice(1)} · Braise`;
}

/** @param {{problem?: Problem}} props problem: why the link of the URL does not log in */
function App({problem}) {
	const [helps, setHelps] = useState(false);
	const at = place.value;
	const who = me.value;
	const path = [at.path[0] ?? home(), at.path[1] ?? '', at.path[2] === 'fork' ? 'fork' : ''];
	const before = useRef('');
	useKeys({
		'g r': () => go(ref(['runs'])), 'g i': () => go(ref(['inbox'])), 'g c': () => go(ref(['recipes'])),
		'?': () => setHelps(true),
		'/': () => /** @type {HTMLElement | null} */ (document.querySelector('[type=search]'))?.focus(),
	});
	useLayoutEffect(() => { // another screen: its beginning is read out, and has the focus
		document.title = who ? title(at.path) : 'Braise';
		const now = who ? path.join('/') : '';
		if (before.current && now && before.current !== now) {
			scrollTo(0, 0);
			/** @type {HTMLElement | null} */ (document.querySelector('main'))?.focus({preventScroll: true});
		}
		before.current = now;
	}, [who, ...path]);
	const link = (/** @type {string} */ name, /** @type {any} */ text) => html`<a href=${ref([name])} aria-current=${path[0] === name ? 'page' : undefined}>${text}</a>`;
	const leave = async () => {
		await post(['logout']).catch(() => {});
		me.value = null;
	};
	return html`
		<header class="top">
			<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => {
				event.preventDefault();
				/** @type {HTMLElement | null} */ (document.querySelector('main'))?.focus();
			}}>Skip to the content</a>
			<strong>Braise</strong>
			${who && html`<nav aria-label="Screens">${may('read') && link('runs', 'Runs')}${may('read', 'answer') && link('inbox', html`Inbox <${InboxCount} />`)}${
				may('read') && link('recipes', 'Recipes')}</nav>`}
			<span class="space"></span>
			${who && html`<span class="who">${who.name}</span><button type="button" class="quiet" onClick=${leave}>Log out</button>`}
			<button type="button" class="quiet" onClick=${() => setHelps(true)} aria-label="Keys">?</button>
		</header>
		<${Banner} />
		${who ? html`<${Guard} at=${at} key=${path.join('/')} />` : html`<${Login} problem=${problem} />`}
		${helps && html`<${Help} close=${() => setHelps(false)} />`}`;
}

/** Begins: by the link of one pause, by a login link, or as who the cookie names. */
async function begin() {
	const root = /** @type {HTMLElement} */ (document.getElementById('app'));
	const [, kind, token] = location.hash.match(/^#(login|answer)=(.+)$/) ?? [];
	if (kind === 'answer') {
		render(html`<${Answer} token=${decodeURIComponent(token)} />`, root);
		addEventListener('hashchange', () => location.reload());
		return;
	}
	if (kind === 'login') replace(ref([]));
	/** @type {Problem | undefined} */
	let problem;
	const enter = async () => {
		try {
			me.value = await (kind === 'login' ? post(['login'], {token: decodeURIComponent(token)}) : get(['me']));
		} catch (err) {
			if (err instanceof Problem && err.status === 0) online.value = false;
			else if (err instanceof Problem && kind) problem = err;
		}
	};
	await enter();
	render(html`<${App} problem=${problem} />`, root);
	let was = online.value;
	effect(() => {
		if (online.value && !was && !me.peek()) enter(); // the server can be reached again
		was = online.value;
	});
}

addEventListener('hashchange', () => {
	if (/^#(login|answer)=/.test(location.hash)) location.reload();
});
begin();
