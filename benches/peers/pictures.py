"""Makes the pictures that every peer reads, as files of each peer's own format.

    python pictures.py OUT [--data DIR] [--photos N] [--small N]

Needs NumPy and Pillow. Writes to OUT:

* photos/CLASS/NAME.jpg   JPEGs for W1 to W3: those of DIR byte for byte, repeated up to N, or drawn ones
* shards/NNN.tar          the same JPEGs as WebDataset's shards
* crop.npy, crop/         256 x 256 pixels for W5, as an array and as PNGs for `fuseloop write`
* small.npy, small/       32 x 32 pixels for W4, as an array and as PNGs for `fuseloop write`

The same arguments always give the same pictures. A picture's class is its number modulo 10.
"""

import argparse
import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = 10
SHARDS = 16
# The sizes of most photographs in ImageNet.
SIZES = [(500, 375), (375, 500), (500, 333), (500, 400), (640, 480), (400, 300)]


def jpegs_in(folder):
    """Returns the JPEGs below a folder, sorted by name."""
    found = []
    for path in sorted(Path(folder).rglob("*")):
        if path.suffix.lower() in (".jpg", ".jpeg") and path.is_file():
            found.append(path)
    return found


def photographs(folder, count):
    """Returns the bytes of `count` JPEGs of a folder: evenly spaced ones, or all of them repeated."""
    paths = jpegs_in(folder)
    if len(paths) > count:
        paths = [paths[index * len(paths) // count] for index in range(count)]
    stored = [path.read_bytes() for path in paths]
    # Peers disagree about CMYK.
    usable = [jpeg for jpeg in stored if Image.open(io.BytesIO(jpeg)).mode in ("RGB", "L")]
    if not usable:
        raise SystemExit(f"{folder}: no JPEGs in RGB or gray")
    return [usable[index % len(usable)] for index in range(count)]


def drawn(index):
    """Returns a drawn photograph as JPEG: a gradient, clouds of several sizes, and fine noise."""
    random = np.random.default_rng(index)
    width, height = SIZES[index % len(SIZES)]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    slope = random.uniform(-0.3, 0.3, (2, 3)).astype(np.float32)
    pixels = 128 + (x - width / 2)[..., None] * slope[0] + (y - height / 2)[..., None] * slope[1]
    for cells, strength in [(3, 60), (9, 45), (31, 30), (97, 18)]:
        coarse = random.uniform(-strength, strength, (cells, cells, 3)).astype(np.float32)
        for channel in range(3):
            layer = Image.fromarray(coarse[..., channel])
            pixels[..., channel] += np.asarray(layer.resize((width, height), Image.Resampling.BICUBIC))
    pixels += random.normal(0, 8, pixels.shape).astype(np.float32)
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def class_folder(parent, index):
    folder = parent / f"{index % CLASSES:02}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_photos(out, photos):
    for index, jpeg in enumerate(photos):
        (class_folder(out / "photos", index) / f"{index:06}.jpg").write_bytes(jpeg)


def write_shards(out, photos):
    (out / "shards").mkdir(parents=True, exist_ok=True)
    for shard in range(SHARDS):
        with tarfile.open(out / "shards" / f"{shard:03}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for index in range(shard, len(photos), SHARDS):
                label = str(index % CLASSES).encode()
                for suffix, content in [("jpg", photos[index]), ("cls", label)]:
                    member = tarfile.TarInfo(f"{index:06}.{suffix}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def write_pixels(out, name, pixels, pool):
    """Writes pictures as one array and as PNGs."""
    np.save(out / f"{name}.npy", pixels)
    folders = [class_folder(out / name, index) for index in range(CLASSES)]

    def write(index):
        path = folders[index % CLASSES] / f"{index:06}.png"
        Image.fromarray(pixels[index]).save(path, compress_level=1)

    list(pool.map(write, range(len(pixels))))


def square(jpeg):
    """Returns the centre of a photograph with 256 x 256 pixels."""
    image = Image.open(io.BytesIO(jpeg)).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return np.asarray(image.resize((256, 256), Image.Resampling.BILINEAR, (left, top, left + side, top + side)))


def tiles(squares, count):
    """Returns `count` pieces of 32 x 32 pixels."""
    random = np.random.default_rng(0)
    tops, lefts = random.integers(0, 256 - 32, (2, count))
    pieces = [squares[i % len(squares)][tops[i]:tops[i] + 32, lefts[i]:lefts[i] + 32] for i in range(count)]
    return np.stack(pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--photos", type=int, default=1024)
    parser.add_argument("--small", type=int, default=50_000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if args.data:
            photos = photographs(args.data, args.photos)
        else:
            photos = list(pool.map(drawn, range(args.photos)))
        write_photos(args.out, photos)
        write_shards(args.out, photos)
        squares = np.stack(list(pool.map(square, photos)))
        write_pixels(args.out, "crop", squares, pool)
        write_pixels(args.out, "small", tiles(squares, args.small), pool)
    print(f"{len(photos)} photographs of {sum(map(len, photos)) // len(photos):,} bytes, {args.small} small pictures")


if __name__ == "__main__":
    main()
