"""Measures Fuseloop and its alternatives on the same pictures, on this machine, in one run.

    python benches/peers/run.py
    python benches/peers/run.py --data PHOTOS --only ffcv,torchvision --workloads W1,W3 --threads 8

Needs Python 3.11 and cargo; benches/peers/README.md has the rules. Each peer gets a virtual environment of its own in
target/peers and runs in processes of its own. A peer that can't be installed or fails is left out, with the reason.
Writes results.json, results.md and results.svg.
"""

import argparse
import datetime
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "peers"
LIMIT = 420  # seconds for one peer on one workload, beside those that it is measured


class Workload(NamedTuple):
    """What a workload reads."""

    name: str  # for `fuseloop bench` and the peers
    beton: str
    pixels: str = ""
    batch: int = 64


class Peer(NamedTuple):
    """Where a peer runs."""

    environment: str
    packages: str  # whose versions are reported
    workloads: tuple
    why_not: str = ""  # the reason for the workloads that it leaves out


class Environment(NamedTuple):
    """A virtual environment: requirements/NAME.txt on top of other environments."""

    on: tuple = ()
    fallback: str = ""  # more requirements, for a wheel that can't be imported without them
    probe: str = ""  # what is imported to find out
    hint: str = ""


WORKLOADS = {
    "W1": Workload("W1", "photos.beton"),
    "W2": Workload("W2", "photos.beton"),
    "W3": Workload("W3", "photos.beton"),
    "W4": Workload("W4", "small.beton", "small.npy", 512),
    "W5": Workload("W5", "crop.beton", "crop.npy"),
    "W1 half raw": Workload("W1", "half-raw.beton"),
}
JPEG = ("W1", "W2", "W3")
ALL = (*JPEG, "W4", "W5")
PEERS = {
    "ffcv": Peer("ffcv", "ffcv,numba,torch", (*ALL, "W1 half raw")),
    "dali": Peer("dali", "nvidia-dali-cuda120", ALL),
    "tfdata": Peer("tensorflow", "tensorflow-cpu", ALL),
    "torchvision": Peer("torch", "torch,torchvision", ALL),
    "albumentations": Peer("albumentations", "albumentations,opencv-python-headless", ALL),
    "webdataset": Peer("webdataset", "webdataset", JPEG, "its shards hold encoded images, not raw pixels"),
    "grain": Peer("grain", "grain", ALL),
    "spdl": Peer("spdl", "spdl", ("W1", "W2"), "FFmpeg's filters have no such jitter, and it decodes files only"),
}
ENVIRONMENTS = {
    "pictures": Environment(),
    "torch": Environment(fallback="torch-cuda", probe="torch"),
    "ffcv": Environment(
        on=("torch",),
        hint="FFCV is compiled: it needs a C++ compiler, pkg-config, OpenCV and libjpeg-turbo "
        "(Debian: g++ pkg-config libopencv-dev libturbojpeg0-dev)",
    ),
    "albumentations": Environment(on=("torch",)),
    "webdataset": Environment(on=("torch",)),
    "grain": Environment(on=("albumentations", "torch")),
    "dali": Environment(),
    "tensorflow": Environment(),
    "spdl": Environment(),
}


class Failed(Exception):
    """A step that did not work; its text is the reason that is reported."""


def say(text):
    print(text, flush=True)


def called(command, what, **options):
    """Runs a command and returns its output. Raises `Failed` with the last line of its errors."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", **options)
    except FileNotFoundError:
        raise Failed(f"{what}: no such program: {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: not finished after {options['timeout']:.0f} s") from None
    if done.returncode != 0:
        raise Failed(f"{what}: {reason(done)}")
    return done.stdout


def reason(done):
    """Returns the line of a program's errors that says the most: the last one, or the last that names an error."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b|error:|ERROR:", line)]
    line = (named or lines or [f"it ended with status {done.returncode}"])[-1]
    line = re.sub(r"(/[^\s/'\":]+)+/(?=[^\s/])", "", line)
    return line if len(line) <= 200 else line[:200] + "..."


# Environments


def environment(name):
    """Returns the Python of an environment, which is installed first if its requirements are new."""
    folder = WORK / "venv" / name
    python = folder / "bin" / "python"
    about = ENVIRONMENTS[name]
    below = [environment(base) for base in about.on]
    wanted = [HERE / "requirements" / f"{part}.txt" for part in (name, about.fallback) if part]
    stamp = folder / "requirements"
    text = platform.python_version() + "\n" + "".join(path.read_text(encoding="utf-8") for path in wanted)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == text:
        return python
    say(f"installing {name}")
    called([sys.executable, "-m", "venv", "--clear", folder], f"a virtual environment for {name}")
    if below:
        lines = [packages(other) for other in below]
        Path(packages(python), "below.pth").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    try:
        install(python, wanted[0])
        if about.fallback and subprocess.run([python, "-c", f"import {about.probe}"], capture_output=True).returncode:
            install(python, wanted[1])
    except Failed as why:
        raise Failed(f"{why}. {about.hint}" if about.hint else str(why)) from None
    stamp.write_text(text, encoding="utf-8")
    return python


def packages(python):
    """Returns the folder of an environment's packages."""
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return called([python, "-c", code], "the folder of packages").strip()


def install(python, requirements):
    # Every package is listed with its version, so pip needs not look for dependencies.
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    called([*pip, "-r", requirements], f"pip install {requirements.stem}", timeout=1200)


# Pictures


def prepare(args, fuseloop):
    """Makes the pictures and the files of each format, if they are not there yet. Returns their folder."""
    listing = ""
    if args.data:
        files = sorted(path for path in Path(args.data).rglob("*") if path.is_file())
        if not files:
            sys.exit(f"{args.data}: no such folder, or an empty one")
        listing = "".join(f"{path.relative_to(args.data)} {path.stat().st_size}\n" for path in files)
    how = (HERE / "pictures.py").read_text(encoding="utf-8") + f"{args.photos} {args.small}\n{listing}"
    kind = "photographs" if args.data else "drawn"
    folder = WORK / "pictures" / f"{kind}-{hashlib.sha256(how.encode()).hexdigest()[:12]}"
    if (folder / "about.json").exists():
        return folder
    say("making the pictures")
    shutil.rmtree(folder, ignore_errors=True)
    command = [environment("pictures"), HERE / "pictures.py", folder]
    command += ["--photos", str(args.photos), "--small", str(args.small)]
    about = called([*command, *(["--data", args.data] if args.data else [])], "pictures").strip()
    half = ["--write-mode", "proportion", "--max-resolution", "500", "--jpeg-quality", "90"]
    for source, name, options in [
        ("photos", "photos", []),
        ("photos", "half-raw", half),
        ("crop", "crop", ["--write-mode", "raw"]),
        ("small", "small", ["--write-mode", "raw"]),
    ]:
        called([fuseloop, "write", folder / source, folder / f"{name}.beton", *options], f"fuseloop write {name}")
    for name in ("crop", "small"):
        shutil.rmtree(folder / name)
    (folder / "about.json").write_text(json.dumps({"pictures": f"{kind}: {about}"}), encoding="utf-8")
    return folder


# Fuseloop


def build():
    """Builds the released command and returns its path."""
    say("building fuseloop")
    called(["cargo", "build", "--release", "-p", "fuseloop-cli"], "cargo build", cwd=ROOT)
    target = json.loads(called(["cargo", "metadata", "--format-version", "1", "--no-deps"], "cargo metadata", cwd=ROOT))
    return Path(target["target_directory"]) / "release" / "fuseloop"


def bench(args, fuseloop, folder, workload, *more):
    command = [fuseloop, "bench", folder / workload.beton, "--workload", workload.name, "--json"]
    command += ["--batch-size", str(workload.batch), "--workers", str(args.threads), *more]
    return json.loads(called(command, "fuseloop bench", timeout=LIMIT, preexec_fn=pinned(args.threads)))


def measure_fuseloop(args, fuseloop, folder, workload):
    """Returns the images/s of each run, and the time of a process that ends after its first batch."""
    start = time.monotonic()
    bench(args, fuseloop, folder, workload, "--epochs", "1", "--batches", "1")
    first = time.monotonic() - start
    probe = bench(args, fuseloop, folder, workload, "--epochs", "2")["epochs"][-1]
    epochs = max(args.runs, round(args.runs * args.seconds / probe["seconds"]))
    measured = bench(args, fuseloop, folder, workload, "--epochs", str(epochs + 1))["epochs"][1:]
    runs = []
    for run in range(args.runs):
        part = measured[run * len(measured) // args.runs:(run + 1) * len(measured) // args.runs]
        runs.append(sum(epoch["images"] for epoch in part) / sum(epoch["seconds"] for epoch in part))
    return {"runs": runs, "first_batch_s": first}


# Peers


def pinned(threads):
    """Returns what makes a new process run on as many processors as it gets threads, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    chosen = sorted(os.sched_getaffinity(0))[:threads]
    return lambda: os.sched_setaffinity(0, chosen)


def measure_peer(args, name, folder, workload):
    peer = PEERS[name]
    python = environment(peer.environment)
    job = {
        "workload": workload.name,
        "threads": args.threads,
        "batch": workload.batch,
        "count": args.small if workload.name == "W4" else args.photos,
        "photos": str(folder / "photos"),
        "shards": str(folder / "shards"),
        "pixels": str(folder / workload.pixels) if workload.pixels else "",
        "beton": str(folder / workload.beton),
    }
    command = [python, HERE / "measure.py", name, json.dumps(job), "--packages", peer.packages]
    command += ["--seconds", str(args.seconds), "--runs", str(args.runs), "--started", str(time.monotonic())]
    limit = LIMIT + 2 * args.runs * args.seconds
    output = called(command, name, timeout=limit, preexec_fn=pinned(args.threads))
    return json.loads(output.splitlines()[-1])


# The whole run


def entry(measured):
    """Returns what the results have of a peer on a workload."""
    runs = [round(rate, 1) for rate in measured["runs"]]
    found = {
        "images_per_s": round(statistics.median(runs), 1),
        "runs": runs,
        "first_batch_s": round(measured["first_batch_s"], 3),
    }
    return found | {key: measured[key] for key in ("layout",) if key in measured}


def run_all(args, fuseloop, folder, results):
    """Measures Fuseloop, then each peer, then Fuseloop again, for each workload in turn."""
    left_out = results["left_out"]
    for name in args.workloads:
        workload, found = WORKLOADS[name], {}

        def ours():
            measured = measure_fuseloop(args, fuseloop, folder, workload)
            say(f"{name:<12} {'fuseloop':<15} {statistics.median(measured['runs']):>10,.0f} images/s")
            return measured

        before = ours() if "fuseloop" in args.only else None
        for peer in PEERS:
            if peer not in args.only:
                continue
            if name not in PEERS[peer].workloads:
                if name in ALL:
                    left_out[f"{peer} {name}"] = PEERS[peer].why_not
                continue
            try:
                measured = measure_peer(args, peer, folder, workload)
            except Failed as why:
                say(f"{name:<12} {peer:<15} left out: {why}")
                left_out[f"{peer} {name}"] = str(why)
                continue
            results["versions"].update(measured["versions"])
            found[peer] = entry(measured)
            say(f"{name:<12} {peer:<15} {found[peer]['images_per_s']:>10,.0f} images/s")
        if before:
            after = ours()
            both = {**before, "runs": before["runs"] + after["runs"]}
            halves = {"before": before, "after": after}
            found["fuseloop"] = entry(both) | {key: entry(half)["images_per_s"] for key, half in halves.items()}
        results["workloads"][name] = found


def ready(args, left_out):
    """Installs what the peers need. Peers that can't be installed leave the list."""
    for peer in [peer for peer in PEERS if peer in args.only]:
        try:
            environment(PEERS[peer].environment)
        except Failed as why:
            say(f"{peer} left out: {why}")
            left_out[peer] = str(why)
            args.only.remove(peer)


def hardware(threads):
    model = platform.processor() or platform.machine()
    memory = ""
    try:
        found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
        model = found.group(1).strip() if found else model
        kib = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(encoding="utf-8")).group(1))
        memory = f"{kib / 2**20:.0f} GiB"
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": f"{cores} cores", "memory": memory, "threads": f"{threads} threads a loader"}


def installed(*packages):
    """Returns the versions of those of the packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def version(fuseloop, built):
    """Returns the command's version, and the commit if it was built from it just now."""
    text = called([fuseloop, "--version"], "fuseloop --version").split()[-1]
    if not built:
        return text
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return f"{text} ({git.stdout.strip()})" if git.returncode == 0 else text


def plots():
    """Returns scripts/plots.py as a module."""
    spec = importlib.util.spec_from_file_location("plots", ROOT / "scripts" / "plots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    listed = lambda text: [part.strip() for part in text.split(",") if part.strip()]  # noqa: E731
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--data", metavar="DIR", help="a folder of JPEGs; without it, photographs are drawn")
    parser.add_argument("--only", type=listed, default=["fuseloop", *PEERS], metavar="ffcv,dali",
                        help=f"these only: fuseloop, {', '.join(PEERS)}")
    parser.add_argument("--workloads", type=listed, default=list(WORKLOADS), metavar="W1,W3",
                        help=f"these only: {', '.join(WORKLOADS)}")
    parser.add_argument("--seconds", type=float, default=3, help="seconds of a run, at least (3)")
    parser.add_argument("--runs", type=int, default=3, help="runs of which the median counts (3)")
    parser.add_argument("--threads", type=int, default=cores, help="threads or workers of each loader (all cores)")
    parser.add_argument("--photos", type=int, default=1024, help="photographs of an epoch (1024)")
    parser.add_argument("--small", type=int, default=50_000, help="32x32 pictures of an epoch (50000)")
    parser.add_argument("--fuseloop", type=Path, metavar="FILE", help="this command, instead of building one")
    parser.add_argument("--out", type=Path, default=WORK, metavar="DIR", help="where the results go (target/peers)")
    parser.add_argument("--smoke", action="store_true", help="few pictures and short runs: does everything work?")
    args = parser.parse_args()
    for given, known in [(args.only, ["fuseloop", *PEERS]), (args.workloads, list(WORKLOADS))]:
        for name in given:
            if name not in known:
                parser.error(f"there is no {name}; known are {', '.join(known)}")
    if args.smoke:
        args.seconds, args.runs, args.photos, args.small = 0.2, 1, 128, 2048
    if min(args.runs, args.threads) < 1 or args.seconds <= 0 or args.photos < 64 or args.small < 512:
        parser.error("numbers must be positive, with a batch of photographs (64) and of small pictures (512)")
    return args


def command_line():
    """Returns this command without the folders in front of its arguments' files."""
    parts = [Path(part).name if "/" in part else part for part in sys.argv[1:]]
    return " ".join(["python benches/peers/run.py", *(f"'{part}'" if " " in part else part for part in parts)])


def main():
    args = arguments()
    if sys.version_info[:2] != (3, 11):
        say(f"the versions in requirements/ are those for Python 3.11, this is {platform.python_version()}")
    started = time.monotonic()
    try:
        fuseloop = (args.fuseloop or build()).resolve()
        folder = prepare(args, fuseloop)
        results = {
            "hardware": hardware(args.threads),
            "date": datetime.date.today().isoformat(),
            "versions": {"fuseloop": version(fuseloop, built=not args.fuseloop), "python": platform.python_version()},
            "command": command_line(),
            "workloads": {},
            "left_out": {},
        }
    except Failed as why:
        sys.exit(f"error: {why}")
    results |= json.loads((folder / "about.json").read_text(encoding="utf-8"))
    ready(args, results["left_out"])
    run_all(args, fuseloop, folder, results)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in [
        ("results.json", json.dumps(results, indent=1) + "\n"),
        ("results.md", plots().table(results)),
        ("results.svg", plots().chart(results)),
    ]:
        (args.out / name).write_text(text, encoding="utf-8")
    say(f"\n{plots().table(results)}\n{args.out}/results.json, .md and .svg, in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
