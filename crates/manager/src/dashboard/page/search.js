// Search over the keys of all controllers.

import { h, redraw } from './dom.js';
import { explain, get, Poller } from './api.js';
import { live } from './stream.js';
import { link } from './route.js';
import { errorBox, heading, keyLink, stateChip, chip } from './parts.js';
import { when } from './queue.js';
import { counted, words } from './format.js';

const FOUND_SHOWN = 10;

export function search({ text }) {
  const found = new Map();
  let error = null;
  const poller = new Poller(async signal => {
    let seconds = 5;
    try {
      const controllers =
        live.summary?.controllers ?? (await get('/api/summary', {}, signal)).controllers;
      for (const { name } of controllers) {
        const answer = await get(
          '/api/keys',
          { controller: name, state: 'all', search: text, limit: FOUND_SHOWN },
          signal,
        );
        found.set(name, answer);
        seconds = Math.max(seconds, answer.refreshSeconds ?? 0);
        redraw();
      }
      error = null;
    } catch (failure) {
      if (!signal.aborted) error = explain(failure);
    }
    redraw();
    return seconds;
  });
  return {
    title: `Search: ${text ?? ''}`,
    render: () => [
      heading(`Search: ${text ?? ''}`),
      errorBox(error),
      [...found].map(([name, answer]) => section(name, answer, text)),
    ],
    stop: () => poller.stop(),
  };
}

function section(name, { total, keys }, text) {
  const all = link('queue', { controller: name, state: 'all', search: text });
  return h(
    'section.card',
    { key: name, 'aria-label': name },
    h(
      'header.card-head',
      null,
      h('h2', null, name),
      h('a', { href: all }, `${counted(total, 'key')}`),
    ),
    keys.length === 0 && h('p.quiet', null, 'No key matches.'),
    h(
      'ul.found',
      null,
      keys.map(row =>
        h(
          'li',
          { key: row.key },
          keyLink(name, row.key),
          ' ',
          row.why ? chip(words(row.why), 'warn') : stateChip(row.state),
          ' ',
          h('span.quiet', null, when(row)),
        ),
      ),
    ),
  );
}
