// The page: its state, and what happens after a change.
import { Latest, call, pixels } from './call.js';
import { AddDialog, Cards, problemNode } from './cards.js';
import { DatasetPage } from './dataset.js';
import { byId, debounce, el, icon, toast } from './dom.js';
import { Editor } from './editor.js';
import { Grid } from './grid.js';
import { Plan } from './plan.js';
import { Sample } from './sample.js';

const state = { text: '', saved: '', field: 'image', fields: [], seed: 0, epoch: 0, page: 0, sample: null, version: 0, from: 'text', undo: [], redo: [] };
// What the tests wait for and what the page measured: the last change that has its pixels.
window.studio = { done: 0, times: [], state };

const opened = await call('open');
byId('dataset-name').textContent = opened.dataset;
byId('dataset-name').title = `${opened.dataset}, ${opened.samples} samples`;
byId('file').textContent = opened.file ?? 'no file';
byId('file').title = opened.file ?? 'No file was named: start with --pipeline FILE.toml to save';
byId('save').disabled = byId('load').disabled = !opened.file;
for (const [number, name] of opened.classes) byId('classes').append(el('option', { value: number, textContent: name }));
byId('targets').checked = opened.has_targets;
byId('classes').hidden = !opened.classes.length;

const body = () => ({
  text: state.text,
  ...(state.from === 'cards' ? { ops: cards.ops } : {}),
  field: state.field, seed: state.seed ?? undefined, epoch: state.epoch, page: state.page,
  rows: byId('rows').valueAsNumber || 6, draws: byId('draws').valueAsNumber || 4, side: 224,
  targets: byId('targets').checked,
  bands: byId('bands').value.split(',').map((band) => parseInt(band, 10)).filter(Number.isInteger),
  classes: byId('classes').value === '' ? [] : [Number(byId('classes').value)],
});

const cards = new Cards(opened.registry, () => { state.from = 'cards'; changed(); });
const dialog = new AddDialog(opened.registry, add);
cards.onadd = (path) => dialog.open([...path, path.reduce((ops, index, at) => (at < path.length ? ops[index].ops : ops), cards.ops).length]);
const editor = new Editor((text) => { state.text = text; state.from = 'text'; changed(); });
const grid = new Grid((cell) => openSample(cell.sample, cell.epoch));
const sample = new Sample(() => { state.sample = null; });
const plan = new Plan(body);
const dataset = new DatasetPage(() => state, (number) => { page('pipeline'); openSample(number, state.epoch); });

const latest = new Latest(refresh);
latest.failed = (error) => fault({ message: error.message, cure: 'The server has ended: start `fuseloop studio` again.' });
const latestSample = new Latest((sent) => sample.show(sent));
const measure = debounce(450, async () => {
  plan.waiting();
  const version = state.version;
  const found = await call('plan', body());
  if (version === state.version) plan.show(found);
});

/** Asks for the pixels of the state as it is. */
function changed() {
  state.version += 1;
  state.changed ??= performance.now();
  latest.ask();
  if (state.sample) latestSample.ask({ ...body(), ...state.sample });
}

let lastText = null;

function history(text) {
  if (lastText !== null && lastText !== text && !state.walking) {
    state.undo.push(lastText);
    if (state.undo.length > 100) state.undo.shift();
    state.redo = [];
  }
  state.walking = false;
  lastText = text;
  byId('undo').disabled = !state.undo.length;
  byId('redo').disabled = !state.redo.length;
}

async function refresh() {
  const { version, from } = state;
  const begun = state.changed ?? performance.now();
  state.changed = null;
  const header = await pixels('grid', body());
  if (header.fault) {
    grid.stale();
  } else {
    grid.show(header);
    const took = performance.now() - begun;
    window.studio.times.push(took);
    if (window.studio.times.length > 2000) window.studio.times.shift();
    byId('timing').textContent = `${took.toFixed(0)} ms (${header.compile_ms.toFixed(1)})`;
    state.all = header.all;
    state.images = header.images;
    state.imageFields = header.image_fields;
    state.samplesPrint = header.samples_print;
    byId('bands-label').hidden = header.channels <= 4;
    byId('epoch').title = header.changes ? 'Numbers of this pipeline follow the epoch' : 'No number of this pipeline follows the epoch: it changes the draws';
  }
  if (version === state.version) {
    state.text = header.text;
    state.fields = header.fields;
    history(header.text);
    if (from === 'cards') editor.show(header.text);
    fields(header);
    if (from === 'text') cards.show(opsOf(state.field), header.fault);
    cards.mark(header.fault);
    fault(header.fault);
    editor.mark(header.fault?.line);
    dirty();
    if (!header.fault) measure();
  }
  window.studio.done = version;
}

const opsOf = (field) => state.fields.find((known) => known.field === field)?.ops ?? [];

/** Adds an op to a container, or to the list of the field where it fits. */
async function add(op, path) {
  if (path) { cards.add(op, path); return; }
  const { version } = state;
  const { index } = await call('place', { ...body(), ops: cards.ops, op });
  cards.add(op, [version === state.version && index !== null ? index : cards.ops.length]);
}

/** Shows an error above the cards, unless its card shows it. */
function fault(found) {
  const node = byId('fault');
  const inCard = found?.path?.length && found.field === state.field && document.querySelector(`.card[data-path="${found.path.join('.')}"]`);
  node.hidden = !found || inCard;
  node.replaceChildren(...(found ? [problemNode(found)] : []));
}

function fields(header) {
  const names = [...new Set([...state.fields.map((one) => one.field), ...(state.imageFields ?? opened.images), ...(header.images ?? [])])];
  if (!names.includes(state.field)) state.field = names[0] ?? 'image';
  const select = byId('field');
  if ([...select.options].map((one) => one.value).join('\n') !== names.join('\n')) select.replaceChildren(...names.map((name) => el('option', { value: name, textContent: name })));
  select.value = state.field;
}

function dirty() {
  const changed = opened.file && state.text !== state.saved;
  byId('file').textContent = `${changed ? '● ' : ''}${opened.file ?? 'no file'}`;
}

function openSample(number, epoch) {
  state.sample = { sample: number, epoch };
  latestSample.ask({ ...body(), ...state.sample });
}

function setText(text) {
  state.text = text;
  state.from = 'text';
  editor.show(text);
  changed();
}

function walk(from, to) {
  if (!from.length) return;
  to.push(state.text);
  state.walking = true;
  setText(from.pop());
}

async function save() {
  const found = await call('save', { text: state.text });
  if (found.fault) { toast(`Not saved: ${found.fault.message}`); fault(found.fault); return; }
  state.saved = state.text;
  dirty();
  toast(`Saved ${found.saved}`);
}

async function copy(language) {
  const found = await call('export', { text: state.text, language });
  if (found.fault) { toast(found.fault.message); return; }
  window.studio.copied = found.code;
  try { await navigator.clipboard.writeText(found.code); } catch {
    // A frame of another page may not write to the clipboard; the older way may.
    const area = el('textarea', { value: found.code });
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  toast(`Copied as ${language === 'python' ? 'Python' : 'Rust'}`);
}

function page(name) {
  const isDataset = name === 'dataset';
  byId('pipeline-page').hidden = isDataset;
  byId('dataset-page').hidden = !isDataset;
  byId('tab-pipeline').setAttribute('aria-pressed', String(!isDataset));
  byId('tab-dataset').setAttribute('aria-pressed', String(isDataset));
  if (isDataset) dataset.show();
}

function turn(by) {
  const pages = Math.max(1, Math.ceil((state.all ?? 1) / (byId('rows').valueAsNumber || 6)));
  state.page = (state.page + by + pages) % pages;
  changed();
}

function theme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'light' : 'dark';
  try { localStorage.setItem('fuseloop-theme', document.documentElement.dataset.theme); } catch { /* Storage may be off. */ }
}

const KEYS = [
  ['a', 'Add an op'], ['↑ ↓', 'Go through the cards'], ['Alt+↑, Alt+↓', 'Move a card'], ['d, Delete', 'Duplicate or remove a card'],
  ['Enter', 'Open or close a card'], ['← →', 'Turn the page; in a sample, go through its ops'], ['+ − 0', 'Zoom a picture'], ['Escape', 'Leave a sample or the text'],
  ['p', 'Play or pause clips'], [', .', 'Go back or on by one frame of clips'],
  ['Ctrl+S', 'Save'], ['Ctrl+Z, Ctrl+Shift+Z', 'Undo, redo'], ['r', 'Run an epoch'], ['1, 2', 'Pipeline, dataset'], ['t', 'Light or dark'], ['?', 'This list'],
];
byId('help-dialog').append(el('div', { class: 'pad' }, el('h2', {}, 'Keyboard'), el('dl', {}, KEYS.flatMap(([key, words]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, words)]))));
byId('help-dialog').addEventListener('click', () => byId('help-dialog').close());

byId('undo').append(icon('undo'));
byId('redo').append(icon('redo'));
byId('load').append(icon('reset'));
byId('add').onclick = () => dialog.open();
byId('undo').onclick = () => walk(state.undo, state.redo);
byId('redo').onclick = () => walk(state.redo, state.undo);
byId('save').onclick = save;
byId('load').onclick = async () => {
  const found = await call('load');
  if (found.fault) { toast(found.fault.message); return; }
  state.saved = found.text;
  setText(found.text);
};
byId('copy-python').onclick = () => copy('python');
byId('copy-rust').onclick = () => copy('rust');
byId('theme').onclick = theme;
byId('help').onclick = () => byId('help-dialog').showModal();
byId('tab-pipeline').onclick = () => page('pipeline');
byId('tab-dataset').onclick = () => page('dataset');
byId('previous').onclick = () => turn(-1);
byId('next').onclick = () => turn(1);
byId('field').onchange = (event) => { state.field = event.target.value; state.from = 'text'; changed(); };
byId('seed').oninput = (event) => { state.seed = Number.isFinite(event.target.valueAsNumber) ? Math.max(0, event.target.valueAsNumber) : 0; changed(); };
byId('epoch').oninput = (event) => { state.epoch = event.target.valueAsNumber; byId('epoch-value').textContent = state.epoch; if (state.sample) state.sample.epoch = state.epoch; changed(); };
for (const id of ['rows', 'draws', 'classes', 'targets', 'bands']) byId(id).oninput = () => { if (id === 'classes' || id === 'rows') state.page = 0; changed(); };

document.addEventListener('keydown', (event) => {
  const command = event.ctrlKey || event.metaKey;
  const typing = event.target.matches('textarea, select, input:not([type="range"], [type="checkbox"])');
  if (command && event.key === 's') { event.preventDefault(); if (opened.file) save(); return; }
  if (document.querySelector('dialog[open]')) return;
  if (command && event.key.toLowerCase() === 'z' && !typing) {
    event.preventDefault();
    if (event.shiftKey) walk(state.redo, state.undo); else walk(state.undo, state.redo);
    return;
  }
  if (event.key === 'Escape' && sample.isOpen && !typing) { sample.hide(); return; }
  if (typing || command || event.altKey || event.target.type === 'range') return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by && !byId('pipeline-page').hidden) { event.preventDefault(); if (sample.isOpen) sample.turn(by); else turn(by); return; }
  const action = { a: () => dialog.open(), t: theme, r: () => plan.toggle(), p: () => grid.player.toggle(), ',': () => grid.player.step(-1), '.': () => grid.player.step(1), '?': () => byId('help-dialog').showModal(), 1: () => page('pipeline'), 2: () => page('dataset') }[event.key];
  if (action) { event.preventDefault(); action(); }
});
addEventListener('beforeunload', (event) => { if (opened.file && state.text !== state.saved) event.preventDefault(); });

try { const kept = localStorage.getItem('fuseloop-theme'); if (kept) document.documentElement.dataset.theme = kept; } catch { /* Storage may be off. */ }
state.field = opened.images[0] ?? 'image';
state.saved = opened.saved ?? opened.text;
const seed = /^seed\s*=\s*(\d+)/m.exec(opened.text);
state.seed = seed ? Number(seed[1]) : 0;
byId('seed').value = state.seed;
setText(opened.text);
