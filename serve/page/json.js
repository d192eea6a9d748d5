// JSON as a tree that folds.
import {isExact} from './exact.js';
import {size} from './format.js';
import {Act, Copy, Text, download} from './parts.js';
import {html, useState} from './ui.js';

const piece = 100; // members that show at first; each press of the button shows as many again

/**
 * @param {{value: any, open?: number, label?: string}} props open: how many levels are unfolded at first. Defaults to 2.
 *   Strings over 2 kB are shown when asked for; paths and values can be copied. Arrow keys move, fold and unfold; c
 *   copies the value, p the path.
 */
export function Json({value, open = 2, label = 'JSON'}) {
	return html`<div class="json" role="tree" aria-label=${label} onKeyDown=${move}><${Node} value=${value} path="" depth=${0} open=${open} /></div>`;
}

/** Moves between the rows of a tree. @param {KeyboardEvent} event */
function move(event) {
	const tree = /** @type {HTMLElement} */ (event.currentTarget);
	const at = /** @type {HTMLElement} */ (event.target).closest('[role=treeitem]');
	if (!at || event.ctrlKey || event.altKey || event.metaKey) return;
	const rows = /** @type {HTMLElement[]} */ ([...tree.querySelectorAll('[role=treeitem]')]);
	const press = (/** @type {string} */ what) => /** @type {HTMLElement | null} */ (at.querySelector(`:scope > .line ${what}`))?.click();
	const unfolded = at.getAttribute('aria-expanded');
	const i = rows.indexOf(/** @type {any} */ (at));
	/** @type {Record<string, () => void>} */
	const keys = {
		ArrowDown: () => rows[i + 1]?.focus(), ArrowUp: () => rows[i - 1]?.focus(),
		Home: () => rows[0].focus(), End: () => rows[rows.length - 1].focus(),
		ArrowRight: () => (unfolded === 'false' ? press('.fold') : rows[i + 1]?.focus()),
		ArrowLeft: () => (unfolded === 'true' ? press('.fold')
			: /** @type {HTMLElement | null | undefined} */ (at.parentElement?.closest('[role=treeitem]'))?.focus()),
		c: () => press('.copy.value'), p: () => press('.copy.path'),
	};
	if (event.key === 'Enter' && event.target === at) press('.fold');
	else if (Object.hasOwn(keys, event.key)) keys[event.key]();
	else return;
	event.preventDefault();
	event.stopPropagation();
}

/**
 * The path of a member, as expressions have it.
 * @param {string} path @param {string | number} name
 */
const within = (path, name) =>
	typeof name === 'number' ? `${path}[${name}]` : /^[A-Za-z_]\w*$/.test(name) ? `${path && path + '.'}${name}` : `${path}[${JSON.stringify(name)}]`;

/** @param {any} value */
export const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? '');

/** @param {{name?: string | number, value: any, path: string, depth: number, open: number}} props */
function Node({name, value, path, depth, open}) {
	const list = Array.isArray(value);
	const holds = value !== null && typeof value === 'object' && !isExact(value);
	const members = holds ? (list ? value.length : Object.keys(value).length) : 0;
	const [unfolded, setUnfolded] = useState(depth < open);
	const [shown, setShown] = useState(piece);
	const fold = () => setUnfolded(!unfolded);
	const shows = unfolded && members > 0;
	const names = shows ? (list ? [...Array(Math.min(shown, members)).keys()] : Object.keys(value).slice(0, shown)) : [];
	return html`<div role="treeitem" tabindex=${depth ? -1 : 0} aria-level=${depth + 1} aria-expanded=${members ? unfolded : undefined}>
		<div class="line">
			<span class="fold" aria-hidden="true" onClick=${members ? fold : undefined}>${members ? (unfolded ? '▾' : '▸') : ''}</span>
			${name !== undefined && html`<span class="key" onClick=${members ? fold : undefined}><${Text} of=${String(name)} />:</span> `}
			${holds ? html`<span class="soft" onClick=${members ? fold : undefined}>${list ? `[${members || ''}]` : members ? `{${members}}` : '{}'}</span>` : html`<${Scalar} value=${value} />`}
			<span class="copies"><${Copy} class="value" label="Copy the value" text=${() => text(value)} />${
				path && html`<${Copy} class="path" label="Copy the path" text=${() => path}>path<//>`}</span>
		</div>
		${shows && html`<div role="group">${names.map((one) => html`<${Node} key=${one} name=${one} value=${value[one]} path=${within(path, one)}
			depth=${depth + 1} open=${open} />`)}${members > shown && html`<button type="button" class="quiet more"
			onClick=${() => setShown(shown + piece)}>… ${members - shown} more</button>`}</div>`}
	</div>`;
}

/** @param {{value: any}} props */
function Scalar({value}) {
	if (typeof value !== 'string') return html`<span class="scalar">${isExact(value) ? value.rawJSON : String(value)}</span>`;
	return html`<span class="string">“<${Text} of=${value} />”</span>`;
}

/**
 * A value that may be too large to come with the rest: then it comes when it is asked for.
 * @param {{value: any, bytes?: number, load: () => Promise<any>, name: string}} props bytes: of JSON, of one that is left
 *   out; name: of the file that it can be saved as
 */
export function Value({value, bytes, load, name}) {
	const [loaded, setLoaded] = useState(/** @type {{value: any} | null} */ (null));
	if (bytes === undefined) return html`<${Json} value=${value} label=${name} />`;
	const read = async () => {
		const got = loaded ?? {value: await load()};
		setLoaded(got);
		return got.value;
	};
	return html`<p class="row"><span class="soft">${size(bytes)} of JSON</span>${!loaded && html`<${Act} do=${read}>Show<//>`}<${Act}
		do=${async () => download(`${name}.json`, await read())}>Download<//></p>${
		loaded && html`<${Json} value=${loaded.value} open=${1} label=${name} />`}`;
}
