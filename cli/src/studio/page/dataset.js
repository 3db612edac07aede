// The dataset: fields, classes, sizes, and a scroll through all samples.
import { Latest, call, pixels } from './call.js';
import { byId, count, draw, el, svg } from './dom.js';

const WIDE = 132, HIGH = 160;

export class DatasetPage {
  constructor(state, open) {
    this.node = byId('dataset-page');
    this.state = state;
    this.open = open;
    this.class = null;
    this.nodes = new Map();
    this.latest = new Latest((from, to) => this.load(from, to));
  }

  async show() {
    // Clips make other samples of the dataset.
    const { text, samplesPrint } = this.state();
    if (this.info && this.print === samplesPrint) return;
    this.text = text;
    this.print = samplesPrint;
    this.info = await call('dataset', { text });
    this.class = null;
    this.nodes.clear();
    const { info } = this;
    this.search = el('input', { type: 'search', placeholder: 'Search classes', 'aria-label': 'Search classes', oninput: () => this.classes() });
    this.search.style.width = '100%';
    this.list = el('div', { class: 'classes' });
    const rows = info.fields.map((field) => el('tr', {}, el('td', {}, field.name), el('td', {}, field.kind),
      el('td', {}, field.sizes ? `${between(field.sizes[0], field.sizes[1])} × ${between(field.sizes[2], field.sizes[3])}` : '')));
    const side = el('aside', { class: 'side panel' },
      el('h2', {}, 'Dataset'), el('div', { class: 'ellipsis', title: info.name }, info.name), el('div', { class: 'muted' }, `${count(info.samples)} samples`),
      el('h2', {}, 'Fields'), el('table', {}, el('thead', {}, el('tr', {}, el('th', {}, 'name'), el('th', {}, 'kind'), el('th', {}, 'width × height'))), el('tbody', {}, rows)),
      ...(info.sizes.length ? [el('h2', {}, `Sizes of ${count(info.sizes.length)} samples`), scatter(info.sizes), el('p', { class: 'muted' }, 'width across, height up')] : []),
      el('h2', {}, `Classes (${count(info.classes_in_all)})`), this.search, this.list);
    this.space = el('div', { class: 'space' });
    this.all = el('div', { class: 'all', tabIndex: 0, 'aria-label': 'All samples' }, this.space);
    this.all.addEventListener('scroll', () => this.place());
    new ResizeObserver(() => this.place()).observe(this.all);
    this.node.replaceChildren(side, this.all);
    this.total = info.samples;
    this.classes();
    this.place();
  }

  classes() {
    const words = this.search.value.toLowerCase();
    const most = Math.max(1, ...this.info.classes.map((one) => one.samples ?? 0));
    const found = this.info.classes.filter((one) => `${one.number} ${one.name ?? ''}`.toLowerCase().includes(words)).slice(0, 400);
    this.list.replaceChildren(...found.map((one) => {
      const bar = el('i', {});
      bar.style.width = `${((one.samples ?? 0) / most) * 100}%`;
      return el('button', {
        type: 'button', 'aria-pressed': String(this.class === one.number), disabled: !this.info.can_filter, title: one.name ?? '',
        onclick: () => { this.class = this.class === one.number ? null : one.number; this.nodes.forEach((node) => node.remove()); this.nodes.clear(); this.total = this.class === null ? this.info.samples : one.samples; this.all.scrollTop = 0; this.classes(); this.place(); },
      }, el('span', { class: 'ellipsis' }, one.name ?? `class ${one.number}`), el('span', { class: 'muted num' }, one.samples === null ? '' : count(one.samples)), bar);
    }));
    if (!found.length) this.list.replaceChildren(el('p', { class: 'muted' }, this.info.classes.length ? 'No class has this name.' : 'The dataset has no classes.'));
  }

  /** Keeps nodes for the visible samples alone. */
  place() {
    const columns = Math.max(1, Math.floor((this.all.clientWidth - 20) / WIDE));
    this.space.style.height = `${Math.ceil(this.total / columns) * HIGH + 24}px`;
    const from = Math.max(0, Math.floor(this.all.scrollTop / HIGH) - 1) * columns;
    const to = Math.min(this.total, Math.ceil((this.all.scrollTop + this.all.clientHeight) / HIGH + 1) * columns);
    for (const [at, node] of this.nodes) if (at < from || at >= to) { node.remove(); this.nodes.delete(at); }
    const missing = [];
    for (let at = from; at < to; at += 1) {
      let node = this.nodes.get(at);
      if (!node) {
        node = el('button', { class: 'thumb', type: 'button' }, el('div', { class: 'none' }), el('span', {}));
        this.nodes.set(at, node);
        this.space.append(node);
      }
      node.style.transform = `translate(${16 + (at % columns) * WIDE}px, ${16 + Math.floor(at / columns) * HIGH}px)`;
      if (!node.loaded) missing.push(at);
    }
    if (missing.length) this.latest.ask(missing[0], missing.at(-1) + 1);
  }

  async load(from, to) {
    for (let offset = from; offset < to; offset += 96) {
      const header = await pixels('thumbs', { text: this.text, offset, count: Math.min(96, to - offset), classes: this.class === null ? [] : [this.class] });
      (header.cells ?? []).forEach((cell, index) => {
        const node = this.nodes.get(offset + index);
        if (!node || node.loaded) return;
        node.loaded = true;
        node.onclick = () => this.open(cell.sample);
        node.setAttribute('aria-label', `Sample ${cell.sample}, ${cell.labels.join(', ')}`);
        if (cell.damaged) { node.firstChild.textContent = `damaged: ${cell.damaged}`; node.title = cell.damaged; } else node.firstChild.replaceWith(draw(el('canvas', {}), cell));
        node.lastChild.textContent = `#${cell.sample} ${cell.labels.join(', ')}`;
        node.title = `${cell.labels.join(', ')} ${cell.size ? cell.size.toReversed().join(' × ') : ''}`;
      });
      if (header.fault) { this.space.replaceChildren(el('p', { class: 'empty' }, header.fault.message)); this.nodes.clear(); return; }
    }
  }
}

const between = (min, max) => (min === max ? `${min}` : `${min}–${max}`);

/** Draws the sizes of images as points. */
function scatter(sizes) {
  const most = Math.max(...sizes.flat());
  const points = sizes.map(([height, width]) => svg('circle', { cx: ((width / most) * 280 + 8).toFixed(1), cy: (152 - (height / most) * 140).toFixed(1), r: '2.5', fill: 'var(--accent)', 'fill-opacity': '.45' }));
  const node = svg('svg', { viewBox: '0 0 296 160', role: 'img', 'aria-label': 'Widths and heights of samples' }, svg('rect', { width: '296', height: '160', rx: '6', fill: 'var(--well)' }), ...points,
    svg('text', { x: '288', y: '152', 'text-anchor': 'end', 'font-size': '10', fill: 'var(--muted)' }));
  node.lastChild.textContent = `up to ${most}`;
  return node;
}
