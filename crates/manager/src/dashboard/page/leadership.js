// Leadership: who leads, and what runs on this replica.

import { h } from './dom.js';
import { live } from './stream.js';
import { link } from './route.js';
import { chip, facts, heading, stateChip, timeOf } from './parts.js';

export function leadership() {
  return { title: 'Leadership', render };
}

function render() {
  const { summary } = live;
  if (!summary) return [heading('Leadership'), h('p.quiet', null, 'Waiting for the manager…')];
  const { leadership: election } = summary;
  return [
    heading('Leadership', election && stateChip(election.state)),
    election
      ? electionSection(election)
      : h('p', null, 'There is no election: this replica runs all controllers.'),
    controllersSection(summary),
    election && changesSection(),
  ];
}

function electionSection(election) {
  const isOurs = election.leader === election.identity;
  return h(
    'section.card',
    { 'aria-label': 'Election' },
    facts([
      ['Lease', h('code', null, election.lease)],
      ['This replica', h('code', null, election.identity)],
      [
        'Leader',
        election.leader
          ? h('span', null, h('code', null, election.leader), isOurs && ' (this replica)')
          : 'not known',
      ],
    ]),
  );
}

function controllersSection({ controllers, leadership: election }) {
  const isStandby = election?.state === 'standby';
  return h(
    'section.card',
    { 'aria-label': 'Controllers on this replica' },
    h('h2', null, 'Controllers on this replica'),
    h(
      'ul.plain',
      null,
      controllers.map(one =>
        h(
          'li',
          { key: one.name },
          one.needsLeadership && isStandby ? chip('waits', 'quiet') : chip('runs', 'good'),
          ' ',
          h('a', { href: link('queue', { controller: one.name }) }, one.name),
          ' ',
          h('span.quiet', null, one.needsLeadership ? 'only on the leader' : 'on every replica'),
        ),
      ),
    ),
  );
}

function changesSection() {
  return h(
    'section.card',
    { 'aria-label': 'Changes' },
    h('h2', null, 'Since this page was opened'),
    h(
      'ul.plain',
      null,
      live.changes.map(one =>
        h(
          'li',
          { key: one.time },
          timeOf(one.time),
          ' ',
          stateChip(one.state),
          ' ',
          h('span', null, one.leader ? `leader: ${one.leader}` : 'the leader is not known'),
        ),
      ),
    ),
  );
}
