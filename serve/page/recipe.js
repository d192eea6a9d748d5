// The recipes, and one of them: its plan, its text, and the form that starts it.
import {get, may, useLoaded} from './api.js';
import {ago, between, length, spent} from './format.js';
import {Graph, Source, Start} from './later.js';
import {watchRuns} from './live.js';
import {Empty, Moment, State, Tabs, Trouble, useKeys} from './parts.js';
import {go, here, place, ref, setQuery} from './place.js';
import {html, useEffect, useState} from './ui.js';

/** @typedef {import('./types').RecipeEntry} Entry */
/** @typedef {import('./types').RecipeView} View */

const mostRuns = 20;

/** @param {Entry} one @param {string} level */
const countOf = (one, level) => one.diagnostics.filter((/** @type {any} */ d) => d.level === level).length;

/** Whether the newest version compiles, with the counts of its diagnostics. @param {{of: Entry}} props */
function Valid({of}) {
	const [errors, warnings] = [countOf(of, 'error'), countOf(of, 'warn')];
	const counts = [errors && `${errors} ${errors === 1 ? 'error' : 'errors'}`, warnings && `${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`].filter(Boolean);
	const [name, sign] = of.valid ? (warnings ? ['waiting', '⚠'] : ['ok', '✓']) : ['failed', '✗'];
	return html`<span class="state ${name}"><span class="sign" aria-hidden="true">${sign}</span>${[of.valid ? 'valid' : 'invalid', ...counts].join(', ')}</span>`;
}

/** What begins runs. @param {{of: Entry}} props */
function Begins({of}) {
	const all = [...of.schedules.map((one) => `${one.name}: ${one.cron}${one.zone === 'UTC' ? '' : ` ${one.zone}`}`), ...of.triggers.map((name) => `trigger ${name}`)];
	return html`${all.map((text) => html`<div class="nowrap">${text}</div>`)}`;
}

/** Reads something again when runs change. @param {() => void} reload */
function useRunsChange(reload) {
	useEffect(() => watchRuns(reload), [reload]);
}

export function Recipes() {
	const {value, problem, reload} = useLoaded((signal) => get(['recipes'], {}, signal), 'recipes');
	useRunsChange(reload);
	const text = place.value.query.get('find') ?? '';
	/** @type {Entry[]} */
	const list = (value?.recipes ?? []).filter((/** @type {Entry} */ one) => `${one.name} ${one.description ?? ''}`.toLowerCase().includes(text.toLowerCase()));
	const [now, setNow] = useState(-1);
	const open = () => list[now] && go(ref(['recipes', list[now].name]));
	useKeys({j: () => setNow(Math.min(now + 1, list.length - 1)), k: () => setNow(Math.max(now - 1, 0)), Enter: open});
	return html`<main id="main" tabindex="-1"><h1>Recipes</h1>
		<${Trouble} of=${problem} />
		${value && html`<div class="row tools"><input type="search" placeholder="Name or description" aria-label="Filter the recipes" value=${text}
			onInput=${(/** @type {any} */ event) => setQuery({find: event.target.value})} /></div>`}
		${list.length > 0 && html`<div class="scroll" tabindex="0" role="group" aria-label="Recipes"><table class="recipes"><thead><tr><th>Recipe</th><th>State</th><th>Description</th><th>Begins by</th><th>Last run</th></tr></thead>
			<tbody>${list.map((one, i) => html`<tr key=${one.name} class=${i === now ? 'now' : ''}>
				<td><a href=${ref(['recipes', one.name])}>${one.name}</a>${one.version && html` <span class="soft">${one.version}</span>`}</td>
				<td><${Valid} of=${one} /></td><td dir="auto">${one.description}</td><td class="soft"><${Begins} of=${one} /></td>
				<td class="nowrap">${one.last && html`<a href=${ref(['runs', one.last.runId])}><${State} of=${one.last.phase} /></a> <${Moment} at=${one.last.startedAt} />`}</td>
			</tr>`)}</tbody></table></div>`}
		${value && !list.length && html`<${Empty}>${value.recipes.length ? 'No recipe has this in its name or description.' : 'The server was started without recipes.'}<//>`}
	</main>`;
}

/** What was read last: the same object as long as nothing changed, so that a form is not rendered anew. */
let kept = {text: '', value: /** @type {any} */ (null)};

/** @param {string} name @param {AbortSignal} signal @returns {Promise<View>} */
async function load(name, signal) {
	const value = await get(['recipes', name], {}, signal);
	const text = JSON.stringify(value, (key, v) => (key === 'next' ? undefined : v));
	if (text !== kept.text) kept = {text, value};
	return kept.value;
}

/** @param {{name: string}} props */
export function Recipe({name}) {
	const {value: recipe, problem, reload} = useLoaded((signal) => load(name, signal), name);
	useEffect(() => { // the file may have been edited meanwhile
		addEventListener('focus', reload);
		return () => removeEventListener('focus', reload);
	}, [reload]);
	const {path, query} = place.value;
	const tab = path[2] ?? 'plan';
	if (!recipe) return html`<main id="main" tabindex="-1"><h1>${name}</h1><${Trouble} of=${problem} /></main>`;
	const to = (/** @type {string} */ part) => ref(['recipes', name, part], {again: query.get('again'), step: query.get('step')});
	const begins = recipe.schedules.length + recipe.triggers.length;
	return html`<main id="main" tabindex="-1" class="recipe">
		<h1>${recipe.name}${recipe.version && html` <span class="soft">${recipe.version}</span>`}</h1>
		<div class="row"><${Valid} of=${recipe} />${recipe.digest && html`<code class="soft" title=${recipe.digest}>${recipe.digest.slice(0, 19)}</code>`}</div>
		${recipe.description && html`<p dir="auto">${recipe.description}</p>`}
		<${Trouble} of=${problem} />
		${!recipe.valid && html`<p class="trouble">The newest text does not compile. ${recipe.digest ? 'The plan and new runs are of the last version that did.' : 'It cannot be started.'}
			<a href=${to('source')}>What is wrong</a></p>`}
		<div class="split"><div class="view">
			<${Tabs} label="Views of the recipe" now=${tab} all=${[{name: 'plan', text: 'Plan'}, {name: 'source', text: recipe.diagnostics.length ? `Source ${recipe.diagnostics.length}` : 'Source'},
				{name: 'inputs', text: 'Inputs'}, {name: 'runs', text: 'Last runs'}, {name: 'begins', text: begins ? `Schedules, triggers ${begins}` : 'Schedules, triggers'}]
				.map((one) => ({...one, href: to(one.name)}))} />
			<${Part} recipe=${recipe} tab=${tab} /></div>
			${recipe.digest && may('start') && html`<aside class="starts"><${Start} recipe=${recipe} /></aside>`}</div>
	</main>`;
}

/** @param {{recipe: View, tab: string}} props */
function Part({recipe, tab}) {
	switch (tab) {
	case 'source': return html`<${Source} recipe=${recipe} />`;
	case 'inputs': return html`<${Inputs} schema=${recipe.inputs} />`;
	case 'runs': return html`<${LastRuns} name=${recipe.name} />`;
	case 'begins': return html`<${Schedules} recipe=${recipe} />`;
	}
	if (!recipe.digest) return html`<${Empty}>There is no plan: no version compiles.<//>`;
	const at = place.value.query.get('step') ?? '';
	return html`<${PlanStep} steps=${recipe.plan?.steps ?? []} at=${at} />
		<${Graph} digest=${recipe.digest} steps=${none} at=${at} pick=${(/** @type {string} */ step) => setQuery({step})} />`;
}

/** @type {any[]} */
const none = [];

/** A step of the plan in words. @param {{steps: any[], at: string}} props */
function PlanStep({steps, at}) {
	const find = (/** @type {any[]} */ list) => {
		/** @type {any} */
		let found;
		for (const one of list) found ??= one.id === at ? one : at.startsWith(`${one.id}/`) ? find(one.body ?? []) : undefined;
		return found;
	};
	const step = at && find(steps);
	if (!step) return null;
	return html`<dl class="facts"><dt>Step</dt><dd><code dir="auto">${step.id}</code></dd><dt>uses</dt><dd><code>${step.uses}</code></dd>
		${step.needs.length > 0 && html`<dt>needs</dt><dd>${step.needs.map((/** @type {any} */ e) => html`<a href=${here({step: e.step})}>${e.step}</a> `)}</dd>`}
		${step.when && html`<dt>when</dt><dd><code dir="auto">${step.when}</code></dd>`}
		${step.foreach && html`<dt>foreach</dt><dd>once for each item</dd>`}
		${step.finally && html`<dt>finally</dt><dd>however the others end</dd>`}
		${step.body && html`<dt>inside</dt><dd>${step.body.length} steps</dd>`}</dl>`;
}

/** @param {{schema: any}} props */
function Inputs({schema}) {
	const names = Object.keys(schema?.properties ?? {});
	if (!names.length) return html`<${Empty}>It has no inputs.<//>`;
	const show = (/** @type {any} */ v) => (v === undefined ? '' : html`<code dir="auto">${JSON.stringify(v)}</code>`);
	return html`<div class="scroll" tabindex="0" role="group" aria-label="Inputs"><table><thead><tr><th>Input</th><th>Type</th><th>Default</th><th>Description</th></tr></thead><tbody>${names.map((name) => {
		const one = schema.properties[name];
		const type = one.enum ? one.enum.map((/** @type {any} */ v) => JSON.stringify(v)).join(' | ') : [one.type ?? 'any'].flat().join(' | ');
		return html`<tr key=${name}><td><code>${name}</code>${schema.required?.includes(name) && html` <span class="soft">required</span>`}</td><td>${type}${one.format && html` <span class="soft">${one.format}</span>`}</td>
			<td>${show(one.default)}</td><td dir="auto">${one.description}</td></tr>`;
	})}</tbody></table></div>`;
}

/** @param {{name: string}} props */
function LastRuns({name}) {
	const {value, problem, reload} = useLoaded((signal) => get(['runs'], {recipe: name, limit: mostRuns}, signal), name);
	useRunsChange(reload);
	/** @type {import('./types').Run[]} */
	const runs = value?.runs ?? [];
	return html`<${Trouble} of=${problem} />${runs.length > 0 && html`<div class="scroll" tabindex="0" role="group" aria-label="Last runs"><table><thead><tr><th>State</th><th>Run</th><th>Started</th><th>Lasts</th><th>By</th><th>Used</th><th>Error</th></tr></thead>
		<tbody>${runs.map((run) => html`<tr key=${run.runId}><td><${State} of=${run.phase} /></td><td class="mono"><a href=${ref(['runs', run.runId])}>${run.runId}</a></td>
			<td class="nowrap"><${Moment} at=${run.startedAt} /></td><td class="num nowrap">${length(between(run.startedAt, run.endedAt))}</td><td>${run.by}</td><td class="nowrap">${spent(run.usage)}</td><td dir="auto">${run.error?.message}</td></tr>`)}</tbody></table></div>
		<p><a href=${ref(['runs'], {recipe: name})}>All runs of ${name}</a></p>`}${value && !runs.length && html`<${Empty}>It has not run yet.<//>`}`;
}

/** @param {{recipe: View}} props */
function Schedules({recipe}) {
	const {schedules, triggers} = recipe;
	if (!schedules.length && !triggers.length) return html`<${Empty}>Nothing begins runs of it but people and programs.<//>`;
	return html`${schedules.length > 0 && html`<table><thead><tr><th>Schedule</th><th>Cron</th><th>Zone</th><th>Next</th></tr></thead><tbody>${schedules.map((one) => html`<tr key=${one.name}>
		<td>${one.name}</td><td><code>${one.cron}</code></td><td>${one.zone}</td><td><${Moment} at=${one.next} /> <span class="soft">${ago(one.next)}</span></td></tr>`)}</tbody></table>`}
		${triggers.length > 0 && html`<h2>Triggers</h2><ul>${triggers.map((name) => html`<li key=${name}>${name}: <code>POST /api/v1/hooks/${name}</code></li>`)}</ul>`}`;
}
