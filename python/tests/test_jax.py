"""fuseloop.jax: arrays of JAX without copies, and over several devices."""

from __future__ import annotations

import gc
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Four devices of the CPU, for shardings; test_gpu.py has what needs a GPU.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import fuseloop as fl
from fuseloop import ops

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

RESIZED = [ops.Resize((32, 40)), ops.Convert("float32")]


def address(array: Any) -> int:
    return array.unsafe_buffer_pointer()


def test_jax_takes_it_without_copy(photos: Path) -> None:
    batch = next(iter(fl.Loader(photos, 4, image=RESIZED)))
    array = jax.dlpack.from_dlpack(batch["image"])
    assert address(array) == batch["image"].ptr == address(batch.jax()["image"])
    np.testing.assert_array_equal(np.asarray(array), batch["image"].numpy())
    loader = fl.jax.Loader(photos, 4, image=RESIZED)
    epoch = iter(loader)
    pointers = []

    def seen(batch: fl.Batch, convert: Any = loader._converted) -> Any:
        pointers.append(batch["image"].ptr)
        return convert(batch)

    loader._converted = seen
    assert [address(batch["image"]) for batch in epoch] == pointers and len(pointers) == 6


def test_batches_are_dicts_of_arrays(photos: Path) -> None:
    loader, plain = fl.jax.Loader(photos, 5, image=RESIZED), fl.Loader(photos, 5, image=RESIZED)
    for arrays, batch in zip(loader, plain, strict=True):
        assert list(arrays) == ["image", "label"] and all(isinstance(array, jax.Array) for array in arrays.values())
        np.testing.assert_array_equal(np.asarray(arrays["image"]), batch["image"].numpy())
        assert arrays["label"].dtype == np.int32
        np.testing.assert_array_equal(np.asarray(arrays["label"]), batch["label"].numpy())


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float16", "bfloat16", "float32"])
def test_dtypes_by_dlpack(photos: Path, dtype: str) -> None:
    loader = fl.jax.Loader(photos, 4, image=[ops.Resize((8, 8)), ops.Convert(dtype)])
    image = next(iter(loader))["image"]
    assert image.dtype.name == dtype
    expected = next(iter(fl.Loader(photos, 4, image=[ops.Resize((8, 8))])))["image"].numpy()
    np.testing.assert_array_equal(np.asarray(image), expected.astype(image.dtype))


def test_wide_numbers(tmp_path: Path, photos: Path) -> None:
    pictures = sorted((photos / "bee").iterdir())[:2]

    def loaded(labels: list[int]) -> Any:
        table = tmp_path / "table.csv"
        lines = [f"{path},{label}" for path, label in zip(pictures, labels, strict=True)]
        table.write_text("\n".join(["image,label", *lines]) + "\n", encoding="utf-8")
        return next(iter(fl.jax.Loader(table, 2, image=None)))["label"]

    labels = loaded([-(2**31), 2**31 - 1])
    assert labels.dtype == np.int32 and labels.tolist() == [-(2**31), 2**31 - 1]
    with pytest.raises(fl.SampleError, match="label has 2147483648, .* set jax_enable_x64") as caught:
        loaded([0, 2**31])
    assert caught.value.field == "label"
    jax.config.update("jax_enable_x64", True)
    try:
        wide = loaded([0, 2**40])
        assert wide.dtype == np.int64 and wide.tolist() == [0, 2**40]
    finally:
        jax.config.update("jax_enable_x64", False)


def test_arrays_outlive_their_loader(same_size: Path) -> None:
    image = [ops.CenterCrop(32), ops.Convert("float32")]
    held = [batch["image"] for batch in fl.jax.Loader(same_size, 8, image=image)]
    gc.collect()
    for _ in fl.jax.Loader(same_size, 8, image=image):
        pass
    for array, batch in zip(held, fl.Loader(same_size, 8, image=image), strict=True):
        np.testing.assert_array_equal(np.asarray(array), batch["image"].numpy())


def test_gradients(same_size: Path) -> None:
    @jax.jit
    def loss(weights: Any, images: Any, labels: Any) -> Any:
        scores = images.mean(axis=(1, 2)) @ weights
        return -jax.nn.log_softmax(scores)[jax.numpy.arange(len(labels)), labels].mean()

    weights = jax.numpy.zeros((3, 4))
    loader = fl.jax.Loader(same_size, 8, order="random", image=[ops.CenterCrop(32), ops.Normalize.imagenet()])
    for batch in loader:
        gradient = jax.grad(loss)(weights, batch["image"], batch["label"])
        weights = weights - 0.1 * gradient
    assert np.isfinite(weights).all() and float(abs(weights).sum()) > 0


def test_shardings(same_size: Path) -> None:
    devices = jax.devices()
    assert len(devices) == 4
    mesh = jax.sharding.Mesh(np.array(devices), ("data",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    image = [ops.CenterCrop(32), ops.RandomHorizontalFlip()]
    plain = [batch["image"].numpy() for batch in fl.Loader(same_size, 8, image=image)]
    loader = fl.jax.Loader(same_size, 8, image=image, sharding=split)
    for arrays, expected in zip(loader, plain, strict=True):
        assert arrays["image"].sharding == split and arrays["label"].sharding == split
        assert [shard.data.shape[0] for shard in arrays["image"].addressable_shards] == [2] * 4
        np.testing.assert_array_equal(np.asarray(arrays["image"]), expected)
    one = next(iter(fl.jax.Loader(same_size, 8, image=image, sharding={"image": split, "label": whole})))
    assert one["label"].sharding == whole and one["image"].sharding == split
    with pytest.raises(fl.ConfigError, match="drop_last=True"):
        list(fl.jax.Loader(same_size, 6, image=image, sharding=split))
    with pytest.raises(fl.ConfigError, match="did you mean image") as caught:
        fl.jax.Loader(same_size, 8, image=image, sharding={"imag": split})
    assert caught.value.hint == "image"
    with pytest.raises(fl.ConfigError, match=r"expected a jax\.sharding\.Sharding"):
        fl.jax.Loader(same_size, 8, image=image, sharding="data")


def test_collated_outputs(photos: Path) -> None:
    loader = fl.jax.Loader(photos, 3, collate={"image": fl.Collate.list(to=(64, 96))})
    assert [row.shape for row in next(iter(loader))["image"]] == [(40, 50, 3), (44, 56, 3), (48, 62, 3)]


def test_ragged_outputs(tmp_path: Path, photos: Path) -> None:
    pictures = sorted((photos / "bee").iterdir())[:3]
    lines = [f"{path},{'b' * (4 * (k + 1))}" for k, path in enumerate(pictures)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["image,words", *lines]) + "\n", encoding="utf-8")
    loader = fl.jax.Loader(table, 3, image=None, collate={"words": fl.Collate.ragged("u8")})
    values, offsets = next(iter(loader))["words"]
    assert values.tolist() == [ord("b")] * 24 and offsets.tolist() == [0, 4, 12, 24]


def test_loaders_are_pickled_and_resumed(same_size: Path, tmp_path: Path) -> None:
    image = [ops.CenterCrop(32), ops.RandomHorizontalFlip()]
    loader = fl.jax.Loader(same_size, 8, order="random", image=image, copy=True)
    epoch = iter(loader)
    next(epoch)
    other = pickle.loads(pickle.dumps(loader))
    assert isinstance(other, fl.jax.Loader)
    for left, right in zip(epoch, other, strict=True):
        np.testing.assert_array_equal(np.asarray(left["image"]), np.asarray(right["image"]))
    spec = tmp_path / "pipeline.toml"
    spec.write_text('[fields]\nimage = [{ op = "Resize", size = [16, 16] }]\n', encoding="utf-8")
    assert next(iter(fl.jax.Loader.from_spec(spec, same_size, batch_size=4)))["image"].shape == (4, 16, 16, 3)
