"""The targets of one image, as a transform takes and returns them: boxes, keypoints, masks, and values of objects.

The library moves boxes, keypoints and masks, and says which objects stay. Of all other values, entries of those objects
are taken here, so that they may be of any type.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._values import _is_tensor
from .errors import ConfigError, _warn
from .loader import Target

# What undeclared values are, by name.
_BOXES = ("boxes", "bboxes", "bbox")
_KEYPOINTS = ("keypoints",)
_INSTANCES = ("masks", "segmentation")
_MASK = ("mask",)
# Values that are no places in the image, though they may look so: a row for each object has a number for each class.
_CLASSES = ("label", "labels", "classes", "scores")
# Values of the image, not of its objects, in datasets of detectors.
_OF_IMAGE = ("image_id", "size", "orig_size")

_OBJECTS = ("boxes", "keypoints", "instance_masks")


class Objects:
    """The targets of a call.

    Attributes:
        declared: What the library has to know of each, by name.
        key: The same, hashable.
        values: The name and the value of each: an array, or a text of JSON.
    """

    def __init__(
        self, given: Mapping[str, Any], targets: Mapping[str, Target], size: tuple[int, int] | None = None
    ) -> None:
        """Reads the targets of an image; ``size`` is its height and width, None if they are not known, as of a file."""
        for name in targets:
            if name not in given:
                raise _wrong(
                    name, f"it is declared by targets=, but this call does not give it: augment(image=image, {name}=...)"
                )
        self._given = given
        self.declared: dict[str, dict[str, Any]] = {}
        self.values: list[tuple[str, np.ndarray | str]] = []
        self._columns: list[str] = []
        counts: dict[str, int] = {}
        kinds = {name: _kind(name, value, targets.get(name), given) for name, value in given.items()}
        for name, options in kinds.items():
            if options is None:
                if hasattr(given[name], "getpalette"):  # an image of PIL
                    _warn(_not_moved(name))
                continue
            if options["as"] == "column":
                self._columns.append(name)
                continue
            if options["as"] == "instance_masks":
                array = _instance_masks(name, given[name], size)
            else:
                array = _READ[options["as"]](name, given[name], options)
            if options["as"] in _OBJECTS:
                counts[name] = len(given[name])
            self.declared[name] = options
            self.values.append((name, array))
        if counts:
            first, count = next(iter(counts.items()))
            counts |= {name: len(given[name]) for name in self._columns}
            for name, found in counts.items():
                if found != count:
                    raise _wrong(name, f"it has {found} entries for the {count} objects of {first}")
        for name in self._columns:
            if name not in targets and name not in _CLASSES and _looks_moved(given[name], size):
                _warn(_not_moved(name))
        if not counts:
            self._columns = []
        self.key = tuple((name, *sorted((key, str(value)) for key, value in of.items())) for name, of in self.declared.items())

    def results(self, outputs: list[np.ndarray], kept: np.ndarray, size: tuple[int, int]) -> dict[str, Any]:
        """Returns the values after the ops, each as what it came as. ``kept`` are the numbers of the objects that stay, and
        ``size`` the height and the width of the image."""
        moved = dict(zip(self.declared, outputs, strict=True))
        results = {}
        for name, value in self._given.items():
            if name in moved:
                results[name] = _as_given(moved[name], value, self.declared[name], size)
            else:
                results[name] = _entries(value, kept) if name in self._columns else value
        return results


def _wrong(name: str, message: str) -> ConfigError:
    error = ConfigError(f"{name}: {message}")
    error.field = name
    return error


def _not_moved(name: str) -> str:
    return (
        f"{name} is not moved with the image: call it boxes=, keypoints=, masks= or mask=, or declare it in targets=, as "
        "Target.column() if it is no place in the image"
    )


def _kind(name: str, value: Any, target: Target | None, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns what a value is; None for one that has nothing to do with the objects."""
    if target is not None:
        options = dict(target.options)
        if value is None:
            raise _wrong(name, "it is declared as a target, but is None")
        return options
    kind = type(value).__name__ if type(value).__module__.startswith("torchvision.tv_tensors") else ""
    if kind == "BoundingBoxes":
        clamping = getattr(value, "clamping_mode", "soft") or "none"
        return Target.boxes(str(value.format.value), clamping=clamping).options
    if kind == "KeyPoints" or (name in _KEYPOINTS and value is not None):
        return _points(name, value)
    if kind == "Mask" or (name in (*_INSTANCES, *_MASK) and value is not None):
        has_boxes = any(other in _BOXES or type(boxes).__name__ == "BoundingBoxes" for other, boxes in given.items())
        axes = getattr(value, "ndim", 3)
        is_one = name in _MASK or (kind == "Mask" and (axes == 2 or (not has_boxes and len(value) == 1)))
        return Target.mask().options if is_one else Target.instance_masks().options
    if name in _BOXES and value is not None:
        return Target.boxes().options
    if name in _OF_IMAGE or isinstance(value, (str, bytes, int, float, bool, Mapping, type(None))):
        return None
    if not hasattr(value, "__len__") or not hasattr(value, "__getitem__") or getattr(value, "ndim", 1) == 0:
        return None
    return {"as": "column"}


def _looks_moved(value: Any, size: tuple[int, int] | None) -> bool:
    """Returns whether a value that is no target looks like places in the image: numbers by twos, threes or fours, or of
    the image's size."""
    if _is_tensor(value):
        shape, is_number = tuple(value.shape), True
    elif isinstance(value, np.ndarray) or (isinstance(value, (list, tuple)) and value and hasattr(value[0], "__len__")):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):  # lists of several lengths
            return False
        shape, is_number = array.shape, array.dtype.kind in "biuf"
    else:
        return False
    if not is_number or len(shape) < 2 or 0 in shape:
        return False
    return shape[-1] in (2, 3, 4) or (size is not None and size in (shape[:2], shape[-2:]))


def _points(name: str, value: Any) -> dict[str, Any]:
    try:
        shape = tuple(getattr(value, "shape", None) or np.shape(value))
    except (TypeError, ValueError):
        raise _wrong(
            name, "its lists are of several lengths, expected (objects, points, 2) or (objects, points, 3)"
        ) from None
    if len(shape) != 3 or shape[2] not in (2, 3):
        if 0 in shape:
            return Target.keypoints(1, visibility=False).options
        raise _wrong(name, f"its shape is {tuple(shape)}, expected (objects, points, 2) or (objects, points, 3)")
    return Target.keypoints(shape[1], visibility=shape[2] == 3).options


def _plain(name: str, value: Any, dtype: Any) -> np.ndarray:
    """Returns a value as an array of a type, without gaps."""
    if _is_tensor(value):
        if str(value.device) != "cpu":
            raise _wrong(name, f"a tensor on {value.device}, expected one in host memory: {name}.cpu()")
        value = _array_of(name, value)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"elements of type {array.dtype}")
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which the library refuses
            return np.ascontiguousarray(array, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise _wrong(name, f"{error}; expected an array of numbers") from None


def _array_of(name: str, tensor: Any) -> np.ndarray:
    """Returns the elements of a tensor in host memory."""
    try:
        return tensor.detach().resolve_conj().resolve_neg().numpy()
    except (RuntimeError, TypeError) as error:  # bfloat16, sparse and quantized ones
        cure = f"{name}.to_dense()" if "strided" not in str(tensor.layout) else f"{name}.float()"
        raise _wrong(
            name, f"a tensor of {tensor.dtype} ({tensor.layout}), which NumPy does not have: {cure}"
        ) from error


def _boxes(name: str, value: Any, options: Mapping[str, Any]) -> np.ndarray:
    numbers = {"xywhr": 5, "cxcywhr": 5, "xyxyxyxy": 8}.get(options["format"], 4)
    array = _plain(name, value, np.float32)
    if array.size == 0:
        return np.zeros((0, numbers), np.float32)
    if array.ndim != 2 or array.shape[1] != numbers:
        raise _wrong(name, f"its shape is {array.shape}, expected (objects, {numbers}) for {options['format']}")
    return array


def _keypoints(name: str, value: Any, options: Mapping[str, Any]) -> np.ndarray:
    numbers = 3 if options["visibility"] else 2
    array = _plain(name, value, np.float32)
    if array.size == 0:
        return np.zeros((0, options["each"], numbers), np.float32)
    if array.ndim != 3 or array.shape[1:] != (options["each"], numbers):
        raise _wrong(name, f"its shape is {array.shape}, expected (objects, {options['each']}, {numbers})")
    return array


def _instance_masks(name: str, value: Any, size: tuple[int, int] | None) -> np.ndarray | str:
    """Returns the masks as an array, or as JSON if they are a list of COCO's polygons and run lengths, or if the size of the
    image is not known: run lengths are compared with it where the file is read."""
    if isinstance(value, (list, tuple)):
        try:
            return json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise _wrong(name, f"{error}; expected COCO's polygons and run lengths, or an array") from None
    array = _plain(name, value, None)
    if array.ndim != 3 or (size is not None and len(array) and array.shape[1:] != size):
        expected = "(objects, height, width)" + ("" if size is None else f" of an image of {size[1]} x {size[0]}")
        cure = ""
        if array.ndim == 3 and array.shape[:2] == size:
            cure = f": {name}.{'permute' if _is_tensor(value) else 'transpose'}(2, 0, 1)"
        elif array.ndim == 3 and array.shape[:0:-1] == size:
            cure = f": {name}.{'permute' if _is_tensor(value) else 'transpose'}(0, 2, 1)"
        elif array.ndim == 2 and array.shape == size:
            cure = f": {name}[None] for one object, or mask={name} for numbers of classes"
        raise _wrong(name, f"its shape is {array.shape}, expected {expected}{cure}")
    inside = array != 0
    level = array.max() if array.size else array.dtype.type(1)
    if not np.isfinite(level) or not np.array_equal(array, np.where(inside, level, array.dtype.type(0))):
        found = np.unique(array)
        shown = ", ".join(map(str, found[:4].tolist())) + (" ..." if len(found) > 4 else "")
        raise _wrong(
            name,
            f"its values are {shown}, expected 0 outside an object and one other number inside: [height, width] with "
            "numbers of classes is mask=",
        )
    if size is None and len(array):
        return json.dumps([_run_lengths(mask) for mask in inside])
    return np.ascontiguousarray(inside, dtype=np.uint8)


def _run_lengths(mask: np.ndarray) -> dict[str, list[int]]:
    """Returns a mask as COCO's runs, which go down the columns and begin outside."""
    column = np.concatenate(([False], mask.ravel(order="F")))
    ends = np.flatnonzero(column[1:] != column[:-1])
    return {"size": list(mask.shape), "counts": np.diff(ends, prepend=0, append=mask.size).tolist()}


def _mask(name: str, value: Any, options: Mapping[str, Any]) -> np.ndarray:
    if hasattr(value, "getpalette"):  # an image of PIL, whose indices are the classes
        value = np.asarray(value)
    array = _plain(name, value, None)
    if array.ndim == 3 and 1 in (array.shape[0], array.shape[2]):
        array = array[0] if array.shape[0] == 1 else array[:, :, 0]
    if array.ndim != 2:
        raise _wrong(name, f"its shape is {array.shape}, expected (height, width)")
    if array.dtype.kind == "f" or array.size and not 0 <= array.min() <= array.max() <= 255:
        raise _wrong(name, f"{array.dtype} of {array.min()} to {array.max()}, expected numbers of classes from 0 to 255")
    return np.ascontiguousarray(array, dtype=np.uint8)


_READ = {"boxes": _boxes, "keypoints": _keypoints, "mask": _mask}


def _entries(value: Any, kept: np.ndarray) -> Any:
    """Returns the entries of the objects that stay."""
    if _is_tensor(value):
        return value[sys.modules["torch"].from_numpy(kept)]
    if isinstance(value, np.ndarray):
        return value[kept]
    entries = [value[number] for number in kept]
    return tuple(entries) if isinstance(value, tuple) else entries


def _as_given(array: np.ndarray, value: Any, options: Mapping[str, Any], size: tuple[int, int]) -> Any:
    kind = options["as"]
    if kind == "mask":
        # The library has an axis of one channel at the end.
        shape = np.shape(value)
        array = array if len(shape) == 3 and shape[0] != 1 else array[:, :, 0]
        array = array[None] if len(shape) == 3 and shape[0] == 1 else array
    if kind in ("mask", "instance_masks"):
        if not _is_tensor(value) and not isinstance(value, np.ndarray) and kind == "instance_masks":
            return array
        if hasattr(value, "dtype"):
            array = array.astype(str(value.dtype).removeprefix("torch."), copy=False)
        if kind == "instance_masks" and array.dtype.kind != "b" and len(value):
            level = value.max().item()
            array = array if level in (0, 1) else array * array.dtype.type(level)
    if _is_tensor(value):
        tensor = sys.modules["torch"].from_numpy(array)
        wrap = getattr(type(value), "wrap", None)
        if wrap is None or not type(value).__module__.startswith("torchvision."):
            return tensor
        known = {} if not hasattr(value, "canvas_size") else {"canvas_size": size}
        if kind == "boxes" and "to" in options:
            known["format"] = type(value.format)[options["to"].upper()]
        return wrap(tensor, value, **known)
    if isinstance(value, np.ndarray):
        return array
    if hasattr(value, "getpalette"):
        from PIL import Image

        mask = Image.fromarray(array)
        if value.mode == "P":
            mask.putpalette(value.getpalette())
        return mask
    return array.tolist()


