// The layout of a story: columns go from cause to effect and from earlier to later, and each key of
// a controller has a lane (a row) of its own.
//
// Invariant: a run is to the right of the runs that woke it and of the earlier runs of its key. So
// no two runs have the same place, and no arrow leads back.

export const NODE = { width: 190, height: 46 };
const GAP = { x: 56, y: 18 };
const MARGIN = 24;

/**
 * Places `{run, column, lane, x, y}` by the run's id; edges, which are the links between runs;
 * steps, which join the runs of a lane; and the size.
 */
export function layout(story) {
  const places = new Map();
  const lanes = new Map();
  const steps = [];
  const into = groupBy(story.links, link => link.to);
  // The server sorts the runs by their start, so what woke a run has its place already.
  for (const run of story.runs) {
    const name = `${run.controller} ${run.key}`;
    if (!lanes.has(name)) lanes.set(name, { index: lanes.size, next: 0 });
    const lane = lanes.get(name);
    let column = lane.next;
    for (const link of into.get(run.id) ?? []) {
      column = Math.max(column, (places.get(link.from)?.column ?? -1) + 1);
    }
    const place = {
      run,
      column,
      lane: lane.index,
      x: MARGIN + column * (NODE.width + GAP.x),
      y: MARGIN + lane.index * (NODE.height + GAP.y),
    };
    if (lane.last) steps.push(step(lane.last, place));
    lane.next = column + 1;
    lane.last = place;
    places.set(run.id, place);
  }
  const columns = Math.max(0, ...[...places.values()].map(place => place.column)) + 1;
  return {
    places,
    steps,
    edges: edges(story.links, places),
    width: 2 * MARGIN + columns * (NODE.width + GAP.x) - GAP.x,
    height: 2 * MARGIN + lanes.size * (NODE.height + GAP.y) - GAP.y,
  };
}

export function groupBy(items, name) {
  const groups = new Map();
  for (const item of items) {
    const group = groups.get(name(item));
    if (group) group.push(item);
    else groups.set(name(item), [item]);
  }
  return groups;
}

/** The line from a run to the next one of its key. */
function step(from, to) {
  const y = from.y + NODE.height / 2;
  return { id: `${from.run.id} then ${to.run.id}`, path: `M${from.x + NODE.width} ${y}H${to.x}` };
}

/** One edge for each pair of runs, with all that links them. */
function edges(links, places) {
  const pairs = groupBy(
    links.filter(link => places.has(link.from) && places.has(link.to)),
    link => `${link.from} ${link.to}`,
  );
  return [...pairs].map(([id, of]) => {
    const [from, to] = [places.get(of[0].from), places.get(of[0].to)];
    return { id, from: of[0].from, to: of[0].to, links: of, path: path(from, to) };
  });
}

function path(from, to) {
  const [x1, y1] = [from.x + NODE.width, from.y + NODE.height / 2];
  const [x2, y2] = [to.x, to.y + NODE.height / 2];
  const isFar = to.column - from.column > 1;
  // Past other runs of the same lane, the arrow goes over them.
  if (isFar && from.lane === to.lane) {
    const above = from.y - GAP.y / 2 - 3;
    return (
      `M${x1} ${y1}C${x1 + 30} ${y1} ${x1} ${above} ${x1 + 50} ${above}L${x2 - 50} ${above}` +
      `C${x2} ${above} ${x2 - 30} ${y2} ${x2} ${y2}`
    );
  }
  // Down or up in the gap right after the source, then between the lanes to the target.
  if (isFar) {
    const between = to.lane > from.lane ? to.y - GAP.y / 2 : to.y + NODE.height + GAP.y / 2;
    return (
      `M${x1} ${y1}C${x1 + 36} ${y1} ${x1 + 14} ${between} ${x1 + 50} ${between}` +
      `L${x2 - 40} ${between}C${x2 - 10} ${between} ${x2 - 30} ${y2} ${x2} ${y2}`
    );
  }
  const bend = (x2 - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

/** The run that an arrow key leads to: along causes, or to the nearest run of another lane. */
export function neighbour(graph, id, keyName) {
  const here = graph.places.get(id);
  if (keyName === 'ArrowRight') {
    return graph.edges.find(edge => edge.from === id)?.to ?? inLane(graph, here, 1);
  }
  if (keyName === 'ArrowLeft') {
    return graph.edges.find(edge => edge.to === id)?.from ?? inLane(graph, here, -1);
  }
  const step = keyName === 'ArrowDown' ? 1 : -1;
  let best = null;
  for (const place of graph.places.values()) {
    const [far, aside] = [(place.lane - here.lane) * step, Math.abs(place.column - here.column)];
    const cost = far * 2 + aside;
    if (far > 0 && (!best || cost < best.cost)) best = { cost, id: place.run.id };
  }
  return best?.id ?? null;
}

function inLane(graph, here, step) {
  const lane = [...graph.places.values()].filter(place => place.lane === here.lane);
  lane.sort((a, b) => (a.column - b.column) * step);
  return lane.find(place => (place.column - here.column) * step > 0)?.run.id ?? null;
}
