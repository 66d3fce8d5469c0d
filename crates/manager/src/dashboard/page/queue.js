// The queue of a controller: which keys run, are ready, wait, have failed, or rest.

import { h, redraw } from './dom.js';
import { get } from './api.js';
import { live } from './stream.js';
import { VirtualList } from './list.js';
import { go, link, replaceParameters } from './route.js';
import { chip, heading, keyLink, RESTING_MEANS, stateChip } from './parts.js';
import { age, count, left, splitKey, words } from './format.js';

const STATES = ['all', 'running', 'ready', 'waiting', 'failed', 'resting'];
const EMPTY = {
  all: 'No object, and no key in the queue.',
  running: 'No key runs.',
  ready: 'No key is ready.',
  waiting: 'No key waits.',
  failed: 'No key has failed.',
  resting: 'No key rests.',
};
/** How long after the last key press a filter is applied, in milliseconds. */
const TYPING = 250;

export function queue(parameters) {
  const filter = {
    controller: parameters.controller ?? live.summary?.controllers[0]?.name ?? '',
    state: STATES.includes(parameters.state) ? parameters.state : 'all',
    namespace: parameters.namespace ?? '',
    search: parameters.search ?? '',
  };
  const namespaces = new Set();
  const list = new VirtualList({
    label: 'Keys',
    noun: 'key',
    columns: columns(filter),
    empty: () =>
      filter.search || filter.namespace ? 'Nothing matches the filter.' : EMPTY[filter.state],
    open: row => go('key', { controller: filter.controller, key: row.key }),
    async fetchPage(offset, limit, signal) {
      filter.controller ||= await firstController(signal);
      const answer = await get('/api/keys', { ...filter, offset, limit }, signal);
      noteNamespaces(namespaces, answer.keys);
      return { ...answer, rows: answer.keys };
    },
  });
  const change = afterTyping(() => {
    replaceParameters('queue', filter);
    list.restart();
  });
  const set = name => event => {
    filter[name] = event.currentTarget.value.trim();
    change();
  };
  return {
    title: filter.controller ? `Queue of ${filter.controller}` : 'Queue',
    render: () => [
      heading('Queue', controllerSelect(filter)),
      tabs(filter, list.total),
      h(
        'div.filters',
        null,
        filterField('Search', filter.search, set('search'), {
          type: 'search',
          'data-search': true,
        }),
        filterField('Namespace', filter.namespace, set('namespace'), {
          list: 'namespaces',
        }),
        h(
          'datalist',
          { id: 'namespaces' },
          [...namespaces].sort().map(name => h('option', { key: name, value: name })),
        ),
      ),
      h('div.queue-list', { key: 'list' }, list.render()),
    ],
    stop() {
      change.cancel();
      list.stop();
    },
  };
}

/** The controller to show if none is named, and the summary has not come yet. */
async function firstController(signal) {
  const summary = live.summary ?? (await get('/api/summary', {}, signal));
  return summary.controllers[0]?.name ?? '';
}

/**
 * A function that calls `act` when nobody has typed for a moment. A view that stops must cancel it:
 * `act` would change the address of the next view.
 */
export function afterTyping(act) {
  let timer = null;
  const typed = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      act();
      redraw();
    }, TYPING);
  };
  typed.cancel = () => clearTimeout(timer);
  return typed;
}

/** Namespaces that were seen, for the field's suggestions. */
export function noteNamespaces(namespaces, rows) {
  for (const row of rows) {
    const { namespace } = splitKey(row.key);
    if (namespace !== null && namespaces.size < 200) namespaces.add(namespace);
  }
}

export function filterField(label, value, oninput, props) {
  return h(
    'label',
    null,
    h('span', null, label),
    h('input', {
      type: 'text',
      autocomplete: 'off',
      spellcheck: 'false',
      value,
      oninput,
      ...props,
    }),
  );
}

function controllerSelect(filter) {
  const names = live.summary?.controllers.map(one => one.name) ?? [filter.controller];
  return h(
    'label.controller-select',
    null,
    h('span', null, 'Controller'),
    h(
      'select',
      {
        onchange: event => go('queue', { ...filter, controller: event.currentTarget.value }),
        value: filter.controller,
      },
      names.map(name => h('option', { key: name, value: name }, name)),
    ),
  );
}

function tabs(filter, total) {
  const controller = live.summary?.controllers.find(one => one.name === filter.controller);
  const counts = controller
    ? {
        running: controller.running,
        ready: controller.queue.ready,
        waiting: controller.queue.waiting,
        resting: controller.inactive.length + controller.omittedInactive,
      }
    : {};
  // What the summary does not count is known for the list that is shown.
  if (counts[filter.state] === undefined && total !== null && !filter.search && !filter.namespace) {
    counts[filter.state] = total;
  }
  return h(
    'nav.tabs',
    { 'aria-label': 'State of the keys' },
    STATES.map(state =>
      h(
        'a',
        {
          key: state,
          href: link('queue', { ...filter, state }),
          'aria-current': state === filter.state ? 'page' : null,
          title: state === 'resting' ? RESTING_MEANS : null,
        },
        words(state),
        counts[state] !== undefined && h('span.tab-count', null, ` ${count(counts[state])}`),
      ),
    ),
  );
}

function columns(filter) {
  return [
    {
      name: 'Key',
      class: 'c-key',
      cell: row => keyLink(filter.controller, row.key, { tabindex: '-1' }),
    },
    { name: 'State', class: 'c-state', cell: row => stateCell(row) },
    { name: filter.state === 'waiting' ? 'Time left' : 'Time', class: 'c-time', cell: when },
    { name: 'Failures', class: 'c-number', cell: row => failuresCell(row) },
    { name: 'Priority', class: 'c-priority', cell: row => row.priority ?? '' },
    { name: 'Why', class: 'c-why', cell: row => why(row) },
  ];
}

function stateCell(row) {
  if (row.why) return chip(words(row.why), row.why === 'paused' ? 'quiet' : 'bad');
  return [stateChip(row.state), row.again && h('span.quiet', null, ' + again')];
}

function failuresCell(row) {
  if (!row.failures) return h('span.quiet', null, row.failures === 0 ? '0' : '');
  return h('span.bad-text', null, count(row.failures), h('span.narrow-only', null, ' failures'));
}

/** The time that is left, or since when. */
export function when(row) {
  if (row.nextRun) {
    const rest = left(row.nextRun);
    return h('span', null, rest !== 'now' && 'in ', h('strong', null, rest));
  }
  if (!row.since) return '';
  return `for ${age(row.since)}`;
}

function why(row) {
  const causes = row.causes ?? [];
  const more = causes.length - 1 + (row.omittedCauses ?? 0);
  return h(
    'span',
    { title: causes.join('\n') },
    causes.at(-1) ?? '',
    more > 0 && h('span.quiet', null, ` + ${count(more)} more`),
  );
}
