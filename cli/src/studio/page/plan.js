// The plan: what each op costs, what was pushed into decode, and a running epoch.
import { call } from './call.js';
import { byId, bytes, count, el, nanos, svg } from './dom.js';

const COLORS = ['--c1', '--c2', '--c3', '--c4', '--c5', '--c6', '--c7'];
const color = (index) => `var(${COLORS[index % COLORS.length]})`;

export class Plan {
  constructor(body) {
    this.node = byId('plan');
    this.body = body;
    this.report = el('div', {});
    this.run = el('div', {});
    this.start = el('button', { type: 'button', textContent: 'Run an epoch', title: 'At most a minute of it (r)', onclick: () => this.toggle() });
    this.node.append(this.report, el('h2', {}, 'Epoch'), this.start, this.run);
    this.rates = [];
  }

  waiting() {
    this.node.classList.add('waiting');
  }

  show(plan) {
    this.node.classList.remove('waiting');
    if (plan.fault) {
      this.report.replaceChildren(el('p', { class: 'muted' }, plan.fault.message));
      return;
    }
    const { measured, blocks } = plan;
    const phases = ['read', 'headers', 'draw', 'decode', 'ops'].map((name) => [name, measured?.[name === 'ops' ? 'compiled_ns' : `${name}_ns`] ?? 0]);
    const total = measured?.total_ns ?? 0;
    const longest = Math.max(1, ...blocks.flatMap((block) => [block.load_and_store.measured_ns ?? 0, ...block.ops.map((op) => op.measured_ns ?? 0)]));
    const pushed = plan.pushed_into_decode;
    const decoded = measured ? Math.round((measured.decoded_pixels / Math.max(1, measured.picture_pixels)) * 100) : 100;
    this.report.replaceChildren(
      el('div', { class: 'big' }, total ? count(1e9 / total) : '–', el('small', {}, ' images/s a core, estimated')),
      stack(phases, total),
      legend(phases.map(([name, ns]) => [name, nanos(ns)])),
      el('p', { class: 'why' }, plan.bottleneck ? `Bottleneck: ${plan.bottleneck}.` : ''),
      el('h2', {}, 'Decode'),
      facts([
        ['decoded', `${decoded} % of the pixels`],
        ['asked for by', pushed.length ? pushed.join(', ') : 'the whole image'],
        ['stored', measured ? `${bytes(measured.stored_bytes)} a sample` : '–'],
        ['type', shape(plan.decoded)],
      ]),
      el('h2', {}, blocks.length === 1 ? 'One compiled loop' : `${blocks.length} compiled loops`),
      ...blocks.map((block) => el('div', { class: 'block' },
        el('div', { class: 'kind' }, `${shape(block.input)} → ${shape(block.output)}`),
        meter('load and store', block.load_and_store.measured_ns ?? block.load_and_store.predicted_ns, longest, ''),
        ...block.ops.map((op) => meter(op.name, op.measured_ns ?? op.predicted_ns, longest, [op.became, ...(op.chosen_by.length ? [`if ${op.chosen_by.join(' and ')} chooses it`] : [])].join(', '))),
        el('div', { class: 'why' }, `${block.bytes_loaded ? `Loads ${bytes(block.bytes_loaded)} and stores ${bytes(block.bytes_stored)} a sample. ` : ''}Ends here: ${block.ends}.`),
      )),
      ...plan.later_passes.map((pass) => el('p', { class: 'why' }, `${pass.why}: ${pass.blocks.flatMap((block) => block.ops.map((op) => op.name)).join(', ')}.`)),
      ...(plan.left_out.length ? [el('p', { class: 'why' }, `Left out, since it does nothing: ${plan.left_out.join(', ')}.`)] : []),
      el('h2', {}, 'Output'),
      facts([
        ['type', shape(plan.output)],
        ['a sample', bytes(plan.output_bytes)],
        ['compiled', `${plan.code.compile_ms.toFixed(2)} ms, ${bytes(plan.code.bytes)} of code`],
      ]),
    );
  }

  async toggle() {
    if (this.polling) { await call('epoch/stop'); return; }
    this.rates = [];
    const started = await call('epoch/start', this.body());
    if (started.fault) { this.run.replaceChildren(el('p', { class: 'why' }, started.fault.message)); return; }
    this.polling = true;
    this.start.textContent = 'Stop';
    this.poll();
  }

  async poll() {
    const state = await call('epoch');
    this.rates.push([state.seconds, state.images]);
    if (this.rates.length > 240) this.rates = this.rates.filter((_, index) => index % 2 === 0);
    const phases = Object.entries(state.phases ?? {}).filter(([, seconds]) => seconds > 0);
    const all = phases.reduce((sum, [, seconds]) => sum + seconds, 0);
    this.run.replaceChildren(
      el('p', { class: 'big' }, count(state.images_per_second ?? 0), el('small', {}, ` ${state.unit ?? 'images'}/s, ${count(state.images ?? 0)} of ${count(state.of ?? 0)}`)),
      ...(this.rates.length > 4 ? [rateChart(this.rates)] : []),
      stack(phases, all),
      legend(phases.map(([name, seconds]) => [name, `${((seconds / Math.max(all, 1e-9)) * 100).toFixed(0)} %`])),
      ...(state.error ? [el('p', { class: 'why' }, state.error)] : []),
    );
    if (state.running) setTimeout(() => this.poll(), 200);
    else { this.polling = false; this.start.textContent = 'Run an epoch'; }
  }
}

function stack(parts, total) {
  const bar = el('div', { class: 'stack', role: 'img', 'aria-label': 'Share of each phase' });
  parts.forEach(([name, value], index) => {
    const part = el('i', { title: name });
    part.style.width = `${(value / Math.max(total, 1e-12)) * 100}%`;
    part.style.background = color(index);
    bar.append(part);
  });
  return bar;
}

function legend(parts) {
  return el('div', { class: 'legend' }, parts.map(([name, value], index) => {
    const mark = el('i', {});
    mark.style.background = color(index);
    return el('span', {}, mark, `${name} ${value}`);
  }));
}

function meter(name, ns, most, role) {
  const fill = el('i', {});
  fill.style.width = `${Math.max(0, Math.min(100, ((ns ?? 0) / most) * 100))}%`;
  return el('div', { class: 'meter' }, el('span', { class: 'ellipsis' }, name), el('span', { class: 'num' }, ns === null || ns === undefined ? '' : nanos(ns)), el('div', { class: 'track' }, fill), role ? el('span', { class: 'role' }, role) : null);
}

function facts(pairs) {
  return el('dl', { class: 'facts' }, pairs.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

function shape({ dtype, layout, channels, height, width }) {
  const side = ([min, max]) => (min === max ? `${max}` : min <= 1 && max >= 65535 ? 'any' : `${min}–${max}`);
  const sizes = { H: side(height), W: side(width), C: `${channels}` };
  return `${dtype} [${[...layout].map((axis) => sizes[axis]).join(', ')}]`;
}

/** Draws images a second between two looks. */
function rateChart(points) {
  const rates = points.slice(1).map(([seconds, images], index) => {
    const [before, count] = points[index];
    return seconds > before ? (images - count) / (seconds - before) : null;
  }).filter((rate) => rate !== null);
  const most = Math.max(1, ...rates);
  const line = rates.map((rate, index) => `${(index / Math.max(1, rates.length - 1)) * 300},${(88 - (rate / most) * 80).toFixed(1)}`);
  const path = svg('polyline', { points: line.join(' '), fill: 'none', stroke: 'var(--accent)', 'stroke-width': '1.5', 'vector-effect': 'non-scaling-stroke' });
  return svg('svg', { class: 'chart', viewBox: '0 0 300 90', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Images a second' }, path);
}
