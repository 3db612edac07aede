"""Measures the page of `fuseloop studio` in Chromium: the time from a change to its pixels, and memory after changes.

    python3 benches/studio.py target/release/fuseloop DATASET [--changes 200] [--more 1000]

A change is one step of the slider `brightness` of a ColorJitter, after a RandomResizedCrop to 224 pixels and a flip, on
24 thumbnails (6 samples, 4 draws). The time is the page's own: from the event of the slider until the canvases have
their pixels, which includes the request, the check, compilation, the loops of all thumbnails and the transfer. A change
begins when the one before is drawn. The images are decoded before the first change that counts. Needs only Python and
Chromium, which is driven by the DevTools protocol over pipes.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --remote-debugging-pipe"
)


class Browser:
    """A page of Chromium."""

    def __init__(self, profile):
        line = f"exec chromium {FLAGS} --user-data-dir={profile} about:blank 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"
        self.process = subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number, self.rest, self.session = 0, b"", None
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        self.send("Page.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)

    def receive(self):
        while b"\0" not in self.rest:
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise SystemExit("Chromium has ended")
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        self.process.stdin.flush()
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]

    def eval(self, expression):
        found = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise SystemExit(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def heap(self):
        self.send("HeapProfiler.collectGarbage")
        return self.send("Runtime.getHeapUsage")["usedSize"]


CHANGES = """(async () => {
  const slider = document.querySelector('[data-param="brightness"] input[type=range]');
  const idle = () => new Promise((done) => { const look = () => (studio.done === studio.state.version ? done() : setTimeout(look, 1)); look(); });
  await idle();
  const before = studio.times.length;
  const times = [];
  for (let change = 0; change < %d; change += 1) {
    slider.value = 0.2 + (change %% 50) * 0.01;
    slider.dispatchEvent(new Event('input'));
    await idle();
    times.push(studio.times.at(-1));
  }
  return times;
})()"""


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command")
    parser.add_argument("dataset")
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--more", type=int, default=1000)
    args = parser.parse_args()
    studio = subprocess.Popen([args.command, "studio", args.dataset], stdout=subprocess.PIPE, text=True)
    with tempfile.TemporaryDirectory() as profile:
        browser = None
        try:
            url = studio.stdout.readline().split()[1]
            browser = Browser(profile)
            browser.send("Page.navigate", url=url)
            while not browser.eval("!!(window.studio && studio.done && document.querySelector('#plan .block'))"):
                time.sleep(0.1)
            browser.eval(CHANGES % 50)
            start = memory(studio.pid), browser.heap()
            times = sorted(browser.eval(CHANGES % args.changes))
            print(f"{len(times)} changes: median {statistics.median(times):.1f} ms, p95 {times[int(len(times) * 0.95)]:.1f} ms")
            browser.eval(CHANGES % args.more)
            end = memory(studio.pid), browser.heap()
            for name, before, after in zip(["server", "page"], start, end):
                print(f"{name}: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after {args.changes + args.more} changes")
        finally:
            studio.terminate()
            studio.wait()
            if browser:
                browser.process.terminate()
                browser.process.wait()


if __name__ == "__main__":
    main()
