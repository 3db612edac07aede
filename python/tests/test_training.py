"""The examples: a CNN learns as much with Fuseloop as with torchvision, from the same pixels."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import example

import fuseloop as fl

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytestmark = [pytest.mark.torch, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def train_cnn() -> ModuleType:
    return example("train_cnn")


@pytest.fixture(scope="module")
def drawn(train_cnn: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, np.ndarray, Path]:
    pictures, labels = train_cnn.draw(1000, seed=1)
    path = tmp_path_factory.mktemp("drawn") / "train.beton"
    fl.write.write(zip(pictures, labels, strict=True), path, image=fl.write.Image("raw"), progress=None)
    return pictures, labels, path


def test_first_batch_has_the_pixels_of_torchvision(train_cnn: ModuleType, drawn: Any) -> None:
    """Each image of a batch is, within one level, what torchvision makes of the sample with some crop and flip."""
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional

    pictures, labels, path = drawn
    images, targets = next(iter(train_cnn.with_fuseloop(path, seed=3)))
    batch = next(iter(fl.Loader(path, train_cnn.BATCH, order="random", seed=3, image=train_cnn.IMAGE)))
    assert torch.equal(images, batch["image"].torch())
    assert targets.tolist() == labels[batch.ids].tolist()
    finished = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(train_cnn.MEAN, train_cnn.STD)])
    padding, level = train_cnn.PADDING, 1 / 255 / train_cnn.STD[0]
    draws = []
    for image, sample in zip(images, batch.ids, strict=True):
        whole = torch.from_numpy(pictures[sample]).permute(2, 0, 1)
        padded = functional.pad(whole, padding)
        candidates = {
            (top, left, flipped): crop.flip(-1) if flipped else crop
            for top in range(2 * padding + 1)
            for left in range(2 * padding + 1)
            for crop in [functional.crop(padded, top, left, 32, 32)]
            for flipped in (False, True)
        }
        differences = (finished(torch.stack(list(candidates.values()))) - image).abs().amax(dim=(1, 2, 3))
        assert differences.min() <= level
        draws.append(list(candidates)[int(differences.argmin())])
    # The draws are those of torchvision's transforms: all offsets are as likely, and either side.
    tops, lefts, flips = (np.array(values) for values in zip(*draws, strict=True))
    for offsets in (tops, lefts):
        assert set(offsets) == set(range(2 * padding + 1)) and abs(offsets.mean() - padding) < 1
    assert 0.3 < flips.mean() < 0.7


def test_cnn_trains_as_with_torchvision(train_cnn: ModuleType) -> None:
    """One training each, of fewer epochs: the eight of the proof are in docs/python_frameworks.md."""
    torch.set_num_threads(1)
    lines: list[str] = []
    results = train_cnn.compare(rounds=1, epochs=5, say=lines.append)
    ours, theirs = (results[name]["accuracies"][0] for name in ("fuseloop", "torchvision"))
    assert min(ours, theirs) > 60, lines
    assert abs(ours - theirs) < 15, lines


def test_lightning_example(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    found = example("lightning_cnn").train(tmp_path, epochs=2, samples=400)
    assert 0 <= found <= 1


def test_jax_example(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    losses = example("jax_cnn").train(tmp_path, epochs=3, samples=400)
    assert losses[-1] < losses[0]
