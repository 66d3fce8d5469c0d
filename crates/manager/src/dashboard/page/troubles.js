// What is wrong, in the order in which someone on call should look at it.

import { live } from './stream.js';
import { link } from './route.js';
import { RESTING_MEANS } from './parts.js';
import { age, counted, count, duration, left, now, words } from './format.js';

/** All workers are often busy for a moment; this long, they are too few. */
const BUSY_SECONDS = 30;
/** A retry budget that is this far behind delays keys noticeably. */
const DEBT_SECONDS = 5;
/** The share of failed runs in the last minute that is worth a line. */
const FAILED_SHARE = 0.05;
/** In milliseconds. */
const MINUTE = 60_000;
/** The share of a shorter time, in seconds, says little. */
const SHARE_SECONDS_MIN = 5;
/** An error of a watch that is older than this is history. */
const ERROR_SECONDS = 300;

/** What the manager finds in the runs: its name, and what that means. */
const NAMED = {
  hotLoop: {
    name: 'Hot loop',
    means: 'Each run of the key changes something that makes the same key run again.',
  },
  fight: {
    name: 'Fight',
    means: 'Two parties change the same object in turn, each because the other one did.',
  },
};

const ORDER = { bad: 0, warn: 1, info: 2 };

/**
 * Troubles as `{id, tone, title, text, href, linkText, means}`, the worst first. `means` explains
 * the words of the title; it may be missing.
 */
export function findTroubles(summary) {
  const found = [
    ...ofManager(summary),
    ...named(summary),
    ...summary.controllers.flatMap(ofController),
    ...summary.informers.flatMap(ofInformer),
  ];
  return found.sort((a, b) => ORDER[a.tone] - ORDER[b.tone]);
}

function trouble(tone, title, text, href, linkText, means) {
  return { id: `${title} ${href}`, tone, title, text, href, linkText, means };
}

function ofManager(summary) {
  const found = [];
  if (summary.phase !== 'running') {
    found.push(
      trouble('info', `The manager is ${words(summary.phase)}`, '', link('informers'), 'Informers'),
    );
  }
  if (summary.missing.length > 0) {
    found.push(
      trouble(
        'warn',
        'Parts of this page are missing',
        `${summary.missing.join(', ')}: a panic was caught, see the log`,
        link('overview'),
        'Overview',
      ),
    );
  }
  return found;
}

/** Hot loops and fights, which the manager has found. */
function named(summary) {
  const all = [
    ...(summary.troubles ?? []),
    ...summary.controllers.flatMap(one => one.troubles ?? []),
  ];
  const found = all.map(one =>
    trouble(
      'bad',
      `${troubleName(one.kind)}: ${one.controller} ${one.key}`,
      one.message,
      link('key', { controller: one.controller, key: one.key }),
      'Key',
      troubleMeans(one.kind),
    ),
  );
  if (summary.omittedTroubles > 0) {
    const title = `${count(summary.omittedTroubles)} more hot loops and fights`;
    found.push(trouble('bad', title, 'not listed here', link('runs', {}), 'Last runs'));
  }
  return found;
}

export const troubleName = kind => NAMED[kind]?.name ?? words(kind);

export const troubleMeans = kind => NAMED[kind]?.means;

function ofController(controller) {
  const { name, trouble: waits, allBusySince, queue, workers } = controller;
  const found = [];
  if (waits)
    found.push(trouble('bad', `${name} does not run`, waits, link('informers'), 'Informers'));
  const busy = allBusySince ? (now() - Date.parse(allBusySince)) / 1000 : 0;
  if (busy > BUSY_SECONDS) {
    found.push(
      trouble(
        'warn',
        `All ${counted(workers, 'worker')} of ${name} are busy`,
        `for ${age(allBusySince)}, while ${counted(queue.ready, 'key')} wait for one`,
        link('queue', { controller: name, state: 'running' }),
        'Running keys',
      ),
    );
  }
  if (queue.retryDebtSeconds > DEBT_SECONDS) {
    found.push(
      trouble(
        'warn',
        `Retries of ${name} are slowed down`,
        `many keys fail: one that fails now waits ${duration(queue.retryDebtSeconds)} longer`,
        link('queue', { controller: name, state: 'failed' }),
        'Failed keys',
      ),
    );
  }
  const share = failedShare(name);
  if (share > FAILED_SHARE) {
    found.push(
      trouble(
        'warn',
        `${Math.round(share * 100)} % of the runs of ${name} fail`,
        'in the last minute',
        link('runs', { controller: name, outcome: 'errors' }),
        'Failed runs',
      ),
    );
  }
  const resting = controller.inactive.length + controller.omittedInactive;
  if (resting > 0) {
    found.push(
      trouble(
        'info',
        `${counted(resting, 'key')} of ${name} ${resting === 1 ? 'rests' : 'rest'}`,
        'paused, given up, or with a terminal error: they run when something changes',
        link('queue', { controller: name, state: 'resting' }),
        'Resting keys',
        RESTING_MEANS,
      ),
    );
  }
  return found;
}

/** The share of runs that failed in the minute before the newest sample. */
function failedShare(name) {
  const history = live.history.get(name) ?? [];
  const start = (history.at(-1)?.time ?? 0) - MINUTE;
  let [seconds, runs, errors] = [0, 0, 0];
  for (const one of history.filter(sample => sample.runs !== null && sample.time > start)) {
    // A manager with many objects makes samples that span many seconds. The first one may have
    // begun before the minute.
    const inside = Math.min(one.seconds, (one.time - start) / 1000);
    seconds += inside;
    runs += one.runs * inside;
    errors += one.errors * inside;
  }
  return seconds >= SHARE_SECONDS_MIN && runs > 0 ? errors / runs : 0;
}

function ofInformer(informer) {
  const { resource, state, failure, quarantined, memory } = informer;
  const href = link('informers', { resource });
  const found = [];
  const add = (tone, title, text) => found.push(trouble(tone, title, text, href, 'Informer'));
  if (state === 'failed') add('bad', `The informer of ${resource} failed`, failure ?? '');
  if (state === 'listing') {
    const objects = informer.feeds.reduce((sum, feed) => sum + feed.list.objects, 0);
    add('info', `${resource} is being listed`, `${counted(objects, 'object')} so far`);
  }
  for (const feed of informer.feeds) {
    if (state === 'failed' || feed.activity !== 'waiting' || !feed.lastError) continue;
    if (now() - Date.parse(feed.lastError.time) > ERROR_SECONDS * 1000) continue;
    const place = feed.namespace ? ` in ${feed.namespace}` : '';
    add(
      'warn',
      `The watch of ${resource}${place} is interrupted`,
      `${feed.lastError.message}${feed.nextTry ? `; next try: ${left(feed.nextTry)}` : ''}`,
    );
  }
  if (quarantined.length > 0) {
    add(
      'warn',
      `${counted(quarantined.length, 'object')} of ${resource} cannot be read`,
      'the cache does not have the current version',
    );
  }
  const undecodable = memory.types.reduce((sum, type) => sum + type.undecodable, 0);
  if (undecodable > 0) {
    add(
      'warn',
      `${counted(undecodable, 'object')} of ${resource} cannot be decoded`,
      memory.types.find(type => type.undecodable > 0).undecodableFirst[0] ?? '',
    );
  }
  const panics = informer.handlers.reduce((sum, handler) => sum + handler.panics, 0);
  if (panics > 0)
    add('warn', `Handlers of ${resource} panicked`, `${count(panics)} times: see the log`);
  return found;
}
