"""Measures the Python package: against the command in Rust, torchvision with torch's DataLoader, and FFCV.

    python python/benches/loaders.py --fuseloop target/release/fuseloop
    python python/benches/loaders.py --fuseloop target/release/fuseloop --workloads W1,W4 --rounds 5
    python python/benches/loaders.py --fuseloop target/release/fuseloop --smoke     # does it work?

Pictures, environments and workloads are those of benches/peers: run benches/peers/run.py once before. The package is
the one that is installed for the Python that runs this file: pip install ./python. Each loader runs in processes of
its own, with the same threads on the same processors. The command and the Python package take turns, so that a slow
minute of the machine hits both. Reported are the medians of images/s, the time from the start of the process to the
first batch, and the largest memory of the process and its children (of a run of its own, since looking takes time).
Writes loaders.json and loaders.svg.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "benches" / "peers"
TITLES = {
    "rust": "Rust",
    "numpy": "Python, NumPy",
    "torch": "Python, torch",
    "torchvision": "torchvision",
    "ffcv": "FFCV",
}
OURS = ("rust", "numpy", "torch")
# The environment of benches/peers that each runs in.
ENVIRONMENTS = {"numpy": "torch", "torch": "torch", "torchvision": "torch", "ffcv": "ffcv"}


def module(path: Path) -> ModuleType:
    """Imports a script."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


# One loader, in a process of its own


def ops_of(workload: str) -> list[Any]:
    """Returns the ops of a workload of the command."""
    from fuseloop import ops

    fill = (125, 122, 113)
    first = {
        "W1": [ops.RandomResizedCrop(224), ops.RandomHorizontalFlip()],
        "W3": [ops.RandomResizedCrop(224), ops.RandomHorizontalFlip(), ops.ColorJitter(0.4, 0.4, 0.4)],
        "W4": [ops.RandomHorizontalFlip(), ops.RandomTranslate(4, fill=fill), ops.Cutout(8, fill=fill)],
        "W5": [ops.RandomCrop(224), ops.RandomHorizontalFlip()],
    }[workload]
    normalize = ops.Normalize.cifar10() if workload == "W4" else ops.Normalize.imagenet()
    return [*first, normalize, ops.ToChannelsFirst()]


def opened(name: str, job: SimpleNamespace) -> Callable[[int], Iterable[Any]]:
    """Returns a function that gives the batches of an epoch."""
    if name not in OURS:
        sys.path.insert(0, str(PEERS))
        return importlib.import_module(f"loaders.{name}").open(job)
    import fuseloop as fl

    kind = fl.torch.Loader if name == "torch" else fl.Loader
    loader = kind(job.beton, job.batch, order="random", workers=job.threads, image=ops_of(job.workload))
    return loader.epoch


def images_of(name: str, batch: Any) -> Any:
    return batch[0].numpy() if name == "numpy" else batch[0]


def child(name: str, job: SimpleNamespace, started: float, seconds: float, runs: int) -> dict[str, Any]:
    epochs = opened(name, job)
    first = None
    for batch in epochs(0):
        images = images_of(name, batch)
        if first is None:
            first = time.monotonic() - started
            side = 32 if job.workload == "W4" else 224
            assert sorted(images.shape[1:]) == [3, side, side], f"a batch of shape {images.shape}"
            assert "float32" in str(images.dtype), f"a batch of {images.dtype}"
    rates, number = [], 0
    for _ in range(runs):
        count, start = 0, time.perf_counter()
        while (taken := time.perf_counter() - start) < seconds or count == 0:
            number += 1
            for batch in epochs(number):
                count += len(images_of(name, batch))
        rates.append(count / taken)
    return {"runs": rates, "first_batch_s": first}


# All of them


def tree_memory(root: int) -> int:
    """Returns the memory of a process and those that it started, in bytes; what they share counts once."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text(encoding="ascii", errors="replace")
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    total, left = 0, [root]
    while left:
        process = left.pop()
        left += children.get(process, [])
        try:
            for line in Path("/proc", str(process), "smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
        except OSError:
            continue
    return total


def installed() -> Path:
    """Returns the folder of the package that is installed for this Python. The sources are passed over: their compiled
    part may be missing, or older than they are."""
    sources = ROOT / "python"
    paths = [path for path in sys.path if path and Path(path).resolve() not in (sources, sources / "benches")]
    spec = importlib.machinery.PathFinder.find_spec("fuseloop", paths)
    if spec is None or spec.origin is None or sources in Path(spec.origin).resolve().parents:
        sys.exit("this Python has no installed fuseloop: pip install ./python")
    return Path(spec.origin).resolve().parent


def run(command: list[Any], run_peers: ModuleType, threads: int, look: bool, package: Path) -> tuple[str, int]:
    """Runs a process that imports fuseloop from the folder ``package``, and none of the packages beside it.

    Returns:
        What it prints, and its largest memory if asked for.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "fuseloop").symlink_to(package)
        paths = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        return run_in({**os.environ, "PYTHONPATH": paths}, command, run_peers, threads, look)


def run_in(
    environment: dict[str, str], command: list[Any], run_peers: ModuleType, threads: int, look: bool
) -> tuple[str, int]:
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=run_peers.pinned(threads),
    )
    most, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.05):
            most = max(most, tree_memory(process.pid))

    watcher = threading.Thread(target=watch)
    if look:
        watcher.start()
    try:
        out, err = process.communicate(timeout=run_peers.LIMIT)
    except BaseException:
        process.kill()
        raise
    finally:
        ended.set()
        if look:
            watcher.join()
    if process.returncode != 0:
        raise run_peers.Failed((err.strip().splitlines() or [f"it ended with status {process.returncode}"])[-1])
    return out, most


class Bench:
    def __init__(self, args: argparse.Namespace, run_peers: ModuleType, folder: Path) -> None:
        self.args, self.peers, self.folder = args, run_peers, folder
        self.package = installed()

    def job(self, workload: Any) -> dict[str, Any]:
        return {
            "workload": workload.name,
            "threads": self.args.threads,
            "batch": workload.batch,
            "photos": str(self.folder / "photos"),
            "pixels": str(self.folder / workload.pixels) if workload.pixels else "",
            "beton": str(self.folder / workload.beton),
        }

    def command(self, name: str, workload: Any, seconds: float, runs: int) -> list[Any]:
        if name == "rust":
            command = [self.args.fuseloop, "bench", self.folder / workload.beton, "--workload", workload.name, "--json"]
            return [*command, "--batch-size", workload.batch, "--workers", self.args.threads, "--epochs", "2"]
        python = self.args.peers / "venv" / ENVIRONMENTS[name] / "bin" / "python"
        if not python.exists():
            raise self.peers.Failed(f"{python} is missing: run benches/peers/run.py first")
        given = ["--seconds", seconds, "--runs", runs, "--started", time.monotonic()]
        return [python, Path(__file__).resolve(), "--one", name, "--job", json.dumps(self.job(workload)), *given]

    def once(self, name: str, workload: Any) -> dict[str, Any]:
        """Measures the speed of a loader once: some runs of some seconds."""
        if name == "rust":
            return self.peers.measure_fuseloop(self.args, self.args.fuseloop, self.folder, workload)
        command = self.command(name, workload, self.args.seconds, self.args.runs)
        out, _ = run(command, self.peers, self.args.threads, False, self.package)
        return json.loads(out.splitlines()[-1])

    def memory(self, name: str, workload: Any) -> int:
        command = self.command(name, workload, 0.0, 1)
        return run(command, self.peers, self.args.threads, True, self.package)[1]

    def measure(self, workload: Any) -> tuple[dict[str, Any], dict[str, str]]:
        """Measures all loaders on a workload. Returns the results, and why some are missing."""
        found: dict[str, list[dict[str, Any]]] = {}
        left_out: dict[str, str] = {}
        for turn in range(self.args.rounds):
            for name in TITLES:
                if name in self.args.only and name not in left_out and (name in OURS or turn == 0):
                    try:
                        found.setdefault(name, []).append(self.once(name, workload))
                    except self.peers.Failed as why:
                        left_out[name] = str(why)
        results = {}
        for name, rounds in found.items():
            if name in left_out or not rounds:
                continue
            runs = [round(rate, 1) for one in rounds for rate in one["runs"]]
            results[name] = {
                "images_per_s": round(statistics.median(runs), 1),
                "runs": runs,
                "first_batch_s": round(statistics.median(one["first_batch_s"] for one in rounds), 3),
                "peak_mib": round(self.memory(name, workload) / 2**20),
            }
            shown = results[name]
            print(
                f"{workload.name:<3} {TITLES[name]:<14} {shown['images_per_s']:>10,.0f} images/s, first batch "
                f"{shown['first_batch_s']:.2f} s, {shown['peak_mib']:,} MiB",
                flush=True,
            )
        for name, why in left_out.items():
            print(f"{workload.name:<3} {TITLES[name]:<14} left out: {why}", flush=True)
        return results, left_out


def chart(results: dict[str, Any], plots: ModuleType) -> str:
    """Returns the results as an SVG."""
    workloads = results["workloads"]
    panels = []
    figures = {"images_per_s": "images/s", "first_batch_s": "first batch, s", "peak_mib": "memory, MiB"}
    for key, heading in figures.items():
        for name, found in workloads.items():
            if key == "images_per_s" or name == next(iter(workloads)):
                bars = [(TITLES[loader], entry[key], loader in OURS) for loader, entry in found.items()]
                panels.append((f"{name}: {heading}", bars))
    hardware = ", ".join(str(value) for value in results["hardware"].values())
    return plots.bar_chart("Fuseloop in Python, in Rust, and others", f"{hardware}, {results['date']}", panels)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    listed = lambda text: [part.strip() for part in text.split(",") if part.strip()]  # noqa: E731
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    target = ROOT / "target"
    parser.add_argument("--fuseloop", type=Path, default=target / "release" / "fuseloop", help="the released command")
    parser.add_argument("--peers", type=Path, default=target / "peers", help="where benches/peers/run.py has worked")
    parser.add_argument("--workloads", type=listed, default=["W1", "W3", "W4", "W5"], metavar="W1,W4")
    parser.add_argument("--only", type=listed, default=list(TITLES), metavar="rust,torch", help=", ".join(TITLES))
    parser.add_argument("--rounds", type=int, default=3, help="turns of Rust and Python (3)")
    parser.add_argument("--runs", type=int, default=3, help="runs of a turn, of which the median counts (3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of a run, at least (3)")
    parser.add_argument("--threads", type=int, default=cores, help="threads or processes of each loader (all cores)")
    parser.add_argument("--out", type=Path, default=target, metavar="DIR", help="where the results go (target)")
    parser.add_argument("--smoke", action="store_true", help="W4 and short runs: does it work?")
    parser.add_argument("--one", choices=list(ENVIRONMENTS), help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for given, known in [(args.only, list(TITLES)), (args.workloads, ["W1", "W3", "W4", "W5"])]:
        for name in given:
            if name not in known:
                parser.error(f"no {name}: expected some of {', '.join(known)}")
    if args.smoke:
        args.workloads, args.rounds, args.runs, args.seconds = ["W4"], 1, 1, 0.1
    return args


def main() -> None:
    args = arguments()
    if args.one:
        # What libraries print does not belong on the line of results.
        line = os.dup(1)
        os.dup2(2, 1)
        result = child(args.one, SimpleNamespace(**json.loads(args.job)), args.started, args.seconds, args.runs)
        os.write(line, (json.dumps(result) + "\n").encode())
        # Workers and threads of libraries must not delay the end.
        sys.stderr.flush()
        os._exit(0)
    run_peers, plots = module(PEERS / "run.py"), module(ROOT / "scripts" / "plots.py")
    if not args.fuseloop.exists():
        sys.exit(f"{args.fuseloop} is missing: cargo build --release -p fuseloop-cli, or give another by --fuseloop")
    folders = sorted((args.peers / "pictures").glob("*/about.json"), key=lambda path: path.stat().st_mtime)
    if not folders:
        sys.exit(f"{args.peers / 'pictures'} has no pictures: run benches/peers/run.py first")
    bench = Bench(args, run_peers, folders[-1].parent)
    results: dict[str, Any] = {
        "hardware": run_peers.hardware(args.threads),
        "date": datetime.date.today().isoformat(),
        "versions": {"python": platform.python_version()},
        "command": " ".join(["python python/benches/loaders.py", *(Path(part).name for part in sys.argv[1:])]),
        "workloads": {},
        "left_out": {},
    }
    for name in args.workloads:
        results["workloads"][name], left_out = bench.measure(run_peers.WORKLOADS[name])
        results["left_out"] |= {f"{loader} {name}": why for loader, why in left_out.items()}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "loaders.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (args.out / "loaders.svg").write_text(chart(results, plots), encoding="utf-8")


if __name__ == "__main__":
    main()
