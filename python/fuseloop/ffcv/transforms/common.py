"""Axes of length 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._builtin import BuiltIn
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class Squeeze(BuiltIn):
    """Drops axes of length 1: those in ``dims``, or all. The axis of the batch, 0, always stays."""

    _is_view = True

    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.dims = dims

    def _fused(self, state: State) -> list[Any] | None:
        return []

    def generate_code(self) -> Callable[..., Any]:
        def squeeze(batch: Any, _: Any = None) -> Any:
            dropped = {dim % batch.ndim for dim in self.dims} if self.dims else set(range(1, batch.ndim))
            sizes = [n for dim, n in enumerate(batch.shape) if dim == 0 or n != 1 or dim not in dropped]
            return batch.reshape(sizes)

        return squeeze

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_tensor(previous_state)
        axes = len(previous_state.shape) + 1
        for dim in self.dims:
            if not -axes <= dim < axes:
                raise self._wrong(previous_state, f"an axis {dim}", f"the axes are 0 to {axes - 1}")
        dropped = {dim % axes for dim in self.dims} if self.dims else set(range(1, axes))
        shape = tuple(n for dim, n in enumerate(previous_state.shape, 1) if n != 1 or dim not in dropped)
        return replace(previous_state, shape=shape), None
