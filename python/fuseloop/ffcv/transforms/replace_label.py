"""Labels that are replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from .._builtin import BuiltIn
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class ReplaceLabel(BuiltIn):
    """Gives the samples in ``indices``, by their numbers in the file, the label ``new_label``."""

    def __init__(self, indices: Sequence[int], new_label: int) -> None:
        super().__init__()
        self.indices = np.sort(indices)
        self.new_label = new_label

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.ReplaceLabel(self.indices, int(self.new_label))]

    def generate_code(self) -> Callable[..., Any]:
        def replace_label(labels: Any, _: Any, indices: Any) -> Any:
            result = labels.copy()
            result[np.isin(indices, self.indices)] = self.new_label
            return result

        replace_label.with_indices = True  # type: ignore[attr-defined]
        return replace_label

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        if not previous_state.jit_mode:
            raise self._wrong(previous_state, "arrays of NumPy", "put ReplaceLabel before ToTensor()")
        if tuple(previous_state.shape) != (1,) or np.dtype(previous_state.dtype) != np.int64:
            raise self._wrong(previous_state, "labels of int64, (1,)", "put it right after IntDecoder()")
        return previous_state, None
