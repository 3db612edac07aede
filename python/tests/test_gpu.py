"""Batches on a GPU: their values are those of the CPU, and no memory is used again too early.

Without a GPU that PyTorch can use, all of this is skipped: see ``test_device.py`` for what runs without one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch has no GPU here", allow_module_level=True)
pytestmark = pytest.mark.torch

CROP = [ops.RandomResizedCrop(40, scale=(0.3, 1.0)), ops.ToDevice("cuda:0"), ops.RandomHorizontalFlip()]
NORMALIZE = ops.Normalize.imagenet()
MOVED = [ops.Squeeze(), ops.ToDevice("cuda:0")]
MIX = ops.MixUp(0.4)
LISTS: dict[str, tuple[list[Any], list[Any]]] = {
    "bytes": (CROP, MOVED),
    "bytes, channels first": ([*CROP, ops.ToChannelsFirst()], MOVED),
    "f32": ([*CROP, NORMALIZE], MOVED),
    "f32, channels first": ([*CROP, NORMALIZE, ops.ToChannelsFirst()], MOVED),
    "f16": ([*CROP, NORMALIZE, ops.Convert("float16"), ops.ToChannelsFirst()], MOVED),
    "bf16": ([*CROP, NORMALIZE, ops.Convert("bfloat16"), ops.ToChannelsFirst()], MOVED),
    "jitter": ([*CROP, ops.ColorJitter(0.4, 0.4, 0.4), NORMALIZE, ops.ToChannelsFirst()], MOVED),
    "labels in host memory": ([*CROP, NORMALIZE], [ops.Squeeze()]),
    "mixed": ([*CROP, NORMALIZE, ops.ToChannelsFirst(), MIX], [ops.ToDevice("cuda:0"), ops.OneHot(2), MIX]),
}


def loader_of(dataset: Path, name: str, device: str | None = None, kind: Any = fl.torch.Loader, **options: Any) -> Any:
    image, label = LISTS[name]
    options = {"order": "random", "seed": 3, "drop_last": False, **options}
    return kind(dataset, 5, image=image, label=label, device=device, **options)


def same(found: Any, wanted: Any) -> bool:
    return found.dtype == wanted.dtype and torch.equal(found.cpu(), wanted)


@pytest.mark.parametrize("name", LISTS)
def test_values_are_those_of_the_cpu(photos: Path, name: str) -> None:
    on_gpu, on_cpu = loader_of(photos, name), loader_of(photos, name, "cpu")
    assert on_gpu.device == "cuda:0" and "(NVIDIA" in str(on_gpu.explain()) and on_cpu.device == "cpu"
    for _ in range(2):
        for found, wanted in zip(on_gpu, on_cpu, strict=True):
            assert found[0].device.type == "cuda"
            assert (found[1].device.type == "cpu") == (name == "labels in host memory")
            assert all(map(same, found, wanted))


def test_each_form_of_a_batch(photos: Path) -> None:
    batch = next(iter(loader_of(photos, "f32", kind=fl.Loader)))
    wanted = next(iter(loader_of(photos, "f32", "cpu", fl.Loader)))["image"].numpy()
    tensor = batch["image"]
    assert tensor.device == "cuda:0" and tensor.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(batch.numpy()["image"], wanted)
    np.testing.assert_array_equal(tensor.torch().cpu().numpy(), wanted)
    np.testing.assert_array_equal(torch.from_dlpack(tensor).cpu().numpy(), wanted)
    copied = tensor.torch(copy=True)
    assert copied.data_ptr() != tensor.torch().data_ptr()
    with pytest.raises(BufferError, match="is on cuda:0"):
        memoryview(tensor)
    np.testing.assert_array_equal(torch.from_dlpack(tensor, device="cpu").numpy(), wanted)
    with pytest.raises(BufferError, match="copy it from there"):
        tensor.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="without a copy"):
        tensor.__dlpack__(copy=True)
    np.testing.assert_array_equal(np.asarray(tensor), wanted)
    with pytest.raises(ValueError, match="is a copy"):
        np.asarray(tensor, copy=False)


def test_images_whose_channels_are_last(photos: Path) -> None:
    wanted = next(iter(loader_of(photos, "f32, channels first", "cpu")))[0]
    found = next(iter(loader_of(photos, "f32", channels_last=True)))[0]
    assert found.is_contiguous(memory_format=torch.channels_last) and same(found, wanted)


def test_a_slow_consumer_sees_its_own_batch(photos: Path) -> None:
    """Work that is queued on a stream is done before the memory of the batch is used again."""
    wanted = [images for images, _ in loader_of(photos, "f32", "cpu")]
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        loader, sums = loader_of(photos, "f32", device_batches=3, batches_ahead=2), []
        with torch.cuda.stream(stream):
            for images, _ in loader:
                torch.cuda._sleep(20_000_000)
                sums.append(images.clone())
                del images
        stream.synchronize()
        assert all(map(same, sums, wanted))


def test_a_tensor_outlives_its_loader(photos: Path) -> None:
    wanted = [images for images, _ in loader_of(photos, "f32", "cpu")]
    loader = loader_of(photos, "f32", device_batches=8)
    kept = [images for images, _ in loader]
    loader.close()
    del loader
    assert all(map(same, kept, wanted))


def test_copies_from_page_locked_memory_are_of_their_batch(photos: Path) -> None:
    lists = {"image": [ops.Resize((160, 160)), ops.RandomHorizontalFlip(), NORMALIZE], "label": [ops.Squeeze()]}
    plain = fl.torch.Loader(photos, 4, seed=1, **lists)
    loader = fl.torch.Loader(photos, 4, seed=1, pin_memory=True, batches_ahead=1, workers=2, **lists)
    for _ in range(2):
        found = []
        for images, _ in loader:
            assert images.is_pinned()
            torch.cuda._sleep(20_000_000)
            found.append(images.to("cuda", non_blocking=True))
            del images
        assert all(same(one, images) for one, (images, _) in zip(found, plain, strict=True))


def test_a_resumed_epoch_is_the_same(photos: Path) -> None:
    loader = loader_of(photos, "f32")
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    wanted = [(images.clone(), labels.clone()) for images, labels in epoch]
    again = loader_of(photos, "f32")
    again.load_state_dict(state)
    for found, one in zip(again, wanted, strict=True):
        assert torch.equal(found[0], one[0]) and torch.equal(found[1], one[1])


def test_ffcv_s_operations_run_on_the_gpu() -> None:
    from fuseloop import ffcv

    ffcv.install()
    from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder
    from ffcv.loader import Loader
    from ffcv.transforms import NormalizeImage, Squeeze, ToDevice, ToTensor, ToTorchImage

    file = Path(__file__).parents[2] / "tests" / "golden" / "beton" / "images_raw_resized_p16k.beton"
    device = torch.device("cuda:0")

    def batches(**options: Any) -> Any:
        normalize = NormalizeImage(np.array([120.0, 115, 105]), np.array([60.0, 61, 62]), np.float16)
        moved = ToDevice(device, non_blocking=True)
        image = [CenterCropRGBImageDecoder((16, 16), 1.0), ToTensor(), moved, ToTorchImage(), normalize]
        label = [IntDecoder(), ToTensor(), Squeeze(), ToDevice(device, non_blocking=True)]
        return Loader(file, 2, pipelines={"image": image, "label": label}, **options)

    assert "in Python" not in str(batches().explain())
    for found, wanted in zip(batches(), batches(device="cpu"), strict=True):
        assert found[0].device == found[1].device == device
        assert all(map(same, found, wanted))


def test_a_missing_gpu_is_refused(photos: Path) -> None:
    with pytest.raises(fl.DeviceError, match="this process sees"):
        fl.torch.Loader(photos, 5, image=[*CROP[:1], ops.ToDevice("cuda:7"), NORMALIZE])


def test_a_model_learns_from_batches_on_the_gpu(photos: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 40 * 40, 2)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    image = [ops.CenterCrop(40), ops.ToDevice("cuda:0"), NORMALIZE, ops.ToChannelsFirst()]
    loader = fl.torch.Loader(photos, 8, image=image, label=[ops.Squeeze(), ops.ToDevice("cuda:0")], order="random")
    losses = []
    for _ in range(20):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert np.mean(losses[-3:]) < 0.1 * np.mean(losses[:3])


@pytest.mark.jax
def test_jax_takes_arrays_on_the_gpu(photos: Path) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    wanted = next(iter(loader_of(photos, "f32", "cpu", fl.Loader)))
    kernels = next(iter(loader_of(photos, "f32", kind=fl.Loader))).jax()
    moved = next(iter(loader_of(photos, "f32", "cpu", fl.jax.Loader)))
    copied = next(iter(loader_of(photos, "f32", "cpu", fl.jax.Loader, copy=True)))
    split = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    split = next(iter(loader_of(photos, "f32", kind=fl.jax.Loader, sharding=split)))
    for found in (kernels, moved, copied, split):
        for name in ("image", "label"):
            assert {device.platform for device in found[name].devices()} == {"gpu"}
            np.testing.assert_array_equal(np.asarray(found[name]), wanted[name].numpy())
    with jax.default_device(jax.devices("cpu")[0]):
        shared = next(iter(loader_of(photos, "f32", "cpu", fl.jax.Loader)))["image"]
    assert {device.platform for device in shared.devices()} == {"cpu"}


@pytest.mark.jax
def test_batches_of_jax_are_of_their_own_memory(photos: Path) -> None:
    """Copies to the GPU that are late read their own batch."""
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    lists = {"image": [ops.Resize((300, 300)), ops.RandomHorizontalFlip(), NORMALIZE], "label": [ops.Squeeze()]}
    plain = [batch["image"].numpy(copy=True) for batch in fl.Loader(photos, 4, seed=1, **lists)]
    loader = fl.jax.Loader(photos, 4, seed=1, batches_ahead=1, workers=2, **lists)
    busy = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, x: x @ x * 1e-3, x))(jax.numpy.ones((4096, 4096)))
    found = [batch["image"] for batch in loader]
    assert busy.shape == (4096, 4096)
    for one, wanted in zip(found, plain, strict=True):
        np.testing.assert_array_equal(np.asarray(one), wanted)
