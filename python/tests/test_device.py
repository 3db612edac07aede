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


def test_batches_of_a_transform_are_those_of_a_loader(tmp_path: Path) -> None:
    library = fake_driver()
    if library is None:
        pytest.skip("the fake driver was not built: cargo test builds it")
    (tmp_path / "libcuda.so.1").symlink_to(library)
    code = """
import gc
import threading
import numpy as np
import fuseloop as fl
from fuseloop import ops

def made(device):
    return [ops.RandomResizedCrop(32), ops.ToDevice(device), ops.RandomHorizontalFlip(), ops.Normalize.imagenet(),
            ops.ToChannelsFirst()]

images = np.random.default_rng(5).integers(0, 256, (12, 48, 56, 3), dtype=np.uint8)
loader = fl.Loader(fl.sources.from_arrays(image=images), 12, seed=4, image=made("cpu"))
want = next(iter(loader))["image"].numpy()
train = fl.Transform(made("auto"), seed=4, device_batches=4)
assert train.device == "cpu"

def run():
    for count in (12, 5, 12, 3):
        x = train.batch(images[:count], seed=4)
        assert type(x) is fl.Tensor and x.device == train.device == "cuda:0" and x.shape == (count, 3, 32, 32)
        assert (x.numpy() == want[:count]).all()
        assert (np.from_dlpack(x, device="cpu") == want[:count]).all()

threads = [threading.Thread(target=run) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
held = [train.batch(images, seed=4) for _ in range(4)]
for refused in (lambda: train.batch(images), lambda: train(images[0]), lambda: train(image=images[0], boxes=[[1, 2, 3, 4]]),
                lambda: fl.Transform(made("cuda:1")).batch(images), lambda: train.on("image")({"image": [images[0]]})):
    try:
        refused()
    except fl.errors.FuseloopError as error:
        print(type(error).__name__, error)
assert (held[0].numpy() == want).all()
del held
gc.collect()
assert (train.batch(images, seed=4).numpy() == want).all()
"""
    ran = run_python(code, LD_LIBRARY_PATH=str(tmp_path), FUSELOOP_NVRTC="/nowhere", FAKE_CUDA_DEVICES="1")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "all 4 device buffers are in use: drop or copy the batches you hold" in lines[0]
    assert all("ToDevice finishes whole batches on a GPU" in lines[k] for k in (1, 2, 4)), lines
    assert "cuda:1 was requested, but this process sees 1 GPU" in lines[3]
