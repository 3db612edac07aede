"""Images of any memory, type and shape: a transform gives what it gives a plain copy, or a named error."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from conftest import run_python

import fuseloop as fl
from fuseloop import ops

TYPES = [
    "u1", "u1", "u1", "u2", "i2", "f2", "f4", ">u2", ">f4", "i1", "u4", "i4", "i8", "f8", "f16", "?", "c8", "O", "U3", "S2",
    "M8[s]", "V3", [("r", "u1"), ("g", "u1")],
]
TAKEN = ("u1", "u2", "i2", "f2", "f4")
LISTS: list[list[Any]] = [
    [],
    [ops.RandomHorizontalFlip(), ops.RandomVerticalFlip()],
    [ops.CenterCrop(5), ops.Convert("float32")],
    [ops.Resize((9, 11))],
    [ops.RandomResizedCrop(8), ops.ColorJitter(0.4, 0.4, 0.4), ops.Normalize.imagenet(), ops.ToChannelsFirst()],
]


def filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Returns an array of any values of its type: NaN and infinities too."""
    dtype = np.dtype(dtype)
    if dtype.kind == "O":
        return np.full(shape, None, dtype)
    if dtype.kind in "US":
        return np.zeros(shape, dtype)
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)


def changed(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Returns an array of the same axes, most of them with other memory."""
    if array.ndim == 0:
        return array
    match rng.integers(9):
        case 0:
            return np.asfortranarray(array)
        case 1:
            return array[tuple(slice(None, None, -1) if rng.random() < 0.5 else slice(None) for _ in array.shape)]
        case 2:
            return np.repeat(array, 2, axis=0)[:: 2 * rng.choice([1, -1])]
        case 3:
            wide = np.zeros(tuple(side + 3 for side in array.shape), array.dtype)
            inside = tuple(slice(1, 1 + side) for side in array.shape)
            wide[inside] = array
            return wide[inside]
        case 4:
            array = array.copy()
            array.flags.writeable = False
            return array
        case 5 if array.size:
            return np.broadcast_to(array[:1], array.shape)
        case 6:
            return array.T.copy().T
        case 7 if array.dtype.kind != "O" and array.size:
            return np.frombuffer(b"x" + array.tobytes(), np.uint8, offset=1).view(array.dtype).reshape(array.shape)
        case _:
            return array


def test_random_arrays_are_as_their_plain_copies_or_a_named_error() -> None:
    rng = np.random.default_rng(3)
    transforms = [fl.Transform(listed) for listed in LISTS]
    taken = 0
    for number in range(3000):
        axes = int(rng.choice([0, 1, 2, 3, 3, 3, 3, 4]))
        shape = tuple(int(rng.choice([0, 1, 2, 3, 8, 9, 15, 30], p=[0.04, *[0.96 / 7] * 7])) for _ in range(axes))
        shape = (*shape[:2], int(rng.choice([1, 2, 3, 3, 3, 4, 5]))) if axes == 3 else shape
        dtype = TYPES[rng.integers(len(TYPES))]
        array = changed(rng, filled(rng, shape, dtype))
        given: Any = array
        if rng.random() < 0.1 and array.dtype.kind in "uif" and array.ndim:
            given = memoryview(array)
        augment = transforms[rng.integers(len(transforms))]
        what = f"{number}: {array.dtype} {array.shape} {array.strides} {augment}"
        try:
            found = augment(given, sample=number)
        except fl.FuseloopError as error:
            assert str(error) and "panicked" not in str(error), what
            plain = np.ascontiguousarray(array)
            if array.ndim and plain.dtype.isnative:  # what is refused is not refused for its memory
                with pytest.raises(fl.FuseloopError):
                    augment(plain, sample=number)
            continue
        taken += 1
        assert array.dtype.isnative and array.dtype.str[1:] in TAKEN and array.ndim in (2, 3) and array.size, what
        wanted = augment(np.ascontiguousarray(array), sample=number)
        assert found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes(), what
    assert taken > 300


def test_random_tensors_are_as_their_plain_copies_or_a_named_error() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    transforms = [fl.Transform(listed) for listed in LISTS]

    def of(tensor: Any) -> Any:
        match rng.integers(10):
            case 0 if tensor.ndim == 3:
                return tensor[None].to(memory_format=torch.channels_last)[0]
            case 1 if tensor.ndim:
                return tensor.permute(*range(tensor.ndim)[::-1])
            case 2 if tensor.is_floating_point():
                return tensor.clone().requires_grad_()
            case 3:
                return tensor.flip(0) if tensor.ndim else tensor
            case 4 if tensor.ndim:
                return tensor[::2]
            case 5 if tensor.ndim:
                return tensor[:1].expand(tensor.shape)
            case 6:
                return tensor.to("meta")
            case 7 if tensor.ndim:
                return tensor.to_sparse()
            case 8 if tensor.is_floating_point():
                return torch._neg_view(tensor)
            case _:
                return tensor

    types = [torch.uint8] * 4 + [torch.float32, torch.float16, torch.bfloat16, torch.int16, torch.int64, torch.bool]
    taken = 0
    for number in range(1000):
        axes = int(rng.choice([0, 1, 2, 3, 3, 3, 4]))
        shape = tuple(int(side) for side in rng.choice([0, 1, 2, 3, 8, 9, 15, 30], axes))
        shape = (int(rng.choice([1, 3, 3, 4])), *shape[1:]) if axes == 3 else shape
        plain = torch.from_numpy(rng.integers(0, 255, shape)) if axes else torch.tensor(3)
        tensor = of(plain.to(types[rng.integers(len(types))]))
        augment = transforms[rng.integers(len(transforms))]
        try:
            found = augment(tensor, sample=number)
        except fl.FuseloopError as error:
            assert str(error) and "panicked" not in str(error), tensor
            continue
        taken += 1
        plain = augment(tensor.detach().resolve_neg().clone(memory_format=torch.contiguous_format), sample=number)
        assert isinstance(found, torch.Tensor) and not found.requires_grad
        assert found.dtype == plain.dtype and torch.equal(found.nan_to_num(), plain.nan_to_num())
    assert taken > 150


def test_quantized_and_wrapped_tensors_are_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            quantized = torch.quantize_per_tensor(torch.zeros(3, 40, 50), 0.1, 0, torch.quint8)
        except (AttributeError, RuntimeError):
            pytest.skip("this torch has no quantized tensors")
    with pytest.raises(fl.ConfigError, match="quint8"):
        fl.Transform([])(quantized)


def test_arrays_that_are_large_by_their_strides_alone_are_refused() -> None:
    augment = fl.Transform([ops.CenterCrop(8)])
    one = np.uint8(7)
    for shape in ((1000, 1000, 60000), (10**12,), (2**40, 2**20, 3), (13000, 13000, 8), (8, 8, 2**40)):
        with pytest.raises(fl.FuseloopError, match="limit|must be 1 to|channel|JPEG"):
            augment(np.broadcast_to(one, shape))
    # One of a size that images have is copied.
    assert (augment(np.broadcast_to(one, (3000, 2000, 3))) == 7).all()


def test_what_does_not_convert_to_an_array_is_refused_by_name() -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            raise ValueError("no memory of its own")

    class OfNoType:
        __array_interface__ = {"shape": (40, 50, 3), "typestr": "?!", "data": b"", "version": 3}

    for wrong in (Broken(), OfNoType()):
        with pytest.raises(fl.ConfigError, match=f"an image of type {type(wrong).__name__}: "):
            fl.Transform([])(wrong)


def test_modes_of_pil_are_right_or_refused_by_name() -> None:
    pil = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(5)
    image = pil.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8))
    augment = fl.Transform([ops.RandomHorizontalFlip(1.0)])
    gray = image.convert("L")
    made = {
        "1": image.convert("1"), "L": gray, "LA": image.convert("LA"), "P": image.convert("P"),
        "PA": image.convert("P").convert("PA"), "RGB": image, "RGBA": image.convert("RGBA"), "RGBX": image.convert("RGBX"),
        "CMYK": image.convert("CMYK"), "YCbCr": image.convert("YCbCr"), "HSV": image.convert("HSV"),
        "I": gray.convert("I"), "F": gray.convert("F"), "I;16": pil.fromarray(np.asarray(gray).astype(np.uint16) * 257),
        "LAB": pil.new("LAB", (30, 20), (90, 3, 200)), "La": gray.convert("LA").convert("La"),
        "RGBa": image.convert("RGBA").convert("RGBa"),
    }
    for mode, given in made.items():
        assert given.mode == mode
        try:
            found = augment(given)
        except fl.ConfigError as error:
            assert f"PIL's mode {mode}" in str(error), mode
            assert mode in ("I", "F", "I;16", "LAB", "La", "RGBa"), mode
            continue
        assert np.array_equal(np.asarray(found), np.asarray(given.convert("RGB"))[:, ::-1]), mode
    for size in ((1, 1), (1, 30), (30, 1)):
        assert augment(pil.new("RGB", size)).size == size
    with pytest.raises(fl.FuseloopError):
        augment(pil.new("RGB", (0, 5)))


def test_random_targets_are_moved_or_a_named_error() -> None:
    rng = np.random.default_rng(6)
    image = rng.integers(0, 256, (20, 30, 3), np.uint8)
    augment = fl.Transform([ops.RandomHorizontalFlip(), ops.Resize((10, 15)), ops.SanitizeBoundingBoxes()])
    values = [0.0, 1.0, 5.0, 29.0, 30.0, -3.0, 1e9, 1e300, np.nan, np.inf, -np.inf]
    moved = 0
    for number in range(600):
        count = int(rng.integers(4))
        boxes = rng.choice(values, (count, 4), p=[0.12, 0.2, 0.2, 0.2, 0.2, *[0.08 / 6] * 6])
        boxes = np.sort(boxes.reshape(count, 2, 2), axis=1).reshape(count, 4) if rng.random() < 0.8 else boxes
        with np.errstate(all="ignore"):
            given = {"boxes": changed(rng, boxes.astype(rng.choice(["f8", "f4", "i8", ">f4"])))}
        if rng.random() < 0.5:
            given["labels"] = rng.integers(0, 9, int(rng.choice([count, count, count, 7])))
        if rng.random() < 0.5:
            mask = rng.integers(0, 300, rng.choice([20, 20, 20, 30], 2))
            given["mask"] = changed(rng, mask.astype(rng.choice(["u1", "i8"])))
        if rng.random() < 0.5:
            given["masks"] = changed(rng, rng.integers(0, 2, (count, 20, 30)).astype(rng.choice(["?", "u1", "f4", "i8"])))
        if rng.random() < 0.3:
            given["keypoints"] = rng.choice(values, (count, 2, int(rng.choice([2, 3, 4]))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                out = augment(image=image, **given, sample=number)
            except fl.FuseloopError as error:
                assert str(error) and "panicked" not in str(error)
                continue
        moved += 1
        kept = len(out["boxes"])
        assert all(len(out[name]) == kept for name in given if name != "mask")
        assert np.isfinite(out["boxes"]).all() and kept <= count
    assert moved > 60


def test_a_call_without_objects_has_nothing_to_sanitize() -> None:
    image = np.arange(2400, dtype=np.uint8).reshape(20, 40, 3)
    flip = ops.RandomHorizontalFlip(1.0)
    augment = fl.Transform([flip, ops.SanitizeBoundingBoxes(), ops.ClampKeyPoints()])
    assert np.array_equal(augment(image), image[:, ::-1]) and np.array_equal(augment.batch([image])[0], image[:, ::-1])
    out = augment(image=image, mask=image[:, :, 0])
    assert np.array_equal(out["mask"], image[:, ::-1, 0])
    boxes = fl.Transform([flip, ops.SanitizeBoundingBoxes()])(image=image, boxes=[[1, 1, 9, 9], [3, 3, 3, 3]])["boxes"]
    assert boxes == [[31, 1, 39, 9]]
    with pytest.raises(fl.PipelineError, match="boxes"):
        augment(image=image, keypoints=np.ones((1, 2, 2)))
    with pytest.raises(fl.PipelineError, match="RandomIoUCrop has no effect without bounding boxes"):
        fl.Transform([ops.RandomIoUCrop()])(image)


def test_the_parameters_of_boxes_of_albumentations_serve_single_images() -> None:
    albumentations = pytest.importorskip("albumentations")
    params = albumentations.BboxParams("pascal_voc", min_area=4, min_width=2, min_height=2)
    theirs = albumentations.Compose([albumentations.HorizontalFlip(p=1)], bbox_params=params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        augment = fl.Transform(ops.from_albumentations(theirs))
    image = np.arange(2400, dtype=np.uint8).reshape(20, 40, 3)
    assert np.array_equal(augment(image), theirs(image=image)["image"])


def test_images_of_pil_are_not_turned() -> None:
    pil = pytest.importorskip("PIL.Image")
    import io

    exif = pil.Exif()
    exif[0x0112] = 6
    image = pil.fromarray(np.random.default_rng(7).integers(0, 256, (16, 32, 3), np.uint8))
    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif, quality=95)
    boxes = [[1.0, 1, 9, 9]]
    for turned in (None, False, True):
        augment = fl.Transform([], exif_orientation=turned)
        assert augment(file.getvalue()).shape == ((32, 16, 3) if turned else (16, 32, 3))
        late, loaded = pil.open(io.BytesIO(file.getvalue())), pil.open(io.BytesIO(file.getvalue()))
        loaded.load()
        for given in (late, loaded):
            assert augment(given).size == (32, 16)
            assert augment(image=given, boxes=boxes)["boxes"] == boxes


def test_files_of_16_bits_are_read_as_a_loader_reads_them() -> None:
    pil = pytest.importorskip("PIL.Image")
    import io

    levels = (np.arange(600, dtype=np.uint16) * 109).reshape(20, 30)
    file = io.BytesIO()
    pil.fromarray(levels).save(file, "PNG")
    found = fl.Transform([])(file.getvalue())
    assert np.array_equal(found, np.repeat((levels >> 8).astype(np.uint8)[:, :, None], 3, axis=2))
    assert np.array_equal(fl.Transform([], read_mode="gray16")(file.getvalue())[:, :, 0], levels)


def test_the_interpreter_ends_while_a_daemon_thread_is_in_a_function() -> None:
    code = """
import threading, time
import numpy as np, fuseloop as fl
from fuseloop import ops
def slow(image):
    began.set()
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        sum(range(1000))
began = threading.Event()
augment = fl.Transform([ops.Lambda(slow, per_sample=True)])
image = np.zeros((8, 8, 3), np.uint8)
def endless():
    while True:
        augment(image) if KIND == "calls" else augment.batch([image] * 4, threads=2)
threading.Thread(target=endless, daemon=True).start()
began.wait()
"""
    for kind in ("calls", "batches"):
        for _ in range(3):
            done = run_python(code.replace("KIND", repr(kind)))
            assert done.returncode == 0 and "Fatal" not in done.stderr, done.stderr
