// Requests to the manager, each with the token.

import { syncClock } from './format.js';

const STORED = 'windlass-token';

/** How long an answer may take, in milliseconds. */
const ANSWER_MAX = 15_000;

let token = sessionStorage.getItem(STORED) ?? '';
let onUnauthorized = () => {};

/** An answer that is an error. Its message says what to do. */
export class ApiError extends Error {
  /** `isRefusal`: whether another token is needed. */
  constructor(message, isRefusal) {
    super(message);
    this.isRefusal = isRefusal;
  }
}

export const hasToken = () => token !== '';

export function setToken(text) {
  token = text.trim();
  sessionStorage.setItem(STORED, token);
}

/** Sets the handler that is called when the server refuses the token. */
export function whenUnauthorized(handler) {
  onUnauthorized = handler;
}

/**
 * Takes the token from the address (`#token=…`) and removes it there, so that it is neither
 * copied with a link nor shown on a shared screen. Returns whether there was one; text that is not
 * encoded correctly, such as `#token=%`, is none.
 */
export function takeTokenFromAddress() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return false;
  history.replaceState(null, '', `${location.pathname}#/`);
  let text;
  try {
    text = decodeURIComponent(found[1]);
  } catch {
    return false;
  }
  setToken(text);
  return true;
}

/** Sends a request. Fails with an `ApiError`, or with a `TypeError` if there is no connection. */
export async function request(path, options = {}) {
  const sent = token;
  const headers = { Authorization: `Bearer ${sent}`, ...options.headers };
  const response = await fetch(path, { ...options, headers, cache: 'no-store' });
  if (response.ok) return response;
  const text = (await response.text()).trim() || `${response.status} ${response.statusText}`;
  // A user who may not read the summary needs another token. One who may not do something else
  // keeps the token, and the view that sent the request shows the error.
  const isRefusal = response.status === 401 || (response.status === 403 && path === '/api/stream');
  // A refusal of a token that was replaced in the meantime says nothing about the new one.
  if (isRefusal && sent === token) onUnauthorized(text);
  throw new ApiError(text, isRefusal);
}

/** The JSON of a path. Parameters that are empty are left out. */
export async function get(path, parameters, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  // A connection may be dead without notice, after a computer has slept.
  const timeout = AbortSignal.timeout(ANSWER_MAX);
  const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
  const response = await request(`${path}?${query}`, { signal: either });
  const body = await response.json();
  if (body.time) syncClock(body.time);
  return body;
}

export async function post(path, body) {
  await request(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** What an error says to a person. */
export function explain(error) {
  return error instanceof ApiError ? error.message : 'no connection to the manager';
}

/**
 * Asks for something again and again while the page is visible.
 * `ask(signal)` returns after how many seconds to ask again; a failure is retried after three.
 */
export class Poller {
  constructor(ask) {
    this.ask = ask;
    this.timer = null;
    this.abort = null;
    this.isStopped = false;
    this.whenVisible = () => (document.hidden ? this.pause() : this.again());
    document.addEventListener('visibilitychange', this.whenVisible);
    if (!document.hidden) this.again();
  }

  /** Asks now, in place of what is under way. */
  async again() {
    this.pause();
    if (this.isStopped) return;
    const abort = new AbortController();
    this.abort = abort;
    let seconds = 3;
    try {
      seconds = await this.ask(abort.signal);
    } catch (error) {
      if (abort.signal.aborted) return;
      // `ask` shows its own errors; this one is a mistake in the page.
      console.error(error);
    }
    if (abort.signal.aborted || this.isStopped) return;
    this.timer = setTimeout(() => this.again(), Math.max(1, seconds) * 1000);
  }

  pause() {
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  stop() {
    this.isStopped = true;
    this.pause();
    document.removeEventListener('visibilitychange', this.whenVisible);
  }
}
