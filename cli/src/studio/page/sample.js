// One sample: the frames of a clip, and the picture after every op, beside the stored one, with histograms and pixel values.
import { pixels } from './call.js';
import { breakable, byId, draw, el, svg } from './dom.js';
import { problemNode } from './cards.js';
import { frameOf, frameWords } from './player.js';

export class Sample {
  constructor(close) {
    this.node = byId('sample');
    this.close = close;
    this.step = null;
    this.zoom = 1;
    this.shift = [0, 0];
  }

  get isOpen() {
    return !this.node.hidden;
  }

  async show(body) {
    const header = await pixels('sample', body);
    this.node.hidden = false;
    byId('grid').hidden = true;
    const back = el('button', { type: 'button', textContent: '← All samples', onclick: () => this.hide() });
    if (header.fault) {
      this.node.replaceChildren(el('div', { class: 'title' }, back, el('h2', {}, `Sample ${body.sample}`)), problemNode(header.fault));
      return;
    }
    this.header = header;
    // The step of the same name stays chosen when the pipeline changes.
    const names = header.steps.map((step) => step.name);
    const kept = this.chosen ? names.indexOf(this.chosen) : -1;
    this.step = kept > 0 ? kept : header.steps.length - 1;
    const [top, left, height, width] = header.window;
    const agreed = header.agrees ? 'compiled and evaluated are the same bits' : 'compiled and evaluated DIFFER: please report this';
    const title = el('div', { class: 'title' }, back,
      el('h2', { class: 'num' }, `Sample ${header.sample}, epoch ${header.epoch}`),
      el('span', { class: 'muted ellipsis' }, header.labels.join(', ')));
    this.stored = this.view('stored', `of ${header.source.toReversed().join(' × ')}, decoded: rows ${top} to ${top + height}, columns ${left} to ${left + width}`);
    this.after = this.view('', '');
    this.value = el('div', { class: 'value', textContent: 'Move over a picture for its values; wheel or + and − zoom, drag moves.' });
    this.histograms = el('div', { class: 'histograms' });
    this.buttons = header.steps.map((step, index) => {
      const canvas = draw(el('canvas', {}), step);
      const off = step.outcome !== 'runs';
      return el('button', { class: `step${off ? ' off' : ''}`, type: 'button', 'aria-pressed': 'false', onclick: () => this.choose(index) },
        canvas, el('b', {}, `${index ? `${index}. ` : ''}${breakable(step.name)}`), el('span', {}, off ? (step.words || step.outcome) : step.words || step.size.toReversed().join(' × ')));
    });
    const objects = header.objects.length ? el('div', { class: 'objects', textContent: header.objects.join('\n') }) : null;
    this.node.replaceChildren(title, ...this.strip(header.strip), el('div', { class: 'compare' }, this.stored.figure, this.after.figure), this.value, this.histograms,
      el('div', { class: 'steps' }, this.buttons), ...(objects ? [objects] : []),
      el('p', { class: 'muted' }, `Output: ${header.output}; ${agreed}.`));
    this.choose(this.step);
  }

  /** Shows the images of a sample that has several. */
  strip(strip) {
    if (!strip) return [];
    const figure = (frame) => el('figure', {}, draw(el('canvas', {}), frameOf(strip, frame)), el('figcaption', { class: 'num' }, frameWords(strip, frame)));
    const isClip = strip.times || strip.numbers, first = isClip ? 'frame of the video' : 'image of the list';
    return [
      el('div', { class: 'strip', role: 'group', 'aria-label': isClip ? 'Frames of the clip' : 'Images of the list' }, Array.from({ length: strip.frames }, (_, frame) => figure(frame))),
      el('p', { class: 'muted' }, `Below are the ops on the first ${first}.`),
    ];
  }

  hide() {
    if (!this.isOpen) return;
    this.node.hidden = true;
    byId('grid').hidden = false;
    this.chosen = null;
    this.zoom = 1;
    this.shift = [0, 0];
    this.close();
  }

  choose(index) {
    this.step = index;
    const step = this.header.steps[index];
    this.chosen = index === this.header.steps.length - 1 ? null : step.name;
    this.buttons.forEach((button, at) => button.setAttribute('aria-pressed', String(at === index)));
    this.stored.set(this.header.steps[0], 'stored');
    this.after.set(step, `after ${step.name}`);
    this.after.caption.replaceChildren(el('b', {}, index ? `after ${step.name}` : 'stored'), ` ${step.size.toReversed().join(' × ')}${step.words ? `, ${step.words}` : ''}${step.stretched ? '; values stretched from black to white' : ''}`);
    this.histograms.replaceChildren(histogram(this.header.steps[0]), histogram(step));
  }

  /** Moves to another step. */
  turn(by) {
    this.choose(Math.max(0, Math.min(this.header.steps.length - 1, this.step + by)));
    this.buttons[this.step].scrollIntoView({ block: 'nearest' });
  }

  view(name, words) {
    const canvas = el('canvas', {});
    const view = el('div', { class: 'view', tabIndex: 0, 'aria-label': `Picture, ${name || 'after the op'}` }, canvas);
    const caption = el('figcaption', {}, el('b', {}, name), ` ${words}`);
    const figure = el('figure', {}, view, caption);
    const part = { figure, caption, canvas, view, picture: null };
    part.set = (picture) => { part.picture = picture; draw(canvas, picture); requestAnimationFrame(() => this.place()); };
    view.addEventListener('wheel', (event) => { event.preventDefault(); this.scale(event.deltaY < 0 ? 1.2 : 1 / 1.2); }, { passive: false });
    view.addEventListener('keydown', (event) => {
      if (event.key === '+' || event.key === '=') this.scale(1.3);
      else if (event.key === '-') this.scale(1 / 1.3);
      else if (event.key === '0') { this.zoom = 1; this.shift = [0, 0]; this.place(); } else return;
      event.stopPropagation();
    });
    view.addEventListener('pointerdown', (event) => {
      view.setPointerCapture(event.pointerId);
      this.from = [event.clientX - this.shift[0], event.clientY - this.shift[1]];
    });
    view.addEventListener('pointerup', () => { this.from = null; });
    view.addEventListener('pointermove', (event) => {
      if (this.from) { this.shift = [event.clientX - this.from[0], event.clientY - this.from[1]]; this.place(); }
      this.point(part, event);
    });
    return part;
  }

  scale(by) {
    this.zoom = Math.max(1, Math.min(32, this.zoom * by));
    if (this.zoom === 1) this.shift = [0, 0];
    this.place();
  }

  place() {
    for (const { canvas, view } of [this.stored, this.after]) {
      const fit = Math.min(view.clientWidth / canvas.width, view.clientHeight / canvas.height) * this.zoom;
      canvas.style.transform = `translate(${this.shift[0] - (canvas.width * fit) / 2}px, ${this.shift[1] - (canvas.height * fit) / 2}px) scale(${fit})`;
      canvas.style.imageRendering = fit > 1.5 ? 'pixelated' : 'auto';
    }
  }

  point({ canvas, picture }, event) {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * picture.width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * picture.height);
    if (x < 0 || y < 0 || x >= picture.width || y >= picture.height) return;
    const at = 4 * (y * picture.width + x);
    const level = [...picture.pixels.subarray(at, at + 3)];
    const reduced = picture.exact ? '' : ' (of the reduced picture)';
    this.value.replaceChildren(el('i', { class: 'swatch', '--c': '' }), `row ${y}, column ${x}: red ${level[0]}, green ${level[1]}, blue ${level[2]}${reduced}`);
    this.value.firstChild.style.background = `rgb(${level.join(',')})`;
  }
}

/** Draws how often each level occurs in red, green and blue. */
function histogram({ pixels: data }) {
  const counts = [0, 1, 2].map(() => new Float64Array(64));
  for (let at = 0; at < data.length; at += 4) for (let c = 0; c < 3; c += 1) counts[c][data[at + c] >> 2] += 1;
  const sorted = counts.flatMap((one) => [...one]).sort((a, b) => b - a);
  const most = Math.max(1, sorted[3]);
  const colors = ['#ef4444', '#22c55e', '#3b82f6'];
  const paths = counts.map((one, c) => {
    const points = [...one].map((value, x) => `${(x * 256) / 63},${(70 - Math.min(1, value / most) * 66).toFixed(1)}`);
    return svg('path', { d: `M0,70 L${points.join(' L')} L256,70 Z`, fill: colors[c], 'fill-opacity': '.28', stroke: colors[c], 'stroke-width': '1', 'vector-effect': 'non-scaling-stroke' });
  });
  return svg('svg', { viewBox: '0 0 256 70', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Histogram of red, green and blue' }, ...paths);
}
