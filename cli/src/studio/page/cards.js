// The ops of a field as cards: parameters, containers, order.
import { byId, el, icon } from './dom.js';
import { parameter } from './controls.js';

const closed = new Set();

/** The cards of a list of ops; `change` is called after each change of the list. */
export class Cards {
  constructor(registry, change) {
    this.registry = new Map(registry.flatMap((info) => [info.name, ...info.aliases].map((name) => [name, info])));
    this.change = change;
    this.node = byId('cards');
    this.ops = [];
    this.fault = null;
    this.node.addEventListener('keydown', (event) => this.#key(event));
  }

  show(ops, fault) {
    this.ops = ops;
    this.fault = fault;
    const scroll = this.node.scrollTop;
    const focus = document.activeElement?.closest?.('.card')?.dataset.path;
    this.node.replaceChildren(...(ops.length ? this.#list(ops, []) : [el('div', { class: 'empty' }, 'No ops yet. Add one, or write it in the text below.')]));
    this.node.scrollTop = scroll;
    if (focus && document.activeElement === document.body) this.#focus(focus);
  }

  /** Marks the op of an error, without making the cards anew: the user may be moving a slider. */
  mark(fault) {
    this.fault = fault;
    this.node.querySelectorAll('.card.bad').forEach((card) => card.classList.remove('bad'));
    this.node.querySelectorAll('.param.bad').forEach((row) => row.classList.remove('bad'));
    this.node.querySelectorAll('.problem').forEach((node) => node.remove());
    const card = fault?.path?.length && this.node.querySelector(`[data-path="${fault.path.join('.')}"]`);
    if (!card) return;
    card.classList.add('bad');
    const body = card.querySelector(':scope > .body');
    const row = fault.param && body?.querySelector(`:scope > [data-param="${CSS.escape(fault.param)}"]`);
    row?.classList.add('bad');
    const problem = problemNode(fault);
    if (row) row.after(problem); else (body ?? card).prepend(problem);
  }

  #list(ops, path) {
    return ops.map((op, index) => this.#card(op, [...path, index], ops));
  }

  #card(op, path, list) {
    const info = this.registry.get(op.op);
    const place = path.join('.');
    const params = info?.params ?? [];
    const key = `${place}:${op.op}`;
    if (!this.seen) this.seen = new Set();
    if (!this.seen.has(key)) { this.seen.add(key); if (this.ops.length > 5 && path.length === 1) closed.add(key); }
    const isOpen = !closed.has(key);
    const card = el('article', { class: 'card', tabIndex: 0, draggable: false, 'data-path': place, 'aria-label': op.op });
    const toggle = () => { if (!closed.delete(key)) closed.add(key); this.show(this.ops, this.fault); this.mark(this.fault); };
    const brief = Object.entries(op.params).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${brieved(value)}`).join(', ');
    const head = el('div', { class: 'head' },
      el('span', { class: 'grip', title: 'Drag to move; Alt+↑ and Alt+↓ move the card', textContent: '⠿', 'aria-hidden': 'true',
        onpointerdown: () => { card.draggable = true; }, onpointerup: () => { card.draggable = false; } }),
      el('button', { class: 'name', type: 'button', textContent: op.op || 'not an op', title: info?.summary ?? '', 'aria-expanded': String(isOpen), onclick: toggle }),
      el('span', { class: 'brief', textContent: isOpen ? '' : brief }),
      el('button', { class: 'plain', type: 'button', title: 'Duplicate (d)', 'aria-label': `Duplicate ${op.op}`, onclick: () => this.duplicate(path) }, icon('copy')),
      el('button', { class: 'plain', type: 'button', title: 'Remove (Delete)', 'aria-label': `Remove ${op.op}`, onclick: () => this.remove(path) }, icon('close')),
    );
    if (op.before?.length) card.append(el('div', { class: 'comment', textContent: op.before.map((line) => line.replace(/^#\s?/, '')).join('\n') }));
    card.append(head);
    if (isOpen) {
      const body = el('div', { class: 'body' });
      if (info) body.append(el('div', { class: 'doc', textContent: info.summary }));
      for (const param of params) {
        if (param.kind === 'ops') continue;
        body.append(parameter(param, op.params[param.name], false, (value) => {
          if (value === undefined) delete op.params[param.name]; else op.params[param.name] = value;
          this.change(false);
        }));
      }
      for (const name of Object.keys(op.params).filter((name) => !params.some((param) => param.name === name))) {
        const unknown = { name, kind: 'value', takes: 'no parameter of this op', doc: 'no parameter of this op', need: 'optional', value: null };
        body.append(parameter(unknown, op.params[name], false, (value) => {
          if (value === undefined) delete op.params[name]; else op.params[name] = value;
          this.change(false);
        }));
      }
      const container = params.find((param) => param.kind === 'ops');
      if (container) {
        op.params[container.name] = null;
        op.ops ??= [];
        const nest = el('div', { class: 'nest', 'data-list': place }, this.#list(op.ops, path));
        nest.append(el('button', { type: 'button', textContent: `+ Add to ${op.op}`, onclick: () => this.onadd?.(path) }));
        body.append(nest);
      }
      card.append(body);
    }
    this.#drag(card, path);
    return card;
  }

  #drag(card, path) {
    card.addEventListener('dragstart', (event) => {
      event.stopPropagation();
      this.dragged = path;
      event.dataTransfer.effectAllowed = 'move';
      event.dataTransfer.setData('text/plain', path.join('.'));
      card.classList.add('dragging');
    });
    card.addEventListener('dragend', () => { this.dragged = null; card.draggable = false; card.classList.remove('dragging'); });
    const half = (event) => {
      const box = card.getBoundingClientRect();
      return event.clientY < box.top + Math.min(box.height, 400) / 2;
    };
    card.addEventListener('dragover', (event) => {
      if (!this.dragged || path.join('.').startsWith(`${this.dragged.join('.')}.`)) return;
      event.preventDefault();
      event.stopPropagation();
      card.classList.toggle('over-before', half(event));
      card.classList.toggle('over-after', !half(event));
    });
    const clear = () => card.classList.remove('over-before', 'over-after');
    card.addEventListener('dragleave', clear);
    card.addEventListener('drop', (event) => {
      clear();
      if (!this.dragged) return;
      event.preventDefault();
      event.stopPropagation();
      this.move(this.dragged, [...path.slice(0, -1), path.at(-1) + (half(event) ? 0 : 1)]);
    });
  }

  /** Returns the list that a path leads into. */
  list(path) {
    return path.slice(0, -1).reduce((ops, index) => ops[index].ops, this.ops);
  }

  add(op, path = [this.ops.length]) {
    this.list(path).splice(path.at(-1), 0, op);
    this.#changed(path);
  }

  remove(path) {
    this.list(path).splice(path.at(-1), 1);
    this.#changed([...path.slice(0, -1), Math.max(0, path.at(-1) - 1)]);
  }

  duplicate(path) {
    const copy = structuredClone(this.list(path)[path.at(-1)]);
    this.add(copy, [...path.slice(0, -1), path.at(-1) + 1]);
  }

  move(from, to) {
    if (to.join('.').startsWith(`${from.join('.')}.`)) return;
    const [source, target] = [this.list(from), this.list(to)];
    const op = source[from.at(-1)];
    const mark = {};
    target.splice(to.at(-1), 0, mark);
    source.splice(source.indexOf(op), 1);
    const at = target.indexOf(mark);
    target[at] = op;
    this.#changed(source === target ? [...to.slice(0, -1), at] : null);
  }

  #changed(focus) {
    this.show(this.ops, null);
    if (focus) this.#focus(focus.join('.'));
    this.change(true);
  }

  #focus(place) {
    const card = this.node.querySelector(`[data-path="${place}"]`);
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: 'nearest' });
  }

  #key(event) {
    const card = event.target;
    if (!card.classList?.contains('card')) return;
    const path = card.dataset.path.split('.').map(Number);
    const length = this.list(path).length;
    const place = (step) => [...path.slice(0, -1), path.at(-1) + step];
    const up = event.key === 'ArrowUp', down = event.key === 'ArrowDown';
    if (event.altKey && up && path.at(-1) > 0) this.move(path, place(-1));
    else if (event.altKey && down && path.at(-1) + 1 < length) this.move(path, place(2));
    else if (up || down) this.#focus(place(up ? -1 : 1).join('.'));
    else if (event.key === 'Delete' || event.key === 'Backspace') this.remove(path);
    else if (event.key === 'd' && !event.ctrlKey && !event.metaKey) this.duplicate(path);
    else if (event.key === 'Enter') card.querySelector('.name').click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function brieved(value) {
  if (value !== null && typeof value === 'object' && 'from' in value) return `${value.from} → ${value.to}`;
  return Array.isArray(value) ? (value.length > 4 ? `${value.length} values` : value.join('–')) : String(value);
}

/** Shows an error and its cure. */
export function problemNode(fault) {
  const place = fault.line ? ` (line ${fault.line}, column ${fault.column})` : '';
  return el('div', { class: 'problem' }, el('b', {}, fault.message), place, fault.cure ? el('div', { class: 'cure', textContent: fault.cure }) : null);
}

/** The dialog that adds an op. */
export class AddDialog {
  constructor(registry, add) {
    this.registry = registry;
    this.add = add;
    this.node = byId('add-dialog');
    this.search = el('input', { type: 'search', placeholder: 'Search ops: crop, blur, jitter …', 'aria-label': 'Search ops' });
    this.list = el('div', { class: 'list', role: 'listbox' });
    this.node.append(this.search, this.list);
    this.search.oninput = () => this.fill();
    this.node.addEventListener('keydown', (event) => this.key(event));
    this.node.addEventListener('click', (event) => { if (event.target === this.node) this.node.close(); });
  }

  open(path) {
    this.path = path;
    this.search.value = '';
    this.fill();
    this.node.showModal();
    this.search.focus();
  }

  fill() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (info) => `${info.name} ${info.aliases.join(' ')} ${info.class} ${info.summary}`.toLowerCase();
    const found = this.registry.filter((info) => words.every((word) => text(info).includes(word)));
    const score = (info) => (words.length && info.name.toLowerCase().includes(words[0]) ? 0 : 1);
    if (words.length) found.sort((a, b) => score(a) - score(b));
    const nodes = [];
    let shown = '';
    for (const info of found) {
      if (!words.length && info.class !== shown) nodes.push(el('div', { class: 'class', textContent: info.class }));
      shown = info.class;
      nodes.push(el('button', { type: 'button', role: 'option', 'data-name': info.name, onclick: () => this.choose(info) }, el('b', {}, info.name), el('span', {}, info.summary)));
    }
    this.list.replaceChildren(...(nodes.length ? nodes : [el('div', { class: 'empty' }, 'No op has these words.')]));
    this.select(0);
  }

  select(index) {
    const options = [...this.list.querySelectorAll('button')];
    this.at = Math.max(0, Math.min(options.length - 1, index));
    options.forEach((option, at) => option.setAttribute('aria-selected', String(at === this.at)));
    options[this.at]?.scrollIntoView({ block: 'nearest' });
  }

  key(event) {
    if (event.key === 'ArrowDown') this.select(this.at + 1);
    else if (event.key === 'ArrowUp') this.select(this.at - 1);
    else if (event.key === 'Enter') this.list.querySelectorAll('button')[this.at]?.click();
    else return;
    event.preventDefault();
  }

  choose(info) {
    this.node.close();
    const params = {};
    let ops = [];
    for (const param of info.params) {
      if (param.kind === 'ops') { params[param.name] = null; ops = (param.value ?? []).map((name) => ({ op: name, params: {}, ops: [], before: [], after: '' })); }
      else if (param.need === 'required') params[param.name] = param.value;
    }
    this.add({ op: info.name, params, ops, before: [], after: '' }, this.path);
  }
}
