// Steps of a run, as other parts of the page name them: links, and why one failed.
import {titleOf} from './format.js';
import {Left, Moment, Text} from './parts.js';
import {here, ref} from './place.js';
import {html} from './ui.js';

/** The link to another step, beside the same view. @param {{to: string, children?: any}} props */
export const StepLink = ({to, children}) => html`<a href=${here({step: to, part: undefined, istate: undefined, ifrom: undefined})}>${children ?? to}</a>`;

/** Why steps do not run. @type {Record<string, string>} */
const whys = {when_false: 'its condition is false', upstream: 'a step that it needs has not succeeded', not_taken: 'another way was taken'};

/** Why a step of a run was skipped. @param {{reason?: string}} step */
export const whyNot = ({reason = ''}) => whys[reason] ?? reason;

/** What a pause waits for, and until when. @param {{of: import('./types').Pause}} props */
export const Wait = ({of: p}) => html`<a href=${ref(['inbox'], {all: 1, at: `${p.runId}/${p.id}`})}><${Text} of=${titleOf(p)} /></a>${
	p.expiresAt && html` until <${Moment} at=${p.expiresAt} />`}${p.retryAt && html`, at <${Moment} at=${p.retryAt} />, <${Left} at=${p.retryAt} />`}`;

/** Why something failed. @param {{code?: string, message: string, children?: any}} props */
export function Fault({code, message, children}) {
	const [what, ...hints] = message.split('\n  hint: ');
	return html`<div class="trouble"><strong><${Text} of=${what} /></strong>${hints.map((one) => html`<p>hint: <${Text} of=${one} /></p>`)}${
		code && html` <code>${code}</code>`} ${children}</div>`;
}
