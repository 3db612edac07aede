"""Whole numbers and floats."""

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


class BasicDecoder(BuiltIn):
    """Decodes a number of a sample's row, to an array of shape (batch, 1). A subclass sets ``dtype``."""

    dtype: np.dtype

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        state = replace(previous_state, jit_mode=True, shape=(1,), dtype=self.dtype)
        return state, AllocationQuery((1,), dtype=self.dtype)

    def generate_code(self) -> Callable[..., Any]:
        def decode(indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            for row, sample in enumerate(indices):
                destination[row] = metadata[sample]
            return destination[: len(indices)]

        return decode


class IntDecoder(BasicDecoder):
    """Decodes whole numbers of 64 bits."""

    dtype = np.dtype("<i8")

    def _fused(self, state: State) -> list[Any]:
        return []


class FloatDecoder(BasicDecoder):
    """Decodes floats of 64 bits."""

    dtype = np.dtype("<f8")

    def _fused(self, state: State) -> list[Any]:
        return []


class FloatField(Field):
    """A float of 64 bits."""

    def __init__(self) -> None:
        pass

    @property
    def metadata_type(self) -> np.dtype:
        return np.dtype("<f8")

    @staticmethod
    def from_binary(binary: Any) -> Field:
        return FloatField()

    def to_binary(self) -> Any:
        return no_arguments()

    def encode(self, destination: Any, field: Any, malloc: Callable[..., Any]) -> None:
        destination[0] = field

    def get_decoder_class(self) -> type[Operation]:
        return FloatDecoder


class IntField(Field):
    """A whole number of 64 bits."""

    @property
    def metadata_type(self) -> np.dtype:
        return np.dtype("<i8")

    @staticmethod
    def from_binary(binary: Any) -> Field:
        return IntField()

    def to_binary(self) -> Any:
        return no_arguments()

    def encode(self, destination: Any, field: Any, malloc: Callable[..., Any]) -> None:
        destination[0] = field

    def get_decoder_class(self) -> type[Operation]:
        return IntDecoder
