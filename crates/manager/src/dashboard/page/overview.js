// Overview: what is wrong, and each controller with its plots.

import { h, redraw } from './dom.js';
import { failures, live } from './stream.js';
import { link } from './route.js';
import { plot } from './plots.js';
import { LatestErrors } from './errors.js';
import { findTroubles } from './troubles.js';
import { chip, heading, RESTING_MEANS, stateChip } from './parts.js';
import { age, count, counted, duration, number, words } from './format.js';

/** How many troubles are shown before one asks for the others. */
const TROUBLES_SHOWN = 6;

export function overview() {
  let isAll = false;
  const errors = new LatestErrors();
  return {
    title: 'Overview',
    render() {
      const { summary } = live;
      if (!summary) return [heading('Overview'), h('p.quiet', null, 'Waiting for the manager…')];
      return [
        heading('Overview', status(summary)),
        troubleList(findTroubles(summary), isAll, () => {
          isAll = true;
          redraw();
        }),
        h(
          'section.controllers',
          { 'aria-label': 'Controllers' },
          summary.controllers.map(controller => card(controller, summary)),
        ),
        errors.render(),
      ];
    },
    stop: () => errors.stop(),
  };
}

function status(summary) {
  const { leadership, phase, started, version } = summary;
  return h(
    'p.status-line',
    null,
    stateChip(phase === 'running' ? 'running' : phase),
    leadership && h('a', { href: link('leadership') }, stateChip(leadership.state)),
    started && h('span.quiet', null, `up for ${age(started)}`),
    h('span.quiet', null, `Windlass ${version}`),
  );
}

function troubleList(troubles, isAll, showAll) {
  if (troubles.length === 0) {
    return h('p.all-well', { key: 'well' }, chip('No trouble found', 'good'));
  }
  const shown = isAll ? troubles : troubles.slice(0, TROUBLES_SHOWN);
  const rest = troubles.length - shown.length;
  return h(
    'section.troubles',
    { key: 'troubles', 'aria-label': 'Troubles' },
    h(
      'ul',
      null,
      shown.map(one =>
        h(
          'li',
          { key: one.id, class: one.tone },
          chip(one.tone === 'info' ? 'note' : one.tone === 'bad' ? 'trouble' : 'warning', one.tone),
          h(
            'div.trouble-text',
            null,
            h('strong', { title: one.means }, one.title),
            one.text && h('span', null, one.text),
          ),
          h('a', { href: one.href, 'aria-label': `${one.linkText}: ${one.title}` }, one.linkText),
        ),
      ),
    ),
    rest > 0 && h('button', { type: 'button', onclick: showAll }, `Show ${rest} more`),
  );
}

function card(controller, summary) {
  const { name } = controller;
  const isStandby = controller.needsLeadership && summary.leadership?.state === 'standby';
  return h(
    'article.card',
    { key: name, 'aria-labelledby': `controller-${name}` },
    h(
      'header.card-head',
      null,
      h(
        'h2',
        { id: `controller-${name}` },
        h('a', { href: link('queue', { controller: name }) }, name),
      ),
      controller.kind && h('span.quiet', null, controller.kind),
      isStandby && chip('standby: another replica leads', 'quiet'),
      controller.trouble && chip('waits for a cache', 'bad'),
    ),
    plots(controller),
    queueLinks(controller),
    totals(controller),
  );
}

function plots(controller) {
  const history = live.history.get(controller.name) ?? [];
  const one = (label, field, format, more) => plot({ label, history, field, format, ...more });
  return h(
    'div.plots',
    null,
    one('Runs/s', 'runs', number),
    one('Errors/s', 'errors', number, { tone: 'bad' }),
    one('Mean run', 'latency', duration),
    one('Ready keys', 'depth', count),
    one(`Busy of ${counted(controller.workers, 'worker')}`, 'busy', count, {
      limit: controller.workers,
    }),
  );
}

function queueLinks(controller) {
  const { name, queue } = controller;
  const one = (state, value) =>
    h(
      'a',
      {
        href: link('queue', { controller: name, state }),
        title: state === 'resting' ? RESTING_MEANS : null,
      },
      h('strong', null, value),
      ` ${state}`,
    );
  return h(
    'nav.queue-links',
    { 'aria-label': `Queue of ${name}` },
    one('running', count(controller.running)),
    one('ready', count(queue.ready)),
    one('waiting', count(queue.waiting)),
    one('resting', count(controller.inactive.length + controller.omittedInactive)),
    h('a', { href: link('queue', { controller: name, state: 'failed' }) }, 'failed keys'),
    h('a', { href: link('runs', { controller: name }) }, 'last runs'),
  );
}

/** What has happened since the process started. */
function totals({ counts, events }) {
  const failed = Object.entries(counts.failed).filter(([, value]) => value > 0);
  const parts = [
    `${counted(counts.runs, 'run')} since the start`,
    `${count(failures(counts))} failed`,
    ...failed.map(([name, value]) => `${count(value)} ${words(name)}`),
    counts.panicked > 0 && `${count(counts.panicked)} panicked`,
    counts.timedOut > 0 && `${count(counts.timedOut)} timed out`,
    counts.givenUp > 0 && `${count(counts.givenUp)} given up`,
    counts.hotLoops > 0 && counted(counts.hotLoops, 'hot loop'),
    events.recorded > 0 && counted(events.recorded, 'event'),
    events.dropped > 0 && `${count(events.dropped)} of them dropped`,
    events.failed > 0 && `${count(events.failed)} not written`,
  ];
  return h('p.totals', null, parts.filter(Boolean).join(' · '));
}
