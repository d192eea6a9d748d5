// Forms of JSON Schemas: scalars, enums, formats, lists, objects three deep; else JSON as text.
import {Problem} from './api.js';
import {draft as drafted, keep} from './drafts.js';
import {added, bounds, draftOf, field, options, placed, read} from './fields.js';
import {Trouble} from './parts.js';
import {html, useEffect, useLayoutEffect, useMemo, useRef, useState} from './ui.js';

/** @typedef {import('./fields.js').Field} Field */
/** @typedef {{typed: () => void, shaped: () => void, wrong: Map<Field, string[]>}} Around */

/** The error for what is no value at all, in the shape of those of the server. @param {import('./fields.js').Wrong[]} wrong */
export const misfit = (wrong) => new Problem(422, {error: {message: 'the form is not complete'}, diagnostics: wrong});

/** What went wrong with what was sent; what is at its field is only counted. @param {{of?: Problem}} props */
export function Refusal({of}) {
	const n = of?.diagnostics.filter((one) => one.data?.path !== undefined).length;
	if (!n) return html`<${Trouble} of=${of} />`;
	return html`<div class="trouble" role="alert"><strong>${n === 1 ? 'One field needs' : `${n} fields need`} a correction.</strong></div>`;
}

/** @param {string} name */
const label = (name) => (typeof name === 'string' ? name : JSON.stringify(name));

/** What is typed, chosen or ticked. @param {{of: Field, id: string, about: string, around: Around}} props */
function Control({of, id, about, around}) {
	const s = of.schema;
	const set = (/** @type {any} */ event) => {
		of.text = event.currentTarget.value;
		of.own = true;
		around.typed();
	};
	const common = {
		id, onInput: set, disabled: of.nil, 'aria-invalid': around.wrong.has(of) ? 'true' : undefined,
		'aria-describedby': about, 'aria-required': of.required ? 'true' : undefined, dir: 'auto',
	};
	if (of.kind === 'choice') {
		const all = options(s) ?? [];
		if ('const' in s && of.required) return html`<code id=${id}>${label(s.const)}</code>`;
		if (all.length <= 4 && (of.required || s.default !== undefined)) {
			return html`<span class="row" role="radiogroup" aria-labelledby=${`${id}-l`} aria-describedby=${about}>${all.map((one, i) => html`<label class="pick"><input
				type="radio" ...${common} id=${i ? `${id}-${i}` : id} name=${id} value=${i} checked=${of.text === String(i)} />${label(one)}</label>`)}</span>`;
		}
		return html`<select ...${common} value=${of.text}><option value="">–</option>${all.map((one, i) => html`<option value=${i}>${label(one)}</option>`)}</select>`;
	}
	const long = of.kind === 'json' || s.maxLength > 200 || ['text', 'markdown'].includes(s.format) || /\n/.test(of.text);
	if (long) return html`<textarea ...${common} rows=${Math.min(16, Math.max(4, of.text.split('\n').length + 1))} value=${of.text} spellcheck=${of.kind !== 'json'} class=${of.kind === 'json' ? 'mono' : ''} />`;
	const type = /** @type {Record<string, string>} */ ({date: 'date', email: 'email', uri: 'url'})[s.format] ?? 'text';
	return html`<input ...${common} type=${of.kind === 'time' ? 'datetime-local' : type} step=${of.kind === 'time' ? 1 : undefined}
		inputmode=${of.kind === 'number' ? (s.type === 'integer' && !(s.minimum < 0) ? 'numeric' : 'decimal') : undefined} value=${of.text} />`;
}

/** The items of a list, which can be moved. @param {{of: Field, id: string, around: Around}} props */
function Items({of, id, around}) {
	const box = useRef(/** @type {HTMLElement | null} */ (null));
	const next = useRef(/** @type {(() => HTMLElement | null | undefined) | null} */ (null));
	useLayoutEffect(() => {
		next.current?.()?.focus();
		next.current = null;
	});
	/** @param {Field[]} items @param {() => HTMLElement | null | undefined} focus what has the focus then */
	const change = (items, focus) => {
		of.items = items;
		of.own = true;
		next.current = focus;
		around.shaped();
	};
	const move = (/** @type {number} */ from, /** @type {number} */ to) => (/** @type {any} */ event) => {
		if (to < 0 || to >= of.items.length) return;
		const items = [...of.items];
		items.splice(to, 0, ...items.splice(from, 1));
		const button = event.currentTarget;
		change(items, () => button);
	};
	return html`<div ref=${box}><ol class="items">${of.items.map((one, i) => html`<li key=${one.id}>
			<${Part} of=${one} name=${String(i + 1)} around=${around} />
			<span class="row"><button type="button" class="quiet" aria-disabled=${!i} onClick=${move(i, i - 1)} aria-label=${`Move item ${i + 1} up`}>↑</button>
			<button type="button" class="quiet" aria-disabled=${i === of.items.length - 1} onClick=${move(i, i + 1)} aria-label=${`Move item ${i + 1} down`}>↓</button>
			<button type="button" class="quiet" onClick=${() => change(of.items.filter((other) => other !== one), () => box.current?.querySelector(':scope > button'))}
				aria-label=${`Remove item ${i + 1}`}>×</button></span></li>`)}</ol>
		<button type="button" id=${id} onClick=${() => change([...of.items, added(of)], () => box.current?.querySelector(
			':scope > ol > li:last-child :is(input, select, textarea, button)'))}>Add</button></div>`;
}

/** A field with its label, what is said about it, and what is wrong with it. @param {{of: Field, name: string, around: Around}} props */
function Part({of, name, around}) {
	const [, again] = useState(0);
	const id = `f${of.id}`;
	const s = of.schema ?? {};
	const wrong = around.wrong.get(of);
	const about = [
		s.description, ...bounds(s), of.kind === 'json' && of.schema !== undefined && 'as JSON',
		['text', 'number', 'time'].includes(of.kind) && s.default != null && s.default !== '' && `default: ${label(s.default)}`,
	].filter(Boolean).join(' · ');
	const head = html`${s.title ?? name}${of.required && !of.item ? html`<span class="must" title="required"> *</span>` : ''}`;
	const nil = of.nullable && html`<label class="pick"><input type="checkbox" checked=${of.nil} onChange=${(/** @type {any} */ event) => {
		of.nil = event.currentTarget.checked;
		of.own = true;
		around.typed();
		again((n) => n + 1);
	}} />null</label>`;
	const said = html`<p class="hint" id=${`${id}-a`} dir="auto">${about}</p>${wrong && html`<p class="wrong" id=${`${id}-w`} dir="auto">${wrong.join('; ')}</p>`}`;
	const ids = `${id}-a${wrong ? ` ${id}-w` : ''}`;
	if (of.kind !== 'object' && of.kind !== 'list') {
		const group = of.kind === 'choice';
		return html`<div class="field"><span class="row"><${group ? 'span' : 'label'} class="name" id=${`${id}-l`} for=${group ? undefined : id}>${head}<//>${nil}</span>
			<${Control} of=${of} id=${id} about=${ids} around=${around} />${said}</div>`;
	}
	const fields = of.fields.map(([part, one]) => html`<${Part} key=${part} of=${one} name=${part} around=${around} />`);
	const folds = of.kind === 'object' && !of.required && !of.item && s.required?.length; // all of it or nothing
	return html`<fieldset class="field" tabindex=${wrong ? -1 : undefined} aria-invalid=${wrong ? 'true' : undefined} aria-describedby=${ids}><legend class="name">${head}</legend>${nil}${said}
		${!of.nil && (of.kind === 'list' ? html`<${Items} of=${of} id=${id} around=${around} />`
		: folds ? html`<details open=${of.own}><summary>Fill in</summary>${fields}</details>` : fields)}</fieldset>`;
}

/**
 * A form for a value of a schema. It renders its fields once and never again while it is typed in: give it another key
 * for another form.
 * @param {{schema: any, value?: any, changed: (value: any, wrong: import('./fields.js').Wrong[]) => void, problem?: Problem,
 *   name?: string, label?: string, draft?: string}} props changed is called with the value (undefined: there is none) and
 *   what is no value at all, at first too; name is the member of the body whose errors are shown here; draft is where what
 *   is typed is kept until keep(draft, undefined), "" or none: nowhere
 */
export function Form({schema, value, changed, problem, name = 'value', label: title = name, draft}) {
	const [root, setRoot] = useState(() => field(schema, value, draft ? drafted(draft) : undefined, {required: true}));
	const [restored, setRestored] = useState(() => draft !== undefined && drafted(draft) !== undefined);
	const [shape, setShape] = useState(0);
	const box = useRef(/** @type {HTMLElement | null} */ (null));
	const tell = (/** @type {Field} */ of) => {
		/** @type {import('./fields.js').Wrong[]} */
		const wrong = [];
		changed(read(of, `/${name}`, wrong), wrong);
	};
	useEffect(() => tell(root), [root]);
	useEffect(() => {
		if (problem) /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector('[aria-invalid=true]'))?.focus();
	}, [problem]);
	const now = useRef(tell);
	now.current = tell;
	const body = useMemo(() => {
		/** @type {Around} */
		const around = {
			typed: () => {
				if (draft) keep(draft, draftOf(root));
				now.current(root);
			},
			shaped: () => {
				around.typed();
				setShape((n) => n + 1);
			},
			wrong: placed(root, `/${name}`, problem?.diagnostics ?? []),
		};
		const whole = around.wrong.get(root);
		if (root.kind !== 'object' || root.nullable) return html`<${Part} of=${root} name=${title} around=${around} />`;
		return html`${whole && html`<p class="wrong" aria-invalid="true" tabindex="-1">${whole.join('; ')}</p>`}
			${root.fields.map(([part, one]) => html`<${Part} key=${one.id} of=${one} name=${part} around=${around} />`)}`;
	}, [root, problem, shape]);
	return html`<div class="form" ref=${box}>${restored && html`<p class="row soft" role="status">Draft restored. <button type="button" class="quiet"
		onClick=${() => {
			if (draft) keep(draft, undefined);
			setRestored(false);
			setRoot(field(schema, value, undefined, {required: true}));
		}}>Discard it</button></p>`}${body}</div>`;
}
