// What is wrong, in the order in which someone on call should look at it.

import { live } from './stream.js';
import { link } from './route.js';
import { age, counted, count, duration, left, now, words } from './format.js';

/** All workers are often busy for a moment; this long, they are too few. */
const BUSY_SECONDS = 30;
/** A retry budget that is this far behind delays keys noticeably. */
const DEBT_SECONDS = 5;
/** The share of failed runs in the last minute that is worth a line. */
const FAILED_SHARE = 0.05;
/** An error of a watch that is older than this is history. */
const ERROR_SECONDS = 300;

const ORDER = { bad: 0, warn: 1, info: 2 };

/** Troubles as `{id, tone, title, text, href, linkText}`, the worst first. */
export function findTroubles(summary) {
  const found = [
    ...ofManager(summary),
    ...named(summary),
    ...summary.controllers.flatMap(ofController),
    ...summary.informers.flatMap(ofInformer),
  ];
  return found.sort((a, b) => ORDER[a.tone] - ORDER[b.tone]);
}

function trouble(tone, title, text, href, linkText) {
  return { id: `${title} ${href}`, tone, title, text, href, linkText };
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
    ),
  );
  if (summary.omittedTroubles > 0) {
    const title = `${count(summary.omittedTroubles)} more hot loops and fights`;
    found.push(trouble('bad', title, 'not listed here', link('runs', {}), 'Last runs'));
  }
  return found;
}

export function troubleName(kind) {
  if (kind === 'hotLoop') return 'Hot loop';
  return kind === 'fight' ? 'Fight' : words(kind);
}

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
        link('runs', { controller: name, outcome: 'failed' }),
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
      ),
    );
  }
  return found;
}

function failedShare(name) {
  const last = (live.history.get(name) ?? []).slice(-60).filter(one => one.runs !== null);
  const sum = field => last.reduce((total, one) => total + one[field], 0);
  const runs = sum('runs');
  // A few seconds say little.
  return last.length >= 5 && runs > 0 ? sum('errors') / runs : 0;
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
