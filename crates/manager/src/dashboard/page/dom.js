// A small virtual DOM: descriptions of elements, and the function that applies them to the page.
//
// A view returns what it wants to show as `h(…)`. `patch` changes only what differs, so focus,
// scroll positions and selected text survive a redraw each second. All text becomes text nodes:
// nothing that the server sends is ever parsed as HTML.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set([
  'svg',
  'g',
  'path',
  'rect',
  'line',
  'text',
  'title',
  'circle',
  'defs',
  'marker',
]);

/** Properties that must be set on the element: the attribute is only their first value. */
const AS_PROPERTY = new Set(['value', 'checked', 'selected', 'disabled', 'open', 'indeterminate']);

/**
 * Describes an element. `tag` may have classes: `div.card.wide`. Children are texts, numbers,
 * descriptions or lists of them; `null` and `false` are left out. A `key` in `props` ties the
 * description to its element when siblings come and go.
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split('.');
  const all = { ...props };
  if (classes.length > 0) all.class = [...classes, all.class].filter(Boolean).join(' ');
  const { key } = all;
  delete all.key;
  const kept = children
    .flat(Infinity)
    .filter(child => child !== null && child !== undefined && child !== false && child !== '');
  return { name, key, props: all, children: kept };
}

let draw = () => {};
let isAsked = false;

/** Sets the function that draws the page. */
export function drawWith(handler) {
  draw = handler;
}

/** Asks for a redraw: at most one for each frame, and none while the page is hidden. */
export function redraw() {
  if (isAsked || document.hidden) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    draw();
  });
}

/** Makes the children of an element what the descriptions say. */
export function patch(parent, ...wanted) {
  patchChildren(parent, wanted.flat(Infinity).filter(Boolean));
}

function patchChildren(parent, wanted) {
  const keyed = new Map();
  const wantedKeys = new Set(wanted.map(one => one.key));
  for (const child of [...parent.childNodes]) {
    const key = child.describedKey;
    if (key === undefined) continue;
    // Unwanted elements are removed first. Otherwise the wanted ones after them would be moved, and
    // an element that is moved loses the focus and its scroll position.
    if (wantedKeys.has(key)) keyed.set(key, child);
    else child.remove();
  }
  let next = parent.firstChild;
  for (const one of wanted) {
    const node = reusable(next, one, keyed) ?? create(one);
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
    update(node, one);
  }
  while (next) {
    const after = next.nextSibling;
    next.remove();
    next = after;
  }
}

function reusable(next, one, keyed) {
  const { key } = one;
  if (key !== undefined) {
    const node = keyed.get(key);
    keyed.delete(key);
    return node && node.describedName === one.name ? node : null;
  }
  if (!next || next.describedKey !== undefined) return null;
  return next.describedName === one.name ? next : null;
}

function create(one) {
  if (one.name === undefined) {
    return document.createTextNode('');
  }
  const node = SVG_TAGS.has(one.name)
    ? document.createElementNS(SVG, one.name)
    : document.createElement(one.name);
  node.describedName = one.name;
  node.describedKey = one.key;
  node.describedProps = {};
  return node;
}

function update(node, one) {
  if (one.name === undefined) {
    const text = String(one);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.describedProps;
  for (const name of Object.keys(before)) {
    if (!(name in one.props)) set(node, name, undefined, before[name]);
  }
  // The children come first: the value of a <select> is one of its options.
  patchChildren(node, one.children);
  for (const [name, value] of Object.entries(one.props)) {
    if (value !== before[name]) set(node, name, value, before[name]);
  }
  node.describedProps = one.props;
}

function set(node, name, value, before) {
  if (name === 'style') setStyle(node, value ?? {}, before ?? {});
  else if (name.startsWith('on')) node[name] = value ?? null;
  else if (AS_PROPERTY.has(name)) node[name] = value ?? (name === 'value' ? '' : false);
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : String(value));
}

/** Through the object model, since the page's policy forbids style attributes. */
function setStyle(node, style, before) {
  for (const name of Object.keys(before)) {
    if (!(name in style)) node.style.removeProperty(name);
  }
  for (const [name, value] of Object.entries(style)) {
    if (before[name] !== value) node.style.setProperty(name, value);
  }
}
