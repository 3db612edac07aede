"""The files of MNIST and CIFAR, which are read as they were downloaded."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources, write

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "mnist_cifar"
MNIST = GOLDEN / "mnist"
CIFAR = GOLDEN / "cifar-10-batches-bin"

pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="no sources beside the tests")


def idx(path: Path) -> np.ndarray:
    """Reads an idx file of bytes."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    shape = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


@pytest.mark.parametrize(
    ("name", "split", "extension"), [("", "train", ""), ("t10k-images-idx3-ubyte.gz", "t10k", ".gz")]
)
def test_mnist_is_what_numpy_reads(name: str, split: str, extension: str) -> None:
    images = idx(MNIST / f"{split}-images-idx3-ubyte{extension}")
    labels = idx(MNIST / f"{split}-labels-idx1-ubyte{extension}")
    loader = fl.Loader(MNIST / name, len(images))
    batch = next(iter(loader))
    np.testing.assert_array_equal(np.asarray(batch["image"]), images)
    np.testing.assert_array_equal(np.asarray(batch["label"]), labels)
    loader = fl.Loader(MNIST / name, len(images), image=[ops.Normalize([0.1307], [0.3081]), ops.ToChannelsFirst()])
    found = np.asarray(next(iter(loader))["image"])
    assert found.shape == (len(images), 1, 5, 7)
    np.testing.assert_allclose(found[:, 0], (images / 255 - 0.1307) / 0.3081, atol=1e-5)


def test_cifar_is_what_numpy_reads() -> None:
    files = [np.fromfile(CIFAR / f"data_batch_{number}.bin", np.uint8) for number in range(1, 6)]
    records = np.concatenate(files).reshape(-1, 3073)
    batch = next(iter(fl.Loader(CIFAR, len(records))))
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(np.asarray(batch["image"]), pixels)
    np.testing.assert_array_equal(np.asarray(batch["label"]), records[:, 0])
    two = fl.Loader([CIFAR / "data_batch_1.bin", CIFAR / "data_batch_3.bin"], 3)
    np.testing.assert_array_equal(np.asarray(next(iter(two))["label"]), records[[0, 1, 3], 0])


def test_what_they_hold() -> None:
    dataset = sources.open(MNIST)
    info = dataset.info()
    assert [(field.name, field.kind) for field in info.fields] == [("image", "|u1 [5, 7]"), ("label", "int")]
    counts = np.bincount(idx(MNIST / "train-labels-idx1-ubyte"), minlength=10)
    assert [(one.name, one.samples) for one in info.classes] == [(str(k), int(n)) for k, n in enumerate(counts)]
    assert dataset.verify(progress=None).is_whole
    assert len(pickle.loads(pickle.dumps(dataset))) == len(dataset)
    classes = sources.open(CIFAR / "test_batch.bin").classes
    assert (len(classes), classes[3]) == (10, "cat")


@pytest.mark.parametrize("source", [MNIST, CIFAR], ids=["mnist", "cifar"])
def test_a_conversion_keeps_everything(source: Path, tmp_path: Path) -> None:
    write.convert(source, tmp_path / "x.beton", progress=None)
    old, new = sources.open(source), sources.open(tmp_path / "x.beton")
    assert (new.fields, new.classes, len(new)) == (old.fields, old.classes, len(old))
    for index in range(len(old)):
        np.testing.assert_array_equal(new[index]["image"], old[index]["image"])
        assert new[index]["label"] == old[index]["label"]


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    data = (MNIST / "train-images-idx3-ubyte").read_bytes()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(data[:-1])
    with pytest.raises(fl.DatasetError, match="it was cut, so download it again"):
        sources.open(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(data)
    with pytest.raises(fl.DatasetError, match="train-labels-idx1-ubyte: the file is missing"):
        sources.open(tmp_path)
