"""Many threads of Python use the package at the same time: in turns with the GIL, and at once without it."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops

THREADS = 8
LIST = [ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(), ops.Normalize.imagenet()]


def together(work: Callable[[int], object]) -> list:
    """Returns what ``work`` returns on each of many threads, which begin at the same time."""
    gate = threading.Barrier(THREADS)

    def run(number: int) -> object:
        gate.wait(timeout=60)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has the GIL")
def test_the_gil_stays_off() -> None:
    assert not sys._is_gil_enabled()


def test_many_threads_train_on_loaders_of_their_own(same_size: Path) -> None:
    def train(seed: int) -> np.ndarray:
        """Fits a line to the pixels by gradient descent, and returns its weights."""
        loader = fl.Loader(same_size, 8, order="random", seed=seed % 2, workers=1, image=LIST)
        weights = np.zeros(3)
        for _ in range(3):
            for batch in loader:
                mean = batch["image"].numpy().mean((1, 2))
                wrong = mean @ weights - batch["label"].numpy().reshape(-1)
                weights -= 0.05 * mean.T @ wrong / len(wrong)
        return weights

    alone = [train(seed) for seed in range(2)]
    found = together(train)
    assert np.any(alone[0] != alone[1])
    for number, weights in enumerate(found):
        np.testing.assert_array_equal(weights, alone[number % 2])


def test_many_threads_share_an_epoch(same_size: Path) -> None:
    loader = fl.Loader(same_size, 1, order="random", seed=3, workers=2, image=LIST)
    wanted = {batch.index: batch["image"].numpy().tobytes() for batch in loader.epoch(5)}
    epoch = loader.epoch(5)
    taken = together(lambda _: [(batch.index, batch["image"].numpy().tobytes()) for batch in epoch])
    found = [pair for pairs in taken for pair in pairs]
    assert len(found) == len(wanted) == 40 and dict(found) == wanted


def test_functions_and_transforms_run_on_many_threads(same_size: Path) -> None:
    invert = ops.Lambda(lambda image: 255 - image, per_sample=True)
    loader = fl.Loader(same_size, 8, workers=4, image=[ops.CenterCrop(16), invert])
    plain = fl.Loader(same_size, 8, image=[ops.CenterCrop(16)])
    for one, other in zip(loader, plain):
        np.testing.assert_array_equal(one["image"].numpy(), 255 - other["image"].numpy())
    transform = fl.Transform(LIST, seed=1)
    image = np.arange(40 * 50 * 3, dtype=np.uint8).reshape(40, 50, 3)
    wanted = [transform(image, sample=sample) for sample in range(16)]
    for found in together(lambda _: [transform(image, sample=sample) for sample in range(16)]):
        np.testing.assert_array_equal(found, wanted)


def test_many_threads_write_and_read(same_size: Path, tmp_path: Path) -> None:
    def copy(number: int) -> bytes:
        path = tmp_path / f"{number}.beton"
        fl.write.convert(same_size, path, progress=None)
        assert len(fl.sources.open(path)) == 40
        return path.read_bytes()

    assert len(set(together(copy))) == 1
