"""Draws benchmark results: a Markdown table and an SVG chart from the JSON that benches/peers/run.py writes.

    python3 scripts/plots.py results.json --table results.md --chart results.svg
    python3 scripts/plots.py results.json --chart readme.svg --only W1,W2,W3
    python3 scripts/plots.py results.json --table results.md --sources sources.json --transform transform.json \\
        --clips clips.json --many-clips many_clips.json --formats formats.json

`sources.json`, `transform.json` and `clips.json` are what sources.py, transform.py and clips.py of benches/peers write, and
`many_clips.json` what clips.py writes with `--many`; `formats.json` is that of formats.py: their tables follow the others.
Uses Python's standard library only. The same JSON always gives the same bytes. The chart has no background and
follows the reader's light or dark theme.
"""

import argparse
import json
from xml.sax.saxutils import escape

TITLES = {
    "fuseloop": "Fuseloop",
    "ffcv": "FFCV",
    "dali": "DALI (CPU)",
    "tfdata": "tf.data",
    "torchvision": "torchvision",
    "albumentations": "albumentations",
    "webdataset": "WebDataset",
    "grain": "Grain",
    "spdl": "SPDL",
}
WORKLOADS = {
    "W1": "W1, JPEG: random resized crop, flip, normalize",
    "W2": "W2, JPEG: centre crop, normalize",
    "W3": "W3, JPEG: W1 with colour jitter",
    "W4": "W4, raw 32x32: flip, translate, cutout, normalize",
    "W5": "W5, raw 256x256: random crop, flip, normalize",
    "W1 half raw": "W1, half JPEG and half raw, as FFCV recommends",
}
US = "fuseloop"

# The rows of a transform's table: a title, and the names of its cases for decoded images and for files.
TRANSFORMS = [
    ("Fuseloop", "Fuseloop", "Fuseloop, from files"),
    ("Albumentations, with `cv2.imdecode` for files", "Albumentations", "cv2.imdecode and Albumentations"),
    ("torchvision v2, tensors", "torchvision, tensors", None),
    ("torchvision v2, images of PIL", "torchvision, PIL", None),
]

WIDTH, COLUMNS, PANEL, GAP = 880, 2, 425, 30
LABEL, VALUE, BAR, PITCH, HEAD = 110, 75, 14, 20, 30

STYLE = """
text { font: 12px -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #57606a }
.title { font-size: 16px; font-weight: 600 }
.head { font-weight: 600 }
.head, .title, .ours { fill: #24292f }
.ours { font-weight: 600 }
rect { fill: #9aa4af }
rect.ours { fill: #e36209 }
line { stroke: #9aa4af; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #9aa4af }
  .head, .title, .ours { fill: #e6edf3 }
  rect { fill: #656d76 }
  rect.ours { fill: #f0883e }
  line { stroke: #656d76 }
}
"""


def title(peer):
    return TITLES.get(peer, peer)


def number(value):
    """Writes a rate with three significant digits, or as a whole number from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def rates(workload):
    """Returns (peer, images/s) of one workload, Fuseloop first and then the fastest first."""
    pairs = [(peer, entry["images_per_s"]) for peer, entry in workload.items()]
    return sorted(pairs, key=lambda pair: (pair[0] != US, -pair[1], pair[0]))


def chosen(results, only):
    """Returns the workloads that have results, in the order of `WORKLOADS`, then others by name."""
    names = [name for name in results["workloads"] if results["workloads"][name]]
    if only:
        names = [name for name in names if name in only]
    known = list(WORKLOADS)
    return sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))


def table(results, only=()):
    """Returns the results as Markdown: one row for each peer, one column for each workload."""
    names = chosen(results, only)
    workloads = results["workloads"]
    found = {peer for name in names for peer in workloads[name]}
    peers = [peer for peer in TITLES if peer in found] + sorted(found - set(TITLES))
    lines = [
        "| images/s | " + " | ".join(names) + " | first batch, s |",
        "|---|" + "---:|" * (len(names) + 1),
    ]
    for peer in peers:
        cells = [cell(workloads[name], peer) for name in names]
        first = [workloads[name][peer]["first_batch_s"] for name in names if peer in workloads[name]]
        lines.append(f"| {title(peer)} | " + " | ".join(cells) + f" | {span(first)} |")
    if US in found:
        lines += ["", "In parentheses: how many times as fast Fuseloop is."]
    drifts = [note for name in names for note in drift(name, workloads[name])]
    if drifts:
        lines += [""] + drifts
    if results.get("left_out"):
        lines += ["", "Left out:", ""]
        lines += [f"* {what}: {why}" for what, why in sorted(results["left_out"].items())]
    lines += ["", facts(results)]
    return "\n".join(lines) + "\n"


def sources_table(results):
    """Returns what benches/peers/sources.py measured as Markdown: one row for each source of each workload."""
    lines = [
        "",
        "## The same pictures in other formats",
        "",
        "Photographs (W1) and 50,000 pictures of 32x32 pixels (W4), as `.beton`, as Hugging Face writes Parquet, as MDS "
        "shards, and as lists or arrays in memory; and the libraries that these formats belong to, with torchvision.",
        "",
        "| | images/s | `.beton` is 1 |",
        "|---|---:|---:|",
    ]
    for workload, rates in results["images_per_s"].items():
        for source, rate in rates.items():
            lines.append(f"| {workload}, {source} | {number(rate)} | {rate / rates['.beton']:.2f} |")
    return "\n".join([*lines, "", facts(results)]) + "\n"


def transform_table(results):
    """Returns what benches/peers/transform.py measured as Markdown: one row for each library."""
    found = results["cpu_ms"]
    lines = [
        "",
        "## A transform as a function",
        "",
        "Processor time of one image in milliseconds, on one thread: `RandomResizedCrop(224)`, flip, "
        "`ColorJitter(0.4, 0.4, 0.4)` and normalization to f32 with the channels first, of "
        f"{results['photos']} photographs.",
        "",
        "| ms | decoded images | files |",
        "|---|---:|---:|",
    ]
    for head, *cases in TRANSFORMS:
        if cases[0] in found:
            cells = [transform_cell(found, ours, case) for ours, case in zip(TRANSFORMS[0][1:], cases)]
            lines.append(f"| {head} | " + " | ".join(cells) + " |")
    lines += [
        "",
        f"In parentheses: how many times as long as Fuseloop it takes. A call costs {results['call_us']:.1f} microseconds "
        "besides its loop. Albumentations does not antialias.",
        "",
        facts(results),
    ]
    return "\n".join(lines) + "\n"


def clips_table(results):
    """Returns what benches/peers/clips.py measured as Markdown: one row for each way to read clips."""
    found, sizes = results["clips_per_cpu_s"], results["megabytes"]
    yardstick = found.get("TorchCodec", 0)
    lines = [
        "",
        "## Clips of videos",
        "",
        "Clips of 16 frames with stride 4 from random places of 24 videos of 300 frames of 340x256 pixels, on one thread. "
        "Fuseloop decodes, crops and resizes to 224x224, flips and normalizes to f32; the others decode H.264 and do nothing else.",
        "",
        "| | clips per second of processor time | TorchCodec is 1 | MB on disk |",
        "|---|---:|---:|---:|",
    ]
    for name, rate in found.items():
        by = name if name.split(",")[0] in ("TorchCodec", "decord", "PyAV") else f"Fuseloop, {name}"
        ratio = f"{rate / yardstick:.2f}" if yardstick else ""
        lines.append(f"| {by} | {rate:.1f} | {ratio} | {sizes[name]:.0f} |")
    return "\n".join([*lines, "", facts(results)]) + "\n"


def many_clips_table(results):
    """Returns what `benches/peers/clips.py --many` measured as Markdown: one row for each number of threads."""
    lines = [
        "",
        "## A folder of thousands of AVI files",
        "",
        f"Clips of 16 frames with stride 4 from {results['files']:,} AVI files, half of them MPEG-4 and half Motion JPEG, in batches "
        f"of {results['batch']}: Fuseloop, and OpenCV as programs without a loader use it.",
        "",
        "| | clips/s |",
        "|---|---:|",
    ]
    lines += [f"| {name} | {rate:.1f} |" for name, rate in results["clips_per_s"].items()]
    return "\n".join([*lines, "", facts(results)]) + "\n"


def formats_table(results):
    """Returns what benches/peers/formats.py measured as Markdown: one row for each format."""
    rows = results["cpu_ms"]
    decoded = [name for name in rows if name.startswith("decoded")]
    columns = ["Pillow", "torchvision.io", "OpenCV", "Fuseloop", "torchvision, W1", "Fuseloop, W1"]
    lines = [
        "",
        "## Image formats",
        "",
        f"Processor time of one image in milliseconds, on one thread: {results['photos']} photographs of at most 500 pixels a "
        "side, stored in each format, decoded to RGB as a whole; and W1 of them, where a crop decodes only what it needs. "
        "torchvision.io reads no TIFFs, so its W1 of them is decoded by Pillow.",
        "",
        "| ms | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for name, found in rows.items():
        if name not in decoded:
            cells = (f"{found[column]:.2f}" if column in found else "" for column in columns)
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    costs = [f"{name.split(', ')[1]} {rows[name]['Fuseloop, W1']:.3f}" for name in decoded]
    lines += ["", f"W1 of pixels in memory, 500 x 375, takes a loader with one worker, in ms: {', '.join(costs)}.", "", facts(results)]
    return "\n".join(lines) + "\n"


def transform_cell(found, ours, case):
    if case not in found:
        return ""
    ratio = "" if case == ours else f" ({found[case] / found[ours]:.1f}x)"
    return f"{found[case]:.3g}{ratio}"


def cell(workload, peer):
    if peer not in workload:
        return ""
    rate = workload[peer]["images_per_s"]
    if peer == US or US not in workload:
        return number(rate)
    ratio = workload[US]["images_per_s"] / rate
    return f"{number(rate)} ({ratio:.1f}x)" if ratio >= 1 else f"{number(rate)} (**{ratio:.2f}x**)"


def span(values):
    """Writes the range of several times in seconds."""
    low, high = (f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def drift(name, workload):
    """Warns where Fuseloop before the peers and after them differ by more than 15 %."""
    ours = workload.get(US, {})
    before, after = ours.get("before"), ours.get("after")
    if not before or not after or max(before, after) <= 1.15 * min(before, after):
        return []
    return [
        f"{name}: Fuseloop took {number(before)} images/s before the others and {number(after)} after them. "
        "The machine was not quiet: run it again."
    ]


def facts(results):
    hardware = results["hardware"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results["versions"].items()))
    where = hardware if isinstance(hardware, str) else ", ".join(str(value) for value in hardware.values())
    return f"{where}; {results['date']}; {versions}. `{results['command']}`"


def chart(results, only=()):
    """Returns the results as an SVG: a panel for each workload, a bar for each peer."""
    panels = []
    for name in chosen(results, only):
        bars = [(title(peer), rate, peer == US) for peer, rate in rates(results["workloads"][name])]
        panels.append((WORKLOADS.get(name, name), bars))
    hardware = results["hardware"]
    where = hardware if isinstance(hardware, str) else ", ".join(str(value) for value in hardware.values())
    return bar_chart("Images per second, more is better", f"{where}, {results['date']}", panels)


def bar_chart(heading, subtitle, panels, room=LABEL):
    """Returns an SVG of horizontal bars.

    `panels` is a list of (title, bars), and `bars` a list of (label, value, highlighted). Each panel has a scale of
    its own, from 0 to its largest value. `room` is the width of the labels.
    """
    body, top, height = [], 64, 64
    for first in range(0, len(panels), COLUMNS):
        row = panels[first:first + COLUMNS]
        for column, (head, bars) in enumerate(row):
            body += panel(column * (PANEL + GAP), top, head, bars, room)
        height = top + HEAD + PITCH * max(len(bars) for _, bars in row)
        top = height + GAP
    height += 10
    spoken = "; ".join(f"{head}: " + ", ".join(f"{label} {number(value)}" for label, value, _ in bars)
                       for head, bars in panels)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img">',
        f"<title>{escape(heading)}</title>",
        f"<desc>{escape(spoken)}</desc>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="20">{escape(heading)}</text>',
        f'<text x="0" y="40">{escape(subtitle)}</text>',
        *body,
        "</svg>",
    ]) + "\n"


def panel(left, top, head, bars, room):
    largest = max(value for _, value, _ in bars)
    longest = PANEL - room - VALUE
    bottom = top + HEAD - 6 + PITCH * len(bars)
    lines = [f'<text class="head" x="{left}" y="{top + 12}">{escape(head)}</text>']
    for index, (label, value, ours) in enumerate(bars):
        y = top + HEAD - 4 + PITCH * index
        length = max(1.0, longest * value / largest)
        mark = ' class="ours"' if ours else ""
        lines += [
            f'<text{mark} x="{left + room - 8}" y="{y + 11}" text-anchor="end">{escape(label)}</text>',
            f'<rect{mark} x="{left + room}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>',
            f'<text{mark} x="{left + room + length + 6:.1f}" y="{y + 11}">{number(value)}</text>',
        ]
    lines.append(f'<line x1="{left + room}" y1="{top + HEAD - 8}" x2="{left + room}" y2="{bottom}"/>')
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="the JSON that benches/peers/run.py wrote")
    parser.add_argument("--table", metavar="FILE.md", help="write the table to this file")
    parser.add_argument("--chart", metavar="FILE.svg", help="write the chart to this file")
    parser.add_argument("--sources", metavar="FILE.json", help="the JSON that benches/peers/sources.py wrote")
    parser.add_argument("--transform", metavar="FILE.json", help="the JSON that benches/peers/transform.py wrote")
    parser.add_argument("--clips", metavar="FILE.json", help="the JSON that benches/peers/clips.py wrote")
    parser.add_argument("--many-clips", metavar="FILE.json", help="the JSON that `benches/peers/clips.py --many` wrote")
    parser.add_argument("--formats", metavar="FILE.json", help="the JSON that benches/peers/formats.py wrote")
    parser.add_argument("--only", default="", metavar="W1,W2", help="these workloads only")
    args = parser.parse_args()
    with open(args.results, encoding="utf-8") as file:
        results = json.load(file)
    only = [name for name in args.only.split(",") if name]
    tables = table(results, only)
    tables_of = {
        args.sources: sources_table,
        args.transform: transform_table,
        args.clips: clips_table,
        args.many_clips: many_clips_table,
        args.formats: formats_table,
    }
    for path, more in tables_of.items():
        if path:
            with open(path, encoding="utf-8") as file:
                tables += more(json.load(file))
    for path, text in [(args.table, tables), (args.chart, chart(results, only))]:
        if path:
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
    if not (args.table or args.chart):
        print(tables, end="")


if __name__ == "__main__":
    main()
