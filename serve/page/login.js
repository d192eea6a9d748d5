// Who has no cookie logs in with a token.
import {me, post} from './api.js';
import {Trouble} from './parts.js';
import {html, useState} from './ui.js';

/** @param {{problem?: import('./api.js').Problem}} props problem: why a link did not log in */
export function Login(props) {
	const [problem, setProblem] = useState(props.problem);
	const enter = async (/** @type {SubmitEvent} */ event) => {
		event.preventDefault();
		const form = /** @type {HTMLFormElement} */ (event.currentTarget);
		try {
			me.value = await post(['login'], {token: String(new FormData(form).get('token')).trim()});
		} catch (err) {
			setProblem(/** @type {any} */ (err));
		}
	};
	return html`<main class="narrow" tabindex="-1"><h1>Log in</h1>
		<form class="stack" onSubmit=${enter}>
			<label>Token <input name="token" type="password" autocomplete="current-password" required /></label>
			<p class="hint">The server printed a link with a token when it started, or its tokens stand in braise.yaml.</p>
			<button>Log in</button><${Trouble} of=${problem} />
		</form></main>`;
}
