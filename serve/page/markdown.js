// Markdown of prompts and answers, built as nodes: links are http and https only, there is no HTML in it.
import {visible} from './format.js';
import {Text} from './parts.js';
import {html, useMemo} from './ui.js';

const deepest = 8; // of what holds blocks, and of emphasis: deeper is plain text
const longest = 100_000; // characters: a longer text stays plain

/** @param {{text: string}} props */
export function Markdown({text}) {
	const nodes = useMemo(() => (text.length > longest ? [] : blocks(visible(text).split('\n'), 0)), [text]);
	if (text.length > longest) return html`<${Text} of=${text} />`;
	return html`<div class="markdown" dir="auto">${nodes}</div>`;
}

// No expression below takes more than linear time, or the square of a bounded length, whatever the text.
const fence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const heading = /^ {0,3}(#{1,6}) (.*)$/;
const rule = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const item = /^( {0,3}(?:[-*+]|\d{1,9}[.)]))( +|$)(.*)$/;
const quote = /^ {0,3}> ?/;
const bar = /^(?=.*-)(?=.*\|)[|:\- ]+$/;

/** Whether a line begins something that is no paragraph. @param {string} line */
const begins = (line) => fence.test(line) || heading.test(line) || rule.test(line) || item.test(line) || quote.test(line);

/** @param {string[]} lines @param {number} depth @returns {any[]} */
function blocks(lines, depth) {
	if (depth > deepest) return [lines.join('\n')];
	const out = [];
	for (let i = 0; i < lines.length;) {
		const line = lines[i];
		const from = i++;
		/** The lines from here on that a test lets through. @param {(line: string) => boolean} test */
		const take = (test) => {
			while (i < lines.length && test(lines[i])) i++;
			return lines.slice(from, i);
		};
		const [, open, lang] = line.match(fence) ?? [];
		const [, level, title] = line.match(heading) ?? [];
		if (!line.trim()) continue;
		if (open) {
			const body = take((next) => !(next.trim().startsWith(open) && !next.trim().slice(open.length).replaceAll(open[0], '').trim())).slice(1);
			i++;
			out.push(html`<pre dir="ltr" title=${lang.trim() || undefined}><code>${body.join('\n')}</code></pre>`);
		} else if (level) out.push(html`<p role="heading" aria-level=${Math.min(6, level.length + 2)} class=${`h h${level.length}`}>${inline(title.trim().replace(/ #+$/, ''), 0)}</p>`);
		else if (rule.test(line)) out.push(html`<hr />`);
		else if (quote.test(line)) {
			const body = take((next) => quote.test(next) || (!!next.trim() && !begins(next)));
			out.push(html`<blockquote>${blocks(body.map((one) => one.replace(quote, '')), depth + 1)}</blockquote>`);
		} else if (item.test(line)) {
			const [body, next] = list(lines, from, depth);
			out.push(body);
			i = next;
		} else if (line.includes('|') && i < lines.length && bar.test(lines[i])) {
			const rows = take((next) => next.includes('|')).filter((_, n) => n !== 1).map(row);
			out.push(html`<table><thead><tr>${rows[0].map((one) => html`<th scope="col">${inline(one, 0)}</th>`)}</tr></thead><tbody>${
				rows.slice(1).map((all) => html`<tr>${all.map((one) => html`<td>${inline(one, 0)}</td>`)}</tr>`)}</tbody></table>`);
		} else out.push(html`<p>${inline(take((next) => !!next.trim() && !begins(next)).join('\n'), 0)}</p>`);
	}
	return out;
}

/** The cells of a row of a table. @param {string} line */
const row = (line) => line.trim().replace(/^\||\|$/g, '').split('|').map((one) => one.trim());

/** A list, and the number of the line behind it. @param {string[]} lines @param {number} from @param {number} depth @returns {[any, number]} */
function list(lines, from, depth) {
	const ordered = /\d/.test(lines[from].match(item)?.[1] ?? '');
	const first = parseInt(lines[from], 10);
	const items = [];
	let i = from;
	for (let start; i < lines.length && (start = lines[i].match(item)) && /\d/.test(start[1]) === ordered && !rule.test(lines[i]);) {
		const indent = start[1].length + Math.min(start[2].length || 1, 4);
		const body = [start[3]];
		for (i++; i < lines.length; i++) {
			const line = lines[i];
			const inner = /^ */.exec(line)?.[0].length ?? 0;
			if (!line.trim() ? !/^ {2,}\S/.test(lines[i + 1] ?? '') && !item.test(lines[i + 1] ?? '') : inner < Math.min(indent, 2) && begins(line)) break;
			if (line.trim() && inner < 2 && !lines[i - 1].trim()) break;
			body.push(line.slice(Math.min(inner, indent)));
		}
		items.push(html`<li>${blocks(body, depth + 1)}</li>`);
	}
	return [ordered ? html`<ol start=${first}>${items}</ol>` : html`<ul>${items}</ul>`, Math.max(i, from + 1)];
}

const span = new RegExp([
	/\\(?<escaped>[\\`*_{}[\]()#+.!|~>-])/, /(?<tick>`{1,9})(?<code>.{1,5000}?)\k<tick>(?!`)/,
	/!?\[(?<name>[^[\]]{0,1000})\]\(\s{0,9}<?(?<to>[^\s()<>]{1,2000})>?(?:\s{1,9}"[^"]{0,500}")?\s{0,9}\)/,
	/<(?<angle>https?:[^\s<>]{1,2000})>/, /(?<bare>https?:\/\/[^\s<>"'`()[\]]{1,2000})/,
	/(?<two>\*\*|(?<!\w)__)(?=\S)(?<strong>.{1,1000}?)(?<=\S)\k<two>(?!\w)/,
	/(?<one>\*|(?<!\w)_)(?=\S)(?<soft>.{1,1000}?)(?<=\S)\k<one>(?!\w)/, /~~(?=\S)(?<gone>.{1,1000}?)(?<=\S)~~/,
].map((one) => one.source).join('|'), 's');

/** The nodes of a text. @param {string} text @param {number} depth @returns {any[]} */
function inline(text, depth) {
	/** @type {any[]} */
	const out = [];
	for (let found; depth <= deepest && (found = span.exec(text));) {
		const {escaped, code, name, to, angle, bare, strong, soft, gone} = /** @type {Record<string, string>} */ (found.groups);
		out.push(text.slice(0, found.index));
		text = text.slice(found.index + found[0].length);
		if (escaped) out.push(escaped);
		else if (code) out.push(html`<code dir="ltr">${code.trim() || code}</code>`);
		else if (to) out.push(link(to, name ? inline(name, depth + 1) : to));
		else if (angle || bare) out.push(link(angle || bare, angle || bare));
		else if (strong) out.push(html`<strong>${inline(strong, depth + 1)}</strong>`);
		else if (soft) out.push(html`<em>${inline(soft, depth + 1)}</em>`);
		else out.push(html`<del>${inline(gone, depth + 1)}</del>`);
	}
	out.push(text);
	return out;
}

/** A link to the web; what would lead elsewhere is text. @param {string} to @param {any} text */
function link(to, text) {
	if (!/^https?:\/\//i.test(to) || !URL.canParse(to)) return html`<span>${text}</span>${text !== to && html` <span class="soft">(${to})</span>`}`;
	return html`<a href=${to} target="_blank" rel="noreferrer">${text}</a>`;
}
