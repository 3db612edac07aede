"""Small datasets for the tests, drawn once."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fuseloop as fl

# A shell ignores SIGINT in what it runs in the background, and processes inherit that: tests of Ctrl-C would wait.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def png(pixels: np.ndarray) -> bytes:
    """Returns an RGB or a gray image as a PNG file."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def picture(number: int, height: int = 48, width: int = 64) -> np.ndarray:
    """Draws a picture: gradients, a disc and a little noise."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[:height, :width]
    base = np.stack([x * 255 / width, y * 255 / height, np.full_like(x, 40 * (number % 6))], axis=-1)
    disc = (x - rng.integers(width)) ** 2 + (y - rng.integers(height)) ** 2 < 150
    base[disc] = rng.integers(0, 255, 3)
    return np.clip(base + rng.normal(0, 6, base.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 12 pictures of each of two classes, in several sizes."""
    root = tmp_path_factory.mktemp("photos")
    for label, name in enumerate(["bee", "cow"]):
        (root / name).mkdir()
        for k in range(12):
            pixels = picture(100 * label + k, 40 + 4 * (k % 5), 50 + 6 * (k % 4))
            (root / name / f"{k:03}.png").write_bytes(png(pixels))
    return root


@pytest.fixture(scope="session")
def same_size(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 40 pictures of 32 x 32 pixels in four classes."""
    root = tmp_path_factory.mktemp("same_size")
    for k in range(40):
        folder = root / f"class{k % 4}"
        folder.mkdir(exist_ok=True)
        (folder / f"{k:03}.png").write_bytes(png(picture(k, 32, 32)))
    return root


LEROBOT = Path(__file__).parents[2] / "tests" / "golden" / "lerobot"


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict, photos: Path) -> None:
    """What examples in docstrings start from."""
    doctest_namespace["example_dataset"] = lambda: photos
    doctest_namespace["example_robot"] = lambda: LEROBOT


EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(name: str) -> ModuleType:
    """Imports an example."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the workers of a DataLoader find the dataset's class there
    spec.loader.exec_module(module)
    return module


def run_python(code: str, *, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter."""
    environment = {**os.environ, **environment}
    package = str(Path(fl.__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join([package, environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)


def fake_driver() -> Path | None:
    """Returns the fake driver of the Rust tests, if it was built."""
    root = Path(__file__).resolve().parent.parent.parent
    targets = [Path(os.environ.get("CARGO_TARGET_DIR", "/nowhere")), root / "target", Path.cwd(), Path.cwd() / "target"]
    for target in targets:
        built = list((target / "release" / "deps").glob("libfuseloop_fakecuda*.so"))
        if built:
            return max(built, key=lambda library: library.stat().st_mtime)
    return None


def conversions(*names: str) -> list[ModuleType]:
    """Imports modules of another library, or skips the test with a line that says so."""
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            print(f"{name} is not installed: its classes are not compared with the table")
            pytest.skip(f"{name} is not installed")
    return found


def image_of(pixels: np.ndarray, made: list[fl.ops.Op], **options: Any) -> np.ndarray:
    """Returns what ops make of an image."""
    loader = fl.Loader(fl.sources.from_arrays(image=pixels[None]), 1, image=made, **options)
    return next(iter(loader))["image"].numpy()[0]


def alike(same: str, theirs: np.ndarray, ours: np.ndarray) -> None:
    """Compares two images as a row of a table says."""
    assert theirs.shape == ours.shape
    apart = np.abs(theirs.astype(float) - ours)
    assert apart.max() <= {"same bits": 0, "no pixels change": 0, "within a level": 1}[same]
