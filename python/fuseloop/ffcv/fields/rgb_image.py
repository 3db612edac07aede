"""Images of red, green and blue."""

from __future__ import annotations

import io
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ... import ops
from ...errors import PipelineError
from .._builtin import BuiltIn
from .._crop import CropOf
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.operation import Operation
from ..pipeline.state import State
from ..transforms.utils import fast_crop
from .base import Field, no_arguments

IMAGE_MODES = {"jpg": 0, "raw": 1}


def encode_jpeg(numpy_image: np.ndarray, quality: int) -> np.ndarray:
    """Returns the JPEG file of an image."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(numpy_image).save(file, "JPEG", quality=int(quality), subsampling="4:2:0")
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def resizer(image: np.ndarray, target_resolution: int | None) -> np.ndarray:
    """Resizes an image so that its longer side has this many pixels; smaller ones stay unchanged."""
    if target_resolution is None:
        return image
    height, width = image.shape[:2]
    ratio = target_resolution / max(height, width)
    return fast_crop.resize(image, int(ratio * height), int(ratio * width)) if ratio < 1 else image


def get_random_crop(height: int, width: int, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Draws a crop as torchvision's RandomResizedCrop: top, left, height and width."""
    return fast_crop.get_random_crop(height, width, scale, ratio)


def get_center_crop(height: int, width: int, _: Any, ratio: float) -> tuple[int, int, int, int]:
    """Returns the square in the middle: top, left, height and width."""
    return fast_crop.get_center_crop(height, width, ratio)


def _pixels(cell: Any, read: Callable[..., Any], storage_state: Any) -> np.ndarray:
    """Decodes an image in Python."""
    data = read(cell["data_ptr"], storage_state)
    height, width = int(cell["height"]), int(cell["width"])
    if cell["mode"] == IMAGE_MODES["raw"]:
        return np.asarray(data[: height * width * 3]).reshape(height, width, 3)
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB"))


class SimpleRGBImageDecoder(BuiltIn):
    """Decodes images that all have the same size."""

    _needs_rows = True

    def __init__(self) -> None:
        super().__init__()

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        heights, widths = self.metadata["height"], self.metadata["width"]
        (low, high), (left, right) = (heights.min(), heights.max()), (widths.min(), widths.max())
        if low != high or left != right:
            raise PipelineError(
                f"SimpleRGBImageDecoder only supports images of one size, and these have {low} to {high} x {left} to "
                f"{right} pixels: use RandomResizedCropRGBImageDecoder or CenterCropRGBImageDecoder"
            )
        shape = (int(high), int(right), 3)
        state = replace(previous_state, jit_mode=True, shape=shape, dtype=np.dtype("u1"))
        return state, AllocationQuery(shape, np.dtype("u1"))

    def _fused(self, state: State) -> list[Any] | None:
        return []

    def generate_code(self) -> Callable[..., Any]:
        read = self.memory_read

        def decode(batch_indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            for row, sample in enumerate(batch_indices):
                destination[row] = _pixels(metadata[sample], read, storage_state)
            return destination[: len(batch_indices)]

        return decode


class ResizedCropRGBImageDecoder(SimpleRGBImageDecoder, metaclass=ABCMeta):
    """Decodes a crop of each image, resized to ``output_size``, (height, width).

    ``output_size`` may be set between epochs. A subclass may have a ``get_crop_generator`` of its own: the compiled
    loop asks it for the window of each image, and decodes and resizes that.
    """

    _needs_rows = False
    scale: Any = None
    ratio: Any = None

    def __init__(self, output_size: tuple[int, int]) -> None:
        super().__init__()
        self.output_size = output_size

    def _size(self) -> tuple[int, int]:
        try:
            height, width = self.output_size
            return int(height), int(width)
        except (TypeError, ValueError):
            raise PipelineError(
                f"{type(self).__name__}: output_size is {self.output_size!r}, expected (height, width)"
            ) from None

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        shape = (*self._size(), 3)
        state = replace(previous_state, jit_mode=True, shape=shape, dtype=np.dtype("u1"))
        return state, AllocationQuery(shape, np.dtype("u1"))

    def generate_code(self) -> Callable[..., Any]:
        read, crop_of, scale, ratio = self.memory_read, self.get_crop_generator, self.scale, self.ratio

        def decode(batch_indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            for row, sample in enumerate(batch_indices):
                image = _pixels(metadata[sample], read, storage_state)
                top, left, height, width = crop_of(image.shape[0], image.shape[1], scale, ratio)
                fast_crop.resize_crop(image, top, top + height, left, left + width, destination[row])
            return destination[: len(batch_indices)]

        return decode

    def _fused(self, state: State) -> list[Any] | None:
        generator = self.get_crop_generator
        if generator is get_random_crop:
            return [ops.RandomResizedCrop(self._size(), tuple(self.scale), tuple(self.ratio), "area")]
        if generator is get_center_crop:
            return [ops.CenterCrop(self._size(), float(self.ratio), "area")]
        if not callable(generator):
            raise PipelineError(f"{type(self).__name__}: get_crop_generator is {generator!r}, expected a function")
        return [CropOf(generator, self._size(), self.scale, self.ratio)]

    @property
    @abstractmethod
    def get_crop_generator(self) -> Callable[..., tuple[int, int, int, int]]:
        """The function that returns the crop of an image: top, left, height and width of its (height, width, scale,
        ratio)."""
        raise NotImplementedError


class RandomResizedCropRGBImageDecoder(ResizedCropRGBImageDecoder):
    """Decodes a random crop of each image, resized to ``output_size``.

    Args:
        output_size: Height and width. They may be set between epochs.
        scale: The share of the image's area, (low, high).
        ratio: Width over height of the crop, (low, high).
    """

    def __init__(
        self,
        output_size: tuple[int, int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (0.75, 4 / 3),
    ) -> None:
        super().__init__(output_size)
        self.scale = scale
        self.ratio = ratio

    @property
    def get_crop_generator(self) -> Callable[..., tuple[int, int, int, int]]:
        return get_random_crop


class CenterCropRGBImageDecoder(ResizedCropRGBImageDecoder):
    """Decodes the square in the middle of each image, resized to ``output_size``.

    Args:
        output_size: Height and width.
        ratio: The side of the square, as a share of the image's shorter side.
    """

    def __init__(self, output_size: tuple[int, int], ratio: float) -> None:
        super().__init__(output_size)
        self.scale = None
        self.ratio = ratio

    @property
    def get_crop_generator(self) -> Callable[..., tuple[int, int, int, int]]:
        return get_center_crop


class RGBImageField(Field):
    """An image of red, green and blue.

    Args:
        write_mode: ``"raw"`` stores pixels, ``"jpg"`` compresses, ``"smart"`` compresses images of more than
            ``smart_threshold`` bytes, and ``"proportion"`` a random share of them.
        max_resolution: Larger images are resized so that their longer side has this many pixels.
        smart_threshold: In mode ``"smart"``: the bytes of pixels from which images are compressed.
        jpeg_quality: 1 to 100.
        compress_probability: In mode ``"proportion"``: the share that is compressed.
    """

    def __init__(
        self,
        write_mode: str = "raw",
        max_resolution: int | None = None,
        smart_threshold: int | None = None,
        jpeg_quality: int = 90,
        compress_probability: float = 0.5,
    ) -> None:
        self.write_mode = write_mode
        self.smart_threshold = smart_threshold
        self.max_resolution = max_resolution
        self.jpeg_quality = int(jpeg_quality)
        self.proportion = compress_probability

    @property
    def metadata_type(self) -> np.dtype:
        return np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("data_ptr", "<u8")])

    def get_decoder_class(self) -> type[Operation]:
        return SimpleRGBImageDecoder

    @staticmethod
    def from_binary(binary: Any) -> Field:
        return RGBImageField()

    def to_binary(self) -> Any:
        return no_arguments()

    def encode(self, destination: Any, image: Any, malloc: Callable[..., Any]) -> None:
        image = _checked(image)
        image = resizer(image, self.max_resolution)
        mode = self.write_mode
        if mode == "smart":
            is_large = self.smart_threshold is not None and image.nbytes > self.smart_threshold
            mode = "jpg" if is_large else "raw"
        elif mode == "proportion":
            mode = "jpg" if np.random.rand() < (self.proportion or 0) else "raw"
        if mode not in IMAGE_MODES:
            raise ValueError(f"write_mode is {mode!r}, expected 'raw', 'jpg', 'smart' or 'proportion'")
        data = encode_jpeg(image, self.jpeg_quality) if mode == "jpg" else np.ascontiguousarray(image).reshape(-1)
        destination["mode"] = IMAGE_MODES[mode]
        destination["height"], destination["width"] = image.shape[:2]
        destination["data_ptr"], memory = malloc(data.size)
        memory[:] = data


def _checked(image: Any) -> np.ndarray:
    """Returns an image as an array of uint8, (height, width, 3)."""
    if not isinstance(image, np.ndarray):
        if not hasattr(image, "convert"):
            raise TypeError(f"an image is a PIL image or an array of uint8, not {type(image).__name__}")
        image = np.array(image.convert("RGB"))
    if image.dtype != np.uint8:
        raise ValueError(f"an image is an array of uint8, not of {image.dtype}")
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"an image has the shape (height, width, 3), not {image.shape}")
    return image
