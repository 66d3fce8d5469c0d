// The latest errors of all controllers, the same ones together.

import { h, redraw } from './dom.js';
import { get, Poller } from './api.js';
import { link } from './route.js';
import { ended, keyLink, outcomeChip } from './parts.js';
import { age, ago, now, words } from './format.js';

const OUTCOMES = ['failed', 'terminal', 'panicked', 'timedOut'];
/** How many runs of each outcome are looked at, and how many errors are shown. */
const RUNS_MAX = 50;
const ERRORS_MAX = 6;
/** Soon enough for a reader, and cheap for the manager. */
const REFRESH_SECONDS = 10;

export class LatestErrors {
  constructor() {
    this.groups = [];
    this.poller = new Poller(signal => this.refresh(signal));
  }

  stop() {
    this.poller.stop();
  }

  async refresh(signal) {
    try {
      const answers = await Promise.all(
        OUTCOMES.map(outcome => get('/api/runs', { outcome, limit: RUNS_MAX }, signal)),
      );
      this.groups = answers
        .flatMap(answer => grouped(answer.runs))
        .sort((a, b) => rate(b) - rate(a));
      redraw();
      return Math.max(REFRESH_SECONDS, ...answers.map(answer => answer.refreshSeconds ?? 0));
    } catch {
      // The banner says already that there is no connection.
      return REFRESH_SECONDS;
    }
  }

  render() {
    if (this.groups.length === 0) return null;
    return h(
      'section.card.errors',
      { key: 'errors', 'aria-label': 'Latest errors' },
      h(
        'header.card-head',
        null,
        h('h2', null, 'Latest errors'),
        h('span.quiet', null, 'the same ones together, the most frequent first'),
      ),
      h('ul', null, this.groups.slice(0, ERRORS_MAX).map(renderGroup)),
    );
  }
}

/** Runs by controller and error, each group with its newest run. The runs are the newest first. */
function grouped(runs) {
  const groups = new Map();
  const since = runs.length > 0 ? ended(runs.at(-1)) : null;
  for (const run of runs) {
    const id = `${run.controller} ${run.outcome} ${pattern(run)}`;
    const group = groups.get(id);
    if (group) group.runs += 1;
    else groups.set(id, { id, run, since, runs: 1 });
  }
  return [...groups.values()];
}

/** Runs a second. Groups of different outcomes are counted over different times. */
const rate = group => group.runs / Math.max(1, (now() - Date.parse(group.since)) / 1000);

/** The message without what differs between objects. */
function pattern({ message, key }) {
  return (message ?? '').replaceAll(key, '').replace(/\d+/g, '0').slice(0, 200);
}

function renderGroup({ id, run, since, runs }) {
  return h(
    'li',
    { key: id },
    h(
      'p.error-line',
      null,
      outcomeChip(run),
      h('strong', null, run.controller),
      h(
        'span',
        null,
        runs > 1 ? `${runs} times in ${age(since)}, the last one ` : 'once, ',
        ago(ended(run)),
        ' for ',
      ),
      keyLink(run.controller, run.key),
      h('a', { href: link('runs', { controller: run.controller, outcome: run.outcome }) }, 'runs'),
    ),
    run.message &&
      h('p.bad-text.error-text', null, run.class ? `${words(run.class)}: ` : '', run.message),
  );
}
