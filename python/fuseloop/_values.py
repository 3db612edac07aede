"""Values of Python as values of fields: what a sample is to a file that is written, or to a dataset made in Python.

A sample becomes a row, a tuple with one entry for each field, which ``src/rows.rs`` reads.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from ._fuseloop import MAX_PIXELS, MAX_SAMPLE_BYTES
from .errors import ConfigError

_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_OTHERS = (b"GIF87a", b"GIF89a", b"\xff\x0a", b"\0\0\0\x0cJXL ")
_KINDS = ("image", "int", "float", "bytes", "json")
_OF_TYPE: dict[type, str] = {
    int: "int",
    bool: "int",
    float: "float",
    bytes: "bytes",
    str: "bytes",
    dict: "json",
    list: "json",
}


@dataclass(frozen=True)
class Array:
    """The type of a field of arrays: all have this dtype and this shape. ``tensor`` marks those that FFCV reads as a
    ``TorchTensorField``."""

    dtype: Any
    shape: tuple[int, ...]
    tensor: bool = False


_DESCRIBED = {
    "image": "an image",
    "int": "an int",
    "float": "a float",
    "bytes": "bytes",
    "json": "JSON",
    "array": "an array",
    "tensor": "a tensor",
}


class Spec(NamedTuple):
    """A field: its name and kind, and the dtype and shape of its arrays."""

    name: str
    kind: str
    dtype: str | None = None
    shape: tuple[int, ...] = ()

    def describe(self) -> str:
        if self.kind in ("array", "tensor"):
            return f"{_DESCRIBED[self.kind]} of {np.dtype(self.dtype)} and shape {self.shape}"
        return _DESCRIBED[self.kind]


def _wrong(message: str, sample: int | None = None, field: str | None = None) -> ConfigError:
    error = ConfigError(message)
    error.sample, error.field = sample, field
    return error


def _sample(index: int | None) -> str:
    return "a sample" if index is None else f"sample {index}"


def _at(spec: Spec, index: int | None) -> str:
    return f"field {spec.name}" if index is None else f"sample {index}, field {spec.name}"


def _dtype(dtype: Any, field: str, sample: int | None = None) -> str:
    """Returns NumPy's text for a dtype of NumPy or torch."""
    if type(dtype).__module__.partition(".")[0] == "torch":
        dtype = str(dtype).removeprefix("torch.")
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise _wrong(f"field {field}: {dtype!r} is no dtype of NumPy", sample, field) from None
    if found.kind not in "biufc" or found.itemsize > 32:
        cure = "; convert it to float32 or float16" if "bfloat16" in str(found) else ""
        raise _wrong(
            f"field {field}: arrays of {found} can't be stored: expected bools, ints, floats or complex numbers{cure}",
            sample,
            field,
        )
    return found.str


# Fields


def fields_of(fields: Any, first: Any) -> list[Spec]:
    """Returns the fields that are given, or those that the first sample tells.

    ``fields`` is None, a mapping from names to types, or a sequence of names.
    """
    values = _values_of(first)
    if fields is None:
        names: list[str] = list(values) if isinstance(values, dict) else _names([_kind(value) for value in values])
        types: list[Any] = [None] * len(names)
    elif isinstance(fields, Mapping):
        names, types = list(fields), list(fields.values())
    elif isinstance(fields, Iterable) and not isinstance(fields, (str, bytes)):
        names = list(fields)
        types = [None] * len(names)
    else:
        raise ConfigError(f"fields is {fields!r}, expected names, or a mapping from names to types")
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(f"a field is named {name!r}, expected a text")
    if not names:
        raise ConfigError("a sample has no fields")
    if None in types:
        found = _by_field(values, names, 0)
        types = [_inferred(name, value) if kind is None else kind for name, kind, value in zip(names, types, found)]
    return [kind if isinstance(kind, Spec) else _spec(name, kind) for name, kind in zip(names, types)]


def _spec(name: str, kind: Any) -> Spec:
    if isinstance(kind, Array):
        shape = tuple(int(side) for side in kind.shape)
        if any(side < 0 for side in shape):
            raise _wrong(f"field {name}: shape {kind.shape}: a side is negative", field=name)
        return Spec(name, "tensor" if kind.tensor else "array", _dtype(kind.dtype, name), shape)
    if isinstance(kind, type):
        if kind in _OF_TYPE:
            return Spec(name, _OF_TYPE[kind])
        if kind.__module__.startswith("PIL."):
            return Spec(name, "image")
    if isinstance(kind, str) and kind in _KINDS:
        return Spec(name, kind)
    near = get_close_matches(kind, _KINDS, 1) if isinstance(kind, str) else []
    error = _wrong(
        f"field {name} is of type {kind!r}, expected {', '.join(map(repr, _KINDS))}, int, float, bytes, dict or "
        f"Array(dtype, shape)" + (f": did you mean {near[0]!r}?" if near else ""),
        field=name,
    )
    error.hint = near[0] if near else None
    raise error


def _names(kinds: list[str]) -> list[str]:
    """Names values that have no names by their kinds: image, label, then image2 and such."""
    names: list[str] = []
    counts: dict[str, int] = {}
    for kind in kinds:
        word = {"int": "label"}.get(kind, kind)
        counts[word] = counts.get(word, 0) + 1
        names.append(word if counts[word] == 1 else f"{word}{counts[word]}")
    return names


def _kind(value: Any) -> str:
    return _inferred("", value).kind


def _inferred(name: str, value: Any) -> Spec:
    """Returns the field that a first value tells."""
    if _is_pil(value) or isinstance(value, os.PathLike) or _is_encoded(value):
        return Spec(name, "image")
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return Spec(name, "int")
    if isinstance(value, (float, np.floating)):
        return Spec(name, "float")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Spec(name, "image" if _is_image_file(bytes(value[:18])) else "bytes")
    if isinstance(value, str):
        return Spec(name, "bytes")
    if isinstance(value, np.ndarray):
        if value.dtype == np.uint8 and _is_picture(value.shape):
            return Spec(name, "image")
        return Spec(name, "array", _dtype(value.dtype, name, 0), value.shape)
    if _is_tensor(value):
        if value.ndim == 0 and not value.is_complex():
            return Spec(name, "float" if value.is_floating_point() else "int")
        return Spec(name, "tensor", _dtype(value.dtype, name, 0), tuple(value.shape))
    if isinstance(value, (dict, list, tuple)):
        return Spec(name, "json")
    where = f"field {name}: " if name else ""
    raise _wrong(
        f"{where}a value of type {type(value).__name__}: expected an image of PIL, an array, a tensor, a path, bytes, "
        "a text, a number, a dict or a list; give the field's type by fields=",
        0,
        name or None,
    )


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))


def _is_pil(value: Any) -> bool:
    """True for an image of PIL, which is not imported for that."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(value).__mro__)


def _is_tensor(value: Any) -> bool:
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(value).__mro__)


def _is_image_file(head: bytes) -> bool:
    """Returns whether a file that begins so is an image."""
    is_webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    is_bmp = head.startswith(b"BM") and head[15:18] == bytes(3)
    is_heic = head[4:8] == b"ftyp" and head[8:12] in (b"heic", b"heix", b"heim", b"heis", b"mif1")
    return is_webp or is_bmp or is_heic or head.startswith((_JPEG, _PNG, *_TIFF, *_OTHERS))


def _is_encoded(value: Any) -> bool:
    """True for an image that is not decoded, as Hugging Face's datasets give it."""
    return isinstance(value, dict) and value.keys() == {"bytes", "path"}


def _values_of(sample: Any) -> dict[str, Any] | Sequence[Any]:
    """Returns the values of a sample: by name, or in order."""
    if isinstance(sample, Mapping) and not _is_encoded(sample):
        return dict(sample)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return dict(zip(sample._fields, sample))
    if isinstance(sample, (tuple, list)):
        return sample
    return (sample,)


def _by_field(values: dict[str, Any] | Sequence[Any], names: Sequence[str], sample: int | None) -> Sequence[Any]:
    if isinstance(values, dict):
        for name in names:
            if name not in values:
                near = get_close_matches(name, [str(key) for key in values], 1)
                error = _wrong(
                    f"{_sample(sample)} has no field {name}, only {', '.join(map(str, values))}"
                    + (f": did you mean {near[0]}?" if near else ""),
                    sample,
                    name,
                )
                error.hint = near[0] if near else None
                raise error
        return [values[name] for name in names]
    if len(values) != len(names):
        raise _wrong(
            f"{_sample(sample)} has {len(values)} values, expected {len(names)}: {', '.join(names)}", sample
        )
    return values


# Rows


class Rows:
    """Turns samples into rows.

    Args:
        specs: The fields.
        read_files: Reads the files of paths, instead of leaving that to the threads that encode.
        all_names: Refuses samples with more fields: the fields are those of the first sample, and nothing says that
            others are left out.
    """

    def __init__(self, specs: Sequence[Spec], read_files: bool = False, all_names: bool = False) -> None:
        self.specs = tuple(specs)
        self._names = [spec.name for spec in specs]
        self._read_files = read_files
        self._all_names = all_names

    def __call__(self, sample: Any, index: int | None) -> tuple[Any, ...]:
        values = _values_of(sample)
        if self._all_names and isinstance(values, dict):
            for name in values:
                if name not in self._names:
                    raise _wrong(
                        f"{_sample(index)} has a field {name!r} that the first sample has not: name the fields that are "
                        "written by fields=",
                        index,
                        str(name),
                    )
        values = _by_field(values, self._names, index)
        row = tuple(_ROW[spec.kind](spec, value, index) for spec, value in zip(self.specs, values))
        if self._read_files:
            return tuple(_contents(spec, value) for spec, value in zip(self.specs, row))
        return row


def _contents(spec: Spec, value: Any) -> Any:
    if spec.kind != "image" or not isinstance(value, str):
        return value
    with open(value, "rb") as file:
        return file.read()


def size(row: tuple[Any, ...] | str) -> int:
    """Returns about how many bytes a row holds."""
    if isinstance(row, str):
        return len(row)
    return sum(map(_size, row))


def _size(value: Any) -> int:
    if isinstance(value, bytes):
        return len(value)
    return value[2].nbytes if isinstance(value, tuple) else getattr(value, "nbytes", 8)


def _found(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{type(value).__name__} of {value.dtype} and shape {tuple(shape)}"
    return f"{type(value).__name__} {value!r:.60}"


def _expected(spec: Spec, value: Any, index: int | None) -> ConfigError:
    return _wrong(
        f"{_at(spec, index)}: expected {spec.describe()}, found {_found(value)}", index, spec.name
    )


def _int(spec: Spec, value: Any, index: int | None) -> int:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        if not isinstance(value, np.bool_):
            raise _expected(spec, value, index) from None
        number = int(value)
    if not -(2**63) <= number < 2**63:
        raise _wrong(f"{_at(spec, index)}: {number} does not fit 64 bits", index, spec.name)
    return number


def _float(spec: Spec, value: Any, index: int | None) -> float:
    if isinstance(value, (float, int, np.floating, np.integer)) or getattr(value, "shape", None) == ():
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise _expected(spec, value, index)


def _bytes(spec: Spec, value: Any, index: int | None) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        _check_bytes(spec, memoryview(value).nbytes, index)
        return bytes(value)
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1:
        _check_bytes(spec, value.nbytes, index)
        return value.tobytes()
    raise _expected(spec, value, index)


def _json(spec: Spec, value: Any, index: int | None) -> bytes:
    try:
        return json.dumps(value).encode() + b"\0"
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(f"{_at(spec, index)}: no JSON: {error}", index, spec.name) from error


def _array(spec: Spec, value: Any, index: int | None) -> Any:
    if _is_tensor(value):
        try:
            value = value.detach().cpu().numpy()
        except TypeError:  # bfloat16
            raise _expected(spec, value, index) from None
    elif not isinstance(value, (np.ndarray, np.generic)):
        raise _expected(spec, value, index)
    array = np.asarray(value)
    if array.dtype.str != spec.dtype or array.shape != spec.shape:
        raise _expected(spec, value, index)
    _check_bytes(spec, array.nbytes, index)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _image(spec: Spec, value: Any, index: int | None) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        _check_bytes(spec, memoryview(value).nbytes, index)
        return bytes(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if _is_pil(value):
        return _of_pil(spec, value, index)
    if _is_encoded(value):
        if value["bytes"] is not None:
            return bytes(value["bytes"])
        if isinstance(value["path"], str):
            return value["path"]
        raise _expected(spec, value, index)
    if _is_tensor(value):
        if value.ndim >= 2:
            _check_pixels(spec, value.shape[0], value.shape[1], index)
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and _is_picture(value.shape):
        _check_pixels(spec, value.shape[0], value.shape[1], index)
        return _pixels(value)
    error = _expected(spec, value, index)
    if isinstance(value, str):
        error = _wrong(f"{error}; a path is given as pathlib.Path", index, spec.name)
    elif getattr(value, "shape", None) is not None:
        error = _wrong(f"{error}; pixels are uint8 of shape (height, width, 3) or (height, width)", index, spec.name)
    raise error


def _check_pixels(spec: Spec, height: int, width: int, index: int | None) -> None:
    """Refuses a picture with more pixels than any is read with, before it is copied."""
    if height * width > MAX_PIXELS:
        raise _wrong(
            f"{_at(spec, index)}: an image of {width} x {height} has {height * width:,} pixels; the limit is "
            f"{MAX_PIXELS:,}: scale it down, or cut it into tiles",
            index,
            spec.name,
        )


def _check_bytes(spec: Spec, count: int, index: int | None) -> None:
    """Refuses a value with more bytes than any is read with, before it is copied."""
    if count > MAX_SAMPLE_BYTES:
        raise _wrong(
            f"{_at(spec, index)}: a value of {count:,} bytes; the limit is {MAX_SAMPLE_BYTES:,}: divide it into "
            "several samples",
            index,
            spec.name,
        )


def _pixels(value: np.ndarray) -> tuple[int, int, np.ndarray]:
    height, width = value.shape[:2]
    if value.ndim == 2:
        value = value[:, :, None]
    if value.shape[2] == 1:
        value = np.repeat(value, 3, axis=2)
    return height, width, np.ascontiguousarray(value).reshape(-1)


def _of_pil(spec: Spec, image: Any, index: int | None) -> Any:
    jpeg = _unchanged_jpeg(image)
    if jpeg is not None:
        return jpeg
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        raise _wrong(
            f"{_at(spec, index)}: an image of PIL's mode {image.mode}, which has more than 8 bits: convert "
            "it to RGB, or write it as an array",
            index,
            spec.name,
        )
    _check_pixels(spec, image.height, image.width, index)
    if image.mode in ("1", "P"):
        # A mask is read as its indices, which RGB pixels do not hold.
        file = io.BytesIO()
        image.save(file, "PNG", compress_level=1)
        return file.getvalue()
    return _pixels(np.asarray(image if image.mode == "RGB" else image.convert("RGB")))


def _unchanged_jpeg(image: Any) -> bytes | None:
    """Returns the file of an image of PIL that was opened and not changed, if it is a JPEG, gray or RGB.

    An image that was not decoded yet still has its tiles. ``draft`` makes another size of it, and sets its decoder.
    """
    file = getattr(image, "fp", None)
    if (
        getattr(image, "format", None) != "JPEG"
        or image.mode not in ("L", "RGB")
        or not getattr(image, "tile", None)
        or getattr(image, "decoderconfig", None)
        or file is None
    ):
        return None
    if isinstance(file, io.BytesIO):
        content = file.getvalue()
    elif getattr(image, "_exclusive_fp", False) and file.seekable():
        at = file.tell()
        file.seek(0)
        content = file.read()
        file.seek(at)
    else:
        return None
    return content if content.startswith(_JPEG) else None


_ROW: dict[str, Callable[[Spec, Any, int | None], Any]] = {
    "image": _image,
    "int": _int,
    "float": _float,
    "bytes": _bytes,
    "json": _json,
    "array": _array,
    "tensor": _array,
}
