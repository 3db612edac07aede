"""Arrays of a fixed shape."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._builtin import BuiltIn
from .._torch import is_tensor, numpy_dtype
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.operation import Operation
from ..pipeline.state import State
from .base import Field, no_arguments


class NDArrayDecoder(BuiltIn):
    """Decodes arrays of a fixed shape."""

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        shape, dtype = tuple(self.field.shape), numpy_dtype(self.field.dtype)
        return replace(previous_state, jit_mode=True, shape=shape, dtype=dtype), AllocationQuery(shape, dtype)

    def _fused(self, state: State) -> list[Any]:
        return []

    def generate_code(self) -> Callable[..., Any]:
        read = self.memory_read

        def decode(indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            for row, sample in enumerate(indices):
                data = read(metadata[sample], storage_state)
                destination[row] = np.frombuffer(data.tobytes(), destination.dtype).reshape(destination.shape[1:])
            return destination

        return decode


NDArrayArgsType = np.dtype([("shape", "<u8", 32), ("type_length", "<u8")])


class NDArrayField(Field):
    """An array of one type and shape in all samples. Values of another type or shape are refused."""

    def __init__(self, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = tuple(int(n) for n in shape)
        self.element_size = self.dtype.itemsize * int(np.prod(self.shape))
        if self.dtype == np.uint16:
            warnings.warn("torch has few operations on uint16: int16 may suit better", stacklevel=2)

    @property
    def metadata_type(self) -> np.dtype:
        return np.dtype("<u8")

    @staticmethod
    def from_binary(binary: Any) -> Field:
        head = NDArrayArgsType.itemsize
        arguments = binary[:head].view(NDArrayArgsType)[0]
        text = binary[head:][: arguments["type_length"]].tobytes().decode("ascii")
        description = json.loads(text)
        if len(description) != 1:
            raise ValueError(f"an array of records, {text}, can't be loaded")
        shape = arguments["shape"].tolist()
        while shape and shape[-1] == 0:
            shape.pop()
        dtype = np.dtype(description[0][1])
        if dtype.hasobject:
            raise ValueError(f"an array of {dtype} can't be loaded")
        return NDArrayField(dtype, tuple(shape))

    def to_binary(self) -> Any:
        head = np.zeros(1, dtype=NDArrayArgsType)
        head["shape"][0][: len(self.shape)] = self.shape
        text = np.frombuffer(json.dumps(numpy_dtype(self.dtype).descr).encode("ascii"), dtype="<u1")
        head["type_length"][0] = len(text)
        described = np.concatenate([head.view("<u1"), text])
        result = no_arguments()
        result[0][: len(described)] = described
        return result

    def encode(self, destination: Any, field: Any, malloc: Callable[..., Any]) -> None:
        field = np.ascontiguousarray(field)
        dtype = numpy_dtype(self.dtype)
        if field.dtype != dtype or field.shape != self.shape:
            found, wanted = f"{field.dtype} and shape {field.shape}", f"{dtype} and shape {self.shape}"
            raise ValueError(f"an array of {found} was given for a field of {wanted}")
        destination[0], memory = malloc(self.element_size)
        memory[:] = field.reshape(-1).view("<u1")

    def get_decoder_class(self) -> type[Operation]:
        return NDArrayDecoder


class TorchTensorField(NDArrayField):
    """A tensor of one type and shape in all samples."""

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(numpy_dtype(dtype), shape)

    def encode(self, destination: Any, field: Any, malloc: Callable[..., Any]) -> None:
        super().encode(destination, field.detach().cpu().numpy() if is_tensor(field) else field, malloc)
