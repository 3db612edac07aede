"""A random crop of decoded images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ... import ops
from .._builtin import BuiltIn
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State
from .utils import fast_crop


class RandomResizedCrop(BuiltIn):
    """Cuts a random crop and resizes it to ``size`` x ``size``. As a decoder it is faster:
    ``RandomResizedCropRGBImageDecoder``.

    Args:
        scale: The share of the image's area, (low, high).
        ratio: Width over height of the crop, (low, high).
        size: Pixels of the output's sides.
    """

    def __init__(self, scale: tuple[float, float], ratio: tuple[float, float], size: int) -> None:
        super().__init__()
        self.scale = scale
        self.ratio = ratio
        self.size = size

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.RandomResizedCrop(int(self.size), tuple(self.scale), tuple(self.ratio), "area")]

    def generate_code(self) -> Callable[..., Any]:
        def random_resized_crop(images: Any, _: Any = None) -> Any:
            result = np.empty((len(images), self.size, self.size, 3), images.dtype)
            for image, output in zip(images, result):
                top, left, height, width = fast_crop.get_random_crop(
                    image.shape[0], image.shape[1], self.scale, self.ratio
                )
                fast_crop.resize_crop(image, top, top + height, left, left + width, output)
            return result

        return random_resized_crop

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_image(previous_state)
        return replace(previous_state, shape=(int(self.size), int(self.size), 3)), None
