"""Images of all kinds that a transform takes, and results of the same kinds."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from ._values import _is_encoded, _is_pil, _is_tensor, _unchanged_jpeg
from .errors import ConfigError

NUMPY, TORCH, PIL = range(3)
"""What an image came as. Arrays have their channels last, tensors first. The numbers are those of src/transform.rs."""


def image_of(image: Any, read_mode: str) -> tuple[Any, int]:
    """Returns an image as an array, as bytes of a file, or as a path, and what it came as."""
    if isinstance(image, np.ndarray):
        return image, NUMPY
    if _is_tensor(image):
        return _array_of(image), TORCH
    if _is_pil(image):
        try:
            return _of_pil(image, read_mode), PIL
        except (ValueError, AttributeError) as error:  # PIL's, of images that are closed and of modes without a conversion
            if isinstance(error, ConfigError):
                raise
            cure = "use it before it is closed" if "closed" in str(error) else "convert it to RGB before"
            raise ConfigError(f"an image of PIL's mode {image.mode}: {error}: {cure}") from error
    if isinstance(image, (bytes, bytearray, memoryview)):
        return image, NUMPY
    if isinstance(image, (str, os.PathLike)):
        return os.fspath(image), NUMPY
    if _is_encoded(image):
        content = image["path"] if image["bytes"] is None else image["bytes"]
        if isinstance(content, (str, bytes)):
            return content, NUMPY
        raise ConfigError("an image without bytes and without a path")
    if hasattr(image, "__array__") or hasattr(image, "__array_interface__") or hasattr(image, "__dlpack__"):
        return _converted(image), NUMPY
    what = "a list: batch(images) takes several" if isinstance(image, (list, tuple)) else type(image).__name__
    raise ConfigError(
        f"an image is {what}; expected an array of NumPy, a tensor of torch, an image of PIL, or the bytes or the path of an "
        "image file"
    )


def _converted(image: Any) -> np.ndarray:
    """Returns what converts to an array as one."""
    is_array = hasattr(image, "__array__") or hasattr(image, "__array_interface__")
    try:
        return np.asarray(image) if is_array else np.from_dlpack(image)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(f"an image of type {type(image).__name__}: {error}: give it as an array of NumPy") from error


def _array_of(tensor: Any) -> np.ndarray:
    """Returns the memory of a tensor as an array."""
    if str(tensor.device) != "cpu":
        raise ConfigError(f"an image is a tensor on {tensor.device}, expected one in host memory: image.cpu()")
    try:
        return tensor.detach().resolve_conj().resolve_neg().numpy()
    except (RuntimeError, TypeError) as error:  # bfloat16, sparse and quantized ones
        raise ConfigError(
            f"an image is a tensor of {tensor.dtype} ({tensor.layout}), which NumPy does not have: image.float()"
        ) from error


def _of_pil(image: Any, read_mode: str) -> Any:
    mode = image.mode
    if read_mode == "gray16":
        if not mode.startswith("I;16"):
            raise _no_mode(mode, 'read_mode="gray16"', "I;16")
        return np.asarray(image).astype(np.uint16, copy=False)[:, :, None]
    if mode in ("I", "F") or mode.startswith("I;"):
        cure = ', or read_mode="gray16" for its levels' if mode.startswith("I;16") else ""
        raise ConfigError(
            f"an image of PIL's mode {mode} has more than 8 bits: give numpy.asarray(image) as float32 or uint16{cure}"
        )
    if read_mode == "index":
        if mode not in ("P", "L", "1"):
            raise _no_mode(mode, 'read_mode="index"', "P, L or 1")
        return np.asarray(image).astype(np.uint8, copy=False)[:, :, None]
    if read_mode == "rgb" and _is_upright(image):
        jpeg = _unchanged_jpeg(image)
        if jpeg is not None:
            return jpeg
    wanted = {"gray": "L", "rgb_alpha": "RGBA"}.get(read_mode, "RGB")
    pixels = np.asarray(image if mode == wanted else image.convert(wanted))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _is_upright(image: Any) -> bool:
    """Returns whether the file of an image of PIL has no EXIF orientation: images of PIL are not turned, files may be."""
    if "exif" not in getattr(image, "info", ()):
        return True
    try:
        return image.getexif().get(0x0112, 1) == 1
    except Exception:  # of many kinds, where it is damaged
        return False


def _no_mode(mode: str, setting: str, expected: str) -> ConfigError:
    return ConfigError(f"an image of PIL's mode {mode} with {setting}, expected {expected}")


def result_of(array: np.ndarray, kind: int, image: Any, is_channels_first: bool) -> Any:
    """Returns a result as what the image came as."""
    if kind == TORCH:
        return _like(tensor_of(array), image)
    if kind == PIL and not is_channels_first and array.dtype == np.uint8:
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[:, :, 0]
        if array.ndim == 2 or array.shape[2] in (3, 4):
            from PIL import Image

            return Image.fromarray(array)
    return array


def tensor_of(array: np.ndarray) -> Any:
    """Returns a result as a tensor. bfloat16, which NumPy does not have, comes as two bytes without a type."""
    torch = sys.modules["torch"]
    if array.dtype.kind == "V":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _like(tensor: Any, like: Any) -> Any:
    """Returns a tensor as the image of ``torchvision.tv_tensors`` that went in."""
    wrap = getattr(type(like), "wrap", None)
    return tensor if wrap is None or not type(like).__module__.startswith("torchvision.") else wrap(tensor, like)
