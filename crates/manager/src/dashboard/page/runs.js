// The last runs of all controllers, the newest first.

import { h, redraw } from './dom.js';
import { get } from './api.js';
import { live } from './stream.js';
import { VirtualList } from './list.js';
import { link, replaceParameters } from './route.js';
import {
  closeDialog,
  ended,
  heading,
  holdButton,
  keyLink,
  outcomeChip,
  outcomeOf,
  OUTCOMES,
  runDetails,
  showDialog,
  timeOf,
} from './parts.js';
import { afterTyping, filterField, noteNamespaces } from './queue.js';
import { duration, words } from './format.js';

export function runs(parameters) {
  const filter = {
    controller: parameters.controller ?? '',
    outcome: parameters.outcome ?? '',
    namespace: parameters.namespace ?? '',
    search: parameters.search ?? '',
  };
  const namespaces = new Set();
  let isHeld = false;
  // Rows must not move while someone reads them: the list is live only at its top, with no row
  // selected.
  const isLive = () => !isHeld && list.scrollTop === 0 && list.active < 0;
  const list = new VirtualList({
    label: 'Last runs',
    noun: 'run',
    columns: columns(),
    isLive,
    empty: () =>
      Object.values(filter).some(Boolean) ? 'No run matches the filter.' : 'No run is known.',
    tone: run => (outcomeOf(run).tone === 'bad' ? 'row-bad' : ''),
    open: showRun,
    async fetchPage(offset, limit, signal) {
      const answer = await get('/api/runs', { ...filter, offset, limit }, signal);
      noteNamespaces(namespaces, answer.runs);
      return { ...answer, rows: answer.runs };
    },
  });
  const restart = () => {
    replaceParameters('runs', filter);
    list.restart();
  };
  const change = afterTyping(restart);
  const type = name => event => {
    filter[name] = event.currentTarget.value.trim();
    change();
  };
  const choose = name => event => {
    filter[name] = event.currentTarget.value;
    restart();
  };
  const hold = () => {
    const wasLive = isLive();
    isHeld = wasLive;
    if (!wasLive) list.restart();
    redraw();
  };
  return {
    title: 'Runs',
    render: () => [
      heading('Runs', holdButton(isLive(), hold)),
      h(
        'div.filters',
        null,
        filterField('Search', filter.search, type('search'), {
          type: 'search',
          'data-search': true,
        }),
        select(
          'Controller',
          filter.controller,
          choose('controller'),
          (live.summary?.controllers ?? []).map(one => [one.name, one.name]),
        ),
        select('Outcome', filter.outcome, choose('outcome'), outcomes()),
        filterField('Namespace', filter.namespace, type('namespace'), {
          list: 'namespaces',
        }),
        h(
          'datalist',
          { id: 'namespaces' },
          [...namespaces].sort().map(name => h('option', { key: name, value: name })),
        ),
      ),
      h('div.runs-list', { key: 'list' }, list.render()),
    ],
    stop() {
      change.cancel();
      list.stop();
    },
  };
}

/** What the runs can be filtered by: all that failed in any way, or one outcome. */
function outcomes() {
  const known = Object.entries(OUTCOMES).filter(([name]) => name !== 'other');
  return [['errors', 'any error'], ...known.map(([name, { label }]) => [name, label])];
}

function select(label, value, onchange, options) {
  // The chosen one is there before the summary names the others.
  const all =
    options.some(([name]) => name === value) || !value ? options : [[value, value], ...options];
  return h(
    'label',
    null,
    h('span', null, label),
    h(
      'select',
      { value, onchange },
      h('option', { value: '' }, 'all'),
      all.map(([name, text]) => h('option', { key: name, value: name }, text)),
    ),
  );
}

function columns() {
  return [
    { name: 'Ended', class: 'c-clock', cell: run => timeOf(ended(run)) },
    {
      name: 'Controller',
      class: 'c-controller',
      cell: run => h('span', { title: run.controller }, run.controller),
    },
    {
      name: 'Key',
      class: 'c-key',
      cell: run => keyLink(run.controller, run.key, { tabindex: '-1' }),
    },
    { name: 'Outcome', class: 'c-state', cell: run => outcomeChip(run) },
    { name: 'Took', class: 'c-number', cell: run => duration(run.tookSeconds) },
    { name: 'Error, or cause', class: 'c-why', cell: explainRun },
  ];
}

function explainRun(run) {
  if (run.message)
    return h('span', { title: run.message }, run.class ? `${words(run.class)}: ` : '', run.message);
  return h('span.quiet', { title: run.causes.join('\n') }, run.causes.at(-1) ?? '');
}

function showRun(run) {
  showDialog(`${run.controller} ${run.key}`, () => [
    runDetails(run),
    h(
      'div.buttons',
      null,
      h(
        'a.button',
        {
          href: link('key', { controller: run.controller, key: run.key }),
          onclick: closeDialog,
        },
        'Key',
      ),
      h(
        'a.button',
        {
          href: link('story', { kind: run.kind, key: run.key, run: run.id }),
          onclick: closeDialog,
        },
        'Story',
      ),
      h('button.primary', { type: 'button', onclick: closeDialog }, 'Close'),
    ),
  ]);
}
