// Small plots of the last minutes: one minute at first, up to five when the page is open longer.

import { h, redraw } from './dom.js';
import { SAMPLES_MAX } from './stream.js';
import { ticking } from './format.js';

const WIDTH = 300;
const HEIGHT = 44;

/**
 * The least distance of samples, in milliseconds, that counts as a gap, when the page was not
 * connected. See `gapOf`: a manager with many objects makes a summary less often.
 */
const GAP_MIN = 3500;

/** The shortest time that a plot spans, in seconds. */
const SPAN_MIN = 60;

/** Where the pointer is in any plot, from 0 to 1; all plots show that time. */
let pointed = null;

/**
 * A plot of one field of a history. `limit` is drawn as a line, and the scale reaches it.
 */
export function plot({ label, history, field, format, limit = 0, tone = '' }) {
  const end = history.at(-1)?.time ?? 0;
  const span = Math.min(
    Math.max(end - (history[0]?.time ?? end), SPAN_MIN * 1000),
    SAMPLES_MAX * 1000,
  );
  const start = end - span;
  const known = history.filter(one => one.time >= start && one[field] !== null);
  const most = Math.max(...known.map(one => one[field]), 0);
  const top = Math.max(limit, most);
  const shown = pointed === null ? history.at(-1) : nearest(known, start + pointed * span);
  const x = time => (((time - start) / span) * WIDTH).toFixed(1);
  const y = value =>
    (top === 0 ? HEIGHT - 1 : HEIGHT - 1 - (value / top) * (HEIGHT - 4)).toFixed(1);
  const when = pointed === null || !shown ? '' : `${ticking((end - shown.time) / 1000)} ago`;
  const value = shown ? format(shown[field] ?? undefined) : '–';
  const summary = `${label}: ${value}, at most ${format(most)} in the last ${ticking(span / 1000)}`;
  return h(
    'figure.plot',
    { class: tone },
    h('figcaption', null, h('span.plot-label', null, label), h('span.plot-value', null, value)),
    h(
      'svg',
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': summary,
        onpointermove: point,
        onpointerleave: unpoint,
      },
      limit > 0 && h('line.plot-limit', { x1: 0, x2: WIDTH, y1: y(limit), y2: y(limit) }),
      areas(known, field, x, y),
      pointed !== null &&
        shown &&
        h('line.plot-pointer', { x1: x(shown.time), x2: x(shown.time), y1: 0, y2: HEIGHT }),
    ),
    h(
      'div.plot-axis',
      { 'aria-hidden': 'true' },
      h('span', null, `−${ticking(span / 1000)}`),
      h('span', null, when || `max ${format(most)}`),
    ),
  );
}

function point(event) {
  const box = event.currentTarget.getBoundingClientRect();
  pointed = (event.clientX - box.left) / box.width;
  redraw();
}

function unpoint() {
  pointed = null;
  redraw();
}

function nearest(known, time) {
  let best = null;
  for (const one of known) {
    if (!best || Math.abs(one.time - time) < Math.abs(best.time - time)) best = one;
  }
  return best;
}

/** Samples that are further apart are not joined: 2.5 times the median distance. */
function gapOf(known) {
  const distances = known.slice(1).map((one, index) => one.time - known[index].time);
  distances.sort((a, b) => a - b);
  return Math.max(GAP_MIN, 2.5 * (distances[Math.floor(distances.length / 2)] ?? 0));
}

/** A line and the area below it, for each stretch without a gap. */
function areas(known, field, x, y) {
  const paths = [];
  let stretch = [];
  const finish = () => {
    if (stretch.length === 0) return;
    const line = stretch.map(one => `${x(one.time)} ${y(one[field])}`).join('L');
    const [first, last] = [x(stretch[0].time), x(stretch.at(-1).time)];
    paths.push(h('path.plot-area', { d: `M${first} ${HEIGHT}L${line}L${last} ${HEIGHT}Z` }));
    paths.push(h('path.plot-line', { d: `M${line}${stretch.length === 1 ? 'h1' : ''}` }));
    stretch = [];
  };
  const gap = gapOf(known);
  for (const one of known) {
    if (stretch.length > 0 && one.time - stretch.at(-1).time > gap) finish();
    stretch.push(one);
  }
  finish();
  return paths;
}
