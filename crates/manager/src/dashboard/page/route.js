// Addresses inside the page: `#/queue?controller=website&state=failed`.

/** The address of a view. Parameters that are empty are left out. */
export function link(view, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ''}`;
}

/** The view and the parameters that the address bar names. */
export function current() {
  const [view, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
  return { view: view || 'overview', parameters: Object.fromEntries(new URLSearchParams(query)) };
}

export function go(view, parameters) {
  location.hash = link(view, parameters);
}

/** Changes parameters without a new entry in the browser's history, as while someone types. */
export function replaceParameters(view, parameters) {
  history.replaceState(null, '', link(view, parameters));
}
