// The plan of a run, or of a recipe, as a live picture.
import {get, useLoaded} from './api.js';
import {Canvas} from './canvas.js';
import {planID} from './format.js';
import {State, Trouble, useKeys} from './parts.js';
import {place, setQuery} from './place.js';
import {Rows} from './rows.js';
import {has, sumUp, urgentOf} from './states.js';
import {html, useMemo, useRef} from './ui.js';

/** @typedef {{id: string, uses: string, body?: PlanStep[]}} PlanStep */

const mostOpen = 60; // as the server has it: bodies of larger plans begin folded
const mostSeen = 600; // steps; of a picture with more, the neighbourhood of one is shown
const nothing = '.'; // no step has this name

/** All steps of a plan, each before those of its body. @param {PlanStep[]} steps @returns {PlanStep[]} */
const flat = (steps) => steps.flatMap((step) => [step, ...flat(step.body ?? [])]);

/** How many steps a picture has. @param {PlanStep[]} steps @param {string[]} open @returns {number} */
function seen(steps, open) {
	return steps.reduce((n, {id, body}) => n + 1 + (body && open.some((one) => one === id || one.startsWith(`${id}/`)) ? seen(body, open) : 0), 0);
}

/**
 * The picture is laid out by the server. States of steps change classes; nothing moves. The direction, what is
 * unfolded, whose neighbourhood is shown, and what is searched are in the URL.
 * @param {{digest: string, steps: import('./types').HistoryStep[], at?: string, pick: (step: string) => void}} props
 *   steps: [] for a recipe; at: the path of the step that is picked; pick is called with the path in the plan
 */
export function Graph({digest, steps, at: path, pick}) {
	const {query} = place.value;
	const at = path && planID(path);
	const dir = query.get('dir') === 'LR' ? 'LR' : 'TB';
	const open = (query.get('open') ?? '').split(',').filter(Boolean);
	const around = query.get('around') ?? '';
	const find = query.get('find') ?? '';
	const {value: plan, problem} = useLoaded((signal) => get(['plans', digest], {}, signal), digest);
	const all = useMemo(() => flat(plan?.steps ?? []), [plan]);
	const ids = useMemo(() => new Set(all.map((step) => step.id)), [all]);
	const sums = useMemo(() => sumUp(steps), [steps]);

	const many = plan && seen(plan.steps, open.length || all.length > mostOpen ? open : [...ids]) > mostSeen;
	const first = useRef(''); // stays: nothing moves while a run goes on
	if (many && !ids.has(first.current)) first.current = at && ids.has(at) ? at : urgentOf([...ids], sums) || all[0].id;
	const centre = ids.has(around) ? around : many && around !== '*' ? first.current : '';
	const wish = {draw: 'json', dir, open: open.filter((one) => one === nothing || ids.has(one)), around: centre, hops: centre ? query.get('hops') ?? '' : ''};
	const drawn = useLoaded(async (signal) => plan && get(['plans', digest], wish, signal), JSON.stringify([digest, wish, !!plan]));
	const last = useRef(/** @type {any} */ (null));
	last.current = drawn.value ?? last.current;
	const drawing = /** @type {import('./types').DrawingDrawing | null} */ (last.current);

	const opened = (drawing?.nodes ?? []).filter((n) => n.kind === 'body' && !n.folded).map((n) => n.id);
	/** @param {string} id */
	const fold = (id) => {
		const left = opened.filter((one) => one !== id && !one.startsWith(`${id}/`));
		const next = opened.includes(id) ? left : [...opened, id];
		setQuery({open: next.join() || nothing});
	};
	/** Shows a step wherever it is. @param {string} id */
	const choose = (id) => {
		const body = id.slice(0, Math.max(0, id.lastIndexOf('/')));
		if (centre) setQuery({around: id});
		else if (body && !opened.includes(body)) setQuery({open: [...opened, body].join()});
		pick(id);
	};
	const canvas = useRef(/** @type {import('./canvas.js').Handle | null} */ (null));
	const zoom = (/** @type {number} */ by) => canvas.current?.zoom(by);
	const fit = () => canvas.current?.fit();
	useKeys({'+': () => zoom(1.3), '=': () => zoom(1.3), '-': () => zoom(1 / 1.3), 0: fit,
		n: () => canvas.current?.next(1), p: () => canvas.current?.next(-1)});

	const listed = useMemo(() => all.filter((step) => has(step.id, find)), [all, find]);
	if (!drawing) return html`<div class="graph"><${Trouble} of=${problem ?? drawn.problem} /></div>`;
	return html`<div class="graph">
		<div class="row tools" role="group" aria-label="Picture">
			<button type="button" title="All of it (0)" onClick=${fit}>Fit</button>
			<button type="button" aria-label="Larger" title="Larger (+)" onClick=${() => zoom(1.3)}>+</button>
			<button type="button" aria-label="Smaller" title="Smaller (-)" onClick=${() => zoom(1 / 1.3)}>−</button>
			<button type="button" title="Where the edges lead" onClick=${() => setQuery({dir: dir === 'LR' ? undefined : 'LR'})}>${dir === 'LR' ? 'Top to bottom' : 'Left to right'}</button>
			${centre ? html`<button type="button" onClick=${() => setQuery({around: many ? '*' : undefined})}>All ${ids.size} steps</button>
				<span class="soft">around <code dir="auto">${centre}</code></span>`
			: many && html`<button type="button" onClick=${() => setQuery({around: at || undefined})}>Neighbourhood</button>`}
			${!centre && !many && at && ids.has(at) && drawing.nodes.length > 12 && html`<button type="button" onClick=${() => setQuery({around: at})}>Only around ${at}</button>`}
			<input type="search" class="find" placeholder="Find a step" aria-label="Find a step" value=${find}
				onInput=${(/** @type {any} */ event) => setQuery({find: event.target.value})}
				onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === 'Enter' && listed[0] && choose(listed[0].id)} />
			<${Trouble} of=${drawn.problem} />
		</div>
		<div class="pane">
			${(find || many) && html`<nav class="found" aria-label="Steps">
				<p class="soft">${listed.length} of ${all.length} steps</p>
				<${Rows} all=${listed} height=${26} label="Steps" at=${listed.findIndex((step) => step.id === at)} row=${(/** @type {PlanStep} */ step, /** @type {number} */ _, /** @type {any} */ style) => html`<button
					key=${step.id} style=${style} type="button" class="quiet" title=${step.id} aria-current=${step.id === at ? 'true' : undefined} onClick=${() => choose(step.id)}>${
					sums.has(step.id) && html`<${State} of=${sums.get(step.id)?.state} brief />`}<span dir="auto">${step.id}</span></button>`} />
			</nav>`}
			<${Canvas} drawing=${drawing} sums=${sums} at=${at} pick=${pick} fold=${fold} handle=${canvas} />
		</div>
	</div>`;
}
