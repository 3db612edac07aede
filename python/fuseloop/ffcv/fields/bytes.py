"""Bytes of any length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._builtin import BuiltIn
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.operation import Operation
from ..pipeline.state import State
from .base import Field, no_arguments


class BytesDecoder(BuiltIn):
    """Decodes bytes, to an array of shape (batch, longest value of the file). Zeros follow the shorter values."""

    _needs_rows = True

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        sizes = self.metadata["size"]
        shape = (int(sizes.max()) if len(sizes) else 0,)
        state = replace(previous_state, jit_mode=True, shape=shape, dtype=np.dtype("u1"))
        return state, AllocationQuery(shape, dtype=np.dtype("u1"))

    def _fused(self, state: State) -> list[Any]:
        return []

    def generate_code(self) -> Callable[..., Any]:
        read = self.memory_read

        def decode(batch_indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            for row, sample in enumerate(batch_indices):
                cell = metadata[sample]
                size = int(cell["size"])
                destination[row] = 0
                if size:
                    destination[row, :size] = read(cell["ptr"], storage_state)[:size]
            return destination

        return decode


class BytesField(Field):
    """Bytes of any length. The value of a sample is a one-dimensional array of uint8."""

    def __init__(self) -> None:
        pass

    @property
    def metadata_type(self) -> np.dtype:
        return np.dtype([("ptr", "<u8"), ("size", "<u8")])

    @staticmethod
    def from_binary(binary: Any) -> Field:
        return BytesField()

    def to_binary(self) -> Any:
        return no_arguments()

    def encode(self, destination: Any, field: Any, malloc: Callable[..., Any]) -> None:
        destination["ptr"], memory = malloc(field.size)
        destination["size"] = field.size
        memory[:] = field

    def get_decoder_class(self) -> type[Operation]:
        return BytesDecoder
