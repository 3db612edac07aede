"""Measures a transform as a function: CPU time of one image, beside Albumentations and torchvision, in one process.

    python benches/peers/transform.py
    python benches/peers/transform.py --data PHOTOS --rounds 9 --json transform.json

RandomResizedCrop 224, flip, ColorJitter(0.4, 0.4, 0.4) and normalization to f32 with the channels first, of photographs
that are decoded beforehand, and of the bytes of their files; and the overhead of a call, by a list of one op on an image of
8 x 8 pixels. Needs `fuseloop` and NumPy; each of `albumentations` (with OpenCV), `torchvision` and Pillow is measured if it
is installed. Without photographs, nothing is measured.

All run on one thread, in turns: a round of each after another, so that what else the machine does meets all alike. CPU
time counts, of all threads of the process; a figure is the median of the rounds, a ratio the median of the rounds' ratios.
The work is close, not equal: Albumentations does not antialias, and each library draws by generators of its own.

docs/peers.md shows the figures of benches/peers/transform.json: scripts/plots.py draws the table.
"""

import argparse
import datetime
import io
import json
import os
import statistics
import sys
import time
from pathlib import Path

# One thread each, set before the libraries are loaded. Albumentations asks a server for its newest version otherwise.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NO_ALBUMENTATIONS_UPDATE": "1"}

import numpy as np

import run
from loaders import MEAN, STD
from pictures import jpegs_in

PHOTOS = 200
PEERS = ["albumentations", "numpy", "opencv-python-headless", "pillow", "torch", "torchvision"]
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "imagenet"
# The largest ratio of Fuseloop's time to that of each, and of the overhead to its limit, which are meant to hold.
AIMS = {
    "Albumentations": 0.50,
    "torchvision, tensors": 0.16,
    "torchvision, PIL": 0.11,
    "cv2.imdecode and Albumentations": 0.35,
}
OVERHEAD_US = 10


def fuseloop():
    """Returns Fuseloop's functions: of arrays, of files, and of a tiny array."""
    import fuseloop as fl
    from fuseloop import ops

    jitter = [ops.RandomResizedCrop(224), ops.RandomHorizontalFlip(), ops.ColorJitter(0.4, 0.4, 0.4)]
    augment = fl.Transform([*jitter, ops.Normalize(MEAN, STD), ops.ToChannelsFirst()], seed=1)
    return augment, augment, fl.Transform([ops.RandomHorizontalFlip()], seed=1)


def albumentations():
    """Returns Albumentations' functions: of arrays, and of files that OpenCV decodes."""
    import albumentations
    import cv2

    cv2.setNumThreads(1)
    change = albumentations.Compose([
        albumentations.RandomResizedCrop((224, 224)),
        albumentations.HorizontalFlip(),
        albumentations.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (0, 0), p=1),
        albumentations.Normalize(MEAN, STD),
    ])

    def decoded(image):
        return np.ascontiguousarray(change(image=image)["image"].transpose(2, 0, 1))

    def encoded(content):
        return decoded(cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB))

    return decoded, encoded


def torchvision():
    """Returns torchvision's functions: of tensors, and of images of PIL; and torch."""
    import torch
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    jitter = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4)]
    last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose([*jitter, *last]), v2.Compose([*jitter, v2.ToImage(), *last]), torch


def cases(stored):
    """Returns what is measured: by its name, the function and its inputs."""
    from PIL import Image

    images = [Image.open(io.BytesIO(content)).convert("RGB") for content in stored]
    pixels = [np.ascontiguousarray(image) for image in images]
    of_arrays, of_files, tiny = fuseloop()
    small = [np.zeros((8, 8, 3), np.uint8)] * 1000
    found = {
        "Fuseloop": (of_arrays, pixels),
        "Fuseloop, from files": (of_files, stored),
        "Fuseloop, one op on 8 x 8": (tiny, small),
    }
    try:
        decoded, encoded = albumentations()
        found["Albumentations"] = (decoded, pixels)
        found["cv2.imdecode and Albumentations"] = (encoded, stored)
    except ImportError as why:
        print(f"Albumentations is left out: {why}", file=sys.stderr)
    try:
        of_tensors, of_pil, torch = torchvision()
        tensors = [torch.from_numpy(image).permute(2, 0, 1).contiguous() for image in pixels]
        found["torchvision, tensors"] = (of_tensors, tensors)
        found["torchvision, PIL"] = (of_pil, images)
    except ImportError as why:
        print(f"torchvision is left out: {why}", file=sys.stderr)
    return found


def checked(name, result):
    """Raises an error if a result is not what the work asks for."""
    array = np.asarray(result)
    if array.shape != (3, 224, 224) or array.dtype != np.float32 or not abs(array.mean()) < 3:
        raise ValueError(f"{name} gives {array.dtype} {array.shape}")


def milliseconds(function, inputs):
    """Returns the CPU time of a call."""
    start = time.process_time()
    for image in inputs:
        function(image)
    return 1000 * (time.process_time() - start) / len(inputs)


def measured(found, rounds):
    """Returns the CPU time of each case in each round."""
    for name, (function, inputs) in found.items():
        if "8 x 8" not in name:
            checked(name, function(inputs[0]))
        milliseconds(function, inputs[:20])
    times = {name: [] for name in found}
    for _ in range(rounds):
        for name, (function, inputs) in found.items():
            times[name].append(milliseconds(function, inputs))
    return times


def ratios(times):
    """Returns for each library Fuseloop's share of its time."""
    found = {}
    for name in AIMS:
        if name in times:
            own = times["Fuseloop, from files" if "imdecode" in name else "Fuseloop"]
            found[name] = statistics.median(ours / theirs for ours, theirs in zip(own, times[name]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of JPEGs, searched at all depths")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    paths = jpegs_in(args.data)[:PHOTOS] if args.data.is_dir() else []
    if not paths:
        print(f"{args.data}: no photographs, so that nothing is measured")
        return
    found = cases([path.read_bytes() for path in paths])
    times = measured(found, args.rounds)
    medians = {name: statistics.median(of) for name, of in times.items()}
    shares = ratios(times)
    print(f"CPU ms per image, {len(paths)} photographs, one thread, median of {args.rounds} rounds")
    for name, median in medians.items():
        share = f"   Fuseloop takes {shares[name]:.3f} of it (aim {AIMS[name]:.2f})" if name in shares else ""
        print(f"{median:9.4f}  {name}{share}")
    overhead = 1000 * medians["Fuseloop, one op on 8 x 8"]
    print(f"{overhead:9.1f}  microseconds of a call with one op on 8 x 8 pixels (aim {OVERHEAD_US})")
    if args.json:
        result = {
            "hardware": run.hardware(1) | {"threads": "1 thread"},
            "date": datetime.date.today().isoformat(),
            "versions": run.installed("fuseloop", *PEERS),
            "command": f"python benches/peers/transform.py --rounds {args.rounds}",
            "photos": len(paths),
            "cpu_ms": medians,
            "ratios": shares,
            "call_us": overhead,
        }
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
