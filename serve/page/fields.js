// The fields of a form: what a JSON Schema asks for, what is typed there, and the value that this makes.
import {isExact, number, parse} from './exact.js';

/**
 * @typedef {object} Field
 * @property {number} id
 * @property {'text'|'number'|'choice'|'time'|'json'|'object'|'list'} kind
 * @property {any} schema
 * @property {boolean} required
 * @property {boolean} item of a list
 * @property {boolean} nullable
 * @property {boolean} nil it is null
 * @property {boolean} own somebody gave it: it is more than a default
 * @property {string} text what is typed; of a choice the number of the option
 * @property {any} was the value that text began with, and still has if it is the same
 * @property {string} began
 * @property {[string, Field][]} fields of an object
 * @property {Field[]} items of a list
 * @property {[string, any][]} extra members of the value that the schema does not name
 * @property {number} depth
 */

/** A draft of a field: its text, {nil}, or those of its parts. @typedef {any} Draft */

let ids = 0;
/** How deep objects and lists are below the root; what is deeper is JSON. */
const deepest = 4;
const beyond = ['$ref', 'allOf', 'anyOf', 'oneOf', 'if', 'not', 'patternProperties', 'dependentSchemas', 'prefixItems'];

/** @param {any} v */
const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v) && !isExact(v);

/** @param {any} of @param {string} name */
const member = (of, name) => (isObject(of) && Object.hasOwn(of, name) ? of[name] : undefined);

/** The schema without null, and whether null is allowed. @param {any} schema @returns {[any, boolean]} */
function unnulled(schema) {
	if (!isObject(schema) || schema.enum) return [schema, false];
	const one = schema.anyOf ?? schema.oneOf;
	if (Array.isArray(schema.type) && schema.type.length === 2 && schema.type.includes('null')) {
		return [{...schema, type: schema.type.find((/** @type {string} */ t) => t !== 'null')}, true];
	}
	if (one?.length === 2 && one.some((/** @type {any} */ s) => s?.type === 'null')) {
		const {anyOf, oneOf, ...rest} = schema;
		return [{...rest, ...one.find((/** @type {any} */ s) => s?.type !== 'null')}, true];
	}
	return [schema, false];
}

/** @param {any} s @param {number} depth @returns {Field['kind']} */
function kindOf(s, depth) {
	if (!isObject(s)) return 'json';
	if (options(s)) return 'choice';
	if (beyond.some((key) => key in s)) return 'json';
	switch (s.type) {
	case 'string': return s.format === 'date-time' ? 'time' : 'text';
	case 'integer': case 'number': return 'number';
	case 'object': return isObject(s.properties) && depth < deepest ? 'object' : 'json';
	case 'array': return isObject(s.items) && depth < deepest ? 'list' : 'json';
	}
	return 'json';
}

/** The values of which one is chosen; undefined: it is no choice. @param {any} s @returns {any[] | undefined} */
export function options(s) {
	if ('const' in s) return [s.const];
	if (Array.isArray(s.enum)) return s.enum;
	return s.type === 'boolean' ? [true, false] : s.type === 'null' ? [null] : undefined;
}

/** A moment as browsers edit it: in the zone of the person, to the second. @param {string} text */
function local(text) {
	const at = new Date(text);
	if (Number.isNaN(at.getTime())) return '';
	return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** @param {any} a @param {any} b */
const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** @param {Field} f @param {any} v */
function textOf(f, v) {
	if (v === undefined) return '';
	if (f.kind === 'choice') {
		const at = options(f.schema)?.findIndex((one) => equal(one, v)) ?? -1;
		return at < 0 ? '' : String(at);
	}
	if (f.kind === 'time' && typeof v === 'string') return local(v);
	if (f.kind === 'json') return JSON.stringify(v, null, 2);
	return typeof v === 'string' ? v : JSON.stringify(v);
}

/**
 * Makes the field of a schema, and all in it.
 * @param {any} schema @param {any} value undefined: none is given, so the default counts @param {Draft} draft
 * @param {{required?: boolean, item?: boolean, depth?: number}} [as] @returns {Field}
 */
export function field(schema, value, draft, {required = false, item = false, depth = 0} = {}) {
	const [plain, nullable] = unnulled(schema);
	const given = value === undefined && isObject(plain) ? plain.default : value;
	/** @type {Field} */
	const f = {
		id: ++ids, kind: kindOf(plain, depth), schema: plain, required, item, nullable, depth, text: '', began: '',
		nil: draft === undefined ? nullable && given === null : !!draft?.nil, own: value !== undefined || draft !== undefined,
		was: given, fields: [], items: [], extra: [],
	};
	if (f.kind === 'object') {
		const must = plain.required ?? [];
		const names = Object.keys(plain.properties);
		names.sort((a, b) => Number(must.includes(b)) - Number(must.includes(a)));
		f.fields = names.map((name) => [name, field(plain.properties[name], member(given, name), member(draft?.fields, name),
			{required: must.includes(name), depth: depth + 1})]);
		f.extra = isObject(given) ? Object.entries(given).filter(([name]) => !names.includes(name)) : [];
	} else if (f.kind === 'list') {
		const drafts = draft?.items;
		const values = Array.isArray(given) ? given : [];
		f.items = (drafts ?? values).map((/** @type {any} */ one) => (drafts ? added(f, undefined, one ?? undefined) : added(f, one)));
	} else {
		f.began = f.nil ? '' : textOf(f, given === null && nullable ? undefined : given);
		f.text = typeof draft === 'string' ? draft : f.began;
		if (f.kind === 'choice' && 'const' in plain && required) f.text = '0';
	}
	return f;
}

/** A new item of a list. @param {Field} list @param {any} [value] @param {Draft} [draft] */
export const added = (list, value, draft) => field(list.schema.items, value, draft, {item: true, required: true, depth: list.depth + 1});

/** What to keep of a field until it is sent. @param {Field} f @returns {Draft} */
export function draftOf(f) {
	if (f.nil) return {nil: true};
	if (f.kind === 'object') {
		const parts = f.fields.map(([name, one]) => [name, draftOf(one)]).filter(([, one]) => one !== undefined);
		return parts.length ? {fields: Object.fromEntries(parts)} : undefined;
	}
	if (!f.own) return undefined;
	return f.kind === 'list' ? {items: f.items.map((one) => draftOf(one) ?? null)} : f.text;
}

/** Whether somebody gave a part of it. @param {Field} f @returns {boolean} */
function given(f) {
	return f.kind === 'object' ? f.nil || f.extra.length > 0 || f.fields.some(([, one]) => given(one)) : f.own && (f.nil || f.kind === 'list' || f.text !== '');
}

/** What is wrong with what is typed. @typedef {{data: {path: string}, message: string}} Wrong */

/** @param {string} name */
const token = (name) => name.replaceAll('~', '~0').replaceAll('/', '~1');

/**
 * The value of a field; undefined: it is left out.
 * @param {Field} f @param {string} path a JSON pointer @param {Wrong[]} wrong what is no value at all is added here
 * @returns {any}
 */
export function read(f, path, wrong) {
	if (f.nil) return null;
	const bad = (/** @type {string} */ message) => {
		wrong.push({data: {path}, message});
		return undefined;
	};
	switch (f.kind) {
	case 'object': {
		if (!f.required && !given(f)) return undefined;
		const all = f.fields.map(([name, one]) => [name, read(one, `${path}/${token(name)}`, wrong)]);
		return Object.fromEntries([...f.extra, ...all.filter(([, v]) => v !== undefined)]);
	}
	case 'list':
		if (!f.items.length && !f.required && !Array.isArray(f.was)) return undefined;
		return f.items.map((one, i) => {
			const v = read(one, `${path}/${i}`, wrong);
			if (v === undefined && !wrong.some((w) => w.data.path === `${path}/${i}`)) wrong.push({data: {path: `${path}/${i}`}, message: 'is empty'});
			return v;
		});
	}
	const text = f.text;
	if (text === f.began && f.was !== undefined && !(f.was === null && f.nullable)) return f.was;
	switch (f.kind) {
	case 'text': return text !== '' || f.item || f.schema.default !== undefined ? text : undefined;
	case 'choice': return text === '' ? undefined : options(f.schema)?.[Number(text)];
	case 'time': return text === '' ? undefined : new Date(text).toISOString().replace('.000Z', 'Z');
	case 'number':
		if (text.trim() === '') return undefined;
		return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()) ? number(text.trim()) : bad('is not a number');
	}
	if (text.trim() === '') return undefined;
	try {
		return parse(text);
	} catch (err) {
		return bad(`is not JSON: ${err instanceof Error ? err.message : err}`);
	}
}

/**
 * Which messages belong to which field: those of places that have no field to the field around them.
 * @param {Field} root @param {string} prefix of its path @param {any[]} found diagnostics with paths
 */
export function placed(root, prefix, found) {
	/** @type {Map<Field, string[]>} */
	const all = new Map();
	for (const {message, data} of found) {
		if (typeof data?.path !== 'string' || !`${data.path}/`.startsWith(`${prefix}/`)) continue;
		const names = data.path.slice(prefix.length).split('/').slice(1).map((/** @type {string} */ t) => t.replaceAll('~1', '/').replaceAll('~0', '~'));
		let at = root;
		for (; names.length; names.shift()) {
			const inside = at.kind === 'list' ? at.items[Number(names[0])] : at.fields.find(([name]) => name === names[0])?.[1];
			if (!inside) break;
			at = inside;
		}
		all.set(at, [...(all.get(at) ?? []), names.length ? `${names.join('/')}: ${message}` : message]);
	}
	return all;
}

/** The bounds of a schema, for people. @param {any} s @returns {string[]} */
export function bounds(s) {
	/** @type {[string, string, string?][]} */
	const words = [
		['minimum', 'at least'], ['exclusiveMinimum', 'more than'], ['maximum', 'at most'], ['exclusiveMaximum', 'less than'],
		['multipleOf', 'a multiple of'], ['minLength', 'at least', 'characters'], ['maxLength', 'at most', 'characters'],
		['minItems', 'at least', 'items'], ['maxItems', 'at most', 'items'], ['pattern', 'matches'],
	];
	return words.filter(([key]) => isObject(s) && s[key] !== undefined).map(([key, text, unit]) => `${text} ${s[key]} ${unit ?? ''}`.trim());
}
