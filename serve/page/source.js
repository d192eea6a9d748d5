// The text of a recipe, with its diagnostics at their lines.
import {Empty} from './parts.js';
import {here, place} from './place.js';
import {html, useEffect, useRef} from './ui.js';

/** @param {{of: any, line?: boolean}} props line: its line is a link */
function Diagnostic({of, line}) {
	const at = of.line ? `${of.line}${of.column ? `:${of.column}` : ''}` : '';
	const [name, sign, word] = of.level === 'error' ? ['failed', '✗', 'error'] : ['waiting', '⚠', 'warning'];
	return html`<div class="diagnostic ${name}">
		<span class="state ${name}"><span class="sign" aria-hidden="true">${sign}</span>${word}</span>
		${at && (line ? html` <a href=${here({line: of.line})}>${at}</a>` : html` <span class="soft num">${at}</span>`)}
		${' '}<span dir="auto">${of.message}</span> <code class="soft">${of.code}</code>
		${of.hint && html`<p class="hint" dir="auto">hint: ${of.hint}</p>`}</div>`;
}

/** The picked line is in the URL: line=12. @param {{recipe: import('./types').RecipeView}} props */
export function Source({recipe}) {
	const at = Number(place.value.query.get('line')) || 0;
	const box = useRef(/** @type {any} */ (null));
	useEffect(() => {
		if (at) box.current?.querySelector(`[data-line="${at}"]`)?.scrollIntoView({block: 'center'});
	}, [at, recipe]);
	/** @type {any[]} */
	const all = recipe.diagnostics;
	const file = all.find((one) => one.line)?.file;
	const lines = (recipe.source ?? '').replace(/\n$/, '').split('\n');
	/** Those of the text that is shown, by line. @type {Map<number, any[]>} */
	const found = new Map();
	for (const one of all) {
		if (one.line && one.file === file && one.line <= lines.length) found.set(one.line, [...(found.get(one.line) ?? []), one]);
	}
	return html`${all.length > 0 && html`<section aria-label="Diagnostics">${all.map((one) => html`<${Diagnostic} of=${one} line=${found.has(one.line)} />`)}</section>`}
		${recipe.source ? html`<div class="source" ref=${box} tabindex="0" role="group" aria-label="Source">${lines.map((text, i) => html`<div key=${i} data-line=${i + 1}
			class=${`text ${i + 1 === at ? 'picked' : ''}`}><span class="soft" aria-hidden="true">${i + 1}</span><code dir="auto">${text || ' '}</code></div>${
			found.get(i + 1)?.map((one) => html`<${Diagnostic} of=${one} />`)}`)}</div>` : html`<${Empty}>The server does not show its text.<//>`}`;
}
