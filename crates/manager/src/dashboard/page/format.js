// Numbers, times and names as people read them.

const whole = new Intl.NumberFormat('en');
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** How far the server's clock is ahead of the browser's, in milliseconds. */
let clockOffset = 0;

/** Takes the `time` of an answer, so that ages and countdowns follow the server's clock. */
export function syncClock(time) {
  const server = Date.parse(time);
  if (!Number.isNaN(server)) clockOffset = server - Date.now();
}

/** The server's time in milliseconds. */
export const now = () => Date.now() + clockOffset;

export const count = value => whole.format(value ?? 0);

/** `1 key`, `2 keys`. */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

/** A rate or another number that is not whole: two digits, or all that are before the point. */
export function number(value) {
  if (value === null || value === undefined) return '–';
  if (value >= 10) return count(Math.round(value));
  return value > 0 && value < 0.01 ? '<0.01' : String(Number(value.toPrecision(2)));
}

export function bytes(value) {
  let unit = 0;
  let left = value ?? 0;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${left >= 100 || unit === 0 ? Math.round(left) : left.toFixed(1)} ${UNITS[unit]}`;
}

/** `4.2 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 0.001) return seconds <= 0 ? '0 s' : '<1 ms';
  if (seconds < 1)
    return `${seconds < 0.01 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return longDuration(Math.round(seconds));
}

/** Whole seconds, for what is counted down or up on the screen. */
export const ticking = seconds => longDuration(Math.max(0, Math.round(seconds)));

function longDuration(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return pair(seconds, 60, 'min', 1, 's');
  if (seconds < 86400) return pair(seconds, 3600, 'h', 60, 'min');
  return pair(seconds, 86400, 'd', 3600, 'h');
}

function pair(seconds, big, bigName, small, smallName) {
  const rest = Math.floor((seconds % big) / small);
  const first = `${Math.floor(seconds / big)} ${bigName}`;
  return rest === 0 ? first : `${first} ${rest} ${smallName}`;
}

/** How long ago a time was. */
export const age = time => ticking((now() - Date.parse(time)) / 1000);

export const ago = time => (now() - Date.parse(time) < 1000 ? 'just now' : `${age(time)} ago`);

/** The time that is left until a time. */
export function left(time) {
  const seconds = (Date.parse(time) - now()) / 1000;
  return seconds <= 0 ? 'now' : ticking(Math.ceil(seconds));
}

/** The time of day, with milliseconds; with the date if that is not today. */
export function clock(time) {
  const date = new Date(time);
  const two = value => String(value).padStart(2, '0');
  const day =
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.` +
    String(date.getMilliseconds()).padStart(3, '0');
  const isToday = date.toDateString() === new Date(now()).toDateString();
  return isToday ? day : `${date.toLocaleDateString('sv')} ${day}`;
}

/** `fillingCaches` as `filling caches`. */
export const words = name => String(name).replace(/[A-Z]/g, letter => ` ${letter.toLowerCase()}`);

/** `shop/web` as its namespace and name. */
export function splitKey(key) {
  const at = key.indexOf('/');
  return at < 0
    ? { namespace: null, name: key }
    : { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

/** A text cut to a length, with an ellipsis in the middle: both ends of a name tell most. */
export function shorten(text, max) {
  if (text.length <= max) return text;
  const head = Math.ceil((max - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (max - 1 - head))}`;
}
