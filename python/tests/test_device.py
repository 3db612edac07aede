"""Batches on a GPU, on the fake driver of the Rust tests. ``test_gpu.py`` has what needs a real one."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import fake_driver, run_python


def test_arrays_are_copies_of_what_is_on_a_gpu(same_size: Path, tmp_path: Path) -> None:
    library = fake_driver()
    if library is None:
        pytest.skip("the fake driver was not built: cargo test builds it")
    (tmp_path / "libcuda.so.1").symlink_to(library)
    code = f"""
import numpy as np
import fuseloop as fl
from fuseloop import ops
lists = dict(image=[ops.CenterCrop(32), ops.ToDevice("cuda:0"), ops.RandomHorizontalFlip(), ops.Normalize.imagenet()],
             label=[ops.ToDevice("cuda:0")])
on_gpu = fl.Loader({str(same_size)!r}, 8, **lists)
on_cpu = fl.Loader({str(same_size)!r}, 8, device="cpu", **lists)
for found, wanted in zip(on_gpu, on_cpu):
    assert found["image"].device == found["label"].device == "cuda:0"
    arrays = found.numpy()
    for name in ("image", "label"):
        want = wanted[name].numpy()
        assert arrays[name].dtype == want.dtype and (arrays[name] == want).all()
        assert (np.asarray(found[name]) == want).all()
    host = np.from_dlpack(found["image"], device="cpu")
    assert (host == wanted["image"].numpy()).all()
for refused in (lambda: memoryview(found["image"]), lambda: np.asarray(found["image"], copy=False),
                lambda: found["image"].__dlpack__(copy=True), lambda: found["image"].__dlpack__(dl_device=(2, 1))):
    try:
        refused()
    except (BufferError, ValueError) as error:
        print(type(error).__name__, error)
"""
    ran = run_python(code, LD_LIBRARY_PATH=str(tmp_path), FUSELOOP_NVRTC="/nowhere", FAKE_CUDA_DEVICES="1")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0].endswith("torch.from_dlpack(tensor) takes it there, and tensor.numpy() copies it to host memory")
    assert lines[1].startswith("ValueError tensor 'image' is on cuda:0: an array is a copy")
    assert [line.split(" ", 1)[0] for line in lines] == ["BufferError", "ValueError", "BufferError", "BufferError"]
