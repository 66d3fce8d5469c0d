// Informers: whether the caches are complete and current, and what they take.

import { h } from './dom.js';
import { live } from './stream.js';
import { chip, heading, stateChip, texts, timeOf } from './parts.js';
import { ago, age, bytes, count, counted, duration, left, number, words } from './format.js';

export function informers({ resource }) {
  return {
    title: 'Informers',
    render() {
      const all = live.summary?.informers;
      if (!all) return [heading('Informers'), h('p.quiet', null, 'Waiting for the manager…')];
      if (all.length === 0)
        return [heading('Informers'), h('p.quiet', null, 'There is no informer.')];
      return [
        heading('Informers'),
        memorySection(all),
        h(
          'section.controllers',
          { 'aria-label': 'Informers' },
          all.map(informer => card(informer, informer.resource === resource)),
        ),
      ];
    },
    // Once: a link from a trouble leads to its informer.
    drawn: once(() => document.querySelector('.card.wanted')?.scrollIntoView({ block: 'start' })),
  };
}

function once(act) {
  let isDone = false;
  return () => {
    if (isDone || !live.summary) return;
    isDone = true;
    act();
  };
}

const hotBytes = ({ types }) => types.reduce((sum, type) => sum + type.hotBytes, 0);
const allBytes = memory => memory.objectBytes + memory.structureBytes + hotBytes(memory);

function memorySection(all) {
  const most = Math.max(1, ...all.map(one => allBytes(one.memory)));
  const sum = all.reduce((total, one) => total + allBytes(one.memory), 0);
  const sorted = [...all].sort((a, b) => allBytes(b.memory) - allBytes(a.memory));
  return h(
    'section.card.memory',
    { 'aria-label': 'Memory by kind' },
    h(
      'header.card-head',
      null,
      h('h2', null, 'Memory by kind'),
      h('span.quiet', null, `${bytes(sum)} in all caches`),
      h(
        'span.legend',
        null,
        h('span.swatch.objects', null, 'objects'),
        h('span.swatch.structure', null, 'map and indexes'),
        h('span.swatch.hot', null, 'decoded'),
      ),
    ),
    h(
      'ul.bars',
      null,
      sorted.map(({ resource, memory }) =>
        h(
          'li',
          { key: resource },
          h('span.bar-name', null, resource),
          h(
            'span.bar',
            { 'aria-hidden': 'true' },
            bar('objects', memory.objectBytes / most),
            bar('structure', memory.structureBytes / most),
            bar('hot', hotBytes(memory) / most),
          ),
          h(
            'span.bar-value',
            null,
            `${bytes(allBytes(memory))}, ${counted(memory.objects, 'object')}`,
          ),
        ),
      ),
    ),
  );
}

const bar = (name, share) =>
  h('span', { class: name, style: { width: `${(share * 100).toFixed(2)}%` } });

function card(informer, isWanted) {
  const { resource, state, failure, memory } = informer;
  return h(
    'article.card',
    { key: resource, class: isWanted ? 'wanted' : '', 'aria-label': resource },
    h(
      'header.card-head',
      null,
      h('h2', null, resource),
      stateChip(state),
      h('span.quiet', null, `${counted(memory.objects, 'object')}, ${bytes(allBytes(memory))}`),
    ),
    failure && h('p.error-box', null, failure),
    h(
      'ul.feeds',
      null,
      informer.feeds.map(feed => h('li', { key: feed.namespace ?? '' }, feedOf(feed))),
    ),
    handlers(informer.handlers),
    problems(
      'cannot be read: the cache does not have their current version',
      informer.quarantined,
      informer.quarantined.length,
    ),
    memory.types.map(type =>
      problems(`cannot be decoded as ${type.name}`, type.undecodableFirst, type.undecodable),
    ),
    memory.indexes.map(index =>
      problems(`are not in the index ${index.name}`, index.undecodableFirst, index.undecodable),
    ),
    caches(memory),
  );
}

function feedOf(feed) {
  return [
    h(
      'p.feed-line',
      null,
      h('strong', null, feed.namespace ? `Namespace ${feed.namespace}` : 'All namespaces'),
      stateChip(feed.activity),
      h('span', null, `for ${age(feed.since)}`),
      feed.nextTry &&
        h(
          'span',
          null,
          'next try ',
          left(feed.nextTry) === 'now' ? 'now' : `in ${left(feed.nextTry)}`,
        ),
      feed.lastEvent && h('span', null, `last change ${ago(feed.lastEvent)}`),
      feed.version && h('span.quiet', null, `at version ${feed.version}`),
    ),
    feed.activity === 'listing'
      ? progress(feed.list)
      : h('p.quiet', null, `Last list: ${listText(feed.list)}`),
    feed.lastError &&
      h(
        'p.feed-error',
        null,
        chip('last error', 'warn'),
        ' ',
        timeOf(feed.lastError.time),
        ` (${ago(feed.lastError.time)}): `,
        feed.lastError.message,
      ),
    feedCounts(feed.counts),
  ];
}

const listText = ({ objects, bytes: size, tookSeconds }) =>
  `${counted(objects, 'object')}, ${bytes(size)} in ${duration(tookSeconds)}`;

/** How many objects will come is not known, so the bar only says that it goes on. */
function progress(list) {
  const rate = list.tookSeconds > 0 ? list.objects / list.tookSeconds : 0;
  const text = `${listText(list)} (${number(rate)} objects/s)`;
  return h(
    'p.progress',
    null,
    h('progress', { 'aria-label': `Listing: ${text}` }),
    h('span', null, text),
  );
}

function feedCounts(counts) {
  const shown = Object.entries(counts).filter(([, value]) => value > 0);
  return h(
    'p.totals',
    null,
    shown.map(([name, value]) => `${words(name)} ${count(value)}`).join(' · ') || 'Nothing yet',
  );
}

function handlers(all) {
  if (all.length === 0) return null;
  return h(
    'p.handlers',
    null,
    h('span.quiet', null, 'Handlers: '),
    all.map((one, index) =>
      h(
        'span',
        { key: one.name },
        index > 0 && ', ',
        h('strong', null, one.name),
        ' ',
        [
          one.synced ? '' : 'not synced',
          one.pending > 0 ? `${count(one.pending)} events pending` : 'nothing pending',
          one.merged > 0 && `${count(one.merged)} merged`,
          one.panics > 0 && `${count(one.panics)} panics`,
        ]
          .filter(Boolean)
          .join(', '),
      ),
    ),
  );
}

function problems(text, first, total) {
  if (total === 0) return null;
  return h(
    'div.problems',
    { key: text },
    h('p', null, chip(`${counted(total, 'object')} ${text}`, 'warn')),
    texts(first, total - first.length, ''),
  );
}

/** How many decoded objects are kept, and how often a read found one of them. */
function caches({ types, indexes }) {
  const parts = [
    ...types.map(type => {
      const reads = type.hits + type.misses;
      if (reads === 0) return `${type.name}: ${counted(type.hotEntries, 'decoded object')} kept`;
      const share = `${Math.round((type.hits / reads) * 100)} % of ${counted(reads, 'read')}`;
      return `${type.name}: ${share} found a decoded object (${count(type.hotEntries)} kept)`;
    }),
    ...indexes.map(index => `index ${index.name}: ${count(index.entries)} entries`),
  ];
  return parts.length > 0 && h('p.totals', null, parts.join(' · '));
}
