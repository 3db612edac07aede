"""Many threads of Python use the package at the same time: in turns with the GIL, and at once without it."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops
from fuseloop.errors import FuseloopWarning

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


def test_a_position_is_that_of_one_thread_at_a_time(same_size: Path) -> None:
    loader = fl.Loader(same_size, 4, order="random", seed=1, workers=1, image=LIST)

    def first(_: int) -> tuple[int, tuple[int, ...]]:
        epoch = iter(loader)
        batch = next(epoch)
        return epoch.number, tuple(batch.ids.tolist())

    # Each plays an epoch of its own.
    assert sorted(number for number, _ in together(first)) == list(range(THREADS))
    assert loader.next_epoch == THREADS

    # What one thread saves while another closes the epoch is its position, and never that of the next epoch.
    for _ in range(30):
        loader.set_epoch(0)
        epoch = iter(loader)
        next(epoch)
        whole = epoch.state_dict()
        saved: list[dict] = []

        def close_or_save(number: int, epoch: fl.Epoch = epoch, saved: list = saved) -> None:
            if number == 0:
                epoch.close()
            else:
                saved.extend([loader.state_dict(), epoch.state_dict()])

        together(close_or_save)
        assert all(state == whole for state in saved)


def test_lists_by_epoch_are_those_of_their_epoch(same_size: Path) -> None:
    def of_epoch(epoch: int) -> list:
        return [ops.CenterCrop(8), ops.Normalize(mean=[0.0] * 3, std=[1.0 / (1 + epoch)] * 3)]

    def sums(epoch: int) -> float:
        return float(next(loader.epoch(epoch))["image"].numpy().sum())

    loader = fl.Loader(same_size, 4, workers=1, image=of_epoch)
    wanted = [sums(epoch) for epoch in range(THREADS)]
    assert len(set(wanted)) == THREADS
    for _ in range(5):
        assert together(sums) == wanted
        assert together(lambda k: float(loader.get([0, 1, 2, 3], epoch=k)["image"].numpy().sum())) == wanted
    # Ops that are replaced come with the epoch that goes on, not with the next one.
    loader.next_epoch = 1
    running = loader.epoch(0)
    loader.set_ops("image", of_epoch)
    assert float(next(loader.renew(running))["image"].numpy().sum()) == wanted[0]


def test_lists_by_epoch_may_end_with_python_code(same_size: Path) -> None:
    class Ends:
        def __del__(self) -> None:
            if loader is not None:
                loader.get([0], epoch=5)

    def of_epoch(epoch: int) -> list:
        ends = Ends() if epoch < 5 else None
        return [ops.CenterCrop(8), ops.Lambda(lambda image: image + (ends is loader), per_sample=True)]

    loader = None
    loader = fl.Loader(same_size, 4, workers=1, image=of_epoch)
    for epoch in range(3):
        assert len(list(loader.epoch(epoch))) == 10
    loader = None


def test_a_warning_comes_from_the_call_that_it_is_about(same_size: Path, tmp_path: Path) -> None:
    picture = next(same_size.rglob("*.png"))
    for folder in ["a/x", "a/y", "b/x"]:
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(picture, tmp_path / folder)
    loader = fl.Loader(same_size, 1, workers=1, image=LIST)
    wanted = [batch.ids.tolist() for batch in loader.epoch(0)]
    opened = threading.Event()

    def open_or_play(number: int) -> int:
        if number == 0:
            warned = 0
            for _ in range(60):
                try:
                    fl.Dataset.open(tmp_path)
                except FuseloopWarning:
                    warned += 1
            opened.set()
            return warned
        while not opened.is_set():
            # No exception comes here, and so no batch is lost to one.
            assert [batch.ids.tolist() for batch in loader.epoch(0)] == wanted
        return 0

    with warnings.catch_warnings():
        warnings.simplefilter("error", FuseloopWarning)
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(open_or_play, range(3))) == [60, 0, 0]
