// The libraries of the page, from one place.
import {Fragment, h, render} from './vendor/preact.js';
import htm from './vendor/htm.js';

export {Fragment, h, render};
export {
	useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState,
} from './vendor/hooks.js';
export {batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect} from './vendor/signals.js';

/** Markup: html`<p class=${name}>${text}</p>`. What is put in is text, never markup. */
export const html = htm.bind(h);
