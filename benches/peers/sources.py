"""Compares Parquet, MDS and arrays in memory with the same pictures in a .beton file, in one process.

    python benches/peers/sources.py PHOTOS [--threads 2] [--seconds 5] [--json sources.json]

PHOTOS is a folder of JPEGs. Needs fuseloop, numpy, pillow and pyarrow; with torchvision it also measures StreamingDataset
of mosaicml-streaming, and Hugging Face datasets in a DataLoader, twice: as most people use it, which decodes by Pillow, and
by its best settings, `decode=False` and torchvision.io. The work is that of W1 for the photographs, and of W4 for 50,000
pictures of 32x32 pixels. Runs take turns, and the median of each counts.

docs/peers.md shows the figures of benches/peers/sources.json: scripts/plots.py draws the table.
"""

import argparse
import datetime
import json
import statistics
import struct
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fuseloop as fl
import run
from fuseloop import ops

PEERS = ["datasets", "mosaicml-streaming", "numpy", "pillow", "pyarrow", "torch", "torchvision"]

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


def write_parquet(folder, files):
    """Writes files as one shard of the column `image`, as `Dataset.to_parquet` of Hugging Face writes images."""
    image = pa.StructArray.from_arrays([pa.array(files, pa.binary()), pa.nulls(len(files), pa.string())], ["bytes", "path"])
    features = json.dumps({"info": {"features": {"image": {"_type": "Image"}}}})
    schema = pa.schema([pa.field("image", image.type)], metadata={"huggingface": features})
    folder.mkdir()
    plain = {"compression": "none", "use_dictionary": False, "row_group_size": 100}
    pq.write_table(pa.Table.from_arrays([image], schema=schema), folder / "train-00000-of-00001.parquet", **plain)


def epochs_of(dataset, threads, shuffle):
    """Returns a function that counts the images of an epoch of a DataLoader."""
    import torch

    loader = torch.utils.data.DataLoader(
        dataset, 64, shuffle=shuffle, num_workers=threads, persistent_workers=True, collate_fn=lambda rows: torch.stack(rows)
    )
    return lambda: sum(len(images) for images in loader)


def work_of_torchvision(of_pixels):
    """Returns W1 by torchvision, for images of PIL or tensors."""
    import torch
    from torchvision.transforms import v2

    first = [] if of_pixels else [v2.ToImage()]
    normalize = v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    change = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *first, v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([*change, normalize])


def streaming(folder, threads):
    """Returns the epochs of StreamingDataset and torchvision."""
    from streaming import StreamingDataset

    change = work_of_torchvision(of_pixels=False)

    class Photos(StreamingDataset):
        def __getitem__(self, index):
            return change(super().__getitem__(index)["image"].convert("RGB"))

    return epochs_of(Photos(local=str(folder), shuffle=True, batch_size=64), threads, shuffle=None)


def datasets(folder, threads, decode):
    """Returns the epochs of Hugging Face datasets and torchvision."""
    import datasets
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    rows = datasets.load_dataset("parquet", data_files=str(folder / "*.parquet"), split="train", cache_dir=folder / "cache")
    change = work_of_torchvision(of_pixels=not decode)
    if not decode:
        rows = rows.cast_column("image", datasets.Image(decode=False))

    class Photos:
        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            image = rows[index]["image"]
            if decode:
                return change(image.convert("RGB"))
            content = np.frombuffer(image["bytes"], np.uint8).copy()
            return change(decode_jpeg(torch.from_numpy(content), mode=ImageReadMode.RGB))

    return epochs_of(Photos(), threads, shuffle=True)


def if_installed(make, *arguments):
    """Returns the epochs of a peer; None, with a line, where it is missing."""
    try:
        return make(*arguments)
    except ImportError as error:
        print(f"{make.__name__} is left out: {error}")
        return None


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
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()

    def ours(data, batch, work):
        loader = fl.Loader(data, batch, order="random", workers=args.threads, image=work)
        return lambda: sum(len(batch["image"]) for batch in loader)

    found = sorted(path for path in args.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    files = [path.read_bytes() for path in found]
    files = (files * (1000 // len(files) + 1))[:1000]
    small = np.random.default_rng(0).integers(0, 256, (50_000, 32, 32, 3), np.uint8)
    labels = np.arange(50_000) % 10
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_mds(folder / "mds", files)
        write_parquet(folder / "parquet", files)
        fl.write.convert(fl.sources.mds(folder / "mds"), folder / "photos.beton")
        fl.write.write([{"image": image, "label": label} for image, label in zip(small, labels.tolist())],
                       folder / "small.beton", image=fl.write.Image(write_mode="raw"))  # fmt: skip
        of_photos = {
            ".beton": ours(folder / "photos.beton", 64, W1),
            "Parquet": ours(folder / "parquet", 64, W1),
            "MDS": ours(folder / "mds", 64, W1),
            "a list of bytes": ours({"image": files}, 64, W1),
            "StreamingDataset": if_installed(streaming, folder / "mds", args.threads),
            "datasets": if_installed(datasets, folder / "parquet", args.threads, True),
            "datasets, decode=False": if_installed(datasets, folder / "parquet", args.threads, False),
        }
        of_small = {".beton": ours(folder / "small.beton", 512, W4), "arrays": ours((small, labels), 512, W4)}
        measured = {}
        for name, epochs in [("W1", of_photos), ("W4", of_small)]:
            found = rates({name: epoch for name, epoch in epochs.items() if epoch}, args.seconds)
            measured[name] = found
            for source, rate in found.items():
                print(f"{name}  {source:<22} {rate:>10,.0f} images/s  {rate / found['.beton']:.2f} of .beton")
    if args.json:
        result = {
            "hardware": run.hardware(args.threads) | {"threads": f"{args.threads} threads a loader"},
            "date": datetime.date.today().isoformat(),
            "versions": run.installed("fuseloop", *PEERS),
            "command": f"python benches/peers/sources.py PHOTOS --threads {args.threads} --seconds {args.seconds:g}",
            "images_per_s": measured,
        }
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
