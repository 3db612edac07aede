"""Squares that are painted over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from .._builtin import BuiltIn, generator, shown_color
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class Cutout(BuiltIn):
    """Paints a random square of ``crop_size`` pixels over, in the colour ``fill``. It always lies in the image."""

    def __init__(self, crop_size: int, fill: tuple[int, int, int] = (0, 0, 0)) -> None:
        super().__init__()
        self.crop_size = crop_size
        self.fill = np.array(fill)

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.Cutout(int(self.crop_size), shown_color(self.fill))]

    def generate_code(self) -> Callable[..., Any]:
        def cutout(images: Any, _: Any = None) -> Any:
            rng, side = generator(), int(self.crop_size)
            result = images.copy()
            for image in result:
                top, left = (rng.integers(n - side + 1) for n in image.shape[:2])
                image[top : top + side, left : left + side] = self.fill
            return result

        return cutout

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        height, width, _ = self._needs_image(previous_state)
        if self.crop_size > min(height, width):
            raise self._wrong(previous_state, f"images of at least {self.crop_size} pixels", "take a smaller crop_size")
        return previous_state, None
