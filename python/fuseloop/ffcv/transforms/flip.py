"""Mirrored images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops
from .._builtin import BuiltIn, generator
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class RandomHorizontalFlip(BuiltIn):
    """Mirrors a share ``flip_prob`` of the images left to right."""

    def __init__(self, flip_prob: float = 0.5) -> None:
        super().__init__()
        self.flip_prob = flip_prob

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.RandomHorizontalFlip(float(self.flip_prob))]

    def generate_code(self) -> Callable[..., Any]:
        def flip(images: Any, _: Any = None) -> Any:
            flipped = generator().random(len(images)) < self.flip_prob
            result = images.copy()
            result[flipped] = images[flipped, :, ::-1]
            return result

        return flip

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_image(previous_state)
        return previous_state, None
