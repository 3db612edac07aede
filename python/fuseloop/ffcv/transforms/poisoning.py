"""A fixed image that is blended into some samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import ParamError
from .._builtin import BuiltIn
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class Poison(BuiltIn):
    """Blends a fixed image into some samples.

    Args:
        mask: The image that is blended in, (height, width, 3).
        alpha: The weight of the mask for each pixel, (height, width).
        indices: The samples, by their numbers in the file.
        clamp: The least and the greatest level of the result.
    """

    def __init__(
        self, mask: np.ndarray, alpha: np.ndarray, indices: Sequence[int], clamp: tuple[int, int] = (0, 255)
    ) -> None:
        super().__init__()
        self.mask = mask
        self.indices = np.sort(indices)
        self.clamp = clamp
        self.alpha = alpha

    def _fused(self, state: State) -> list[Any] | None:
        if tuple(self.clamp) != (0, 255):
            return None
        mask, alpha = np.asarray(self.mask, np.float64), np.asarray(self.alpha, np.float64)
        try:
            return [ops.Poison(mask.shape[:2], mask.reshape(-1), alpha.reshape(-1), self.indices)]
        except ParamError:  # Levels or weights that the compiled loop has no room for.
            return None

    def generate_code(self) -> Callable[..., Any]:
        weight = np.asarray(self.alpha, np.float64)[:, :, None]
        mask = np.asarray(self.mask, np.float64) * weight

        def poison(images: Any, _: Any, indices: Any) -> Any:
            result = images.copy()
            for row in np.flatnonzero(np.isin(indices, self.indices)):
                blended = (images[row].astype(np.float32) * (1 - weight)).astype(np.float32)
                result[row] = np.clip((blended + mask).astype(np.float32), *self.clamp)
            return result

        poison.with_indices = True  # type: ignore[attr-defined]
        return poison

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        size = self._needs_image(previous_state)
        if np.shape(self.mask) != size or np.shape(self.alpha) != size[:2]:
            raise self._wrong(
                previous_state,
                f"images of the size of its mask, {np.shape(self.mask)}, and alpha, {np.shape(self.alpha)}",
                "resize the mask and alpha",
            )
        return previous_state, None
