"""Batches are the same, bit for bit, in every floating-point mode of the thread that builds and iterates a loader, and
the thread has its own mode afterwards."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import io
import platform
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops

Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="numbers of fenv.h and prctl"
)

# Directions of rounding of <fenv.h> on x86-64.
UPWARD, TOWARD_ZERO = 0x800, 0xC00

MODES = ["denormals are zero", "upward", "toward zero"]


@contextmanager
def mode(name):
    """Sets a mode of this thread."""
    if name == "denormals are zero":
        torch = pytest.importorskip("torch")
        assert torch.set_flush_denormal(True)
        try:
            yield
        finally:
            torch.set_flush_denormal(False)
        return
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    before = library.fegetround()
    assert library.fesetround({"upward": UPWARD, "toward zero": TOWARD_ZERO}[name]) == 0
    try:
        yield
    finally:
        assert library.fesetround(before) == 0


def mode_now():
    """Returns what this thread makes of 1/3, rounded down by default, of 1/10, rounded up by default, and of a denormal."""
    third = np.float64(1.0) / np.array([3.0, 10.0, 2.0**1000])
    return third[0].hex(), third[1].hex(), (third[2:] * 2.0**-60)[0].hex()


FIELDS = {"image": "image", "map": fl.write.Array("float32", (12, 16, 3)), "price": float, "label": int}


class Pictures:
    """JPEGs, and floats of which every third is denormal."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        y, x = np.mgrid[:53, :70]
        rgb = np.stack([x * 3 + index * 9, y * 4, (x * y) % 251], axis=2).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(rgb).save(file, "JPEG", quality=90)
        floats = np.frombuffer(denormal_thirds(index), dtype="<f4").reshape(12, 16, 3)
        return {"image": file.getvalue(), "map": floats, "price": denormal_price(index), "label": index % 10}


def denormal_thirds(index):
    """Returns bytes of floats that no arithmetic of the mode makes: every third one is denormal."""
    values = [(k % 97 + 1) * 7919 + index if k % 3 == 0 else 0x3F800000 + k * 1021 + index for k in range(12 * 16 * 3)]
    return np.array(values, dtype="<u4").tobytes()


def denormal_price(index):
    return float(np.array([index * 99991 + 7], dtype="<u8").view("<f8")[0])


def loader():
    crop = [ops.RandomResizedCrop(32)]
    views = {
        "blurred": fl.View("image", [*crop, ops.GaussianBlur(5, (0.1, 2.0)), ops.Normalize([0.1], [1e-6])]),
        "warped": fl.View("image", [*crop, ops.RandomRotation(33.3, interpolation="bilinear"), ops.Lighting(0.1)]),
        "half": fl.View("map", [ops.Convert("float16")]),
        "scaled": fl.View("map", [ops.ScaleIntensityRange(-0.1, 33.3, 0.1, 0.7)]),
    }
    return fl.Loader(
        fl.sources.from_python(Pictures(), FIELDS),
        8,
        views=views,
        axes={"map": "HWC"},
        image=[*crop, ops.ColorJitter(0.4, 0.4, 0.4, 0.1), ops.Normalize.imagenet(), ops.MixUp(0.3)],
        label=[ops.OneHot(10), ops.MixUp(0.3)],
        workers=2,
        seed=3,
    )


def digest(built):
    found = hashlib.sha256()
    for batch in built.epoch(1):
        for name, tensor in batch.items():
            found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def check():
    """Returns the hash of an epoch, after it was compared with those of all modes."""
    expected = digest(loader())
    for name in MODES:
        before = mode_now()
        with mode(name):
            own = mode_now()
            assert own != before, f"{name}: the mode was not set"
            built = loader()
            assert mode_now() == own, f"{name}: building changed the mode of the thread"
            assert digest(built) == expected, f"built and iterated while {name}"
            assert mode_now() == own, f"{name}: iterating changed the mode of the thread"
        assert digest(built) == expected, f"built while {name}"
    return expected


def test_compiled_loops_and_jpegs_are_the_same_in_every_mode():
    check()


def test_functions_of_the_user_see_the_default_mode_on_workers():
    seen = set()

    def note(images, ids):
        seen.add(mode_now())

    for name in MODES:
        with mode(name):
            dataset = fl.sources.from_python(Pictures(), FIELDS)
            one = fl.Loader(dataset, 8, image=[ops.Resize((8, 8)), ops.Lambda(note)], ops={"map": None})
            list(one)
    assert seen == {mode_now()}


REFUSED = """
import ctypes, sys
sys.path.insert(0, {tests!r})
# PR_SET_MDWE and PR_MDWE_REFUSE_EXEC_GAIN: no page becomes executable that was written.
import warnings
warnings.simplefilter("ignore")
import torch, numpy, fuseloop, test_float_modes as t
t.mode_now()
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
    print("skipped")
else:
    assert "evaluated op by op" in str(t.loader().explain())
    print(t.check())
"""


def test_the_evaluator_is_the_same_in_every_mode(request):
    pytest.importorskip("torch")
    code = REFUSED.format(tests=str(request.path.parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    if "skipped" in done.stdout:
        pytest.skip("the kernel is older than 6.3")
    assert done.stdout.split() == [digest(loader())]
