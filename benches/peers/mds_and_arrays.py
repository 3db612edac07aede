"""Compares arrays in memory and MDS shards with the same pictures in a .beton file, in one process.

    python benches/peers/mds_and_arrays.py PHOTOS [--threads 2] [--seconds 5]

PHOTOS is a folder of JPEGs. Needs fuseloop, numpy and pillow; with mosaicml-streaming and torchvision it measures
StreamingDataset, too. The work is that of W1 for the photographs, and of W4 for 50,000 pictures of 32x32 pixels. Runs take
turns, and the median of each counts.
"""

import argparse
import json
import statistics
import struct
import tempfile
import time
from pathlib import Path

import numpy as np

import fuseloop as fl
from fuseloop import ops

W1 = [ops.RandomResizedCrop(224), ops.RandomHorizontalFlip(), ops.Normalize.imagenet(), ops.ToChannelsFirst()]
W4 = [
    ops.RandomHorizontalFlip(),
    ops.RandomTranslate(4, fill=(125, 122, 113)),
    ops.Cutout(8, fill=(125, 122, 113)),
    ops.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    ops.ToChannelsFirst(),
]


def write_mds(folder, files):
    """Writes files as one shard of the column `image`."""
    folder.mkdir()
    bodies = [struct.pack("<I", len(file)) + file for file in files]
    ends = np.cumsum([4 * (len(files) + 2), *map(len, bodies)]).astype("<u4")
    shard = struct.pack("<I", len(files)) + ends.tobytes() + b"".join(bodies)
    (folder / "shard.00000.mds").write_bytes(shard)
    listed = {
        "format": "mds", "version": 2, "samples": len(files), "compression": None, "hashes": [], "size_limit": None,
        "column_names": ["image"], "column_encodings": ["jpeg"], "column_sizes": [None],
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}}, "zip_data": None,
    }  # fmt: skip
    (folder / "index.json").write_text(json.dumps({"shards": [listed], "version": 2}))


def streaming(folder, threads):
    """Returns the epochs of StreamingDataset and torchvision; None where they are missing."""
    try:
        import torch
        from streaming import StreamingDataset
        from torchvision.transforms import v2
    except ImportError as error:
        print(f"StreamingDataset is left out: {error}")
        return None
    change = v2.Compose(
        [
            v2.RandomResizedCrop(224),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )

    class Photos(StreamingDataset):
        def __getitem__(self, index):
            return change(super().__getitem__(index)["image"].convert("RGB"))

    photos = Photos(local=str(folder), shuffle=True, batch_size=64)
    loader = torch.utils.data.DataLoader(photos, 64, num_workers=threads, persistent_workers=True)
    return lambda: sum(len(batch) for batch in loader)


def rates(epochs, seconds):
    """Returns the median images/s of each, over three runs that take turns."""
    runs = {name: [] for name in epochs}
    for epoch in epochs.values():
        epoch()
    for _ in range(3):
        for name, epoch in epochs.items():
            images, start = 0, time.perf_counter()
            while (taken := time.perf_counter() - start) < seconds or images == 0:
                images += epoch()
            runs[name].append(images / taken)
    return {name: statistics.median(each) for name, each in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()

    def ours(data, batch, work):
        loader = fl.Loader(data, batch, order="random", workers=args.threads, image=work)
        return lambda: sum(len(batch) for batch in loader)

    found = sorted(path for path in args.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    files = [path.read_bytes() for path in found]
    files = (files * (1000 // len(files) + 1))[:1000]
    small = np.random.default_rng(0).integers(0, 256, (50_000, 32, 32, 3), np.uint8)
    labels = np.arange(50_000) % 10
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_mds(folder / "mds", files)
        fl.write.convert(fl.sources.mds(folder / "mds"), folder / "photos.beton")
        fl.write.write([{"image": image, "label": label} for image, label in zip(small, labels.tolist())],
                       folder / "small.beton")  # fmt: skip
        of_photos = {
            ".beton": ours(folder / "photos.beton", 64, W1),
            "MDS": ours(folder / "mds", 64, W1),
            "a list of bytes": ours({"image": files}, 64, W1),
            "StreamingDataset": streaming(folder / "mds", args.threads),
        }
        of_small = {".beton": ours(folder / "small.beton", 512, W4), "arrays": ours((small, labels), 512, W4)}
        for name, epochs in [("W1", of_photos), ("W4", of_small)]:
            found = rates({name: epoch for name, epoch in epochs.items() if epoch}, args.seconds)
            for source, rate in found.items():
                print(f"{name}  {source:<16} {rate:>10,.0f} images/s  {rate / found['.beton']:.2f} of .beton")


if __name__ == "__main__":
    main()
