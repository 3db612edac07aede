"""Measures what docs/performance.md shows, and draws its tables and charts.

    python3 scripts/performance.py --measure              # runs the benchmarks: a quiet machine and about 20 minutes
    python3 scripts/performance.py --measure ops,window   # these alone; the figures of the others stay
    python3 scripts/performance.py                        # draws the tables and the charts again
    python3 scripts/performance.py --check                # fails if they are not those of benches/figures.json

The figures are in benches/figures.json, each with the day and the machine of its benchmark. Needs Python's standard
library and, to measure, cargo.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import plots  # noqa: E402
from plots import number  # noqa: E402

FIGURES = ROOT / "benches" / "figures.json"
PAGE = ROOT / "docs" / "performance.md"

# What is measured: a benchmark, its argument, and the variable that it runs with. With the filter `nothing`, and with
# `--test`, contenders are measured in turn, and not again one by one.
BENCHES = {
    "epoch": ("epoch", "--test", ""),
    "window": ("window", "", ""),
    "window, AVX2": ("window", "", "FUSELOOP_ISA=256"),
    "scaled_decode": ("scaled_decode", "", ""),
    "fused": ("fused", "nothing", ""),
    "fused, AVX2": ("fused", "nothing", "FUSELOOP_ISA=256"),
    "resize": ("resize", "nothing", ""),
    "compile": ("compile", "nothing", ""),
    "ops": ("ops", "", ""),
    "arrays": ("arrays", "nothing", ""),
    "overhead": ("overhead", "", ""),
    "scaling": ("scaling", "", ""),
    "stall": ("stall", "", ""),
    "producers": ("producers", "", ""),
}


def fail(why: str) -> NoReturn:
    sys.exit(f"error: {why}")


class Figures:
    """The figures of a benchmark: for each piece of work, those of the contenders."""

    def __init__(self, results: dict, bench: str) -> None:
        if bench not in results["benches"]:
            fail(f"benches/figures.json has nothing of {bench}: python3 scripts/performance.py --measure {bench}")
        self.bench = bench
        self.rows: dict[str, dict[str, float]] = {}
        for work, how, value, _ in results["benches"][bench]["figures"]:
            self.rows.setdefault(work, {})[how] = value

    def row(self, work: str) -> dict[str, float]:
        if work not in self.rows:
            fail(f"{self.bench} has no {work!r}, but {', '.join(map(repr, self.rows))}")
        return self.rows[work]

    def of(self, work: str, how: str) -> float:
        row = self.row(work)
        if how not in row:
            fail(f"{self.bench} has no {how!r} of {work!r}, but {', '.join(map(repr, row))}")
        return row[how]


# What is drawn. Each function returns the table of a section, or the panels of a chart.


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table whose first column is text."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def times(ours: float, other: float) -> str:
    """Says how many times the other's time ours is."""
    return f"{ours / other:.2f}x"


EPOCHS = {
    "jpeg/W1": "JPEG: RandomResizedCrop 224, flip, normalize",
    "jpeg/W3": "the same with ColorJitter",
    "tiled jpeg/W1": "re-cut JPEG: RandomResizedCrop 224, flip, normalize",
    "tiled jpeg/W3": "the same with ColorJitter",
    "bit planes/W1": "bit planes: RandomResizedCrop 224, flip, normalize",
    "bit planes/W3": "the same with ColorJitter",
    "raw 32x32/W4": "raw 32x32: flip, translate, cutout, normalize",
    "raw 256x256/W5": "raw 256x256: crop 224, flip, normalize",
}
OURS, PLAIN = "fuseloop", "plain loop"


def epochs(results: dict) -> str:
    found = Figures(results, "epoch")
    rows = []
    for work, label in EPOCHS.items():
        cells = [label]
        for threads in (1, 2):
            ours, plain = (found.of(f"epoch/{work}/{threads} threads", how) for how in (OURS, PLAIN))
            cells += [number(ours), number(plain), f"{ours / plain:.1f}x"]
        rows.append([*cells, f"{found.of(f'epoch/{work}/1 threads', f'{OURS}, processor'):.3g}"])
    heads = ["images/s", "1 thread", "plain loop", "", "2 threads", "plain loop", "", "ms of processor time an image"]
    return table(heads, rows)


def epochs_chart(results: dict) -> list:
    found = Figures(results, "epoch")
    names = {"jpeg": "JPEG", "tiled jpeg": "re-cut JPEG", "bit planes": "bit planes"}
    panels = []
    for workload, head in [("W1", "RandomResizedCrop, flip, normalize"), ("W3", "the same with ColorJitter")]:
        bars = [(name, found.of(f"epoch/{images}/{workload}/2 threads", OURS), True) for images, name in names.items()]
        bars.append(("plain loop, JPEG", found.of(f"epoch/jpeg/{workload}/2 threads", PLAIN), False))
        panels.append((f"Images/s, two threads: {head}", bars))
    for work, head in [("raw 32x32/W4", "raw 32x32"), ("raw 256x256/W5", "raw 256x256")]:
        bars = [(name, found.of(f"epoch/{work}/2 threads", how), how == OURS)
                for how, name in [(OURS, "Fuseloop"), (PLAIN, "plain loop")]]
        panels.append((f"Images/s, two threads: {head}", bars))
    return panels


SETS = {
    "photographs as they are": "originals",
    "at most 500 pixels a side, quality 90, 4:2:0": "at most 500 pixels",
}
PLANES = "window, bit planes, tiles of 32"
DECODERS = {
    PLANES: ("window, bit planes", True),
    "window, re-cut, tiles of 32": ("window, re-cut JPEG", True),
    "window of the file as it is": ("window, JPEG as it is", True),
    "whole": ("whole image", True),
    "libjpeg-turbo crop and skip": ("libjpeg-turbo, crop and skip", False),
    "libjpeg-turbo whole": ("libjpeg-turbo, whole image", False),
    "whole (zune-jpeg)": ("zune-jpeg, whole image", False),
}


def decoding(results: dict) -> str:
    found = Figures(results, "window")
    rows = []
    for how, (label, _) in DECODERS.items():
        cells = [label]
        for work in SETS:
            taken = found.of(work, how)
            cells += [number(taken), times(taken, found.of(work, "libjpeg-turbo whole"))]
        rows.append(cells)
    narrow = Figures(results, "window, AVX2")
    taken = [(narrow.of(work, PLANES), narrow.of(work, "libjpeg-turbo whole")) for work in SETS]
    cells = [cell for ours, whole in taken for cell in (number(ours), times(ours, whole))]
    rows.insert(1, ["window, bit planes, with AVX2 alone", *cells])
    heads = [f"{name}: {what}" for name in SETS.values() for what in ("µs an image", "of libjpeg-turbo, whole")]
    return table(["", *heads], rows)


def decoding_chart(results: dict) -> list:
    found = Figures(results, "window")
    return [
        (f"Microseconds an image: {name}", [(label, found.of(work, how), ours) for how, (label, ours) in DECODERS.items()])
        for work, name in SETS.items()
    ]


def stored(results: dict) -> str:
    found = Figures(results, "window")
    rows = []
    for name, label, written in [
        ("bytes, JPEG", "JPEG", None),
        ("bytes, re-cut", "re-cut JPEG, with its index", "re-cutting"),
        ("bytes, bit planes", "bit planes, with their index", "writing bit planes"),
    ]:
        cells = [label]
        for work in SETS:
            bytes_, jpeg = found.of(work, name), found.of(work, "bytes, JPEG")
            cells += [f"{bytes_ / 1000:.1f} kB", "" if written is None else f"{100 * (bytes_ / jpeg - 1):+.1f} %"]
            cells.append("" if written is None else f"{found.of(work, written):.1f} ms")
        rows.append(cells)
    heads = [f"{name}: {what}" for name in SETS.values() for what in ("bytes", "more than the JPEG", "to write")]
    return table(["stored as", *heads], rows)


def large(results: dict) -> str:
    found = Figures(results, "scaled_decode")
    rows = []
    for size in ("2048 px", "12 Mpixel"):
        for kind in ("JPEG", "bit planes"):
            whole, scaled = (found.of(f"{size}, {kind}", how) for how in ("whole", "scaled"))
            rows.append([f"{size}, {kind}", f"{whole:.2f}", f"{scaled:.2f}", times(scaled, whole)])
    return table(["ms an image", "whole", "scaled", ""], rows)


LOOPS = {
    "crop+flip+normalize/one 256x256, in cache": "crop, flip, normalize",
    "crop+flip+normalize/64 of 256x256, cold": "the same, not in cache",
    "crop+flip+jitter+normalize/one 256x256, in cache": "with ColorJitter",
    "crop+flip+jitter+normalize/64 of 256x256, cold": "the same, not in cache",
    "crop+flip+RandAugment(2, 9)+normalize/64 draws on one 256x256, in cache": "with RandAugment(2, 9)",
    "crop+flip+AugMix+normalize/64 draws on one 256x256, in cache": "with AugMix",
}


def loops(results: dict) -> str:
    found, narrow = Figures(results, "fused"), Figures(results, "fused, AVX2")
    hows = ["compiled", "by hand in AVX2", "op by op, native", "op by op, baseline", "copy of as many bytes"]
    rows = []
    for work, label in LOOPS.items():
        row = found.row(f"fused/{work}")
        cells = [f"{row[how]:.1f}" if how in row else "" for how in hows]
        cells.insert(1, f"{narrow.of(f'fused/{work}', 'compiled'):.1f}")
        rows.append([label, *cells])
    heads = ["µs a sample", "compiled", "with AVX2 alone", "by hand in AVX2", "op by op, AVX2", "op by op, any x86-64", "copy of as many bytes"]
    return table(heads, rows)


def loops_chart(results: dict) -> list:
    found = Figures(results, "fused")
    names = {"compiled": "compiled", "by hand in AVX2": "by hand in AVX2", "op by op, native": "op by op, AVX2",
             "copy of as many bytes": "copy of as much"}
    panels = []
    for work, label in LOOPS.items():
        row = found.row(f"fused/{work}")
        bars = [(name, row[how], how == "compiled") for how, name in names.items() if how in row]
        panels.append((f"Microseconds a sample: {label}", bars))
    return panels


OP_COLUMNS = ["compiled", "plain", "compiled, normalized", "plain, normalized", "added"]


def ops(results: dict) -> str:
    found = Figures(results, "ops").rows
    rows = []
    for name, row in sorted(found.items()):
        # What is added is a difference, which may be a little below 0.
        cells = [f"{max(row[how], 0):.2f}" if how in row else "" for how in OP_COLUMNS]
        rows.append([name, *cells])
    heads = ["ns a pixel", "alone", "plain pass", "then normalized", "plain passes", "added to crop, flip, normalize"]
    return table(heads, rows)


def ops_chart(results: dict) -> list:
    found = Figures(results, "ops").rows
    both = sorted((row["plain"], name, row["compiled"]) for name, row in found.items() if "plain" in row)
    panels: list = []
    half = (len(both) + 1) // 2
    for part in (both[:half], both[half:]):
        bars = []
        for plain, name, compiled in part:
            bars += [(name, round(compiled, 2), True), ("plain pass", round(plain, 2), False)]
        panels.append(("Nanoseconds a pixel, bytes to bytes", bars))
    return panels


def resize(results: dict) -> str:
    found = Figures(results, "resize")
    rows = []
    for work in found.rows:
        ours, theirs = (found.of(work, how) for how in ("compiled", "fast_image_resize"))
        rows.append([work.removeprefix("resize/").replace(", crop", ", the middle of 1200x900"), number(ours), number(theirs), times(ours, theirs)])
    return table(["µs an image", "compiled", "fast_image_resize", ""], rows)


def compiling(results: dict) -> str:
    found = Figures(results, "compile")
    rows = [["imagenet, the first of a process", f"{found.of('imagenet', 'first of the process'):.1f}"]]
    for work in ("imagenet", "imagenet+ColorJitter", "twelve ops", "imagenet+RandAugment(2, 9)"):
        rows.append([work, f"{found.of(work, 'plan and compile'):.1f}"])
    return table(["list", "ms"], rows)


def channels(results: dict) -> str:
    found = Figures(results, "arrays")
    labels = {
        "crop+flip+normalize": "crop, flip, normalize",
        "crop+flip, bytes": "crop, flip; bytes",
        "crop+brightness+solarize+normalize": "crop, brightness, solarize, normalize",
        "resize+normalize": "bilinear resize, normalize",
    }
    rows = []
    for work, label in labels.items():
        cells = [found.of(f"arrays/{work}/256x256 u8, in cache", f"{n} channel{'s' * (n > 1)}") for n in range(1, 5)]
        rows.append([label, *map(number, cells), times(cells[0], cells[2])])
    return table(["µs a sample", "1 channel", "2", "3", "4", "1 over 3"], rows)


def types(results: dict) -> str:
    found = Figures(results, "arrays")
    rows = []
    for n in (1, 3):
        work = f"arrays/types/{n} channel(s)/in cache"
        kinds = ("u8", "u16", "i16", "f16", "f32", "a copy of the bytes of the last")
        rows.append([f"{n} channel{'s' * (n > 1)}", *(number(found.of(work, kind)) for kind in kinds)])
    return table(["µs a sample", "u8", "u16", "i16", "f16", "f32", "copy of f32"], rows)


def labels(results: dict) -> str:
    found = Figures(results, "arrays")
    rows = []
    for name in ("no ops", "Convert to f32", "OneHot(1000) + LabelSmoothing", "MixUp, before the batch is mixed"):
        work = f"arrays/labels/{name}/a batch of 64"
        ours, other = (found.of(work, how) for how in ("gathered, one call", "sample by sample, op by op"))
        rows.append([f"64 labels: {name}", f"{ours:.2f}", f"{other:.1f}", f"{other / ours:.0f}x"])
    for name in ("f64 to f32", "f32 to f16", "i16 to f32", "f32 to i16"):
        work = f"arrays/embedding/{name}/512 elements"
        ours, other = (found.of(work, how) for how in ("one loop", "element by element"))
        rows.append([f"512 elements: {name}", f"{ours:.2f}", f"{other:.1f}", f"{other / ours:.0f}x"])
    return table(["µs", "one call", "element by element", ""], rows)


def runtime(results: dict) -> str:
    rows = [[
        "two workers over one, for arithmetic (`scaling`)",
        f"{Figures(results, 'scaling').of('two workers over one', 'arithmetic'):.2f}x", "1.9x at least",
    ]]
    stall = Figures(results, "stall")
    for how, aim in [("p99 / median of the waits", "below 1.5"), ("first batch / that of one a worker", "below 0.33")]:
        rows.append([f"{how}; 4 workers, 5 ms a sample (`stall`)", f"{stall.of('even', how):.2f}", aim])
    slow = "1 in 100 ten times slower"
    for how, aim in [("p99 / median of the waits", "below 1.5"), ("longest wait / that of one a worker", "below 0.6")]:
        rows.append([f"{how}; one sample in 100 takes 50 ms (`stall`)", f"{stall.of(slow, how):.2f}", aim])
    producers = Figures(results, "producers")
    least = min(row["of the most that is possible"] for row in producers.rows.values())
    rows.append(["generators of 1, 10 and 30 threads: of the most that is possible (`producers`)", f"{least:.0f} % at least", "95 %"])
    resume = Figures(results, "overhead")
    for order in ("in order", "random"):
        slowest = max(resume.of(f"resume {order}, at {share}0 %", "with the first batch") for share in (1, 5, 9))
        rows.append([f"a resume among 1.28 million samples, {order}, to its first batch (`overhead`)", f"{slowest:.1f} ms", "below 10 ms"])
    for how, label, aim in [
        ("copied, 2", "copied", "above 1 million/s"),
        ("augmented, 2", "flip, translate, cutout, normalize", "above 1.5 million/s"),
    ]:
        rate = resume.of("in memory, random", how)
        rows.append([f"raw 32x32 images and labels, {label}, two workers (`overhead`)", f"{rate:.2f} million/s", aim])
    return table(["what", "reached", "aim"], rows)


TABLES = {
    "epochs": (epochs, "epoch"),
    "decoding": (decoding, "window"),
    "stored": (stored, "window"),
    "large": (large, "scaled_decode"),
    "loops": (loops, "fused"),
    "resize": (resize, "resize"),
    "compiling": (compiling, "compile"),
    "ops": (ops, "ops"),
    "channels": (channels, "arrays"),
    "types": (types, "arrays"),
    "labels": (labels, "arrays"),
    "runtime": (runtime, "overhead"),
}
CHARTS = {
    "performance_epochs.svg": (epochs_chart, "epoch", "Whole epochs, more is better"),
    "performance_decoding.svg": (decoding_chart, "window", "Decoding, less is better"),
    "performance_loops.svg": (loops_chart, "fused", "The compiled loop, less is better"),
    "performance_ops.svg": (ops_chart, "ops", "Each op alone, less is better"),
}


def facts(results: dict, bench: str) -> str:
    """Says on which machine a benchmark ran, and when."""
    entry = results["benches"][bench]
    return f"{entry['machine']}, {entry['date']}"


def drawn(results: dict) -> dict[Path, str]:
    """Returns the files that show the figures."""
    page = PAGE.read_text(encoding="utf-8")
    for name, (draw, bench) in TABLES.items():
        begin, end = f"<!-- figures: {name} -->", "<!-- end of figures -->"
        shape = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
        if not shape.search(page):
            fail(f"docs/performance.md has no {begin}")
        where = f"`{command(bench)}`; {facts(results, bench)}."
        text = f"{begin}\n\n{draw(results)}\n\n{where}\n\n{end}"
        page = shape.sub(lambda _, text=text: text, page)
    files = {PAGE: page}
    for name, (draw, bench, heading) in CHARTS.items():
        files[PAGE.parent / name] = plots.bar_chart(heading, facts(results, bench), draw(results), room=170)
    return files


# Measuring


def command(bench: str) -> str:
    name, argument, variable = BENCHES[bench]
    return " ".join(filter(None, [variable, "cargo bench --all-features --bench", name, argument and f"-- {argument}"]))


def machine() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return f"{os.cpu_count()} cores"
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.M)
    widths = "AVX-512" if re.search(r"^flags.*\bavx512vbmi\b", info, re.M) else "AVX2"
    return f"{os.cpu_count()} cores of {model.group(1).strip() if model else 'an unknown CPU'}, {widths}"


def measure(bench: str) -> dict:
    """Runs a benchmark, and returns its figures."""
    print(f"== {command(bench)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "figures"
        words = ["env", f"FUSELOOP_FIGURES={lines}", *command(bench).split()]
        done = subprocess.run(words, cwd=ROOT, check=False)
        if done.returncode != 0 or not lines.exists():
            fail(f"{bench} ended with status {done.returncode}, and left {'some' if lines.exists() else 'no'} figures")
        figures = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    rounded = [[one["work"], one["how"], float(f"{one['value']:.4g}"), one["unit"]] for one in figures]
    return {"machine": machine(), "date": datetime.date.today().isoformat(), "figures": rounded}


def written(results: dict) -> str:
    """Returns the figures as JSON, one on a line."""
    parts = []
    for bench, entry in results["benches"].items():
        lines = ",\n".join(f"    {json.dumps(figure, ensure_ascii=False)}" for figure in entry["figures"])
        head = f'"machine": {json.dumps(entry["machine"])}, "date": "{entry["date"]}"'
        parts.append(f'  "{bench}": {{{head}, "figures": [\n{lines}\n  ]}}')
    return '{"benches": {\n' + ",\n".join(parts) + "\n}}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    listed = lambda text: text.split(",")  # noqa: E731
    known = {name: [key for key, (bench, *_) in BENCHES.items() if bench == name] for name, *_ in BENCHES.values()}
    parser.add_argument("--measure", nargs="?", type=listed, const=list(known), metavar="ops,window",
                        help="run the benchmarks, or these alone")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a file would change")
    args = parser.parse_args()
    results = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {"benches": {}}
    for bench in args.measure or []:
        if bench not in known:
            fail(f"there is no benchmark {bench}; known are {', '.join(known)}")
    for bench in [key for name in args.measure or [] for key in known[name]]:
        results["benches"][bench] = measure(bench)
        results["benches"] = {name: results["benches"][name] for name in BENCHES if name in results["benches"]}
        FIGURES.write_text(written(results), encoding="utf-8")
    files = drawn(results)
    if args.check:
        stale = [path.name for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        if stale:
            fail(f"{', '.join(stale)}: not what the figures give; run python3 scripts/performance.py")
        return
    for path, text in files.items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
