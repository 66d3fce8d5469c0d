// The causal graph of a story as SVG. Runs are buttons: the Tab key stops at one of them, and
// arrow keys lead to the others.

import { h } from './dom.js';
import { neighbour, NODE } from './graph.js';
import { outcomeOf } from './parts.js';
import { clock, shorten } from './format.js';

/** How many characters the lines of a node have room for. */
const HEAD_MAX = 20;
const KEY_MAX = 24;

/**
 * Draws what `layout` returned, in its own size or in that of the box. `onSelect` is called with
 * the id of a run.
 */
export function drawGraph(graph, { selected, isFit, onSelect }) {
  const { width, height } = graph;
  const ids = [...graph.places.keys()];
  const stop = graph.places.has(selected) ? selected : ids.at(-1);
  return h(
    'div.graph-box',
    { key: 'graph' },
    h(
      'svg.graph',
      {
        class: isFit ? 'fit' : '',
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: 'group',
        'aria-label': 'Causal graph. The list below says the same.',
      },
      arrow(),
      graph.steps.map(step => h('path.step', { key: step.id, d: step.path })),
      graph.edges.map(edge => drawEdge(edge, selected)),
      ids.map(id =>
        drawNode(graph.places.get(id), {
          isSelected: id === selected,
          isStop: id === stop,
          onclick: () => onSelect(id),
          onkeydown: event => onKey(event, graph, id, onSelect),
        }),
      ),
    ),
  );
}

function onKey(event, graph, id, onSelect) {
  if (event.key === 'Enter' || event.key === ' ') {
    onSelect(id);
  } else if (event.key.startsWith('Arrow')) {
    const next = neighbour(graph, id, event.key);
    if (next) document.getElementById(`run-${next}`).focus();
  } else {
    return;
  }
  event.preventDefault();
}

function arrow() {
  const size = { markerWidth: 9, markerHeight: 9, markerUnits: 'userSpaceOnUse' };
  return h(
    'defs',
    null,
    h(
      'marker',
      { id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, orient: 'auto', ...size },
      h('path.arrow', { d: 'M0 0L8 4L0 8Z' }),
    ),
  );
}

function drawEdge(edge, selected) {
  const isLit = edge.from === selected || edge.to === selected;
  const props = { d: edge.path, class: isLit ? 'lit' : '', 'marker-end': 'url(#arrow)' };
  const text = edge.links.map(one => `${one.write} → ${one.cause}`).join('\n');
  return h('path.edge', { key: edge.id, ...props }, h('title', null, text));
}

function drawNode({ run, x, y }, { isSelected, isStop, onclick, onkeydown }) {
  const { label, tone } = outcomeOf(run);
  return h(
    'g.node',
    {
      key: run.id,
      id: `run-${run.id}`,
      class: isSelected ? `${tone} selected` : tone,
      transform: `translate(${x} ${y})`,
      role: 'button',
      tabindex: isStop ? '0' : '-1',
      'aria-pressed': String(isSelected),
      onclick,
      onkeydown,
    },
    h('title', null, `${run.controller} ${run.key}: ${label} at ${clock(run.started)}`),
    h('rect.node-box', { width: NODE.width, height: NODE.height, rx: 6 }),
    h('rect.node-edge', { width: 5, height: NODE.height, rx: 2 }),
    h('text.node-head', { x: 14, y: 19 }, shorten(run.controller, HEAD_MAX - label.length)),
    h('text.node-outcome', { x: NODE.width - 8, y: 19, 'text-anchor': 'end' }, label),
    h('text.node-key', { x: 14, y: 36 }, shorten(run.key, KEY_MAX)),
  );
}
