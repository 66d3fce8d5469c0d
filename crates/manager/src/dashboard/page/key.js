// One key: its state, what to do with it, and its runs.

import { h, redraw } from './dom.js';
import { explain, get, Poller, post } from './api.js';
import { link } from './route.js';
import {
  chip,
  confirm,
  errorBox,
  facts,
  heading,
  keyText,
  messageTone,
  notice,
  objectText,
  outcomeChip,
  runDetails,
  stateChip,
  texts,
  timeOf,
} from './parts.js';
import { troubleMeans, troubleName } from './troubles.js';
import { age, count, counted, duration, left, words } from './format.js';

const REFRESH_SECONDS = 2;

export function key({ controller, key: name }) {
  const view = { controller, name, report: null, error: null, open: new Set() };
  const poller = new Poller(async signal => {
    try {
      view.report = await get('/api/key', { controller, key: name }, signal);
      view.error = null;
    } catch (error) {
      if (signal.aborted) return REFRESH_SECONDS;
      view.error = explain(error);
    }
    redraw();
    return Math.max(REFRESH_SECONDS, view.report?.refreshSeconds ?? 0);
  });
  return {
    title: `${name} of ${controller}`,
    render: () => render(view, poller),
    stop: () => poller.stop(),
  };
}

function render(view, poller) {
  const { controller, name, report, error } = view;
  return [
    h('p.crumbs', null, h('a', { href: link('queue', { controller }) }, `Queue of ${controller}`)),
    heading(
      h('span', null, report && h('span.kind', null, `${report.kind} `), keyText(name)),
      report && buttons(report, poller),
    ),
    errorBox(error),
    !report && !error && h('p.quiet', null, 'Loading…'),
    report && [
      (report.trouble ?? []).map((one, index) =>
        h(
          'p.error-box',
          { key: `${one.kind} ${index}` },
          h('strong', { title: troubleMeans(one.kind) }, `${troubleName(one.kind)}: `),
          one.message,
        ),
      ),
      stateSection(report),
      runsSection(report, view.open),
      eventsSection(report),
    ],
  ];
}

function buttons(report, poller) {
  // Without an annotation, the controller does not let objects be paused.
  const { controller, key: name, paused, pauseAnnotation: annotation } = report;
  const named = annotation ? ` ${annotation}` : '';
  const target = { controller, key: name };
  const runNow = () =>
    confirm({
      title: `Run ${name} now?`,
      action: 'Run now',
      text: `${controller} reconciles it as soon as a worker is free; the cause is “dashboard”.`,
      act: () => done(post('/api/run', target), `${name} was added to the queue.`, poller),
    });
  const pause = () =>
    confirm({
      title: `${paused ? 'Resume' : 'Pause'} ${name}?`,
      action: paused ? 'Resume' : 'Pause',
      text: paused
        ? `This removes the annotation${named} from the object. It is reconciled again.`
        : `This sets the annotation${named} on the object. It is not reconciled until someone ` +
          'removes that, and not cleaned up either if it is deleted.',
      act: () =>
        done(
          post('/api/pause', { ...target, paused: !paused }),
          `${name} is ${paused ? 'resumed' : 'paused'}.`,
          poller,
        ),
    });
  return h(
    'div.buttons',
    null,
    h('a.button', { href: link('story', { kind: report.kind, key: name }) }, 'Story'),
    annotation !== null &&
      h('button', { type: 'button', onclick: pause }, paused ? 'Resume…' : 'Pause…'),
    h('button.primary', { type: 'button', onclick: runNow }, 'Run now…'),
  );
}

async function done(request, text, poller) {
  await request;
  notice(text);
  poller.again();
}

function stateSection(report) {
  const { queue, inactive } = report;
  return h(
    'section',
    { 'aria-label': 'State' },
    h('p.key-state', null, sentence(report)),
    report.exists === false &&
      h('p.quiet', null, 'The cache has no such object: it was deleted, or never created.'),
    facts([
      ['Attempt', queue && count(queue.attempt)],
      ['Failures in a row', queue && count(queue.failures)],
      ['Priority', queue?.priority],
      ['Since', (queue ?? inactive) && timeOf((queue ?? inactive).since)],
      ['Next run', queue?.nextRun && timeOf(queue.nextRun)],
    ]),
    queue && [
      h('h2', null, queue.state === 'running' ? 'Runs because' : 'Will run because'),
      texts((queue.causes ?? []).map(objectText), queue.omittedCauses, 'No cause is known.'),
    ],
    queue?.again && [
      h('h2', null, 'Will run again because'),
      texts(queue.again.causes.map(objectText), queue.again.omittedCauses, 'No cause is known.'),
    ],
  );
}

function sentence({ queue, inactive, paused, runs }) {
  if (queue?.state === 'running') return [stateChip('running'), ` for ${age(queue.since)}`];
  if (inactive) {
    const isPaused = inactive.why === 'paused';
    return [
      chip(words(inactive.why), isPaused ? 'quiet' : 'bad'),
      ` for ${age(inactive.since)}: `,
      isPaused ? 'it runs when the pause annotation is removed' : 'it runs when the object changes',
    ];
  }
  if (queue?.state === 'waiting') {
    const retry =
      queue.failures > 0 ? `, after ${counted(queue.failures, 'failure')} in a row` : '';
    const rest = left(queue.nextRun);
    return [
      stateChip('waiting'),
      ' runs ',
      rest !== 'now' && 'in ',
      h('strong', null, rest),
      retry,
    ];
  }
  if (queue) return [stateChip(queue.state), ` for ${age(queue.since)}: it waits for a worker`];
  if (paused) return chip('paused', 'quiet');
  const last = runs[0];
  return [
    stateChip('idle'),
    last ? ` since its last run ${age(last.started)} ago` : ' and no run is known',
  ];
}

function runsSection(report, open) {
  const { runs } = report;
  const toggle = id => event => {
    if (event.currentTarget.open) open.add(id);
    else open.delete(id);
    redraw();
  };
  return h(
    'section',
    { 'aria-label': 'Runs' },
    h('h2', null, runsTitle(report)),
    runs.length === 0 && h('p.quiet', null, 'No run is known: it has not run, or not lately.'),
    h(
      'ol.runs',
      null,
      runs.map(run =>
        h(
          'li',
          { key: run.id },
          h(
            'details',
            { open: open.has(run.id), ontoggle: toggle(run.id) },
            h('summary', null, runLine(run)),
            // What is closed is not made: a key may have many runs.
            open.has(run.id) &&
              h(
                'div',
                null,
                runDetails(run),
                h(
                  'a',
                  {
                    href: link('story', {
                      kind: report.kind,
                      key: report.key,
                      run: run.id,
                    }),
                  },
                  'Show in the story',
                ),
              ),
          ),
        ),
      ),
    ),
  );
}

function runsTitle({ runs, runCount }) {
  if (runs.length === 0) return 'Runs';
  if (runCount === runs.length) return `Last ${counted(runs.length, 'run')}`;
  return `Last ${runs.length} of ${counted(runCount, 'run')}`;
}

/** The events of its last runs. An event that is older is in the cluster, but not known here. */
function eventsSection({ runs }) {
  const events = runs.flatMap(run => run.events.map(text => ({ run, text })));
  return (
    events.length > 0 &&
    h(
      'section',
      { 'aria-label': 'Events' },
      h('h2', null, 'Events of these runs'),
      h(
        'ul.texts',
        null,
        events.map(({ run, text }, index) =>
          h('li', { key: `${run.id} ${index}` }, timeOf(run.started), ' ', text),
        ),
      ),
    )
  );
}

function runLine(run) {
  return h(
    'span.run-line',
    null,
    timeOf(run.started),
    outcomeChip(run),
    h('span.run-took', null, duration(run.tookSeconds)),
    h(
      'span.run-why',
      null,
      run.message ? h('span', { class: messageTone(run) }, run.message) : (run.causes.at(-1) ?? ''),
    ),
    h(
      'span.run-writes.quiet',
      null,
      run.writes.length > 0 && counted(run.writes.length + run.omittedWrites, 'write'),
    ),
  );
}
