// Plays samples with several images, all by one timer. A strip has the images of a sample one below the other.
import { byId } from './dom.js';

/** The fewest and the most images a second. */
const SLOWEST = 4, FASTEST = 15;

/** Returns one image of a strip; of a shorter strip, its last one. A picture that is no strip is its own image. */
export function frameOf(strip, frame) {
  if (!strip.frames) return strip;
  const { width, frames } = strip;
  const height = strip.height / frames, size = width * height * 4, at = Math.min(frame, frames - 1);
  return { width, height, pixels: strip.pixels.subarray(at * size, (at + 1) * size) };
}

/** Says which image of a sample a strip shows, and its time. A frame of a video without times has its number there. */
export function frameWords({ frames, indexes, times, numbers }, frame) {
  const at = Math.min(frame, frames - 1);
  if (numbers) return `frame ${numbers[at]}`;
  return times ? `frame ${indexes[at]}, ${times[at].toFixed(2)} s` : `image ${indexes[at]}`;
}

export class Player {
  constructor(draw) {
    this.draw = draw;
    this.frame = 0;
    this.frames = 1;
    this.playing = !matchMedia('(prefers-reduced-motion: reduce)').matches;
    byId('play').onclick = () => this.toggle();
    byId('frame').oninput = (event) => { this.pause(); this.go(event.target.valueAsNumber); };
    this.label();
  }

  /** Plays strips; none hides the controls. */
  show(strips) {
    this.frames = Math.max(1, ...strips.map((strip) => strip.frames));
    byId('player').hidden = this.frames < 2;
    byId('frame').max = this.frames - 1;
    const { times } = strips.find((strip) => strip.times?.length > 1) ?? {};
    const seconds = times ? Math.abs(times.at(-1) - times[0]) / (times.length - 1) : 0;
    this.delay = 1000 * Math.min(1 / SLOWEST, Math.max(1 / FASTEST, seconds));
    this.go(Math.min(this.frame, this.frames - 1));
    this.restart();
  }

  go(frame) {
    this.frame = frame;
    byId('frame').value = frame;
    byId('frame-value').textContent = `${frame + 1} of ${this.frames}`;
    this.draw(frame);
  }

  step(by) {
    this.pause();
    this.go((this.frame + by + this.frames) % this.frames);
  }

  toggle() {
    this.playing = !this.playing;
    this.restart();
  }

  pause() {
    this.playing = false;
    this.restart();
  }

  restart() {
    clearInterval(this.timer);
    if (this.playing && this.frames > 1) this.timer = setInterval(() => this.go((this.frame + 1) % this.frames), this.delay);
    this.label();
  }

  label() {
    const words = this.playing ? 'Pause' : 'Play';
    byId('play').textContent = this.playing ? '❚❚' : '▶';
    byId('play').setAttribute('aria-label', words);
    byId('play').title = `${words} (p)`;
  }
}
