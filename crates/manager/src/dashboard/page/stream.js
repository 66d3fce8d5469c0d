// The summary, once a second, and what the plots need of the last minutes.
//
// The stream is read with fetch, since EventSource cannot send the token. It is closed while the
// page is hidden: nobody looks, and the manager makes no summaries without viewers.

import { ApiError, explain, hasToken, request } from './api.js';
import { syncClock } from './format.js';

/** How many samples are kept: five minutes of them, at one a second. */
export const SAMPLES_MAX = 300;

/**
 * A stream that is silent for this long, in milliseconds, is dead, since there is an event each
 * second.
 */
const SILENCE_MAX = 8000;

/** A stream that ends earlier than this, in milliseconds, has failed: it ends after a minute. */
const STREAM_MIN = 10_000;

/** Start times that differ by less, in milliseconds, are of the same process. */
const NEAR_MAX = 5000;

const RETRY_FIRST = 1000;
const RETRY_MAX = 5000;

/** The connection, and what it has brought. Views read it; only this module writes it. */
export const live = {
  summary: null,
  /** 'connecting', 'open', 'lost', 'refused' or 'closed'. */
  state: 'closed',
  /** Why the connection was lost. */
  error: null,
  /** When it is retried, by the browser's clock. */
  retryAt: 0,
  /** Samples of each controller, by name. */
  history: new Map(),
  /** Changes of the leadership that were seen: `{time, state, leader}`, the newest first. */
  changes: [],
};

let abort = null;
let timer = null;
let delay = RETRY_FIRST;
let changed = () => {};

/** Starts the stream, and keeps it open while the page is visible. */
export function startStream(onChange) {
  changed = onChange;
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : reconnect()));
  if (!document.hidden) reconnect();
}

/** Connects now, in place of the current connection. */
export function reconnect() {
  close();
  if (hasToken()) read();
}

function close() {
  clearTimeout(timer);
  abort?.abort();
  abort = null;
  live.state = live.state === 'lost' ? 'lost' : 'closed';
}

async function read() {
  const mine = new AbortController();
  abort = mine;
  const began = Date.now();
  if (live.state !== 'lost' && live.state !== 'open') live.state = 'connecting';
  live.retryAt = 0;
  changed();
  let watchdog = null;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => mine.abort('silent'), SILENCE_MAX);
  };
  try {
    alive();
    const response = await request('/api/stream', { signal: mine.signal });
    await readEvents(response.body, text => {
      alive();
      accept(JSON.parse(text));
    });
    // A stream ends after a minute, so that who may read it is checked again.
    if (abort === mine && Date.now() - began > STREAM_MIN) read();
    else lost(mine, 'the manager closed the connection');
  } catch (error) {
    lost(
      mine,
      error === 'silent' ? 'the manager is silent' : explain(error),
      error instanceof ApiError && error.isRefusal,
    );
  } finally {
    clearTimeout(watchdog);
  }
}

/** Calls `onData` with the data of each event. */
async function readEvents(body, onData) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value.replaceAll('\r', '');
    let end;
    while ((end = buffer.indexOf('\n\n')) >= 0) {
      const lines = buffer.slice(0, end).split('\n');
      buffer = buffer.slice(end + 2);
      const data = lines
        .filter(line => line.startsWith('data:'))
        .map(line => line.slice(5).trimStart());
      if (data.length > 0) onData(data.join('\n'));
    }
  }
}

function lost(mine, why, isRefused = false) {
  // It was closed on purpose, or replaced.
  if (abort !== mine) return;
  live.state = isRefused ? 'refused' : 'lost';
  live.error = why;
  if (!isRefused) {
    live.retryAt = Date.now() + delay;
    timer = setTimeout(read, delay);
    delay = Math.min(delay * 2, RETRY_MAX);
  }
  changed();
}

function accept(summary) {
  const before = live.summary;
  live.state = 'open';
  live.error = null;
  delay = RETRY_FIRST;
  // A summary that is expensive to make is sent several times.
  if (before && before.time === summary.time) {
    changed();
    return;
  }
  syncClock(summary.time);
  // Counts of another process say nothing about rates.
  const isSameProcess = before && isNear(before.started, summary.started);
  if (before && !isSameProcess) live.history.clear();
  live.summary = summary;
  for (const controller of summary.controllers) {
    sample(controller, isSameProcess ? find(before, controller.name) : null, before, summary);
  }
  noteLeadership(before?.leadership, summary);
  changed();
}

/** Times of the same moment differ a little, since the manager converts them for each summary. */
const isNear = (a, b) => a === b || Math.abs(Date.parse(a) - Date.parse(b)) < NEAR_MAX;

const find = (summary, name) => summary.controllers.find(one => one.name === name);

export function failures(counts) {
  return (
    Object.values(counts.failed).reduce((sum, one) => sum + one, 0) +
    counts.panicked +
    counts.timedOut
  );
}

function sample(controller, previous, before, summary) {
  const { counts, queue } = controller;
  const time = Date.parse(summary.time);
  const seconds = previous ? (time - Date.parse(before.time)) / 1000 : 0;
  const runs = previous ? counts.runs - previous.counts.runs : 0;
  const isRate = seconds > 0 && runs >= 0;
  const history = live.history.get(controller.name) ?? [];
  live.history.set(controller.name, history);
  history.push({
    time,
    /** How long the sample's rates were measured: since the sample before it. */
    seconds,
    runs: isRate ? runs / seconds : null,
    errors: isRate ? Math.max(0, failures(counts) - failures(previous.counts)) / seconds : null,
    latency: isRate && runs > 0 ? (counts.tookSeconds - previous.counts.tookSeconds) / runs : null,
    depth: queue.ready,
    busy: controller.running,
  });
  if (history.length > SAMPLES_MAX) history.shift();
}

function noteLeadership(before, summary) {
  const now = summary.leadership;
  if (!now || (before && before.state === now.state && before.leader === now.leader)) return;
  live.changes.unshift({ time: summary.time, state: now.state, leader: now.leader });
  live.changes.length = Math.min(live.changes.length, 50);
}
