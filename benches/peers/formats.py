"""Measures image formats: CPU time of decoding an image, and of W1, beside Pillow, torchvision and OpenCV, in one process.

    python benches/peers/formats.py
    python benches/peers/formats.py --data PHOTOS --rounds 9 --json formats.json

Photographs of at most 500 pixels a side are stored in each format and read again from memory. Pillow, torchvision.io and
OpenCV decode them to RGB; Fuseloop does, too, and W1 is Fuseloop's and torchvision's: decoding, RandomResizedCrop 224, flip,
and normalization to f32 with the channels first. The last rows are W1 of pixels in memory, RGB, gray and with alpha, by a
loader with one worker: what the loop costs. Needs `fuseloop`, NumPy, Pillow and OpenCV; torchvision is measured if it is installed.

All run on one thread, in turns: a round of each after another, so that what else the machine does meets all alike. CPU
time counts; a figure is the median of the rounds.

scripts/plots.py draws a table of the JSON.
"""

import argparse
import datetime
import io
import json
import os
import statistics
import time
from pathlib import Path

# One thread each, set before the libraries are loaded.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import cv2
import numpy as np
from PIL import Image

import run
from loaders import MEAN, STD
from pictures import jpegs_in
from transform import DATA, milliseconds

PHOTOS, SIDE = 64, 500
PEERS = ["numpy", "opencv-python-headless", "pillow", "torch", "torchvision"]


def pillow(ending, **options):
    def stored(picture):
        file = io.BytesIO()
        Image.fromarray(picture).save(file, ending, **options)
        return file.getvalue()

    return stored


def libtiff(compression):
    def stored(picture):
        return cv2.imencode(".tif", picture[..., ::-1], [cv2.IMWRITE_TIFF_COMPRESSION, compression])[1].tobytes()

    return stored


FORMATS = {
    "JPEG, 4:2:0": pillow("JPEG", quality=90),
    "JPEG, 4:4:4": pillow("JPEG", quality=90, subsampling=0),
    "JPEG, progressive": pillow("JPEG", quality=90, progressive=True),
    "PNG": pillow("PNG"),
    "WebP, lossy": pillow("WEBP", quality=90),
    "WebP, lossless": pillow("WEBP", lossless=True),
    "TIFF, LZW": libtiff(cv2.IMWRITE_TIFF_COMPRESSION_LZW),
    "TIFF, deflate": libtiff(cv2.IMWRITE_TIFF_COMPRESSION_ADOBE_DEFLATE),
}


def photographs(folder):
    """Returns photographs as arrays of RGB."""
    for path in jpegs_in(folder)[:PHOTOS]:
        picture = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
        factor = min(1, SIDE / max(picture.shape))
        yield cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)


def torchvision():
    """Returns torchvision's functions of a file: decoding, and W1."""
    import torch
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    crop = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    change = v2.Compose([*crop, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    def decode(file):
        return decode_image(torch.frombuffer(bytearray(file), dtype=torch.uint8), ImageReadMode.RGB)

    def work(file):
        if file[:2] in (b"II", b"MM"):  # torchvision.io reads no TIFFs
            picture = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
            return change(torch.from_numpy(picture.copy()).permute(2, 0, 1))
        return change(decode(file))

    return decode, work


def w1(channels):
    """Returns the list of Fuseloop's W1."""
    from fuseloop import ops

    mean, std = (MEAN, STD) if channels == 3 else ([0.5] * channels, [0.25] * channels)
    crop = [ops.RandomResizedCrop(224), ops.RandomHorizontalFlip()]
    return [*crop, ops.Normalize(mean, std), ops.ToChannelsFirst()]


def epoch(pictures, mode):
    """Returns an epoch of W1 of pictures in memory, of one size, and its number of samples. Each picture comes often, since
    the memory of the first batches of an epoch is new."""
    import fuseloop as fl

    held = [np.array(Image.fromarray(picture).resize((500, 375)).convert(mode)) for picture in pictures]
    pixels = np.stack(held).reshape(len(held), 375, 500, -1)
    samples = np.tile(np.arange(len(held)), 32)
    settings = {"batch_size": 32, "order": "random", "seed": 1, "workers": 1, "indices": samples}
    loader = fl.Loader((pixels,), **settings, image=w1(pixels.shape[-1]))

    def played(_):
        for _ in loader:
            pass

    # The first epochs take longer.
    for _ in range(4):
        played(None)
    return played, len(samples)


def cases(pictures):
    """Returns what is measured of files, and of pixels in memory: by a row and a column, the function, its inputs, and the
    number of images in each."""
    import fuseloop as fl
    from fuseloop import ops

    ours = {"Fuseloop": fl.Transform([ops.RandomHorizontalFlip(p=0.0)]), "Fuseloop, W1": fl.Transform(w1(3), seed=1)}
    theirs = {
        "Pillow": lambda file: Image.open(io.BytesIO(file)).convert("RGB").load(),
        "OpenCV": lambda file: cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR_RGB),
    }
    try:
        theirs["torchvision.io"], theirs["torchvision, W1"] = torchvision()
    except ImportError as why:
        print(f"torchvision is left out: {why}")
    found = {}
    for name, store in FORMATS.items():
        files = [store(picture) for picture in pictures]
        for column, function in (theirs | ours).items():
            if not (name.startswith("TIFF") and column == "torchvision.io"):
                found[name, column] = (function, files, 1)
    held = {}
    for name, mode in {"RGB": "RGB", "gray": "L", "RGB and alpha": "RGBA"}.items():
        played, images = epoch(pictures, mode)
        held[f"decoded, {name}", "Fuseloop, W1"] = (played, [None], images)
    return found, held


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of JPEGs, searched at all depths")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    pictures = list(photographs(args.data)) if args.data.is_dir() else []
    if not pictures:
        print(f"{args.data}: no photographs, so that nothing is measured")
        return
    times = {}
    for found in cases(pictures):
        times |= {case: [] for case in found}
        for _ in range(args.rounds + 1):
            for case, (function, inputs, images) in found.items():
                times[case].append(milliseconds(function, inputs) / images)
    rows = {}
    for (row, column), of in times.items():
        # The first round warms up.
        rows.setdefault(row, {})[column] = statistics.median(of[1:])
    for row, columns in rows.items():
        print(f"{row:<24}" + "".join(f"{column} {time:.3f}   " for column, time in columns.items()))
    if args.json:
        result = {
            "hardware": run.hardware(1) | {"threads": "1 thread"},
            "date": datetime.date.today().isoformat(),
            "versions": run.installed("fuseloop", *PEERS),
            "command": f"python benches/peers/formats.py --rounds {args.rounds}",
            "photos": len(pictures),
            "cpu_ms": rows,
        }
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
