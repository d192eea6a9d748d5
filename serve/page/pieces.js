// The answers of models that are being written.
import {signal} from './ui.js';

const missing = ' […] ';

/** Pieces of answers that are being written, by the path of who writes: the server tells each piece once. */
export class Pieces {
	constructor() {
		/** @type {Map<string, {text: string, done: boolean}>} */
		this.texts = new Map();
		this.changed = signal(0);
	}

	/** Takes an event of the run. @param {any} event */
	add(event) {
		const old = this.texts.get(event.step);
		switch (event.kind) {
		case 'model.delta':
			if (event.data?.text === undefined) return; // it thinks, or calls
			this.texts.set(event.step, {text: (old && !old.done ? old.text : '') + event.data.text, done: false});
			break;
		case 'model.end': case 'step.end': case 'adapter.retry': case 'adapter.fallback':
			if (!old) return;
			old.done = true;
			break;
		default: return;
		}
		this.changed.value++;
	}

	/** Marks the place at which pieces may be missing: the answer is whole when it is read. */
	gap() {
		for (const one of this.texts.values()) if (!one.done && !one.text.endsWith(missing)) one.text += missing;
		this.changed.value++;
	}

	/** Forgets answers that are whole: what was read has them. */
	read() {
		for (const [path, one] of this.texts) if (one.done) this.texts.delete(path);
		this.changed.value++; // what was rendered with them is rendered anew
	}
}
