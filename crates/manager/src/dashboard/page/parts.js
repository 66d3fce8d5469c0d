// Pieces that several views share.

import { h, patch, redraw } from './dom.js';
import { link } from './route.js';
import { explain } from './api.js';
import { ago, clock, count, duration, left, splitKey, words } from './format.js';

/** How a run ended, in words, and the tone that it is shown in. */
export const OUTCOMES = {
  done: { label: 'done', tone: 'good' },
  requeued: { label: 'requeued', tone: 'info' },
  paused: { label: 'paused', tone: 'quiet' },
  ownerDeleted: { label: 'owner deleted', tone: 'quiet' },
  failed: { label: 'failed', tone: 'bad' },
  terminal: { label: 'terminal', tone: 'bad' },
  panicked: { label: 'panicked', tone: 'bad' },
  timedOut: { label: 'timed out', tone: 'warn' },
  other: { label: 'other', tone: 'quiet' },
};

const STATES = {
  running: 'info',
  ready: 'good',
  waiting: 'quiet',
  idle: 'quiet',
  resting: 'warn',
  synced: 'good',
  listing: 'info',
  failed: 'bad',
  stopped: 'warn',
  new: 'quiet',
  watching: 'good',
  starting: 'quiet',
  leading: 'good',
  standby: 'quiet',
};

/** What it means that a key rests. */
export const RESTING_MEANS =
  'A key that is paused, given up, or has a terminal error does not run until something changes.';

/** Tones are never the only sign: each chip says its state in words, and bad ones have a mark. */
const MARKS = { bad: '✕', warn: '!', good: '✓', info: '●', quiet: '○' };

export function chip(text, tone) {
  return h(
    'span.chip',
    { class: tone },
    h('span', { 'aria-hidden': 'true' }, `${MARKS[tone]} `),
    text,
  );
}

export const stateChip = state => chip(words(state), STATES[state] ?? 'quiet');

export function outcomeOf(run) {
  return OUTCOMES[run.outcome] ?? OUTCOMES.other;
}

export const outcomeChip = run => chip(outcomeOf(run).label, outcomeOf(run).tone);

/** The class of a run's message: one of a run that is no failure is not shown as an error. */
export const messageTone = run => (run.outcome === 'ownerDeleted' ? 'quiet' : 'bad-text');

/** A key with its namespace in a lighter tone. A narrow column still shows some of that. */
export function keyText(key) {
  const { namespace, name } = splitKey(key);
  const style = { 'min-width': `${Math.min(namespace?.length ?? 0, 4) * 0.7}ch` };
  return h(
    'span.key-text',
    { title: key },
    namespace !== null && h('span.namespace', { style }, `${namespace}/`),
    h('span.name', null, name),
  );
}

export function keyLink(controller, key, props) {
  return h('a', { href: link('key', { controller, key }), ...props }, keyText(key));
}

/** A time of day; its age is in the title. */
export const timeOf = time => h('time', { datetime: time, title: ago(time) }, clock(time));

export function errorBox(message) {
  return message && h('p.error-box', { key: 'error', role: 'alert' }, message);
}

/** The title of a view, with what belongs to its right. */
export function heading(title, ...more) {
  return h('div.heading', null, h('h1', null, title), more);
}

/** Term and description pairs; those without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return h(
    'dl.facts',
    null,
    known.map(([name, value]) =>
      h('div', { key: name }, h('dt', null, name), h('dd', null, value)),
    ),
  );
}

/** A list of texts, and how many more there were. */
export function texts(items, omitted, none) {
  if (items.length === 0 && !omitted) return h('p.quiet', null, none);
  return h(
    'ul.texts',
    null,
    items.map(item => h('li', null, item)),
    omitted > 0 && h('li.quiet', null, `${count(omitted)} more`),
  );
}

/** `Deployment shop/web updated at 12`, and `patch deployments/status shop/web at 17`. */
const CAUSE = /^()(\S+) (\S+)( (?:was there|added|updated|deleted) at .*)$/s;
const WRITE = /^((?:create|update|patch|delete) )([^\s/]+)(?:\/\S+)? (\S+)(.*)$/s;

/** A cause or a write, in which the object leads to its own story. */
export function objectText(text) {
  const found = CAUSE.exec(text) ?? WRITE.exec(text);
  if (!found) return text;
  const [, , kind, key, rest] = found;
  const before = text.slice(0, text.length - rest.length - key.length);
  return h('span', null, before, h('a', { href: link('story', { kind, key }) }, key), rest);
}

/** When a run ended; runs are listed in this order. */
export const ended = run =>
  new Date(Date.parse(run.started) + run.tookSeconds * 1000).toISOString();

/** A chip that says whether the view is live or held, and the button that changes it. */
export function holdButton(isLive, onclick) {
  return h(
    'span.buttons',
    null,
    isLive ? chip('live', 'good') : chip('held', 'quiet'),
    h('button', { type: 'button', onclick }, isLive ? 'Hold' : 'Go live'),
  );
}

/** Everything that is known about a run. */
export function runDetails(run) {
  return h(
    'div.run-details',
    null,
    facts([
      ['Outcome', h('span', null, outcomeChip(run), run.class && ` ${words(run.class)}`)],
      ['Began', h('span', null, timeOf(run.started), ` (${ago(run.started)})`)],
      ['Took', duration(run.tookSeconds)],
      ['Waited for a worker', duration(run.queuedSeconds)],
      ['Attempt', run.attempt > 1 ? count(run.attempt) : null],
      ['Next run', run.nextRun && nextRun(run.nextRun)],
      ['Log lines have', h('code', null, `reconcile_id=${run.id}`)],
    ]),
    run.message && h('pre.message', { tabindex: '0', 'aria-label': 'Message' }, run.message),
    h('h3', null, 'Because'),
    texts(run.causes.map(objectText), run.omittedCauses, 'No cause is known.'),
    h('h3', null, 'Writes'),
    texts(run.writes.map(objectText), run.omittedWrites, 'Nothing.'),
    run.events.length > 0 && [h('h3', null, 'Published'), texts(run.events, 0, '')],
  );
}

function nextRun(time) {
  const rest = left(time);
  return h('span', null, timeOf(time), rest === 'now' ? '' : ` (in ${rest})`);
}

const dialog = () => document.getElementById('dialog');
let noticeTimer = null;

/** Says something at the edge of the page for a while. */
export function notice(text) {
  const place = document.getElementById('notice');
  patch(place, h('p', null, text));
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => patch(place), 6000);
}

/**
 * Shows something in a dialog. `content` is called at each redraw while the dialog is open.
 * Returns a function that says whether it is still shown.
 */
export function showDialog(title, content) {
  const mine = () =>
    patch(dialog(), h('div.dialog-body', null, h('h2', { id: 'dialog-title' }, title), content()));
  drawDialog = mine;
  drawDialog();
  if (!dialog().open) dialog().showModal();
  return () => drawDialog === mine && dialog().open;
}

let drawDialog = null;

/** Called at each redraw of the page. */
export function redrawDialog() {
  if (drawDialog && dialog().open) drawDialog();
}

export function closeDialog() {
  drawDialog = null;
  if (dialog().open) dialog().close();
}

/**
 * Asks whether to do something, and does it if the answer is yes. If that fails, the dialog stays
 * open, with the error; a notice says it if the dialog was closed in the meantime.
 */
export function confirm({ title, text, action, act }) {
  let error = null;
  let isBusy = false;
  const yes = async () => {
    isBusy = true;
    redraw();
    try {
      await act();
      if (isShown()) closeDialog();
    } catch (failure) {
      error = explain(failure);
      if (!isShown()) notice(`${action} failed: ${error}`);
    }
    isBusy = false;
    redraw();
  };
  const isShown = showDialog(title, () => [
    h('p', null, text),
    errorBox(error),
    h(
      'div.buttons',
      null,
      h('button', { type: 'button', onclick: closeDialog, autofocus: true }, 'Cancel'),
      h('button.primary', { type: 'button', onclick: yes, disabled: isBusy }, action),
    ),
  ]);
}
