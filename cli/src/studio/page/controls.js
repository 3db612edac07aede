// A control for each parameter of an op, made from the registry.
import { el, icon } from './dom.js';

let made = 0;

/**
 * Makes the row of a parameter. `value` is undefined where the text does not set it; `change` gets the new value, or
 * undefined to leave it to its default.
 */
export function parameter(param, value, bad, change) {
  const id = `control-${(made += 1)}`;
  const isSet = value !== undefined;
  const shown = isSet ? value : param.value;
  const control = el('div', { class: 'control' });
  const row = el('div', { class: `param${isSet ? ' set' : ''}${bad ? ' bad' : ''}`, 'data-param': param.name });
  const set = (next) => {
    row.classList.add('set');
    reset.hidden = param.need === 'required';
    change(next);
  };
  const reset = el('button', {
    class: 'plain', type: 'button', hidden: !isSet || param.need === 'required',
    title: param.need === 'default' ? `Back to the default, ${JSON.stringify(param.value)}` : 'Leave it out',
    'aria-label': `Reset ${param.name}`,
    onclick: () => { change(undefined); row.replaceWith(parameter(param, undefined, false, change)); },
  }, icon('reset'));
  fill(control, param, shown, set, id);
  row.append(
    el('label', { for: id, title: `${param.name}: ${param.doc} — ${param.takes}`, textContent: param.name }),
    control, reset,
  );
  return row;
}

function fill(control, param, value, set, id) {
  control.replaceChildren();
  if (isSchedule(value)) return schedule(control, param, value, set, id);
  switch (param.kind) {
    case 'bool':
      return control.append(el('input', { id, type: 'checkbox', checked: !!value, onchange: (event) => set(event.target.checked) }));
    case 'word': {
      const words = param.words.includes(value) || value === null ? param.words : [value, ...param.words];
      const options = words.map((word) => el('option', { value: word, textContent: word, selected: word === value }));
      if (value === null) options.unshift(el('option', { value: '', textContent: '—', selected: true }));
      return control.append(el('select', { id, onchange: (event) => event.target.value && set(event.target.value) }, options));
    }
    case 'number': case 'whole': case 'integer':
      if (typeof value === 'number' || value === null) return number(control, param, value, set, id);
      break;
    case 'range':
      if (isPair(value) || value === null) return range(control, param, value ?? [0, 1], set, id);
      break;
    case 'number_or_range':
      return numberOrRange(control, param, value, set, id);
    case 'size': case 'pair':
      if (typeof value === 'number' || isPair(value)) return size(control, param, value, set, id);
      break;
    case 'color':
      if (typeof value === 'number' || isColor(value)) return color(control, value, set, id);
      break;
    case 'text':
      return control.append(el('input', { id, type: 'text', value: value ?? '', oninput: (event) => set(event.target.value) }));
  }
  raw(control, value, set, id, param);
}

const isPair = (value) => Array.isArray(value) && value.length === 2 && value.every((v) => typeof v === 'number');
const isColor = (value) => Array.isArray(value) && value.length === 3 && value.every((v) => typeof v === 'number');
const isSchedule = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && 'from' in value;

/** Returns the ends of a slider: the limits of the constructor where it has some, else around the value. */
function ends(param, value) {
  const whole = param.kind === 'whole' || param.kind === 'integer' || param.kind === 'size';
  const reach = Math.max(Math.abs(value ?? 0), Math.abs(typeof param.value === 'number' ? param.value : 0));
  const wide = whole ? Math.max(16, 2 ** Math.ceil(Math.log2(Math.max(reach, 1) * 2))) : Math.max(1, reach * 2);
  let max = param.max === null || param.max >= 1000 ? wide : param.max === 0.999 ? 0.99 : param.max;
  let min = param.min === null ? 0 : param.min < -180 ? -wide : param.min;
  if (param.kind === 'size') min = 8;
  if (max > wide && !whole && max > 2) max = wide;
  if (max <= min) max = min + (whole ? 16 : 1);
  return { min, max, step: whole ? (param.kind === 'size' && wide > 64 ? 8 : 1) : (max - min) / 100 };
}

const rounded = (value) => Number(Number(value).toPrecision(4));

function slider(param, value, set, id, name) {
  const { min, max, step } = ends(param, value);
  const range = el('input', { type: 'range', min, max, step, 'aria-label': name ?? param.name });
  range.value = value ?? min;
  const field = el('input', { id, type: 'number', step: 'any', 'aria-label': name ?? param.name, placeholder: '—' });
  if (value !== null) field.value = rounded(value);
  range.oninput = () => { field.value = rounded(range.value); set(rounded(range.value)); };
  field.oninput = () => {
    if (field.value === '' || !Number.isFinite(field.valueAsNumber)) return;
    range.value = field.valueAsNumber;
    set(field.valueAsNumber);
  };
  return [range, field];
}

function number(control, param, value, set, id) {
  control.append(...slider(param, value, set, id), clock(control, param, value, set, id));
}

function clock(control, param, value, set, id) {
  return el('button', {
    class: 'mode', type: 'button', title: 'Let the number follow the epoch', 'aria-label': `${param.name} follows the epoch`,
    onclick: () => {
      const next = { from: value ?? 0, to: value ?? 1, epochs: 10 };
      set(next);
      fill(control, param, next, set, id);
    },
  }, icon('clock'));
}

function schedule(control, param, value, set, id) {
  const fields = el('div', { class: 'fields' });
  ['from', 'to', 'epochs', 'step'].forEach((name, index) => {
    const input = el('input', { id: index === 0 ? id : null, type: 'number', step: 'any', value: typeof value[name] === 'number' ? value[name] : '' });
    input.oninput = () => {
      if (Number.isFinite(input.valueAsNumber)) value = { ...value, [name]: input.valueAsNumber };
      else if (name === 'step') { value = { ...value }; delete value.step; } else return;
      set(value);
    };
    fields.append(el('label', {}, name, input));
  });
  control.append(fields, el('button', {
    class: 'mode on', type: 'button', title: 'The same number in every epoch', 'aria-label': `${param.name} stays the same`,
    onclick: () => { set(value.to); fill(control, param, value.to, set, id); },
  }, icon('clock')));
}

function range(control, param, value, set, id) {
  const pair = [...value];
  const { min, max } = [0, 1].map((index) => ends(param, pair[index])).reduce((a, b) => ({ min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) }));
  const lines = ['low', 'high'].map((name, index) => {
    const one = { ...param, kind: 'number', min, max: Math.max(max, pair[1] * 1.5), value: pair[index] };
    return el('div', { class: 'control' }, slider(one, pair[index], (next) => { pair[index] = next; set([...pair]); }, index === 0 ? id : null, `${param.name} ${name}`));
  });
  control.append(el('div', { class: 'two' }, lines));
}

function numberOrRange(control, param, value, set, id) {
  const paired = isPair(value);
  if (paired) range(control, param, value, set, id);
  else if (typeof value === 'number' || value === null) control.append(...slider(param, value, set, id));
  else return raw(control, value, set, id, param);
  control.append(el('button', {
    class: 'mode', type: 'button', title: paired ? 'One number' : 'A range from low to high', 'aria-label': `${param.name}: ${paired ? 'one number' : 'a range'}`,
    onclick: () => {
      const next = paired ? Math.abs(value[1] - 1) || value[1] : [Math.max(0, rounded(1 - (value ?? 0))), rounded(1 + (value ?? 0))];
      set(next);
      fill(control, param, next, set, id);
    },
  }, icon(paired ? 'range' : 'point')));
}

function size(control, param, value, set, id) {
  if (typeof value === 'number') control.append(...slider({ ...param, min: null, max: null, kind: param.kind === 'size' ? 'size' : 'number' }, value, set, id));
  else {
    const pair = [...value];
    control.append(...pair.map((side, index) => el('input', {
      id: index === 0 ? id : null, type: 'number', step: 'any', value: side, 'aria-label': `${param.name} ${index + 1}`,
      oninput: (event) => { if (event.target.value !== '') { pair[index] = event.target.valueAsNumber; set([...pair]); } },
    })));
  }
  if (param.kind !== 'size') return;
  const paired = typeof value !== 'number';
  if (!paired) control.append(clock(control, param, value, set, id));
  control.append(el('button', {
    class: 'mode', type: 'button', title: paired ? 'A square' : 'Two sides', 'aria-label': `${param.name}: ${paired ? 'a square' : 'two sides'}`,
    onclick: () => { const next = paired ? value[0] : [value, value]; set(next); fill(control, param, next, set, id); },
  }, icon(paired ? 'oblong' : 'square')));
}

function color(control, value, set, id) {
  const levels = typeof value === 'number' ? [value, value, value] : value;
  const hex = `#${levels.map((level) => Math.max(0, Math.min(255, Math.round(level))).toString(16).padStart(2, '0')).join('')}`;
  const text = el('span', { class: 'muted num', textContent: typeof value === 'number' ? value : levels.join(', ') });
  control.append(el('input', {
    id, type: 'color', value: hex,
    oninput: (event) => {
      const next = [1, 3, 5].map((at) => parseInt(event.target.value.slice(at, at + 2), 16));
      const level = next.every((one) => one === next[0]) ? next[0] : next;
      text.textContent = typeof level === 'number' ? level : level.join(', ');
      set(level);
    },
  }), text);
}

function raw(control, value, set, id, param) {
  control.append(el('input', {
    id, type: 'text', value: value === null || value === undefined ? '' : JSON.stringify(value), placeholder: param.takes, title: param.takes,
    oninput: (event) => {
      const text = event.target.value.trim();
      try { set(text === '' ? undefined : JSON.parse(text)); } catch { set(text); }
    },
  }));
}
