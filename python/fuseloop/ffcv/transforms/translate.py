"""Shifted images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from .._builtin import BuiltIn, generator, shown_color
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class RandomTranslate(BuiltIn):
    """Shifts each image by up to ``padding`` pixels in both directions; ``fill`` is the colour of what is uncovered."""

    def __init__(self, padding: int, fill: tuple[int, int, int] = (0, 0, 0)) -> None:
        super().__init__()
        self.padding = padding
        self.fill = np.array(fill)

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.RandomTranslate(int(self.padding), shown_color(self.fill))]

    def generate_code(self) -> Callable[..., Any]:
        def translate(images: Any, _: Any = None) -> Any:
            rng, pad = generator(), int(self.padding)
            count, height, width, channels = images.shape
            padded = np.empty((height + 2 * pad, width + 2 * pad, channels), images.dtype)
            result = np.empty_like(images)
            for row, (top, left) in enumerate(rng.integers(2 * pad + 1, size=(count, 2))):
                padded[:] = self.fill
                padded[pad : pad + height, pad : pad + width] = images[row]
                result[row] = padded[top : top + height, left : left + width]
            return result

        return translate

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_image(previous_state)
        return previous_state, None
