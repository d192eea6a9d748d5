// One pause, for who has its link: no navigation, no other run. The token goes into bodies of requests only.
import {post} from './api.js';
import {Empty, Trouble} from './parts.js';
import {titleOf} from './format.js';
import {Asked, Decide} from './pause.js';
import {html, useEffect, useState} from './ui.js';

/** @param {{token: string}} props */
export function Answer({token}) {
	const [pause, setPause] = useState(/** @type {import('./types').Pause | undefined} */ (undefined));
	const [problem, setProblem] = useState(/** @type {import('./api.js').Problem | undefined} */ (undefined));
	const [answer, setAnswer] = useState(/** @type {string | undefined} */ (undefined));
	const look = () => {
		setProblem(undefined);
		post(['token', 'look'], {token}).then(setPause, setProblem);
	};
	useEffect(look, []);
	useEffect(() => {
		if (pause || problem) /** @type {HTMLElement | null} */ (document.querySelector('h1'))?.focus();
	}, [pause, problem, answer]);
	if (answer !== undefined) {
		return html`<main class="narrow"><h1 tabindex="-1">Thank you</h1><p role="status">Your answer${answer && html` <strong>${answer}</strong>`} is recorded.
			You can close this page.</p></main>`;
	}
	if (pause) {
		return html`<main class="narrow"><h1 tabindex="-1" dir="auto">${titleOf(pause)}</h1><${Asked} pause=${pause} />
			<${Decide} pause=${pause} done=${setAnswer} send=${(/** @type {any} */ body) => post(['token', 'answer'], {token, ...body})} /></main>`;
	}
	if (!problem) return html`<main class="narrow"><${Empty}>Looking…<//></main>`;
	const over = problem.code === 'pause.answered' || problem.code === 'pause.expired';
	return html`<main class="narrow"><h1 tabindex="-1">${over ? 'There is nothing to answer any more' : 'This link cannot be used'}</h1>
		${over ? html`<p role="status">${problem.message}</p>` : html`<${Trouble} of=${problem} />`}
		${problem.status !== 409 && html`<button type="button" onClick=${look}>Try again</button>`}</main>`;
}
