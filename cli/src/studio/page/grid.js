// The grid of samples and draws. Canvases are used again, so that a change draws pixels and nothing else.
import { byId, draw, el } from './dom.js';
import { Player, frameOf, frameWords } from './player.js';

export class Grid {
  constructor(open) {
    this.node = byId('grid');
    this.open = open;
    this.shape = '';
    this.cells = [];
    this.player = new Player((frame) => this.draw(frame));
  }

  show(header) {
    const { samples, draws, cells } = header;
    const shape = JSON.stringify([draws, samples, cells.map((cell) => [cell.epoch, !!cell.damaged, !!cell.width, !!cell.frames])]);
    if (shape !== this.shape) this.build(header, shape);
    cells.forEach((cell, index) => {
      const node = this.cells[index];
      node.data = cell;
      if (!cell.width) { node.textContent = cell.empty ?? `damaged: ${cell.damaged}`; return; }
      if (!cell.frames) draw(node.firstChild, cell);
      node.style.setProperty('--ratio', '1');
      node.title = [`sample ${cell.sample}, epoch ${cell.epoch}`, ...cell.words].join('\n');
    });
    this.node.classList.remove('stale');
    this.player.show(cells.filter((cell) => cell.frames));
  }

  /** Draws one frame of all clips. */
  draw(frame) {
    if (this.node.hidden) return;
    for (const node of this.cells) {
      if (!node.data?.frames) continue;
      draw(node.firstChild, frameOf(node.data, frame));
      node.lastChild.textContent = frameWords(node.data, frame);
    }
  }

  build({ samples, draws, cells }, shape) {
    this.shape = shape;
    this.node.style.setProperty('--draws', draws);
    this.cells = cells.map((cell) => el('button', {
      class: `cell${cell.damaged ? ' damaged' : ''}`, type: 'button',
      'aria-label': `Sample ${cell.sample}, epoch ${cell.epoch}${cell.damaged ? ', damaged' : ''}`,
      onclick: (event) => this.open(event.currentTarget.data),
    }, cell.width ? el('canvas', {}) : null, cell.frames ? el('span', { class: 'frame num' }) : null));
    const rows = samples.map(({ sample, labels }, row) => el('div', { class: 'row' },
      el('div', { class: 'caption' }, el('b', { class: 'num' }, `#${sample}`), el('span', { class: 'ellipsis' }, labels.join(', '))),
      el('div', { class: 'cells' }, Array.from({ length: draws }, (_, column) => this.cells[column * samples.length + row])),
    ));
    const heads = el('div', { class: 'heads' }, Array.from({ length: draws }, (_, column) => el('span', {}, `epoch ${cells[column * samples.length]?.epoch ?? ''}`)));
    this.node.replaceChildren(...(rows.length ? [heads, ...rows] : [el('div', { class: 'empty' }, 'No samples: choose other classes.')]));
  }

  /** Shows that the pictures are those of an earlier pipeline. */
  stale() {
    this.node.classList.add('stale');
  }
}
