// The story of an object: what woke which run, over all controllers, as a graph and as a list.

import { h, redraw } from './dom.js';
import { explain, get, Poller } from './api.js';
import { drawGraph } from './drawing.js';
import { groupBy, layout, NODE } from './graph.js';
import { replaceParameters } from './route.js';
import {
  errorBox,
  heading,
  holdButton,
  keyLink,
  keyText,
  messageTone,
  objectText,
  outcomeChip,
  runDetails,
  timeOf,
} from './parts.js';
import { count, counted, duration } from './format.js';

const REFRESH_SECONDS = 3;
const LIMITS = [30, 100, 300];
const LIMIT = 100;

export function story(parameters) {
  const view = {
    kind: parameters.kind,
    key: parameters.key,
    limit: Number(parameters.limit) || LIMIT,
    selected: parameters.run ?? null,
    story: null,
    /** The limit that `story` was loaded with. */
    loadedLimit: null,
    graph: null,
    error: null,
    isHeld: false,
    isFit: false,
    /** Whether the next drawing scrolls to the selected run, or else to the newest one. */
    isToReveal: true,
  };
  view.poller = new Poller(async signal => {
    // A held story stays as it is, until someone asks for more or fewer runs.
    if (!view.isHeld || view.loadedLimit !== view.limit) await load(view, signal);
    return Math.max(REFRESH_SECONDS, view.story?.refreshSeconds ?? 0);
  });
  return {
    title: `Story of ${view.key}`,
    render: () => render(view),
    drawn: () => reveal(view),
    stop: () => view.poller.stop(),
  };
}

async function load(view, signal) {
  try {
    const { kind, key, limit } = view;
    const loaded = await get('/api/story', { kind, key, limit }, signal);
    // The layout is only made again if the story went on.
    const isSame =
      view.story?.runs.map(run => run.id).join() === loaded.runs.map(run => run.id).join();
    view.story = loaded;
    view.loadedLimit = limit;
    if (!isSame) view.graph = layout(loaded);
    view.error = null;
  } catch (error) {
    if (!signal.aborted) view.error = explain(error);
  }
  redraw();
}

function render(view) {
  const { story: shown, error, key } = view;
  return [
    heading(
      h(
        'span',
        null,
        'Story of ',
        view.kind && h('span.kind', null, `${view.kind} `),
        keyText(key),
      ),
      h(
        'div.buttons',
        null,
        fitButton(view),
        limitSelect(view),
        holdButton(!view.isHeld, () => hold(view)),
      ),
    ),
    errorBox(error),
    !shown && !error && h('p.quiet', null, 'Loading…'),
    shown?.runs.length === 0 &&
      h(
        'p.quiet',
        null,
        'No run that has ended is known: it runs for the first time, or ran long ago.',
      ),
    shown?.runs.length > 0 && [
      h(
        'p.quiet',
        null,
        `${counted(shown.runs.length, 'run')}, the oldest first`,
        shown.omittedRuns > 0 && `; ${count(shown.omittedRuns)} more are linked`,
        '. ',
        legend(),
      ),
      h(
        'div.story',
        { key: 'story', class: view.selected ? 'has-selection' : '' },
        drawing(view),
        details(view),
      ),
      listOf(view),
    ],
  ];
}

/** Switches between the readable size and the whole graph, which shows where to look. */
function fitButton(view) {
  const onclick = () => {
    view.isFit = !view.isFit;
    view.isToReveal = true;
    redraw();
  };
  return h(
    'button.wide-only',
    { type: 'button', onclick },
    view.isFit ? 'Full size' : 'Whole graph',
  );
}

function limitSelect(view) {
  const onchange = event => {
    view.limit = Number(event.currentTarget.value);
    view.error = null;
    keepAddress(view);
    view.poller.again();
  };
  return h(
    'label',
    null,
    h('span', null, 'Runs'),
    h(
      'select',
      { value: String(view.limit), onchange },
      LIMITS.map(limit => h('option', { key: limit, value: String(limit) }, String(limit))),
    ),
  );
}

function hold(view) {
  view.isHeld = !view.isHeld;
  if (!view.isHeld) view.poller.again();
  redraw();
}

function legend() {
  return h(
    'span.legend',
    null,
    ['done', 'requeued', 'paused', 'timedOut', 'failed'].map(outcome => outcomeChip({ outcome })),
  );
}

function drawing(view) {
  const { graph, selected } = view;
  return drawGraph(graph, { selected, isFit: view.isFit, onSelect: id => select(view, id) });
}

function select(view, id) {
  view.selected = view.selected === id ? null : id;
  view.isToReveal = view.selected !== null;
  // What someone reads must not move.
  if (view.selected) view.isHeld = true;
  keepAddress(view);
  redraw();
}

function keepAddress(view) {
  const { kind, key, limit, selected } = view;
  replaceParameters('story', { kind, key, limit, run: selected });
}

/** What is known of the selected run. */
function details(view) {
  const run = view.story.runs.find(one => one.id === view.selected);
  if (!run) {
    return (
      view.selected &&
      h(
        'aside.story-details',
        { key: 'details' },
        h('p.quiet', null, 'The selected run is not in this story any more.'),
      )
    );
  }
  return h(
    'aside.story-details',
    { key: 'details', 'aria-label': 'Selected run' },
    h('h2', null, `${run.controller} `, keyLink(run.controller, run.key)),
    runDetails(run),
    linked(
      view,
      'Woken by',
      view.story.links.filter(one => one.to === run.id),
      one => one.from,
    ),
    linked(
      view,
      'Woke',
      view.story.links.filter(one => one.from === run.id),
      one => one.to,
    ),
  );
}

function linked(view, title, links, other) {
  if (links.length === 0) return null;
  return [
    h('h3', null, title),
    h(
      'ul.texts',
      null,
      [...groupBy(links, other)].map(([id]) => {
        const run = view.story.runs.find(one => one.id === id);
        return (
          run &&
          h(
            'li',
            { key: id },
            h(
              'button.link',
              {
                type: 'button',
                onclick: () => {
                  view.selected = null;
                  select(view, id);
                },
              },
              `${run.controller} ${run.key}`,
            ),
            ' ',
            timeOf(run.started),
            ' ',
            outcomeChip(run),
          )
        );
      }),
    ),
  ];
}

/** The same as text: for screen readers, small screens, and to copy. */
function listOf(view) {
  const { runs, links } = view.story;
  const names = new Map(runs.map((run, index) => [run.id, index + 1]));
  return h(
    'section.story-list',
    { key: 'list', 'aria-label': 'Runs as a list' },
    h('h2', null, 'As a list'),
    h(
      'ol',
      null,
      runs.map((run, index) =>
        h(
          'li',
          {
            key: run.id,
            class: run.id === view.selected ? 'active' : '',
          },
          h(
            'p.story-run',
            null,
            h('span.quiet', null, `${index + 1}. `),
            timeOf(run.started),
            ' ',
            h(
              'button.link',
              { type: 'button', onclick: () => select(view, run.id) },
              `${run.controller} ${run.key}`,
            ),
            ' ',
            outcomeChip(run),
            h('span.quiet', null, ` in ${duration(run.tookSeconds)}`),
          ),
          run.message && h('p.story-error', { class: messageTone(run) }, run.message),
          h(
            'ul.texts',
            null,
            run.causes.map(cause =>
              h(
                'li',
                null,
                h('span.quiet', null, 'because '),
                objectText(cause),
                numbers(
                  links
                    .filter(one => one.to === run.id && one.cause === cause)
                    .map(one => names.get(one.from)),
                  ' ← ',
                ),
              ),
            ),
            run.writes.map(write =>
              h(
                'li',
                null,
                h('span.quiet', null, 'write '),
                objectText(write),
                numbers(
                  links
                    .filter(one => one.from === run.id && one.write === write)
                    .map(one => names.get(one.to)),
                  ' → ',
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

/** The numbers of other runs in the list. */
function numbers(found, arrow) {
  return found.length > 0 && h('strong', null, arrow, found.map(one => `run ${one}`).join(', '));
}

/** Scrolls so that the selected run is in sight, or the newest one of the object at first. */
function reveal(view) {
  if (!view.isToReveal || !view.graph) return;
  view.isToReveal = false;
  const place =
    view.graph.places.get(view.selected) ??
    [...view.graph.places.values()].filter(one => one.run.distance === 0).at(-1);
  const box = document.querySelector('.graph-box');
  if (place && box) {
    box.scrollLeft = nearTo(box.scrollLeft, box.clientWidth, place.x, NODE.width);
    box.scrollTop = nearTo(box.scrollTop, box.clientHeight, place.y, NODE.height);
  }
  // A click in the list below the graph opens details that are out of sight.
  if (view.selected) document.querySelector('.story-details')?.scrollIntoView({ block: 'nearest' });
}

/** The scroll position that centres a range; the current one if the range is in sight. */
function nearTo(scroll, size, start, length) {
  const isInside = start >= scroll && start + length <= scroll + size;
  return isInside ? scroll : start + length / 2 - size / 2;
}
