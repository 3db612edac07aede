"""What Python gets is what Rust gets, and the stubs are those of the module."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import picture

import fuseloop as fl
from fuseloop import ops
from fuseloop.write import Image, write

IMAGENET = [ops.RandomHorizontalFlip(), ops.Normalize.imagenet(), ops.ToChannelsFirst()]
GRAY = (125, 122, 113)
WORKLOADS = {
    "W1": [ops.RandomResizedCrop(224), *IMAGENET],
    "W2": [ops.CenterCrop(224, ratio=224 / 256), *IMAGENET[1:]],
    "W3": [ops.RandomResizedCrop(224), IMAGENET[0], ops.ColorJitter(0.4, 0.4, 0.4), *IMAGENET[1:]],
    "W4": [
        ops.RandomHorizontalFlip(), ops.RandomTranslate(4, fill=GRAY), ops.Cutout(8, fill=GRAY),
        ops.Normalize.cifar10(), ops.ToChannelsFirst(),
    ],
    "W5": [ops.RandomCrop(224), *IMAGENET],
}
SIDES = {"W4": (32, 32), "W5": (256, 256)}


def command() -> str | None:
    """Returns the command `fuseloop`: FUSELOOP_COMMAND, that of the repository's build, or that of the path."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[2] / "target"))
    built = target / "release" / "fuseloop"
    return os.environ.get("FUSELOOP_COMMAND") or (str(built) if built.exists() else shutil.which("fuseloop"))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_bits_equal_rust(workload: str, tmp_path: Path) -> None:
    fuseloop = command()
    if fuseloop is None:
        pytest.skip("no command fuseloop: cargo build --release -p fuseloop-cli")
    height, width = SIDES.get(workload, (0, 0))
    samples = [(picture(k, height or 200 + 9 * k, width or 320 - 7 * k), k % 3) for k in range(20)]
    mode = Image("raw") if height else Image("jpg")
    write(samples, tmp_path / "data.beton", {"image": "image", "label": "int"}, image=mode, progress=None)
    dumped = [fuseloop, "dump", tmp_path / "data.beton", "--workload", workload, "--batch-size", "8", "--seed", "5"]
    dumped += ["--batches", "3", "--epoch", "2", "--out", tmp_path / "out"]
    subprocess.run(dumped, check=True, capture_output=True)
    loader = fl.Loader(tmp_path / "data.beton", 8, order="random", seed=5, image=WORKLOADS[workload])
    batches = list(loader.epoch(2))
    assert len(batches) == 3
    for k, batch in enumerate(batches):
        for name, tensor in batch.items():
            expected = np.load(tmp_path / "out" / f"{name}_{k:04}.npy")
            found = tensor.numpy()
            assert found.dtype == expected.dtype and found.shape == expected.shape
            assert found.tobytes() == expected.tobytes(), (workload, k, name)


def test_stubs_match() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("no mypy")
    checked = [sys.executable, "-m", "mypy.stubtest", "fuseloop._fuseloop"]
    environment = {**os.environ, "PYTHONPATH": str(Path(fl.__file__).resolve().parents[1])}
    done = subprocess.run(checked, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout
