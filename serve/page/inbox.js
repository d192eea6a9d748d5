// What waits for people: the list, the pause that is open, and one answer for many.
import {get, may, post, Problem, useLoaded} from './api.js';
import {pausesOf, useWatch} from './count.js';
import {ago, byItself, planID, titleOf} from './format.js';
import {Empty, Left, State, Tabs, Trouble, useKeys} from './parts.js';
import {Asked, Decide} from './pause.js';
import {place, ref, replace, setQuery} from './place.js';
import {html, useEffect, useLayoutEffect, useRef, useState} from './ui.js';

/** @typedef {import('./types').Pause} Pause */

/** @param {{runId: string, id?: string, pause?: string}} p */
const keyOf = (p) => `${p.runId}/${p.id ?? p.pause}`;

/** Two pauses that can have one answer have the same. @param {Pause} p */
const likeness = (p) => JSON.stringify([p.recipe, planID(p.step), p.kind, p.reason, p.decisions, p.schema]);

/** @param {{pause: Pause, now: boolean, gone: boolean, mark?: {on: boolean, off: boolean, set: () => void}, href: string, opened: () => void}} props */
function Row({pause, now, gone, mark, href, opened}) {
	const ends = pause.expiresAt ?? pause.retryAt;
	return html`<li class=${gone ? 'gone' : ''} aria-current=${now ? 'true' : undefined}>
		${mark && html`<input type="checkbox" checked=${mark.on} disabled=${mark.off || gone} onChange=${mark.set} aria-label=${`Mark ${titleOf(pause)}`} />`}
		<a href=${href} onClick=${opened}><${State} of=${gone ? 'succeeded' : 'waiting'} brief /><bdi>${titleOf(pause)}</bdi>
		<span class="soft"><bdi>${pause.recipe} · ${pause.step}</bdi> · ${ago(pause.createdAt)}${ends && html` · <${Left} at=${ends} />`}</span></a></li>`;
}

/** The pause that is open. It stays, with its draft, whatever becomes of it. @param {{runId: string, id: string, changed: () => void, next: any, named: () => void}} props named: the heading is there; next: a link to another one */
function Open({runId, id, changed, next, named}) {
	const loaded = useLoaded((signal) => get(['runs', runId, 'pauses', id], {}, signal), '');
	const [answer, setAnswer] = useState(/** @type {string | undefined} */ (undefined));
	const kept = useRef(/** @type {Pause | undefined} */ (undefined));
	const said = useRef(/** @type {HTMLElement | null} */ (null));
	useWatch(loaded);
	useEffect(() => {
		if (answer !== undefined) said.current?.focus();
	}, [answer]);
	if (loaded.value && loaded.value.question !== kept.current?.question) kept.current = loaded.value;
	const pause = kept.current;
	useLayoutEffect(named, [!pause, !loaded.problem]);
	if (!pause) return html`${loaded.problem ? html`<h2 tabindex="-1">${id}</h2><${Over} of=${loaded.problem} />` : html`<${Empty}>Loading…<//>`}`;
	const run = may('read') && html`<a href=${ref(['runs', runId], {step: pause.step})}>${runId}</a>`;
	const over = [404, 409].includes(loaded.problem?.status ?? 0);
	return html`<h2 tabindex="-1" dir="auto">${titleOf(pause)}</h2><${Asked} pause=${pause} run=${run} />
		${answer !== undefined ? html`<div class="said" role="status" tabindex="-1" ref=${said}>Your answer${answer && html` <strong>${answer}</strong>`} is recorded.${run && html` <a href=${ref(['runs', runId])}>See the run</a>`}${
			next}</div>`
		: html`${loaded.problem && html`<${Over} of=${loaded.problem} />`}
			<div hidden=${over}>${may('answer') ? html`<${Decide} key=${pause.question} pause=${pause} send=${async (/** @type {any} */ body) => {
				await post(['runs', runId, 'pauses', id, 'answer'], body).catch((err) => {
					if (err.status === 409) loaded.reload();
					throw err;
				});
			}} done=${(/** @type {string} */ decision) => {
				setAnswer(decision);
				changed();
			}} />` : html`<p class="hint">To answer takes the role answer.</p>`}</div>`}`;
}

/** Why there is nothing to answer: calmly, if somebody was quicker. @param {{of: import('./api.js').Problem}} props */
const Over = ({of}) => (of.status === 409 || of.status === 404
	? html`<div class="said" role="status"><p>${of.message}</p></div>` : html`<${Trouble} of=${of} />`);

/** One answer for many pauses. @param {{pauses: Pause[], changed: () => void, close: () => void}} props */
function Many({pauses, changed, close}) {
	const [results, setResults] = useState(/** @type {import('./types').BulkResult[]} */ ([]));
	const all = useRef(pauses);
	if (!results.length) all.current = pauses;
	const list = all.current;
	return html`<h2 tabindex="-1">Decide ${list.length} alike</h2><ul class="many">${list.map((p) => {
		const result = results.find((one) => keyOf(one) === keyOf(p));
		return html`<li key=${keyOf(p)}><bdi>${titleOf(p)}</bdi> <span class="soft"><bdi>${p.runId}</bdi></span> ${result && html`<${State} of=${result.error ? 'failed' : 'succeeded'} /> ${result.error?.message}`}</li>`;
	})}</ul>
	${results.length ? html`<p class="said" role="status">${results.filter((one) => !one.error).length} of ${results.length} answers are recorded.</p>`
		: html`<${Decide} pause=${list[0]} many=${list.length} done=${changed} send=${async (/** @type {any} */ {question, ...body}) => {
			const sent = await post(['bulk'], {do: 'answer', ...body, pauses: list.map((p) => ({runId: p.runId, pause: p.id, question: p.question}))});
			const [first] = sent.results;
			if (sent.results.every((/** @type {any} */ one) => one.error?.code === 'answer.unfit')) throw new Problem(422, first);
			setResults(sent.results);
		}} />`}<button type="button" onClick=${close}>Back to one</button>`;
}

/** The list as it shows: while the pointer is on it, nothing moves. @param {Pause[] | undefined} loaded @param {string} query */
function useCalm(loaded, query) {
	const [shown, setShown] = useState({query, rows: loaded ?? []});
	const [over, setOver] = useState(false);
	useEffect(() => {
		if (loaded && (!over || query !== shown.query || !shown.rows.length)) setShown({query, rows: loaded});
	}, [loaded, over, query]);
	const there = new Set((loaded ?? []).map(keyOf));
	const before = new Set(shown.rows.map(keyOf));
	return {
		rows: shown.rows, gone: (/** @type {Pause} */ p) => !!loaded && !there.has(keyOf(p)),
		fresh: (loaded ?? []).filter((p) => !before.has(keyOf(p))).length,
		apply: () => loaded && setShown({query, rows: loaded}),
		hold: {onPointerEnter: () => setOver(true), onPointerLeave: () => setOver(false)},
	};
}

export function Inbox() {
	const here = place.value.query;
	const filter = {kind: here.get('kind') ?? '', recipe: here.get('recipe') ?? ''};
	const everyone = here.has('all') || !may('answer');
	const sort = here.get('sort') ?? 'expiring';
	const at = here.get('at') ?? '';
	const query = {...filter, sort, mine: everyone ? undefined : true};
	const list = useLoaded((signal) => pausesOf(query, signal), JSON.stringify(query));
	useWatch(list);
	const calm = useCalm(list.value?.pauses, JSON.stringify(query));
	const [marked, setMarked] = useState(/** @type {string[]} */ ([]));
	const [together, setTogether] = useState({at: '', pauses: /** @type {Pause[]} */ ([])});
	const pane = useRef(/** @type {HTMLElement | null} */ (null));
	const chosen = useRef(''); // the pause whose heading is to have the focus when it is there
	const rows = calm.rows;
	const to = (/** @type {Pause} */ p) => ref(['inbox'], {...filter, all: here.get('all'), sort: here.get('sort'), at: keyOf(p)});
	const index = rows.findIndex((p) => keyOf(p) === at);
	const near = useRef(0);
	if (index >= 0) near.current = index;
	const many = together.at === at ? together.pauses : [];
	const show = (/** @type {string} */ key, /** @type {Pause[]} */ pauses = []) => {
		chosen.current = key;
		setTogether({at, pauses});
	};
	const named = () => {
		const heading = /** @type {HTMLElement | null | undefined} */ (pane.current?.querySelector('h2'));
		if (!heading || chosen.current !== at) return;
		chosen.current = '';
		if (!document.activeElement?.matches('select, textarea, input:not([type=checkbox])')) heading.focus();
	};
	useLayoutEffect(named, [together]);
	const move = (/** @type {number} */ by) => {
		const i = index >= 0 ? index + by : at && by > 0 ? near.current : 0;
		const row = rows[Math.max(0, Math.min(rows.length - 1, i))];
		if (!row) return;
		show(matchMedia('(max-width: 760px)').matches ? keyOf(row) : ''); // there the list goes
		replace(to(row));
		/** @type {HTMLElement | undefined} */ (document.querySelectorAll('.pauses a')[rows.indexOf(row)])?.focus();
	};
	const toggle = (/** @type {Pause} */ p) => setMarked((old) => (old.includes(keyOf(p)) ? old.filter((one) => one !== keyOf(p)) : [...old, keyOf(p)]));
	const open = rows.filter((p) => !calm.gone(p) && !byItself(p));
	const picked = open.filter((p) => marked.includes(keyOf(p)));
	const model = picked[0] ?? open.find((p) => keyOf(p) === at);
	const alike = model ? open.filter((p) => likeness(p) === likeness(model)) : [];
	const deciding = picked.length > 1 ? picked : alike;
	const next = open.find((p) => keyOf(p) !== at);
	useKeys({
		j: () => move(1), k: () => move(-1),
		x: () => {
			if (index >= 0 && alike.includes(rows[index])) toggle(rows[index]);
		},
	});
	const cut = at.indexOf('/');
	const recipes = [...new Set([...rows.map((p) => p.recipe), filter.recipe])].filter(Boolean).sort();
	const choose = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ all, /** @type {string} */ now) => html`<label>
		<span class="hidden">${label}</span><select value=${now} onChange=${(/** @type {any} */ event) => setQuery({[name]: event.currentTarget.value})}>
		${all.map(([v, text]) => html`<option value=${v}>${text}</option>`)}</select></label>`;
	const tab = (/** @type {boolean} */ all) => ref(['inbox'], {...filter, sort: here.get('sort'), all: all && 1, at});
	return html`<main id="main" tabindex="-1" class="inbox"><h1>Inbox</h1>
		<div class="row">${may('answer') && html`<${Tabs} label="Whose" now=${everyone ? 'all' : 'mine'} all=${[
			{name: 'mine', href: tab(false), text: 'Waiting for me'}, {name: 'all', href: tab(true), text: 'Everyone'},
		]} />`}
			${choose('kind', 'Kind', [['', 'all kinds'], ['human', 'people'], ['external', 'events'], ['system', 'system']], filter.kind)}
			${choose('recipe', 'Recipe', [['', 'all recipes'], ...recipes.map((one) => /** @type {[string, string]} */ ([one, one]))], filter.recipe)}
			${choose('sort', 'Order', [['', 'expiring first'], ['newest', 'newest first']], sort === 'newest' ? sort : '')}</div>
		<${Trouble} of=${list.problem} />
		<div class="two ${at ? 'open' : ''}">
			<section class="list" aria-label="Pauses" ...${calm.hold}>
				<p class="row head"><span role="status" class="soft">${list.value ? `${list.value.pauses.length}${list.value.more ? '+' : ''} waiting` : 'Loading…'}</span>
					${calm.fresh > 0 && html`<button type="button" onClick=${calm.apply}>${calm.fresh} new</button>`}
					${may('answer') && deciding.length > 1 && html`<button type="button" onClick=${() => {
						setMarked(deciding.map(keyOf));
						show(at, deciding);
					}}>Decide ${deciding.length} alike…</button>`}</p>
				<ul class="pauses">${rows.map((p) => html`<${Row} key=${keyOf(p)} pause=${p} now=${keyOf(p) === at} gone=${calm.gone(p)} href=${to(p)} opened=${() => show(keyOf(p))}
					mark=${may('answer') && {on: marked.includes(keyOf(p)), off: byItself(p) || (picked.length > 0 && !alike.includes(p)), set: () => toggle(p)}} />`)}</ul>
				${list.value && !rows.length && html`<${Empty}>${everyone ? 'No run waits for anybody.' : 'Nothing waits for you.'}<//>`}
			</section>
			<section class="pane" aria-label="Pause" ref=${pane}>
				${at && html`<a class="back" href=${ref(['inbox'], {...filter, sort: here.get('sort'), all: here.get('all')})}>← all</a>`}
				${many.length > 1 ? html`<${Many} pauses=${many} changed=${() => {
					setMarked([]);
					list.reload();
				}} close=${() => show(at)} />`
				: cut > 0 ? html`<${Open} key=${at} runId=${at.slice(0, cut)} id=${at.slice(cut + 1)} changed=${list.reload}
					named=${named} next=${next && html` <a href=${to(next)} onClick=${() => show(keyOf(next))}>Next</a>`} />`
				: html`<${Empty}>Choose a pause. <kbd>j</kbd> and <kbd>k</kbd> go through the list.<//>`}
			</section>
		</div></main>`;
}
