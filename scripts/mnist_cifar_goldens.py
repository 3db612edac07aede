#!/usr/bin/env python3
"""Writes small files in the formats of MNIST and CIFAR, and what torchvision reads in them.

    python scripts/mnist_cifar_goldens.py        (needs torchvision)

The files are noise in the layout of the originals: idx files of 5 x 7 pixels, plain and compressed, and batches of
CIFAR-10 and CIFAR-100 with one to three records. `images.json` has for each dataset the labels, and the SHA-256 of
each image's bytes: `[height, width]` for MNIST, `[height, width, 3]` for CIFAR. torchvision reads CIFAR from pickles,
so the records are written as pickles too, and read by its classes.
"""

import gzip
import hashlib
import json
import pathlib
import pickle
import shutil
import tempfile
from unittest import mock

import numpy as np
from torchvision.datasets import CIFAR10, CIFAR100, MNIST

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/mnist_cifar"
TEN = "airplane automobile bird cat deer dog frog horse ship truck".split()
COARSE = [f"coarse {number}" for number in range(20)]
FINE = [f"fine {number}" for number in range(100)]


def entry(image, label):
    return {"label": int(label), "sha256": hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()}


def idx(array):
    """Returns the bytes of an idx file of unsigned bytes."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def mnist(rng, raw):
    """Writes the four files of MNIST: plain for training, compressed for testing."""
    for split, count, extension in [("train", 6, ""), ("t10k", 4, ".gz")]:
        images = rng.integers(0, 256, (count, 5, 7), np.uint8)
        for name, array in [("images-idx3", images), ("labels-idx1", rng.integers(0, 10, count).astype(np.uint8))]:
            data = gzip.compress(idx(array), mtime=0) if extension else idx(array)
            (raw / f"{split}-{name}-ubyte{extension}").write_bytes(data)


def read_mnist(raw, train):
    """Reads a split by torchvision's class, which wants the files unpacked."""
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root, "MNIST/raw")
        shutil.copytree(raw, folder)
        for packed in folder.glob("*.gz"):
            packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        data = MNIST(root, train=train)
    return [entry(image, label) for image, label in zip(data.data.numpy(), data.targets)]


def batch(rng, count, classes):
    """Returns records: the labels of each kind, and the planes."""
    return [rng.integers(0, most, count).astype(np.uint8) for most in classes], rng.integers(
        0, 256, (count, 3072), np.uint8
    )


def records(labels, planes):
    return np.concatenate([label[:, None] for label in labels] + [planes], axis=1).tobytes()


def read_cifar(kind, train, pickles):
    """Reads a split by torchvision's class, from pickles."""
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root, kind.base_folder)
        folder.mkdir()
        for name, value in pickles.items():
            (folder / name).write_bytes(pickle.dumps(value))
        with mock.patch.object(kind, "_check_integrity", lambda _: True), mock.patch(
            "torchvision.datasets.cifar.check_integrity", lambda *_: True
        ):
            data = kind(root, train=train)
    return [entry(image, label) for image, label in zip(data.data, data.targets)]


def cifar_10(rng, folder):
    pickles = {"batches.meta": {"label_names": TEN}}
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    for name, count in zip(names, [2, 1, 1, 1, 1, 2]):
        labels, planes = batch(rng, count, [10])
        (folder / f"{name}.bin").write_bytes(records(labels, planes))
        pickles[name] = {"data": planes, "labels": labels[0].tolist()}
    (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
    return [read_cifar(CIFAR10, train, pickles) for train in (True, False)]


def cifar_100(rng, folder):
    pickles = {"meta": {"fine_label_names": FINE}}
    for name, count in [("train", 3), ("test", 1)]:
        labels, planes = batch(rng, count, [20, 100])
        (folder / f"{name}.bin").write_bytes(records(labels, planes))
        pickles[name] = {"data": planes, "fine_labels": labels[1].tolist(), "coarse": labels[0].tolist()}
    (folder / "fine_label_names.txt").write_text("\n".join(FINE) + "\n")
    (folder / "coarse_label_names.txt").write_text("\n".join(COARSE) + "\n")
    splits = [read_cifar(CIFAR100, train, pickles) for train in (True, False)]
    for split, name in zip(splits, ["train", "test"]):
        for sample, coarse in zip(split, pickles[name]["coarse"]):
            sample["coarse_label"] = coarse
    return splits


def main():
    rng = np.random.default_rng(7)
    folders = {name: OUT / name for name in ["mnist", "cifar-10-batches-bin", "cifar-100-binary"]}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    mnist(rng, folders["mnist"])
    found = {
        "mnist": [read_mnist(folders["mnist"], train) for train in (True, False)],
        "cifar-10-batches-bin": cifar_10(rng, folders["cifar-10-batches-bin"]),
        "cifar-100-binary": cifar_100(rng, folders["cifar-100-binary"]),
    }
    splits = {name: dict(zip(["train", "test"], both)) for name, both in found.items()}
    (OUT / "images.json").write_text(json.dumps(splits, indent=1) + "\n")


main()
