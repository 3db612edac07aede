"""A list of ops as a function: the bits of a loader, for images of every kind, in threads, workers and copies."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import picture, png, run_python

import fuseloop as fl
from fuseloop import ops, sources

TRAIN = [
    ops.RandomResizedCrop(24),
    ops.RandomHorizontalFlip(),
    ops.ColorJitter(0.4, 0.4, 0.4),
    ops.Normalize.imagenet(),
    ops.ToChannelsFirst(),
]
CROP = [ops.RandomResizedCrop(24), ops.RandomHorizontalFlip()]


def jpeg(pixels: np.ndarray, **options: Any) -> bytes:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "JPEG", quality=90, **options)
    return file.getvalue()


def rows(loader: fl.Loader, epoch: int) -> dict[int, np.ndarray]:
    """Returns the rows of an epoch by their samples."""
    found = {}
    for batch in loader.epoch(epoch):
        found |= dict(zip(batch.ids.tolist(), batch["image"].numpy(copy=True)))
    return found


# The bits of a loader


@pytest.mark.parametrize("rule", ["fused", "exact", "relaxed"])
def test_calls_have_the_bits_of_a_loader_over_arrays(rule: Any) -> None:
    images = np.stack([picture(k) for k in range(6)])
    loader = fl.Loader(sources.from_arrays(image=images), 4, seed=7, order="random", image=TRAIN, number_rule=rule)
    augment = fl.Transform(TRAIN, number_rule=rule)
    for epoch in (0, 3):
        for sample, row in rows(loader, epoch).items():
            assert np.array_equal(augment(images[sample], seed=7, epoch=epoch, sample=sample), row)


def test_calls_have_the_bits_of_a_loader_over_files(photos: Path) -> None:
    files = sorted(photos.rglob("*.png"))
    loader = fl.Loader(photos, 8, seed=5, image=TRAIN)
    augment = fl.Transform(TRAIN, seed=5)
    for sample, row in rows(loader, 2).items():
        for image in (files[sample], str(files[sample]), files[sample].read_bytes()):
            assert np.array_equal(augment(image, epoch=2, sample=sample), row)


def test_jpegs_have_the_bits_of_a_loader(tmp_path: Path) -> None:
    for k in range(5):
        (tmp_path / "class").mkdir(exist_ok=True)
        (tmp_path / "class" / f"{k}.jpg").write_bytes(jpeg(picture(k, 120, 160)))
    for scaled in (False, True):
        crop = [ops.RandomResizedCrop(24), *TRAIN[1:]]
        loader = fl.Loader(tmp_path, 5, seed=1, image=crop, scaled_decode=scaled)
        augment = fl.Transform(crop, scaled_decode=scaled)
        for sample, row in rows(loader, 1).items():
            content = (tmp_path / "class" / f"{sample}.jpg").read_bytes()
            for image in (content, bytearray(content), memoryview(content), np.frombuffer(content, np.uint8)):
                assert np.array_equal(augment(image, seed=1, epoch=1, sample=sample), row)


def test_calls_without_a_key_count_the_samples_of_the_seed() -> None:
    image = picture(1)
    augment = fl.Transform(TRAIN, seed=11)
    for sample in range(4):
        assert np.array_equal(augment(image), augment(image, seed=11, epoch=0, sample=sample))
    assert not np.array_equal(augment(image), augment(image))


def test_transforms_without_a_seed_never_draw_the_same() -> None:
    image = picture(1)
    one, other = fl.Transform(CROP), fl.Transform(CROP)
    seen = {made(image).tobytes() for _ in range(8) for made in (one, other, copy.deepcopy(one))}
    assert len(seen) == 24
    code = "import fuseloop as fl, numpy as np\n"
    code += "x = fl.Transform([fl.ops.GaussianNoise()])(np.full((8, 8, 3), 99, np.uint8))\nprint(x.tobytes().hex())"
    texts = {run_python(code).stdout for _ in range(2)}
    assert len(texts) == 2 and "" not in texts


def test_arrays_of_other_types_have_the_bits_of_a_loader() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("uint16", "int16", "float16", "float32"):
        volume = (rng.random((4, 40, 50, 3)) * 200).astype(dtype)
        listed = [ops.RandomCrop(24), ops.RandomHorizontalFlip(), ops.Normalize([1.0] * 3, [2.0] * 3, scale="values")]
        dataset = sources.from_arrays(image=volume)
        loader = fl.Loader(dataset, 4, seed=2, image=listed, axes={"image": "HWC"})
        augment = fl.Transform(listed)
        for sample, row in rows(loader, 0).items():
            assert np.array_equal(augment(volume[sample], seed=2, sample=sample), row)
    gray = rng.integers(0, 255, (4, 40, 50), dtype=np.uint8)
    loader = fl.Loader(sources.from_arrays(image=gray), 4, seed=2, image=CROP)
    for sample, row in rows(loader, 0).items():
        found = fl.Transform(CROP)(gray[sample], seed=2, sample=sample)
        assert found.shape == row.shape and np.array_equal(found, row)


# Kinds


def same(one: Any, other: Any) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other))


def test_an_array_gives_an_array_however_its_memory_lies() -> None:
    image = picture(3, 50, 60)
    augment = fl.Transform(TRAIN)
    wanted = augment(image, sample=1)
    wide = np.zeros((70, 90, 3), np.uint8)
    wide[10:60, 20:80] = image
    padded = np.zeros((50, 60, 4), np.uint8)
    padded[:, :, :3] = image
    planes = np.ascontiguousarray(image.transpose(2, 0, 1))
    read_only = image.copy()
    read_only.flags.writeable = False
    alike = {
        "a part of rows": wide[10:60, 20:80],
        "a part of channels": padded[:, :, :3],
        "planes": planes.transpose(1, 2, 0),
        "Fortran order": np.asfortranarray(image),
        "read only": read_only,
        "rows backwards": image[::-1].copy()[::-1],
        "columns backwards": image[:, ::-1].copy()[:, ::-1],
        "channels backwards": image[:, :, ::-1].copy()[:, :, ::-1],
        "all backwards": image[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
        "every second": np.repeat(np.repeat(image, 2, 0), 2, 1)[::2, ::2],
        "a subclass": image.view(type("Own", (np.ndarray,), {})),
        "at an odd address": np.frombuffer(b"x" + image.tobytes(), np.uint8, offset=1).reshape(image.shape),
    }
    for what, array in alike.items():
        found = augment(array, sample=1)
        assert type(found) is np.ndarray and np.array_equal(found, wanted), what
        assert found.flags.c_contiguous and found.flags.writeable and found.flags.owndata, what
    assert augment(np.broadcast_to(image[:1], (50, 60, 3)), sample=1).shape == wanted.shape
    deep = image.astype(np.float32)
    for array in (deep, deep[:, ::-1].copy()[:, ::-1], np.asfortranarray(deep)):
        assert np.array_equal(fl.Transform(CROP)(array, sample=1), fl.Transform(CROP)(deep, sample=1))


def test_a_tensor_gives_a_tensor_with_its_channels_first() -> None:
    torch = pytest.importorskip("torch")
    image = picture(3, 50, 60)
    tensor = torch.from_numpy(image).permute(2, 0, 1).contiguous()
    for listed in (CROP, [*CROP, ops.ToChannelsFirst()], TRAIN, TRAIN[:-1]):
        wanted = fl.Transform(listed)(image, sample=2)
        wanted = wanted if wanted.shape[0] == 3 else wanted.transpose(2, 0, 1)
        for given in (tensor, tensor.to(memory_format=torch.contiguous_format), torch.from_numpy(image).permute(2, 0, 1)):
            found = fl.Transform(listed)(given, sample=2)
            assert isinstance(found, torch.Tensor) and found.is_contiguous() and same(found, wanted)
    last = fl.Transform([*CROP, ops.ToChannelsLast()])(tensor, sample=2)
    assert same(last, fl.Transform(CROP)(image, sample=2))
    half = fl.Transform([*TRAIN, ops.Convert("bfloat16")])(tensor, sample=2)
    assert half.dtype == torch.bfloat16
    assert same(half.float(), fl.Transform(TRAIN)(tensor, sample=2).bfloat16().float())
    gray = fl.Transform(CROP)(tensor[0], sample=2)
    assert same(gray, fl.Transform(CROP)(np.ascontiguousarray(image[:, :, 0]), sample=2))
    grad = tensor.float().requires_grad_()
    assert not fl.Transform(CROP)(grad, sample=2).requires_grad


def test_tensors_of_torchvision_stay_what_they_are() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    torch = pytest.importorskip("torch")
    image = tv.Image(torch.from_numpy(picture(3)).permute(2, 0, 1))
    found = fl.Transform(TRAIN)(image)
    assert isinstance(found, tv.Image) and found.shape == (3, 24, 24)


def test_an_image_of_pil_gives_an_image_of_pil_or_an_array() -> None:
    pil = pytest.importorskip("PIL.Image")
    pixels = picture(3, 50, 60)
    image = pil.fromarray(pixels)
    found = fl.Transform(CROP)(image, sample=4)
    assert isinstance(found, pil.Image) and found.mode == "RGB" and same(found, fl.Transform(CROP)(pixels, sample=4))
    for listed in (TRAIN, TRAIN[:-1], [*CROP, ops.ToChannelsFirst()]):
        array = fl.Transform(listed)(image, sample=4)
        assert type(array) is np.ndarray and same(array, fl.Transform(listed)(pixels, sample=4))
    gray = fl.Transform(CROP, read_mode="gray")(image, sample=4)
    assert gray.mode == "L"
    assert same(gray, fl.Transform(CROP)(np.asarray(image.convert("L"))[:, :, None], sample=4)[:, :, 0])
    # A file that is opened and not decoded is decoded here.
    content = jpeg(pixels)
    wanted = fl.Transform(TRAIN)(content, sample=4)
    opened = pil.open(io.BytesIO(content))
    assert same(fl.Transform(TRAIN)(opened, sample=4), wanted)
    decoded = pil.open(io.BytesIO(content))
    decoded.load()
    assert np.abs(fl.Transform(TRAIN)(decoded, sample=4) - wanted).max() < 0.1


def test_modes_of_pil_are_read_as_rgb() -> None:
    pil = pytest.importorskip("PIL.Image")
    image = pil.fromarray(picture(3, 50, 60))
    augment = fl.Transform([ops.CenterCrop(24)])
    for mode in ("RGB", "RGBA", "L", "LA", "P", "CMYK", "1", "YCbCr", "HSV", "PA", "RGBX"):
        given = image.convert(mode) if mode != "PA" else image.convert("P").convert("PA")
        found = augment(given)
        assert found.mode == "RGB" and found.size == (24, 24), mode
        assert same(found, augment(np.asarray(given.convert("RGB")))), mode
    alpha = fl.Transform([ops.CenterCrop(24)], read_mode="rgb_alpha")(image.convert("RGBA"))
    assert alpha.mode == "RGBA"
    indices = fl.Transform([ops.CenterCrop(24)], read_mode="index")(image.convert("P"))
    assert same(indices, np.asarray(image.convert("P"))[13:37, 18:42])
    deep = pil.fromarray((np.arange(3000, dtype=np.uint16) * 20).reshape(50, 60))
    assert deep.mode == "I;16"
    levels = fl.Transform([ops.CenterCrop(24)], read_mode="gray16")(deep)
    assert levels.dtype == np.uint16 and same(levels[:, :, 0], np.asarray(deep)[13:37, 18:42])
    for mode, cure in (("I;16", "read_mode=\"gray16\""), ("F", "numpy.asarray"), ("I", "numpy.asarray")):
        given = deep if mode == "I;16" else image.convert("L").convert(mode)
        with pytest.raises(fl.ConfigError, match=cure):
            augment(given)
    with pytest.raises(fl.ConfigError, match="mode RGB with read_mode=\"index\", expected P, L or 1"):
        fl.Transform(CROP, read_mode="index")(image)


def test_files_give_arrays(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    pixels = picture(3, 50, 60)
    augment = fl.Transform(TRAIN)
    for suffix in ("png", "tiff", "webp"):
        file = tmp_path / f"x.{suffix}"
        pil.fromarray(pixels).save(file, **({"lossless": True} if suffix == "webp" else {}))
        content = file.read_bytes()
        for image in (file, str(file), content, {"bytes": content, "path": None}, {"bytes": None, "path": str(file)}):
            found = augment(image, sample=1)
            assert type(found) is np.ndarray and same(found, augment(pixels, sample=1)), suffix


def test_what_converts_to_an_array_is_one() -> None:
    pixels = picture(3)
    listed = fl.Loader(sources.from_arrays(image=pixels[None]), 1, image=[ops.CenterCrop(40)])
    tensor = next(iter(listed))["image"]
    augment = fl.Transform(CROP)
    assert same(augment(tensor[0], sample=1), augment(pixels[4:44, 12:52], sample=1))

    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return pixels

    assert same(augment(Wrapped(), sample=1), augment(pixels, sample=1))


# Several images


@pytest.mark.parametrize("threads", [1, 2, 7, None])
def test_a_batch_is_its_calls(threads: int | None) -> None:
    images = [picture(k, 40 + k, 60 - k) for k in range(9)]
    augment = fl.Transform(TRAIN)
    found = augment.batch(images, threads=threads, seed=3, epoch=2, samples=range(100, 109))
    assert found.shape == (9, 3, 24, 24) and found.dtype == np.float32 and found.flags.c_contiguous
    for k, row in enumerate(found):
        assert np.array_equal(row, augment(images[k], seed=3, epoch=2, sample=100 + k))
    one, other = fl.Transform(TRAIN, seed=5), fl.Transform(TRAIN, seed=5)
    assert np.array_equal(one.batch(images, threads=threads), np.stack([other(image) for image in images]))
    assert np.array_equal(one(images[0]), other(images[0]))


def test_a_batch_takes_images_of_all_kinds(tmp_path: Path) -> None:
    pixels = picture(3, 50, 60)
    file = tmp_path / "x.png"
    file.write_bytes(png(pixels))
    given: list[Any] = [pixels, file, file.read_bytes(), np.asfortranarray(pixels)]
    if "PIL" in sys.modules or pytest.importorskip("PIL"):
        given.append(pytest.importorskip("PIL.Image").fromarray(pixels))
    augment = fl.Transform(TRAIN)
    found = augment.batch(given, seed=1, samples=[8] * len(given))
    assert all(np.array_equal(row, found[0]) for row in found)
    stack = np.stack([pixels, pixels[::-1]])
    assert same(augment.batch(stack, seed=1), np.stack([augment(stack[0], seed=1), augment(stack[1], seed=1, sample=1)]))


def test_a_batch_of_tensors_is_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    images = torch.from_numpy(np.stack([picture(k) for k in range(4)])).permute(0, 3, 1, 2).contiguous()
    augment = fl.Transform(TRAIN)
    found = augment.batch(images, seed=1)
    assert isinstance(found, torch.Tensor) and found.shape == (4, 3, 24, 24)
    assert all(same(found[k], augment(images[k], seed=1, sample=k)) for k in range(4))


DEVICE = [ops.RandomResizedCrop(24), ops.ToDevice("auto"), ops.RandomHorizontalFlip(), ops.Normalize.imagenet()]


@pytest.mark.torch
def test_a_batch_for_a_device_is_refused_in_workers() -> None:
    torch = pytest.importorskip("torch")
    transform = fl.Transform(DEVICE)
    loader = torch.utils.data.DataLoader([np.zeros((40, 50, 3), np.uint8)] * 4, 2, num_workers=1, collate_fn=transform.batch)
    with pytest.raises(fl.ConfigError, match="call batch in the main process"):
        next(iter(loader))


def test_batches_of_a_device_have_the_bits_of_a_loader_where_there_is_no_gpu() -> None:
    images = np.random.default_rng(8).integers(0, 256, (9, 40, 50, 3), dtype=np.uint8)
    loader = fl.Loader(sources.from_arrays(image=images), 9, seed=3, image=[*DEVICE, ops.ToChannelsFirst()])
    want = next(iter(loader))["image"].numpy()
    train = fl.Transform([*DEVICE, ops.ToChannelsFirst()], seed=3)
    for threads in (1, 4):
        batch = train.batch(images, threads=threads, seed=3)
        assert isinstance(batch, fl.Tensor) and batch.device == train.device == "cpu"
        assert same(batch.numpy(), want) and same(np.from_dlpack(batch), want)
    with ThreadPoolExecutor(4) as pool:
        for batch in pool.map(lambda count: train.batch(images[:count], seed=3), [9, 2, 5, 9, 1, 7]):
            assert same(batch.numpy(), want[: len(batch)])
    # Batches in host memory may be held as long as one likes.
    held = [train.batch(images, seed=3) for _ in range(40)]
    assert all(same(batch.numpy(), want) for batch in held)
    assert str(train.explain()).startswith("device: cpu, since ")
    with pytest.raises(fl.errors.DeviceError, match="was requested"):
        fl.Transform(train.ops, device="cuda:77").batch(images)
    here = fl.Transform([*DEVICE, ops.ToChannelsFirst()], seed=3, device="cpu")
    assert same(here(images[4], seed=3, sample=4), want[4])
    copied = pickle.loads(pickle.dumps(here))
    assert repr(copied) == repr(here) and repr(here).endswith('seed=3, device=\'cpu\')')
    assert same(copied.batch(images, seed=3).numpy(), want)


def test_a_batch_of_tensors_on_a_device_is_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    images = np.random.default_rng(8).integers(0, 256, (4, 40, 50, 3), dtype=np.uint8)
    tensors = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    want = fl.Transform([*DEVICE, ops.ToChannelsFirst()]).batch(images, seed=3).numpy()
    for made in (DEVICE, [*DEVICE, ops.ToChannelsFirst()]):
        found = fl.Transform(made).batch(tensors, seed=3)
        assert type(found) is torch.Tensor and found.dtype == torch.float32 and same(found.numpy(), want)


def test_batches_that_are_none_are_refused() -> None:
    augment = fl.Transform(TRAIN)
    for given, message in (
        (picture(1)[0], "no list of images"),
        (b"\xff\xd8\xff", "no list of images"),
        (3, "no list of images"),
        ([], "no image is given"),
    ):
        with pytest.raises(fl.ConfigError, match=message):
            augment.batch(given)
    with pytest.raises(fl.ConfigError, match="one shape|one size"):
        fl.Transform([ops.RandomHorizontalFlip()]).batch([picture(1), picture(2, 30, 30)])
    with pytest.raises(fl.ConfigError, match="samples has 1 numbers for 2 images"):
        augment.batch([picture(1)] * 2, seed=1, samples=[1])
    with pytest.raises(fl.ConfigError, match="threads is 0"):
        augment.batch([picture(1)], threads=0)
    with pytest.raises(fl.FuseloopError, match="image 1: "):
        augment.batch([picture(1), b"\xff\xd8\xff\xe0 broken"])
    with pytest.raises(fl.ConfigError) as raised:
        augment.batch([picture(1), picture(1).astype(bool)])
    assert raised.value.__notes__ == ["fuseloop: image 1"]


# Copies


def test_a_transform_prints_as_python_and_can_be_pickled(tmp_path: Path) -> None:
    names = {"Transform": fl.Transform, "Target": fl.Target, **vars(ops)}
    image = picture(2)
    for augment in (
        fl.Transform(TRAIN),
        fl.Transform(TRAIN, seed=5),
        fl.Transform([ops.RandomApply([ops.Grayscale(3)], 0.5)], seed=0, read_mode="rgb_alpha", number_rule="exact"),
        fl.Transform(CROP, scaled_decode=True, exif_orientation=False),
    ):
        printed = eval(repr(augment), names)  # noqa: S307
        for same_as in (printed, pickle.loads(pickle.dumps(augment)), copy.copy(augment), copy.deepcopy(augment)):
            assert repr(same_as) == repr(augment) and same_as.ops == augment.ops
            assert np.array_equal(same_as(image, sample=3), augment(image, sample=3))
    seeded = fl.Transform(TRAIN, seed=5)
    first = seeded(image)
    assert np.array_equal(copy.deepcopy(seeded)(image), first), "a copy begins with its first call"
    assert pickle.dumps(fl.Transform(CROP)) == pickle.dumps(fl.Transform(CROP))
    on = fl.Transform(CROP).on("image", to="x")
    assert repr(pickle.loads(pickle.dumps(on))) == repr(on) == f"{fl.Transform(CROP)!r}.on('image', to='x')"


def test_a_pipeline_file_is_a_transform(tmp_path: Path) -> None:
    file = tmp_path / "val.toml"
    file.write_text('number_rule = "exact"\n[fields]\nimage = [{ op = "Resize", size = 40 }, { op = "CenterCrop", size = 24 }]\n')
    augment = fl.Transform.from_spec(file)
    listed = fl.Transform([ops.Resize(40), ops.CenterCrop(24)], number_rule="exact")
    image = picture(2)
    assert np.array_equal(augment(image), listed(image))
    assert repr(augment) == f"Transform.from_spec({str(file)!r})"
    content = pickle.dumps(augment)
    file.unlink()
    assert np.array_equal(pickle.loads(content)(image), listed(image))
    with pytest.raises(fl.DatasetNotFoundError):
        fl.Transform.from_spec(file)
    file.write_text("[fields]\nimage = 3\n")
    with pytest.raises(fl.ConfigError, match=r"val\.toml"):
        fl.Transform.from_spec(file)


def test_settings_of_a_pipeline_file_hold_for_images_of_pil(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    file = tmp_path / "val.toml"
    file.write_text('[read_mode]\nimage = "gray"\n[fields]\nimage = [{ op = "CenterCrop", size = 24 }, "ToChannelsFirst"]\n')
    found = fl.Transform.from_spec(file)(pil.fromarray(picture(2)))
    assert isinstance(found, np.ndarray) and found.shape == (1, 24, 24)


def test_a_transform_that_calls_itself_is_refused() -> None:
    image = picture(1)
    inner = fl.Transform([ops.Lambda(lambda pixels: inner(pixels), per_sample=True)])
    with pytest.raises(fl.PipelineError, match="calls of transforms are nested"):
        inner(image)
    batch = fl.Transform([ops.Lambda(lambda pixels: batch.batch([pixels, pixels])[0], per_sample=True)])
    with pytest.raises(fl.PipelineError, match="calls of transforms are nested"):
        batch.batch([image] * 4, threads=2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_path_of_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(fl.DatasetError, match="a folder, a pipe or a device"):
        fl.Transform(TRAIN)(tmp_path / "pipe.jpg")


def test_a_batch_ends_at_a_signal() -> None:
    code = """
import os, signal, threading, time
import numpy as np, fuseloop as fl
from fuseloop import ops
images = [np.zeros((500, 500, 3), np.uint8)] * 5000
augment = fl.Transform([ops.Resize(1000), ops.ElasticTransform()])
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    augment.batch(images, threads=2)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run_python(code).stdout.split() == ["interrupted"]


def test_axes_look_like_channels_only_beside_sides_of_images() -> None:
    augment = fl.Transform([])
    for shape in ((4, 4, 5), (1, 100, 8)):
        assert augment(np.zeros(shape, np.uint8)).shape == shape
    with pytest.raises(fl.ConfigError, match="looks like channels"):
        augment(np.zeros((3, 24, 24), np.uint8))


def test_the_plan_is_told() -> None:
    augment = fl.Transform(TRAIN)
    text = augment.explain()
    assert isinstance(text, fl.Plan) and "RandomResizedCrop" in text


# Threads and processes


def test_threads_call_one_transform() -> None:
    augment = fl.Transform(TRAIN)
    images = [picture(k, 40 + k % 5, 60 - k % 7) for k in range(40)]
    wanted = [augment(image, sample=k) for k, image in enumerate(images)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            found = pool.map(lambda pair: augment(pair[1], sample=pair[0]), enumerate(images))
            assert all(np.array_equal(one, other) for one, other in zip(found, wanted))
    counted = fl.Transform(CROP, seed=1)
    with ThreadPoolExecutor(8) as pool:
        found = {row.tobytes() for row in pool.map(counted, [images[0]] * 200)}
    assert found == {counted(images[0], sample=k).tobytes() for k in range(200)}


def test_the_interpreter_is_free_while_a_transform_works() -> None:
    heavy = fl.Transform([ops.Resize((2500, 2500)), ops.GaussianBlur(9)])
    image = picture(1, 400, 400)
    heavy(image)
    passed, done = 0, threading.Event()

    def count() -> None:
        nonlocal passed
        while not done.is_set():
            passed += 1
            done.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    passed = 0
    for _ in range(10):
        heavy(image)
    done.set()
    thread.join()
    assert passed > 5


def _draw(augment: fl.Transform) -> str:
    return augment(np.arange(48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(48, 64, 3)).tobytes().hex()


NOISE = [ops.RandomCrop(8), ops.ColorJitter(0.4, 0.4, 0.4)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_draw_differently(method: str) -> None:
    context = multiprocessing.get_context(method)
    for seed in (None, 3):
        augment = fl.Transform(NOISE, seed=seed)
        own = [_draw(augment) for _ in range(2)]
        with context.Pool(2) as pool:
            found = pool.map(_draw, [augment] * 4, chunksize=1)
        # With a seed, a process that gets the transform anew begins anew.
        assert not set(found) & set(own)
        assert seed is not None or len(set(found)) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_draws_differently() -> None:
    for seed in (None, 3):
        augment = fl.Transform(NOISE, seed=seed)
        _draw(augment)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, _draw(augment).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            drawn = pipe.read()
        os.waitpid(child, 0)
        assert len(drawn) == 2 * 8 * 8 * 3 and drawn != _draw(augment)


class Images:
    """A dataset as users write it."""

    def __init__(self, augment: Callable[[Any], Any], count: int = 12) -> None:
        self.augment, self.count = augment, count
        self.image = picture(1)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.augment(self.image), index


@pytest.mark.torch
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("seed", [None, 9])
def test_workers_of_a_dataloader_differ_and_repeat(method: str, seed: int | None) -> None:
    torch = pytest.importorskip("torch")
    dataset = Images(fl.Transform([ops.RandomResizedCrop(24), ops.ToChannelsFirst()], seed=seed))
    dataset.augment(dataset.image)  # so that the forked workers have a state of their parent's

    def epochs(seed: int) -> list[list[bytes]]:
        torch.manual_seed(seed)
        loader = torch.utils.data.DataLoader(dataset, 3, num_workers=2, multiprocessing_context=method)
        return [[bytes(row) for images, _ in loader for row in images.numpy().reshape(len(images), -1)] for _ in range(2)]

    found = epochs(1)
    # No sample of any worker in any epoch is as another.
    assert len({row for epoch in found for row in epoch}) == 24
    assert epochs(1) == found
    assert epochs(2) != found


# Targets

DETECT = [
    ops.RandomZoomOut(), ops.RandomIoUCrop(), ops.Resize((32, 32)), ops.RandomHorizontalFlip(),
    ops.SanitizeBoundingBoxes(), ops.ToChannelsFirst(),
]


def test_targets_follow_as_in_a_loader(tmp_path: Path) -> None:
    pixels = [picture(k, 60, 80) for k in range(6)]
    boxes = np.array([[5, 5, 30, 20], [40, 10, 25, 40], [2, 30, 20, 20]], "<f4")
    classes = np.array([4, 1, 2], "<i8")
    masks = [[[x, y, x + w, y, x + w, y + h, x, y + h]] for x, y, w, h in boxes.tolist()]
    fields = {"image": "image", "bbox": "bytes", "category_id": "bytes", "segmentation": "json"}
    samples = [(image, boxes.tobytes(), classes.tobytes(), masks) for image in pixels]
    file = tmp_path / "objects.beton"
    fl.write.write(samples, file, fields, image=fl.write.Image("raw"), progress=None)
    targets = {"bbox": fl.Target.boxes("xywh", to="xyxy"), "segmentation": fl.Target.instance_masks()}
    declared = {**targets, "category_id": fl.Target.column()}
    loader = fl.Loader(file, 6, seed=4, image=DETECT, targets={"image": declared})
    augment = fl.Transform(DETECT, targets=targets)
    lost = 0
    for epoch in range(4):
        batch = next(iter(loader.epoch(epoch)))
        for k, image in enumerate(pixels):
            values = {"bbox": boxes, "category_id": classes, "segmentation": masks, "names": ["a", "b", "c"]}
            out = augment(image=image, **values, seed=4, epoch=epoch, sample=k)
            assert [*out] == ["image", *values]
            assert np.array_equal(out["image"], batch["image"].numpy()[k])
            for name in declared:
                assert np.array_equal(out[name], batch[name].row(k)), name
                assert out[name].dtype == batch[name].row(k).dtype
            assert [{"a": 4, "b": 1, "c": 2}[name] for name in out["names"]] == out["category_id"].tolist()
            lost += 3 - len(out["names"])
    assert lost > 0


FLIP = [ops.RandomHorizontalFlip(1.0)]


def test_targets_come_out_as_what_they_were() -> None:
    image = picture(2, 40, 60)
    boxes = [[10, 5, 20, 25], [30, 0, 60, 40]]
    flipped = [[40, 5, 50, 25], [0, 0, 30, 40]]
    masks = np.zeros((2, 40, 60), bool)
    masks[0, 5:25, 10:20] = masks[1, :, 30:] = True
    classes = np.arange(2400).reshape(40, 60) % 200
    augment = fl.Transform(FLIP)
    out = augment(
        image=image, boxes=boxes, labels=("cat", "dog"), masks=masks, mask=classes.astype(np.int32), keypoints=np.ones((2, 4, 2)),
        area=np.array([200.0, 1200.0]), image_id=7, note="x", nothing=None,
    )
    assert np.array_equal(out["image"], image[:, ::-1])
    assert out["boxes"] == flipped and out["labels"] == ("cat", "dog")
    assert out["masks"].dtype == bool and np.array_equal(out["masks"], masks[:, :, ::-1])
    assert out["mask"].dtype == np.int32 and np.array_equal(out["mask"], classes[:, ::-1])
    assert np.array_equal(out["keypoints"], np.broadcast_to(np.float32([58, 1]), (2, 4, 2)))
    assert out["area"].dtype == np.float64 and (out["image_id"], out["note"], out["nothing"]) == (7, "x", None)
    # As datasets of torchvision call it, and as a dict.
    pair, found = augment(image, {"boxes": np.array(boxes)})
    assert np.array_equal(pair, image[:, ::-1]) and found["boxes"].dtype == np.float32
    assert augment({"image": image, "boxes": boxes})["boxes"] == flipped
    assert [*augment(image=image)] == ["image"] and augment(image, {})[1] == {}
    empty = augment(image=image, boxes=np.zeros((0, 4)), labels=[])
    assert empty["boxes"].shape == (0, 4) and empty["labels"] == []
    # Without objects, lists are values of the image.
    assert augment(image=image, tags=[1, 2, 3])["tags"] == [1, 2, 3]
    assert fl.Transform(FLIP)(image=image, mask=classes[:, :, None].astype(np.uint8))["mask"].shape == (40, 60, 1)


def test_tensors_and_images_of_pil_are_targets() -> None:
    torch = pytest.importorskip("torch")
    tv = pytest.importorskip("torchvision.tv_tensors")
    pil = pytest.importorskip("PIL.Image")
    image = tv.Image(torch.from_numpy(picture(2, 40, 60)).permute(2, 0, 1))
    boxes = tv.BoundingBoxes([[10, 5, 10, 20], [30, 0, 30, 40]], format="XYWH", canvas_size=(40, 60), dtype=torch.float32)
    masks = tv.Mask(torch.zeros(2, 40, 60, dtype=torch.uint8))
    masks[0, 5:25, 10:20] = 1
    given = {
        "boxes": boxes, "labels": torch.tensor([3, 4]), "masks": masks, "image_id": 5,
        "points": tv.KeyPoints(torch.ones(2, 3, 2), canvas_size=(40, 60)),
    }
    augment = fl.Transform([*FLIP, ops.Resize((20, 30))])
    found, out = augment(image, given)
    assert isinstance(found, tv.Image) and found.shape == (3, 20, 30)
    assert isinstance(out["boxes"], tv.BoundingBoxes) and out["boxes"].canvas_size == (20, 30)
    assert out["boxes"].format == boxes.format and out["boxes"].tolist() == [[20, 2.5, 5, 10], [0, 0, 15, 20]]
    assert isinstance(out["masks"], tv.Mask) and out["masks"].shape == (2, 20, 30) and out["masks"].dtype == torch.uint8
    assert isinstance(out["points"], tv.KeyPoints) and out["points"].canvas_size == (20, 30)
    assert out["labels"].tolist() == [3, 4] and out["image_id"] == 5
    segment = tv.Mask(torch.arange(2400, dtype=torch.int64).reshape(40, 60) % 100)
    one, mask = fl.Transform(FLIP)(image, {"target": segment})
    assert isinstance(mask["target"], tv.Mask) and torch.equal(mask["target"], segment.flip(1))
    palette = pil.fromarray((np.arange(2400) % 9).reshape(40, 60).astype(np.uint8)).convert("P")
    both = fl.Transform(FLIP)(image=pil.fromarray(picture(2, 40, 60)), mask=palette)
    assert both["image"].mode == "RGB" and both["mask"].mode == "P"
    assert np.array_equal(np.asarray(both["mask"]), np.asarray(palette)[:, ::-1])


def test_targets_that_do_not_fit_are_refused() -> None:
    image = picture(2, 40, 60)
    two = np.ones((2, 4), np.float32)
    augment = fl.Transform(FLIP)
    for given, message in (
        ({"boxes": [[1, 2, 3]]}, r"boxes: its shape is \(1, 3\), expected \(objects, 4\) for xyxy"),
        ({"boxes": "x"}, "boxes: elements of type"),
        ({"boxes": [[1, 2, "x", 4]]}, "boxes: "),
        ({"boxes": [[1, 2, 3, 4], [1, 2]]}, "boxes: "),
        ({"boxes": two, "labels": [1]}, "labels: it has 1 entries for the 2 objects of boxes"),
        ({"boxes": two, "keypoints": np.ones((3, 2, 2))}, "keypoints: it has 3 entries for the 2 objects of boxes"),
        ({"boxes": np.array([[np.nan, 0, 1, 1]])}, "boxes"),
        ({"boxes": np.array([[9, 9, 1, 1]])}, "boxes"),
        ({"masks": np.zeros((40, 60))}, r"masks: its shape is \(40, 60\), expected \(objects, height, width\)"),
        ({"masks": np.zeros((1, 30, 60), bool)}, "masks"),
        ({"mask": np.zeros((40, 60))}, "mask: float64"),
        ({"mask": np.full((40, 60), 256)}, "mask: int64 of 256 to 256, expected numbers of classes from 0 to 255"),
        ({"mask": np.zeros((30, 60), np.uint8)}, "mask"),
        ({"keypoints": np.ones((2, 4))}, r"keypoints: its shape is \(2, 4\), expected \(objects, points, 2\)"),
        ({"keypoints": np.ones((2, 4, 5))}, "keypoints: its shape"),
    ):
        with pytest.raises(fl.FuseloopError, match=message) as raised:
            augment(image=image, **given)
        assert raised.value.field in given, given
    with pytest.raises(fl.ConfigError):
        fl.Transform([ops.RandomIoUCrop()])(image)


def test_masks_have_the_shape_of_the_image_and_one_number_inside(tmp_path: Path) -> None:
    image = picture(2, 40, 60)
    augment = fl.Transform(FLIP)
    masks = np.zeros((2, 40, 60), np.uint8)
    masks[0, 5:25, 10:20] = masks[1, :, 30:] = 1
    file = tmp_path / "x.png"
    file.write_bytes(png(image))
    for given in (image, file, png(image)):
        assert np.array_equal(augment(image=given, masks=masks)["masks"], masks[:, :, ::-1])
        for wrong in (masks.transpose(1, 2, 0), masks.transpose(0, 2, 1), masks[:, :20], masks[:, :0]):
            with pytest.raises(fl.FuseloopError, match="masks"):
                augment(image=given, masks=wrong)
    with pytest.raises(fl.ConfigError, match=r"masks: its shape is \(40, 60, 2\).* of 60 x 40: masks.transpose\(2, 0, 1\)"):
        augment(image=image, masks=masks.transpose(1, 2, 0))
    with pytest.raises(fl.ConfigError, match=r"masks: its shape is \(2, 60, 40\).*: masks.transpose\(0, 2, 1\)"):
        augment(image=image, masks=masks.transpose(0, 2, 1))
    for level in (255, 1):
        found = augment(image=image, masks=masks * np.uint8(level))["masks"]
        assert found.dtype == np.uint8 and np.array_equal(found, masks[:, :, ::-1] * np.uint8(level))
    half = augment(image=image, masks=masks * np.float32(0.5))["masks"]
    assert half.dtype == np.float32 and np.array_equal(half, masks[:, :, ::-1] * np.float32(0.5))
    several = masks.astype(np.int64) * [[[2]], [[3]]]
    infinite = np.where(masks, np.float32(np.inf), np.float32(0))
    for wrong in (masks + masks[:, ::-1], masks * np.float32(np.nan), infinite, masks * np.int8(-1), several):
        with pytest.raises(fl.ConfigError, match="masks: its values are .*numbers of classes is mask="):
            augment(image=image, masks=wrong)


def test_what_is_not_moved_is_told() -> None:
    image = picture(2, 40, 60)
    augment = fl.Transform(FLIP)
    for value in ([[1, 2, 3, 4]], np.ones((1, 2)), np.zeros((1, 40, 60)), np.zeros((40, 60), np.uint8)):
        with pytest.warns(fl.errors.FuseloopWarning, match="box is not moved with the image: call it boxes="):
            out = augment(image=image, box=value)
        assert out["box"] is value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in ([["a"], ["b", "c"]], [1, 2, 3], ["a", "b"], {1, 2}, {"a": 1}, [], np.float32(3)):
            assert augment(image=image, captions=value)["captions"] is value
        out = augment(image=image, boxes=[[1, 2, 3, 4], [1, 2, 5, 6]], labels=np.eye(3)[:2], captions=[["a"], ["b", "c"]])
        assert out["captions"] == [["a"], ["b", "c"]]
        declared = fl.Transform(FLIP, targets={"hot": fl.Target.column()})
        assert np.array_equal(declared(image=image, boxes=[[1, 2, 3, 4]], hot=np.eye(3)[:1])["hot"], np.eye(3)[:1])


def test_a_call_gives_all_targets_that_are_declared() -> None:
    image = picture(2, 40, 60)
    augment = fl.Transform(FLIP, targets={"bbox": fl.Target.boxes("xywh"), "points": fl.Target.keypoints(2)})
    for call in (
        lambda: augment(image=image, bbox=[[1, 2, 3, 4]]), lambda: augment(image, {"bbox": [[1, 2, 3, 4]]}),
    ):
        with pytest.raises(fl.ConfigError, match="points: it is declared by targets=, but this call does not give it"):
            call()
    for call in (lambda: augment(image), lambda: augment(image=image), lambda: augment(png(image))):
        with pytest.raises(fl.ConfigError, match="bbox: it is declared by targets="):
            call()
    with pytest.raises(fl.ConfigError, match="batch takes images alone, but targets= declares bbox, points"):
        augment.batch([image])


def test_tensors_of_all_kinds_are_targets_or_refused() -> None:
    torch = pytest.importorskip("torch")
    image = picture(2, 40, 60)
    augment = fl.Transform(FLIP)
    boxes = torch.tensor([[1.0, 2, 3, 4]])
    negative = torch._neg_view(-boxes)
    assert augment(image=image, boxes=negative)["boxes"].tolist() == [[57, 2, 59, 4]]
    for wrong, message in ((boxes.bfloat16(), r"bfloat16.*boxes\.float\(\)"), (boxes.to_sparse(), r"sparse.*boxes\.to_dense\(\)")):
        with pytest.raises(fl.ConfigError, match=f"boxes: a tensor of .*{message}"):
            augment(image=image, boxes=wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(fl.FuseloopError, match="boxes"):
            augment(image=image, boxes=np.full((1, 4), 1e300))


def test_images_of_pil_that_can_not_be_read_are_refused() -> None:
    pil = pytest.importorskip("PIL.Image")
    augment = fl.Transform(FLIP)
    with pytest.raises(fl.ConfigError, match="PIL's mode La: .*convert it to RGB before"):
        augment(pil.new("La", (60, 40)))
    closed = pil.new("RGB", (60, 40))
    closed.close()
    file = io.BytesIO(png(picture(2)))
    late = pil.open(file)
    file.close()
    for image in (closed, late):
        with pytest.raises(fl.ConfigError, match="closed.*use it before it is closed"):
            augment(image)


def test_one_image_is_no_batch() -> None:
    augment = fl.Transform(FLIP)
    image = picture(2, 40, 60)
    with pytest.raises(fl.ConfigError, match=r"ndarray of shape \(40, 60, 3\) is one image.*batch\(image\[None\]\)"):
        augment.batch(image)
    assert augment.batch(image[None], threads=2**70).shape == (1, 40, 60, 3)
    assert augment.batch(np.zeros((5, 40, 60), np.uint8)).shape[:3] == (5, 40, 60)
    torch = pytest.importorskip("torch")
    with pytest.raises(fl.ConfigError, match="is one image"):
        augment.batch(torch.zeros(3, 40, 60))
    assert augment.batch(torch.zeros(2, 3, 40, 60)).shape == (2, 3, 40, 60)


def test_a_damaged_pickle_is_refused() -> None:
    rebuild, (kind, listed, spec, arguments, home) = fl.Transform(FLIP, seed=1).__reduce__()
    for wrong in (
        (int, listed, spec, arguments, home), (kind, 3, spec, arguments, home), (kind, [3], spec, arguments, home),
        (kind, listed, "x", arguments, home), (kind, listed, ("x", 3), arguments, home), (kind, listed, spec, None, home),
        (kind, listed, spec, {"x": 3}, home), (kind, listed, spec, {"read_mode": 3}, home), (kind, listed, spec, {}, "x"),
        (kind, listed, spec, {"targets": 3}, home), (kind, listed, spec, {"seed": "x"}, home),
    ):
        with pytest.raises(fl.ConfigError):
            rebuild(*wrong)
    rebuild, (op, params) = FLIP[0].__reduce__()
    for wrong_op in ((int, params), (op, 3), (op, {3: 4}), (op, {"x": 3})):
        with pytest.raises(fl.ConfigError):
            rebuild(*wrong_op)


# Recipes


@pytest.mark.torch
def test_a_dataset_of_torchvision_takes_a_transform(photos: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    torch = pytest.importorskip("torch")
    dataset = torchvision.datasets.ImageFolder(photos, transform=fl.Transform(TRAIN))
    images, labels = next(iter(torch.utils.data.DataLoader(dataset, 8, shuffle=True)))
    assert images.shape == (8, 3, 24, 24) and images.dtype == torch.float32 and len(labels) == 8
    # The loader of paths decodes only what is needed.
    dataset = torchvision.datasets.ImageFolder(photos, transform=fl.Transform(TRAIN, seed=3), loader=lambda path: path)
    assert dataset[0][0].shape == (3, 24, 24)


def test_a_dict_of_lists_as_hugging_face_has_it() -> None:
    pixels = [picture(k, 40 + k, 50) for k in range(6)]
    augment = fl.Transform(TRAIN)
    function = augment.on("image", to="pixel_values")
    encoded = [{"bytes": png(one), "path": None} for one in pixels]
    found = function({"image": encoded, "label": [*range(6)]})
    assert [*found] == ["label", "pixel_values"] and found["label"] == [*range(6)]
    assert np.stack(found["pixel_values"]).shape == (6, 3, 24, 24)
    in_place = augment.on("image")({"image": pixels, "label": [*range(6)]})
    assert [*in_place] == ["image", "label"] and in_place["image"][0].shape == (3, 24, 24)
    single = augment.on("image")({"image": pixels[0], "label": 3})
    assert single["image"].shape == (3, 24, 24)
    with pytest.raises(fl.ConfigError, match="no column 'image', only img, label: did you mean 'img'"):
        augment.on("image")({"img": pixels, "label": [*range(6)]})
    with pytest.raises(fl.ConfigError) as raised:
        augment.on("image")({"image": [pixels[0], None]})
    assert "row 1 of column image" in "".join(raised.value.__notes__) and raised.value.field == "image"


@pytest.mark.torch
def test_a_dataset_of_hugging_face_takes_a_transform() -> None:
    datasets = pytest.importorskip("datasets")
    torch = pytest.importorskip("torch")
    encoded = [{"bytes": png(picture(k, 40 + k, 50)), "path": None} for k in range(6)]
    val = [ops.Resize(32), ops.CenterCrop(24), ops.Normalize.imagenet(), ops.ToChannelsFirst()]
    wanted = [fl.Transform(val)(one) for one in encoded]
    for decode in (False, True):
        features = datasets.Features({"image": datasets.Image(decode=decode), "label": datasets.Value("int64")})
        table = datasets.Dataset.from_dict({"image": encoded, "label": [*range(6)]}, features=features)
        changed = table.with_transform(fl.Transform(val).on("image", to="pixel_values"))
        assert np.array_equal(changed[2]["pixel_values"], wanted[2])
        assert all(np.array_equal(*pair) for pair in zip(changed[1:4]["pixel_values"], wanted[1:4]))
        loader = torch.utils.data.DataLoader(changed, 3, num_workers=2, multiprocessing_context="fork")
        found = torch.cat([batch["pixel_values"] for batch in loader])
        assert np.array_equal(found, np.stack(wanted))
        streamed = table.to_iterable_dataset().map(fl.Transform(val).on("image", to="pixel_values"), batched=True, batch_size=2)
        assert all(np.array_equal(row["pixel_values"], one) for row, one in zip(streamed, wanted, strict=True))
    # Random ops draw again in each epoch, and differently in each worker.
    table.set_transform(fl.Transform(TRAIN).on("image"))
    seen = {np.asarray(table[0]["image"]).tobytes() for _ in range(4)}
    assert len(seen) == 4


def test_a_service_answers_from_threads() -> None:
    val = fl.Transform([ops.Resize(32), ops.CenterCrop(24), ops.Normalize.imagenet(), ops.ToChannelsFirst()])

    def predict(body: bytes) -> list[int]:
        return [*val(body)[None].shape]

    with ThreadPoolExecutor(4) as pool:
        assert all(shape == [1, 3, 24, 24] for shape in pool.map(predict, [jpeg(picture(k)) for k in range(20)]))


def test_fastapi_calls_a_transform_from_its_threads() -> None:
    fastapi = pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    val = fl.Transform([ops.Resize(32), ops.CenterCrop(24), ops.Normalize.imagenet(), ops.ToChannelsFirst()])
    app, threads = fastapi.FastAPI(), set()

    async def body(request: fastapi.Request) -> bytes:
        return await request.body()

    def predict(image: bytes = fastapi.Depends(body)) -> dict[str, float]:
        threads.add(threading.get_ident())
        try:
            return {"sum": float(val(image).sum())}
        except fl.DecodeError as error:
            raise fastapi.HTTPException(400, str(error)) from error

    # The annotations are texts here, whose names FastAPI looks up in the module.
    body.__annotations__ = {"request": fastapi.Request, "return": bytes}
    predict.__annotations__ = {"image": bytes, "return": dict[str, float]}
    app.post("/predict")(predict)
    bodies = [jpeg(picture(k)) for k in range(24)]
    with TestClient(app) as client, ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda content: client.post("/predict", content=content), bodies)]
        broken = client.post("/predict", content=b"no image")
    assert [answer.json()["sum"] for answer in answers] == [float(val(content).sum()) for content in bodies]
    assert broken.status_code == 400 and "not an image" in broken.json()["detail"]
    assert threading.get_ident() not in threads


def test_a_detector_as_ultralytics_trains_it() -> None:
    targets = {"bboxes": fl.Target.boxes("xyxy", to="cxcywh", normalized=True)}
    head = [ops.Letterbox(64), ops.RandomAffine(0.0, (0.1, 0.1), (0.5, 1.5), interpolation="bilinear", fill=114)]
    tail = [ops.RandomHSV(0.015, 0.7, 0.4), ops.RandomHorizontalFlip(), ops.Normalize((0.0,) * 3, (1.0,) * 3)]
    augment = fl.Transform([*head, ops.SanitizeBoundingBoxes(2.0), *tail, ops.ToChannelsFirst()], targets=targets)
    boxes = np.array([[10, 5, 30, 40], [0, 0, 20, 15], [50, 40, 59, 47]], np.float32)
    samples = [augment(image=picture(k), bboxes=boxes, cls=np.array([3, 1, 2])) for k in range(20)]
    for out in samples:
        assert out["image"].shape == (3, 64, 64) and len(out["cls"]) == len(out["bboxes"])
        assert -1e-6 < out["image"].min() and out["image"].max() < 1 + 1e-6
        assert ((out["bboxes"] >= 0) & (out["bboxes"] <= 1)).all()
    # A collate function as the library has it: the number of the image before each box.
    rows = [np.insert(out["bboxes"], 0, number, axis=1) for number, out in enumerate(samples)]
    assert np.concatenate(rows).shape[1] == 5
    with pytest.raises(fl.PipelineError, match="Mosaic works on batches"):
        fl.Transform([ops.Letterbox(64), ops.Mosaic()])
    with pytest.raises(fl.PipelineError, match="MixUp works on batches"):
        fl.Transform([ops.Letterbox(64), ops.MixUp(32.0)])


def test_two_views_are_two_calls() -> None:
    augment = fl.Transform(TRAIN, seed=1)
    image = picture(1)
    one, other = augment(image), augment(image)
    assert one.shape == other.shape and not np.array_equal(one, other)
    images = [picture(k) for k in range(4)]
    views = [augment.batch(images, threads=2) for _ in range(2)]
    assert views[0].shape == views[1].shape == (4, 3, 24, 24)
    assert not any(np.array_equal(*pair) for pair in zip(*views))


# Refusals


BAD: list[tuple[str, Callable[[], Any], str]] = [
    ("a number", lambda: 3, "an image is int; expected an array"),
    ("a list", lambda: [picture(1)], r"an image is a list: batch\(images\) takes several"),
    ("a text that is no path", lambda: "nowhere/x.png", "nowhere/x.png"),
    ("0 axes", lambda: np.uint8(3) + np.zeros((), np.uint8), r"expected \[H, W, C\] or \[H, W\]"),
    ("4 axes", lambda: picture(1)[None], r"batch\(images\) takes several"),
    ("no rows", lambda: np.zeros((0, 8, 3), np.uint8), "0"),
    ("no columns", lambda: np.zeros((8, 0, 3), np.uint8), "0"),
    ("no channels", lambda: np.zeros((8, 8, 0), np.uint8), "0"),
    ("channels first", lambda: np.zeros((3, 40, 50), np.uint8), r"image\.transpose\(1, 2, 0\)"),
    ("bool", lambda: np.zeros((40, 50), bool), r"image\.astype\('uint8'\)"),
    ("int64", lambda: np.zeros((40, 50, 3), np.int64), r"ndarray of int64 and shape \(40, 50, 3\).*image\.astype\('uint8'\)"),
    ("int8", lambda: np.zeros((40, 50, 3), np.int8), "uint8"),
    ("float64", lambda: np.zeros((40, 50, 3)), r"image\.astype\('float32'\)"),
    ("complex", lambda: np.zeros((40, 50, 3), np.complex64), "uint8"),
    ("big-endian", lambda: np.zeros((40, 50, 3), ">u2"), "newbyteorder"),
    ("objects", lambda: np.zeros((40, 50, 3), object), "object"),
    ("texts", lambda: np.zeros((40, 50), "U3"), "U3"),
    ("times", lambda: np.zeros((40, 50), "M8[s]"), "datetime64"),
    ("records", lambda: np.zeros((40, 50), [("r", "u1"), ("g", "u1")]), "expected elements"),
    ("too many pixels", lambda: np.broadcast_to(np.uint8(0), (60000, 60000, 3)), "the limit is"),
    ("a side too long", lambda: np.broadcast_to(np.uint8(0), (2, 70000, 3)), "65,535|65535"),
    ("bytes of nothing", lambda: b"", "not an image"),
    ("bytes of something else", lambda: b"hello, world, this is no image at all", "not an image"),
    ("an array of bytes of something else", lambda: np.zeros(40, np.uint8), "not an image"),
    ("floats in a row", lambda: np.zeros(40, np.float32), r"\[H, W, C\]"),
    ("bytes in a row with steps", lambda: np.zeros(40, np.uint8)[::2], "not an image"),
    ("no file", lambda: {"bytes": None, "path": None}, "without bytes and without a path"),
    ("None", lambda: None, r"a transform takes augment\(image\)"),
]


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_is_no_image_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(fl.FuseloopError, match=message):
        fl.Transform(TRAIN)(make())


def test_tensors_that_are_no_images_are_refused() -> None:
    torch = pytest.importorskip("torch")
    augment = fl.Transform(TRAIN)
    for make, message in (
        (lambda: torch.zeros(40, 50, 3, dtype=torch.uint8), r"image\.permute\(2, 0, 1\)"),
        (lambda: torch.zeros(1, 3, 40, 50, dtype=torch.uint8), r"batch\(images\) takes several"),
        (lambda: torch.zeros(3, 40, 50, dtype=torch.int64), r"image\.to\(torch\.uint8\)"),
        (lambda: torch.zeros(3, 40, 50, dtype=torch.float64), r"image\.float\(\)"),
        (lambda: torch.zeros(3, 40, 50, dtype=torch.bfloat16), r"image\.float\(\)"),
        (lambda: torch.zeros(3, 40, 50).to_sparse(), "sparse"),
        (lambda: torch.zeros(3, 40, 50, device="meta"), "host memory"),
        (lambda: torch.zeros(40, dtype=torch.uint8), r"\[C, H, W\]"),
        (lambda: torch.tensor(3), r"uint8|\[C, H, W\]"),
    ):
        with pytest.raises(fl.ConfigError, match=message):
            augment(make())


def test_damaged_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.jpg"
    file.write_bytes(jpeg(picture(1, 100, 100))[:900])
    augment = fl.Transform(TRAIN)
    for given in (file, file.read_bytes()):
        with pytest.raises(fl.DecodeError) as raised:
            augment(given)
        assert given is not file or (raised.value.path == str(file) and str(file) in str(raised.value))
    with pytest.raises(fl.DatasetNotFoundError) as missing:
        augment(tmp_path / "absent.jpg")
    assert missing.value.path == str(tmp_path / "absent.jpg")
    with pytest.raises(fl.DatasetError):
        augment(tmp_path)
    # The next call is as if nothing had been.
    assert augment(picture(1)).shape == (3, 24, 24)


def test_values_that_are_no_numbers_stay_so() -> None:
    image = np.full((40, 50, 3), np.nan, np.float32)
    assert np.isnan(fl.Transform([ops.CenterCrop(8)])(image)).all()


def test_arguments_that_are_wrong_are_refused() -> None:
    image = picture(1)
    augment = fl.Transform(TRAIN)
    for call, message in (
        (lambda: fl.Transform(lambda epoch: TRAIN), "one list for all epochs"),
        (lambda: fl.Transform([3]), "no op"),
        (lambda: fl.Transform([ops.MixUp(0.2)]), "MixUp"),
        (lambda: fl.Transform([ops.ToDevice("auto")])(image), "ToDevice finishes whole batches on a GPU"),
        (lambda: fl.Transform(TRAIN, device="gpu"), "gpu"),
        (lambda: fl.Transform(TRAIN, device="cuda:0")(image), "no list of ops has ToDevice"),
        (lambda: fl.Transform(TRAIN, device_batches=0), "0 batches on the device"),
        (lambda: fl.Transform(TRAIN, device_batches=-1), "device_batches is -1, expected a whole number, 1 or more"),
        (lambda: fl.Transform(TRAIN, device=5), "Transform: device is 5, expected a word"),  # type: ignore[arg-type]
        (lambda: fl.Transform(TRAIN, seed=-1), r"seed is -1, expected 0 to 2\*\*64 - 1"),
        (lambda: fl.Transform(TRAIN, seed="x"), "seed is 'x', expected a whole number"),
        (lambda: fl.Transform(TRAIN, read_mode="bgr"), 'read_mode: image is "bgr", expected "rgb"'),  # type: ignore[arg-type]
        (lambda: fl.Transform(TRAIN, number_rule="x"), "number_rule"),  # type: ignore[arg-type]
        (lambda: fl.Transform(TRAIN, targets=3), "targets"),  # type: ignore[arg-type]
        (lambda: augment(image, epoch=1), "epoch=1 without sample"),
        (lambda: augment(image, sample=-1), "sample is -1"),
        (lambda: augment(image, epoch=2**32, sample=1), "32 bits"),
        (lambda: augment(), r"a transform takes augment\(image\)"),
        (lambda: augment(image, boxes=[]), r"a transform takes augment\(image\)"),
        (lambda: augment(image, 3), "expected a dict of targets"),
        (lambda: augment.on(3), "no column"),  # type: ignore[arg-type]
        (lambda: augment(image, sample=2**63), r"sample is 9223372036854775808, expected 0 to 2\*\*63 - 1"),
        (lambda: augment.batch([image], samples=5), r"samples is 5, expected the number of each image"),  # type: ignore[arg-type]
        (lambda: augment.batch([image], samples=[2**63]), r"2\*\*63 - 1"),
        (lambda: fl.Transform(None), "ops is None, expected a list of ops"),  # type: ignore[arg-type]
        (lambda: fl.Transform(TRAIN, read_mode=None), 'read_mode is None, expected "rgb"'),  # type: ignore[arg-type]
        (lambda: fl.Transform.from_spec(3), "from_spec: 3 is no path"),  # type: ignore[arg-type]
        (lambda: fl.Transform.from_spec("a\0"), "has a zero byte"),
    ):
        with pytest.raises(fl.ConfigError, match=message):
            call()


def test_functions_of_python_are_called(photos: Path) -> None:
    def invert(image: np.ndarray, sample: int) -> np.ndarray:
        return 255 - image

    augment = fl.Transform([ops.CenterCrop(24), ops.Lambda(invert, per_sample=True)])
    image = picture(1)
    wanted = 255 - fl.Transform([ops.CenterCrop(24)])(image)
    assert np.array_equal(augment(image), wanted)
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(found, wanted) for found in pool.map(augment, [image] * 20))

    def fails(image: np.ndarray, sample: int) -> np.ndarray:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fl.Transform([ops.CenterCrop(24), ops.Lambda(fails, per_sample=True)])(image)
    with pytest.raises(fl.ConfigError, match="Lambda|batches"):
        fl.Transform([ops.Lambda(lambda images, ids: None)])
