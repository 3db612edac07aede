// Elements, drawings and small helpers of the page.

/** Makes an element: properties, `class`, `data-…` and `aria-…` attributes, listeners `onclick`, then children. */
export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    if (name === 'class') node.className = value;
    else if (name.startsWith('--')) node.style.setProperty(name, value);
    else if (name.includes('-') || name === 'for' || name === 'role') node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Makes an element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Draws pixels of red, green, blue and alpha on a canvas of their size. */
export function draw(canvas, { width, height, pixels }) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  canvas.getContext('2d').putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas;
}

/** Calls a function when it was not asked for during some milliseconds. */
export function debounce(wait, call) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), wait);
  };
}

let hide = 0;
/** Shows a message for a moment. */
export function toast(text) {
  const node = byId('toast');
  node.textContent = text;
  node.classList.add('shown');
  clearTimeout(hide);
  hide = setTimeout(() => node.classList.remove('shown'), 2600);
}

/** Formats nanoseconds with the unit that fits. */
export function nanos(ns) {
  if (!(ns >= 1)) return '0';
  if (ns < 1e3) return `${ns.toFixed(0)} ns`;
  if (ns < 1e5) return `${(ns / 1e3).toFixed(1)} µs`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(0)} µs`;
  return `${(ns / 1e6).toFixed(2)} ms`;
}

/** Formats bytes: 1 MB is 1,000,000. */
export function bytes(count) {
  if (count < 1000) return `${Math.round(count)} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = count / 1e3, unit = 0;
  while (value >= 1000 && unit < 3) { value /= 1e3; unit += 1; }
  return `${value.toFixed(1)} ${units[unit]}`;
}

export const count = (number) => Math.round(number).toLocaleString('en-US');

const ICONS = {
  copy: 'M5.5 5.5h7v7h-7zM3.5 10.5v-7h7',
  close: 'M4 4l8 8M12 4l-8 8',
  clock: 'M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2.2 1.4',
  reset: 'M3 8a5 5 0 1 0 1.6-3.7M3 2.5v3h3',
  undo: 'M6 3L3 6l3 3M3 6h6a4 4 0 0 1 0 8H7',
  redo: 'M10 3l3 3-3 3M13 6H7a4 4 0 0 0 0 8h2',
  square: 'M3.5 3.5h9v9h-9z',
  oblong: 'M2.5 5h11v6h-11z',
  point: 'M8 7.5a.6.6 0 1 0 .01 0M3 8h2.5M10.5 8H13',
  range: 'M3 8h10M3 5v6M13 5v6',
};

/** Lets a name break before its capitals. */
export const breakable = (name) => name.replace(/(?<=[a-z])(?=[A-Z])/g, '\u200b');

/** Makes a small picture for a button. */
export function icon(name) {
  return svg('svg', { viewBox: '0 0 16 16', width: '14', height: '14', 'aria-hidden': 'true', class: 'icon' },
    svg('path', { d: ICONS[name], fill: 'none', stroke: 'currentColor', 'stroke-width': '1.4', 'stroke-linecap': 'round', 'stroke-linejoin': 'round' }));
}
