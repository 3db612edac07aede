#!/usr/bin/env python3
"""Stores photographs in each format that is read, and times our decoders on them in turn with OpenCV's.

    python scripts/image_formats.py FOLDER

FOLDER gets a folder of files for each format, unless it exists. The photographs are those of data/imagenet in the
folder FUSELOOP_SHARED or ../shared, reduced to at most 500 pixels a side. The bench `image_formats` and OpenCV decode
all files of a format on one thread, in turn and for several rounds, so that a slow moment of the machine affects both.
Times are processor times; a ratio is the median of the rounds' ratios. Prints a table in Markdown.

JPEG XLs and HEICs are decoded by Pillow's plugins (libjxl, libheif) instead, since OpenCV does not read them.

Needs numpy, opencv-python-headless, pillow, pillow-heif, pillow-jxl-plugin and tifffile.
"""

import argparse
import io
import os
import pathlib
import re
import statistics
import subprocess
import time

import cv2
import numpy as np
import pillow_heif
import pillow_jxl  # noqa: F401
import tifffile
from PIL import Image

pillow_heif.register_heif_opener()

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ["cargo", "bench", "--locked", "--quiet", "--features", "heic,jxl,tiff,webp", "--bench", "image_formats"]
SIDE = 500
# The least nanoseconds of a turn of OpenCV; the bench has the same.
TURN = 300_000_000


def pillow(**options):
    return lambda picture, path: Image.fromarray(picture).save(path, **options)


def libtiff(compression):
    """Stores a picture as libtiff does by default: strips of about 8 KB, differences of pixels if it is compressed."""
    options = [cv2.IMWRITE_TIFF_COMPRESSION, compression]
    return lambda picture, path: cv2.imwrite(str(path), picture[..., ::-1], options)


def tiles(picture, path):
    tifffile.imwrite(path, picture, tile=(128, 128), compression="zlib", photometric="rgb")


def deep(picture, path):
    """Stores a picture of 16 bits, whose lower byte is noise, as that of a sensor is."""
    lower = np.random.default_rng(0).integers(0, 256, picture.shape, dtype=np.uint16)
    libtiff(cv2.IMWRITE_TIFF_COMPRESSION_ADOBE_DEFLATE)(picture.astype(np.uint16) * 256 + lower, path)


# A folder's name, the ending of its files, the name in the table, and the function that stores an RGB picture.
FORMATS = {
    "jpeg": ("jpg", "JPEG, quality 90", pillow(quality=90)),
    "webp_lossy": ("webp", "WebP, quality 90", pillow(quality=90)),
    "webp_lossless": ("webp", "WebP, lossless", pillow(lossless=True)),
    "png": ("png", "PNG", pillow()),
    "tiff": ("tif", "TIFF, not compressed", libtiff(cv2.IMWRITE_TIFF_COMPRESSION_NONE)),
    "tiff_lzw": ("tif", "TIFF, LZW", libtiff(cv2.IMWRITE_TIFF_COMPRESSION_LZW)),
    "tiff_deflate": ("tif", "TIFF, deflate", libtiff(cv2.IMWRITE_TIFF_COMPRESSION_ADOBE_DEFLATE)),
    "tiff_tiles": ("tif", "TIFF, deflate, tiles of 128 x 128", tiles),
    "tiff_16": ("tif", "TIFF, deflate, 16 bits", deep),
    "bmp": ("bmp", "BMP", pillow()),
    "gif": ("gif", "GIF", lambda picture, path: Image.fromarray(picture).quantize(256).save(path)),
    "ppm": ("ppm", "PPM", pillow()),
    "jxl": ("jxl", "JPEG XL, quality 90", pillow(quality=90)),
    "heic": ("heic", "HEIC, quality 90", pillow(quality=90)),
}


def photographs(most):
    """Returns the reduced photographs as arrays of RGB."""
    folder = pathlib.Path(os.environ.get("FUSELOOP_SHARED", ROOT / "../shared")) / "data/imagenet"
    for path in sorted(folder.glob("*.JPEG"))[:most]:
        picture = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
        factor = min(1, SIDE / max(picture.shape))
        if factor < 1:
            picture = cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
        yield path.stem, picture


def make(folder, most):
    """Writes the files of all formats."""
    for name in FORMATS:
        (folder / name).mkdir(parents=True)
    for stem, picture in photographs(most):
        for name, (ending, _, write) in FORMATS.items():
            write(picture, folder / name / f"{stem}.{ending}")


class Ours:
    """The bench, which answers each line with a time and a number of images."""

    def __init__(self, command, folder):
        pipe = subprocess.PIPE
        environment = {**os.environ, "FUSELOOP_IMAGES": str(folder.resolve())}
        self.bench = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)

    def turn(self, name, part):
        """Returns the milliseconds of an image."""
        print(name, part, file=self.bench.stdin, flush=True)
        nanoseconds, images = map(int, self.bench.stdout.readline().split())
        return nanoseconds / images / 1e6

    def end(self):
        self.bench.stdin.close()
        self.bench.wait()


def by_pillow(file):
    """Decodes what OpenCV does not: by the libjxl and the libheif of Pillow's plugins, on one thread."""
    return Image.open(io.BytesIO(file)).convert("RGB").load()


def others(name, files):
    """Returns the milliseconds that OpenCV takes for an image, or Pillow for one that OpenCV does not read."""
    decode = by_pillow if name in ("jxl", "heic") else lambda file: cv2.imdecode(file, cv2.IMREAD_COLOR_RGB)
    begun, images = time.process_time_ns(), 0
    while (spent := time.process_time_ns() - begun) < TURN:
        for file in files:
            decode(file)
        images += len(files)
    return spent / images / 1e6


def measure(name, ours, folder, rounds):
    """Returns a line of the table."""
    title = FORMATS[name][1]
    files = [np.fromfile(path, np.uint8) for path in sorted((folder / name).iterdir())]
    # All pixels of a PNG are decoded, whatever is wanted.
    parts = ["whole", "windows"] if title.startswith(("TIFF", "JPEG", "WebP")) else ["whole"]
    # The first round warms up.
    turns = [(others(name, files), *(ours.turn(name, part) for part in parts)) for _ in range(rounds + 1)][1:]
    theirs, whole, *windows = (statistics.median(times) for times in zip(*turns))
    ratio = statistics.median(whole / theirs for theirs, whole, *_ in turns)
    size = sum(map(len, files)) / len(files) / 1000
    part = f"{windows[0]:.2f}" if windows else ""
    return f"| {title} | {size:.0f} | {whole:.2f} | {theirs:.2f} | {ratio:.2f}x | {part} |"


def versions():
    """Returns the libraries that OpenCV decodes with."""
    found = re.findall(r"^ +(JPEG|WEBP|PNG|TIFF): +(.*)$", cv2.getBuildInformation(), re.MULTILINE)
    return f"OpenCV {cv2.__version__}: " + "; ".join(f"{library} {version}" for library, version in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path, help="the files, which are made if there is no such folder")
    parser.add_argument("--photographs", type=int, default=64, help="how many are stored, at most")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bench", help="the bench as built, instead of `cargo bench`")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    if not arguments.folder.exists():
        make(arguments.folder, arguments.photographs)
    ours = Ours([arguments.bench] if arguments.bench else BENCH, arguments.folder)
    print(versions())
    print("\n| stored as | kB | ours, ms | OpenCV, ms | ours: its time | windows, ms |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in FORMATS:
        print(measure(name, ours, arguments.folder, arguments.rounds), flush=True)
    ours.end()


if __name__ == "__main__":
    main()
