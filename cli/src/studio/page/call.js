// Calls of the server.

/** Calls the server and returns the JSON of its answer. */
export async function call(name, body = {}) {
  const response = await post(name, body);
  return response.json();
}

/** Calls the server and returns the JSON before the pixels, and the pixels. */
export async function pixels(name, body) {
  const response = await post(name, body);
  const buffer = await response.arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let offset = 4 + length;
  for (const picture of [...(header.strip ? [header.strip] : []), ...(header.cells ?? header.steps ?? [])]) {
    if (!picture.width) continue;
    const size = picture.width * picture.height * 4;
    picture.pixels = new Uint8ClampedArray(buffer, offset, size);
    offset += size;
  }
  return header;
}

async function post(name, body) {
  const response = await fetch(`api/${name}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response;
}

/** Runs one call at a time; of those that are asked for meanwhile, only the latest. */
export class Latest {
  #running = false;
  #next = null;

  constructor(run) {
    this.run = run;
  }

  async ask(...values) {
    this.#next = values;
    if (this.#running) return;
    this.#running = true;
    while (this.#next) {
      const next = this.#next;
      this.#next = null;
      try {
        await this.run(...next);
      } catch (error) {
        this.failed?.(error);
      }
    }
    this.#running = false;
  }
}
