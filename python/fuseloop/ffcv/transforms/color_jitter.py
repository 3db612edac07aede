"""Random brightness, contrast and saturation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from .._builtin import BuiltIn, generator
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class _Blend(BuiltIn):
    """Blends a share of the images with another one that is made of each, and truncates to whole levels."""

    magnitude: float
    p: float

    def _other(self, image: np.ndarray) -> Any:
        raise NotImplementedError

    def generate_code(self) -> Callable[..., Any]:
        def blend(images: Any, _: Any = None) -> Any:
            rng, result = generator(), images.copy()
            chosen = rng.random(len(images)) < self.p
            factors = rng.uniform(max(0, 1 - self.magnitude), 1 + self.magnitude, len(images))
            for row in np.flatnonzero(chosen):
                mixed = factors[row] * images[row] + (1 - factors[row]) * self._other(images[row])
                result[row] = mixed.clip(0, 255)
            return result

        return blend

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_image(previous_state)
        return previous_state, None


def _gray(image: np.ndarray) -> np.ndarray:
    return (image @ np.array([0.2989, 0.587, 0.114])).astype(image.dtype)


class RandomBrightness(_Blend):
    """Multiplies a share ``p`` of the images by a factor of max(0, 1 - magnitude) to 1 + magnitude."""

    def __init__(self, magnitude: float, p: float = 0.5) -> None:
        super().__init__()
        self.p = p
        self.magnitude = magnitude

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.RandomBrightness(float(self.magnitude), float(self.p))]

    def _other(self, image: np.ndarray) -> Any:
        return 0


class RandomContrast(_Blend):
    """Changes the contrast of a share ``p`` of the images by a factor of max(0, 1 - magnitude) to 1 + magnitude."""

    def __init__(self, magnitude: float, p: float = 0.5) -> None:
        super().__init__()
        self.p = p
        self.magnitude = magnitude

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.RandomContrast(float(self.magnitude), float(self.p))]

    def _other(self, image: np.ndarray) -> Any:
        return _gray(image).mean()


class RandomSaturation(_Blend):
    """Changes the saturation of a share ``p`` of the images by a factor of max(0, 1 - magnitude) to 1 + magnitude."""

    def __init__(self, magnitude: float, p: float = 0.5) -> None:
        super().__init__()
        self.p = p
        self.magnitude = magnitude

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.RandomSaturation(float(self.magnitude), float(self.p))]

    def _other(self, image: np.ndarray) -> Any:
        return _gray(image)[:, :, None]
