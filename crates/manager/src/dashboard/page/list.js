// A list of any length that keeps few rows in the document.
//
// Rows have a fixed height. Only those in sight are elements; pages of a hundred are fetched as
// they come into sight, and again as often as the server permits.

import { h, redraw } from './dom.js';
import { explain, Poller } from './api.js';
import { count, counted } from './format.js';

const PAGE = 100;
/** Rows above and below the visible ones, so that scrolling shows no gaps. */
const OVERSCAN = 10;
/** The most rows in the document, whatever the height of the window. */
const ROWS_MAX = 150;
/** The most rows of a list: browsers cannot lay out more than some ten million pixels. */
const LENGTH_MAX = 250_000;
/** How many pages stay in memory. */
const PAGES_KEPT = 8;
const narrow = matchMedia('(max-width: 47.9rem)');
const ROW_HEIGHT = 34;
const ROW_HEIGHT_NARROW = 58;

let listsMade = 0;

export class VirtualList {
  /**
   * - `fetchPage(offset, limit, signal)`: resolves to `{total, rows, refreshSeconds}`
   * - `columns`: `[{name, class, cell(row)}]`
   * - `open(row)`: what Enter and a click do
   * - `label`, `noun`: the name of the list, and what a row is
   * - `empty()`: what the list says without rows
   * - `tone(row)`: the class of a row
   * - `isLive()`: whether rows that were fetched are fetched again
   */
  constructor(options) {
    this.options = { isLive: () => true, ...options };
    listsMade += 1;
    this.id = `list-${listsMade}`;
    this.element = null;
    this.scrollTop = 0;
    this.active = -1;
    this.reset();
    this.poller = new Poller(signal => this.refresh(signal));
    this.whenResized = () => redraw();
    addEventListener('resize', this.whenResized);
  }

  /** Forgets all rows, because the filter has changed, and asks for the first ones. */
  restart() {
    this.reset();
    if (this.element) this.element.scrollTop = 0;
    this.scrollTop = 0;
    this.active = -1;
    this.poller.again();
    redraw();
  }

  reset() {
    this.pages = new Map();
    this.total = null;
    this.error = null;
  }

  stop() {
    clearTimeout(this.scrollTimer);
    this.poller.stop();
    removeEventListener('resize', this.whenResized);
  }

  get rowHeight() {
    return narrow.matches ? ROW_HEIGHT_NARROW : ROW_HEIGHT;
  }

  get length() {
    return Math.min(this.total ?? 0, LENGTH_MAX);
  }

  /** The rows that are elements: the first, and the one after the last. */
  range() {
    const first = Math.max(0, Math.floor(this.scrollTop / this.rowHeight) - OVERSCAN);
    const inSight = Math.ceil(innerHeight / this.rowHeight) + 2 * OVERSCAN;
    return [first, Math.min(this.length, first + Math.min(inSight, ROWS_MAX))];
  }

  rowAt(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** Fetches the pages in sight; the poller calls it. */
  async refresh(signal) {
    const [first, end] = this.range();
    let seconds = 1;
    try {
      const last = Math.max(first, end - 1);
      for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) {
        if (this.pages.has(page) && !this.options.isLive()) continue;
        const answer = await this.options.fetchPage(page * PAGE, PAGE, signal);
        if (signal.aborted) return seconds;
        this.accept(page, answer);
        seconds = Math.max(seconds, answer.refreshSeconds ?? 1);
      }
      this.error = null;
    } catch (error) {
      if (signal.aborted) return seconds;
      this.error = explain(error);
      seconds = 3;
    }
    redraw();
    return seconds;
  }

  accept(page, { total, rows }) {
    this.total = total;
    this.pages.set(page, rows);
    if (this.pages.size <= PAGES_KEPT) return;
    const far = [...this.pages.keys()].sort((a, b) => Math.abs(b - page) - Math.abs(a - page));
    this.pages.delete(far[0]);
  }

  onScroll(element) {
    this.element = element;
    this.scrollTop = element.scrollTop;
    redraw();
    clearTimeout(this.scrollTimer);
    this.scrollTimer = setTimeout(() => {
      const [first, end] = this.range();
      // Only rows that are missing are urgent: the others are fetched in time anyway.
      if (end > first && (!this.rowAt(first) || !this.rowAt(end - 1))) this.poller.again();
    }, 60);
  }

  onKey(event) {
    this.element = event.currentTarget;
    const step = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 2);
    const target = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + step,
      PageUp: this.active - step,
      Home: 0,
      End: this.length - 1,
    }[event.key];
    if (event.key === 'Enter' && event.target === this.element) {
      const row = this.rowAt(this.active);
      if (row) this.options.open(row);
    } else if (target !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.activate(Math.min(Math.max(0, target), this.length - 1));
    }
  }

  /** Marks a row, and scrolls it into sight below the header. */
  activate(index) {
    this.active = index;
    const height = this.rowHeight;
    const [top, inside] = [index * height, this.element.clientHeight - this.headerHeight()];
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + height > this.element.scrollTop + inside) {
      this.element.scrollTop = top + height - inside;
    }
    this.scrollTop = this.element.scrollTop;
    redraw();
  }

  headerHeight() {
    return this.element.firstElementChild.offsetHeight;
  }

  render() {
    const { columns, label, empty } = this.options;
    const [first, end] = this.range();
    const rows = [];
    for (let index = first; index < end; index += 1) rows.push(this.renderRow(index));
    const isShown = this.active >= first && this.active < end;
    return [
      this.error && h('p.error-box', { key: 'error', role: 'alert' }, this.error),
      h('p.list-count', { key: 'count' }, this.countText()),
      h(
        'div.list',
        {
          key: this.id,
          role: 'grid',
          tabindex: '0',
          'aria-label': label,
          'aria-rowcount': this.total === null ? -1 : this.total + 1,
          'aria-activedescendant': isShown ? `${this.id}-${this.active}` : null,
          onscroll: event => this.onScroll(event.currentTarget),
          onkeydown: event => this.onKey(event),
        },
        h(
          'div.list-head',
          { role: 'row', 'aria-rowindex': 1 },
          columns.map(column =>
            h('span', { role: 'columnheader', class: column.class }, column.name),
          ),
        ),
        h(
          'div.list-rows',
          {
            role: 'rowgroup',
            style: { height: `${this.length * this.rowHeight}px` },
          },
          rows,
        ),
        this.total === 0 &&
          h('p.list-empty', { role: 'row' }, h('span', { role: 'gridcell' }, empty())),
      ),
    ];
  }

  renderRow(index) {
    const row = this.rowAt(index);
    const { columns, open, tone } = this.options;
    return h(
      'div.list-row',
      {
        key: index,
        id: `${this.id}-${index}`,
        role: 'row',
        'aria-rowindex': index + 2,
        class: [row && tone?.(row), index === this.active && 'active'].filter(Boolean).join(' '),
        'aria-selected': index === this.active ? 'true' : null,
        style: { top: `${index * this.rowHeight}px` },
        onclick: event => this.onClick(event, row, index, open),
      },
      columns.map(column =>
        h('span', { role: 'gridcell', class: column.class }, row ? column.cell(row) : '…'),
      ),
    );
  }

  onClick(event, row, index, open) {
    // A link does what links do, such as to open in another tab; selected text is not a click.
    if (!row || event.target.closest('a') || String(getSelection()) !== '') return;
    this.active = index;
    open(row);
    redraw();
  }

  countText() {
    if (this.total === null) return this.error ? '' : 'Loading…';
    const cut = this.total > LENGTH_MAX ? `, the first ${count(LENGTH_MAX)} are listed` : '';
    return counted(this.total, this.options.noun) + cut;
  }
}
