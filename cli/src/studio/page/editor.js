// The text of the pipeline file, with line numbers and the line of an error.
import { byId, el } from './dom.js';

export class Editor {
  constructor(change) {
    this.area = byId('text');
    this.lines = byId('lines');
    this.area.addEventListener('input', () => { this.number(); change(this.area.value); });
    this.area.addEventListener('scroll', () => { this.lines.scrollTop = this.area.scrollTop; });
    this.area.addEventListener('keydown', (event) => {
      // Tab leaves the field after Escape, as the shortcuts say.
      if (event.key === 'Escape') this.area.blur();
      if (event.key !== 'Tab' || event.shiftKey || event.altKey || event.ctrlKey) return;
      event.preventDefault();
      const { selectionStart: start, selectionEnd: end } = this.area;
      this.area.setRangeText('    ', start, end, 'end');
      this.area.dispatchEvent(new Event('input'));
    });
    this.bad = null;
    this.resize();
  }

  get text() {
    return this.area.value;
  }

  /** Sets the text, unless it is there already: the caret stays where it is. */
  show(text) {
    if (this.area.value !== text) {
      const { scrollTop } = this.area;
      this.area.value = text;
      this.area.scrollTop = scrollTop;
    }
    this.number();
  }

  mark(line) {
    this.bad = line ?? null;
    this.number();
  }

  number() {
    const count = this.area.value.split('\n').length;
    const numbers = Array.from({ length: count }, (_, index) => index + 1);
    if (this.bad && this.bad <= count) {
      this.lines.replaceChildren(
        numbers.slice(0, this.bad - 1).join('\n'),
        el('span', { class: 'bad', textContent: this.bad }),
        numbers.slice(this.bad).join('\n'),
      );
    } else this.lines.textContent = numbers.join('\n');
    this.lines.scrollTop = this.area.scrollTop;
  }

  /** Lets the border above the text be dragged, or moved by the arrow keys. */
  resize() {
    const split = byId('split');
    const left = split.parentElement;
    const set = (height) => left.style.setProperty('--text-height', `${Math.max(80, Math.min(left.clientHeight - 180, height))}px`);
    split.addEventListener('pointerdown', (event) => {
      split.setPointerCapture(event.pointerId);
      split.onpointermove = (move) => set(left.getBoundingClientRect().bottom - move.clientY);
      split.onpointerup = () => { split.onpointermove = null; };
    });
    split.addEventListener('keydown', (event) => {
      const step = { ArrowUp: 24, ArrowDown: -24 }[event.key];
      if (step) { set(byId('text').closest('.text').clientHeight + step); event.preventDefault(); }
    });
  }
}
