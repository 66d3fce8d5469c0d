// The frame of the page: the header, the routes, the theme, the connection, and the shortcuts.

import { drawWith, h, patch, redraw } from './dom.js';
import { hasToken, setToken, takeTokenFromAddress, whenUnauthorized } from './api.js';
import { live, reconnect, startStream } from './stream.js';
import { current, go, link } from './route.js';
import { closeDialog, redrawDialog, showDialog } from './parts.js';
import { findTroubles } from './troubles.js';
import { ticking } from './format.js';
import { overview } from './overview.js';
import { queue } from './queue.js';
import { key } from './key.js';
import { story } from './story.js';
import { runs } from './runs.js';
import { informers } from './informers.js';
import { leadership } from './leadership.js';
import { search } from './search.js';

const VIEWS = { overview, queue, key, story, runs, informers, leadership, search };
const NAVIGATION = [
  ['overview', 'Overview'],
  ['queue', 'Queue'],
  ['runs', 'Runs'],
  ['informers', 'Informers'],
  ['leadership', 'Leadership'],
];
const THEMES = ['auto', 'light', 'dark'];
const THEME_STORED = 'windlass-theme';

let view = null;
let viewsOpened = 0;
/** What the token form says; `null` while the token is good. */
let refusal = null;
let theme = THEMES.includes(localStorage.getItem(THEME_STORED))
  ? localStorage.getItem(THEME_STORED)
  : 'auto';

function openView() {
  if (takeTokenFromAddress()) {
    refusal = null;
    reconnect();
  }
  closeDialog();
  view?.stop?.();
  const { view: asked, parameters } = current();
  // Only what is its own: every object also has a `toString`.
  const name = Object.hasOwn(VIEWS, asked) ? asked : 'overview';
  viewsOpened += 1;
  view = refusal === null ? VIEWS[name](parameters) : tokenForm();
  view.name = name;
  redraw();
}

function draw() {
  const { name } = view;
  patch(document.getElementById('top'), header(name));
  patch(document.getElementById('banner'), banner());
  // A new view gets new elements, so nothing of the one before remains, such as a scroll position.
  patch(
    document.getElementById('main'),
    h('div.view', { key: viewsOpened, class: `view-${name}` }, view.render()),
  );
  redrawDialog();
  view.drawn?.();
  const troubles =
    live.summary && live.state === 'open'
      ? findTroubles(live.summary).filter(one => one.tone !== 'info').length
      : 0;
  const title = `${troubles > 0 ? `(${troubles}) ` : ''}${view.title} – Windlass`;
  if (document.title !== title) document.title = title;
}

function header(name) {
  return [
    h('a.brand', { href: link('overview') }, 'Windlass'),
    h(
      'nav.main-nav',
      { 'aria-label': 'Views' },
      NAVIGATION.map(([to, text]) =>
        h(
          'a',
          {
            key: to,
            href: link(to),
            'aria-current': to === name ? 'page' : null,
          },
          text,
        ),
      ),
    ),
    h(
      'form.search',
      { role: 'search', onsubmit: submitSearch },
      h('input', {
        type: 'search',
        name: 'text',
        'aria-label': 'Search the keys of all controllers',
        placeholder: 'Search keys ( / )',
        autocomplete: 'off',
        spellcheck: 'false',
      }),
    ),
    h(
      'button',
      { type: 'button', onclick: nextTheme, 'aria-label': `Theme: ${theme}` },
      { auto: '◐', light: '☀', dark: '☾' }[theme],
      h('span.wide-only', null, theme),
    ),
    h('button', { type: 'button', onclick: showHelp, 'aria-label': 'Keyboard shortcuts' }, '?'),
  ];
}

function submitSearch(event) {
  event.preventDefault();
  const text = event.currentTarget.elements.text.value.trim();
  if (text) go('search', { text });
}

/** Says that what is shown is old, and what happens about it. */
function banner() {
  if (live.state !== 'lost' || refusal !== null) return null;
  const seconds = live.retryAt > 0 ? (live.retryAt - Date.now()) / 1000 : 0;
  return h(
    'p',
    null,
    h(
      'span',
      null,
      h('strong', null, 'Disconnected, retrying'),
      // Only the text that does not change each second is announced.
      h(
        'span',
        { 'aria-hidden': 'true' },
        seconds > 0 ? ` in ${ticking(Math.ceil(seconds))}` : '…',
      ),
      `: ${live.error}. What you see is old.`,
    ),
    h('button', { type: 'button', onclick: reconnect }, 'Retry now'),
  );
}

function tokenForm() {
  const onsubmit = event => {
    event.preventDefault();
    setToken(event.currentTarget.elements.token.value);
    refusal = null;
    openView();
    reconnect();
  };
  let hasFocused = false;
  return {
    title: 'Token',
    drawn() {
      if (!hasFocused) document.querySelector('.token-form input').focus();
      hasFocused = true;
    },
    render: () =>
      h(
        'form.card.token-form',
        { onsubmit },
        h('h1', null, 'Token'),
        refusal && h('p.error-box', { role: 'alert' }, refusal),
        h(
          'p',
          null,
          'The operator prints an address with a token when it starts: open that, or paste the ' +
            'token here. ' +
            'A page that was opened to others takes a Kubernetes token, as from ',
          h('code', null, 'kubectl create token'),
          '.',
        ),
        h(
          'label',
          null,
          h('span', null, 'Token'),
          h('input', {
            name: 'token',
            type: 'password',
            autocomplete: 'off',
            required: true,
          }),
        ),
        h('button.primary', { type: 'submit' }, 'Open'),
      ),
  };
}

function nextTheme() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  localStorage.setItem(THEME_STORED, theme);
  applyTheme();
  redraw();
}

function applyTheme() {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function showHelp() {
  const shortcuts = [
    ['/', 'Search in this list, or over all keys'],
    ['↑ ↓', 'Move in a list or in the graph'],
    ['Page ↑ ↓, Home, End', 'Move further'],
    ['← →', 'Follow cause and effect in the graph'],
    ['Enter', 'Open'],
    ['Esc', 'Close, or leave the search'],
    ['?', 'This help'],
  ];
  showDialog('Keyboard', () => [
    h(
      'dl.shortcuts',
      null,
      shortcuts.map(([keys, text]) =>
        h('div', { key: keys }, h('dt', null, h('kbd', null, keys)), h('dd', null, text)),
      ),
    ),
    h('div.buttons', null, h('button.primary', { type: 'button', onclick: closeDialog }, 'Close')),
  ]);
}

function onKey(event) {
  const isTyping = event.target.closest('input, select, textarea');
  if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    // The search of the list that is shown is nearer than the one over everything.
    (
      document.querySelector('main [data-search]') ?? document.querySelector('header input')
    ).focus();
  } else if (event.key === '?' && !isTyping) {
    showHelp();
  } else if (event.key === 'Escape' && isTyping) {
    event.target.blur();
    document.querySelector('main .list')?.focus();
  } else if (event.key === 'ArrowDown' && isTyping?.matches('[data-search]')) {
    event.preventDefault();
    document.querySelector('main .list')?.focus();
  }
}

function onNavigation() {
  openView();
  document.getElementById('main').focus({ preventScroll: true });
  scrollTo(0, 0);
}

function start() {
  takeTokenFromAddress();
  applyTheme();
  const main = document.getElementById('main');
  main.replaceChildren();
  document.querySelector('.skip').onclick = event => {
    // The fragment of the address names the view.
    event.preventDefault();
    main.focus();
  };
  if (!hasToken()) refusal = '';
  whenUnauthorized(text => {
    if (refusal === text) return;
    refusal = text;
    openView();
  });
  drawWith(draw);
  openView();
  addEventListener('hashchange', onNavigation);
  addEventListener('keydown', onKey);
  document.addEventListener('visibilitychange', redraw);
  // Ages and countdowns go on between the answers.
  setInterval(redraw, 1000);
  startStream(redraw);
}

start();
