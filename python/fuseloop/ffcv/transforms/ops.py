"""Tensors of torch: their device, layout and element type."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ... import ops
from .._builtin import BuiltIn
from .._torch import dtype_name, is_cpu, is_tensor, is_torch_dtype, numpy_dtype, torch, torch_dtype
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State

# The device that a loader with the argument `device` sends everything to.
only_device: ContextVar[str | None] = ContextVar("only_device", default=None)

# The element types of the compiled loop, by NumPy's and torch's names.
LOOP_DTYPES = {"uint8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"}


class ToTensor(BuiltIn):
    """Turns arrays of NumPy into tensors of torch, which share their memory."""

    _is_view = True

    def __init__(self) -> None:
        super().__init__()

    def _fused(self, state: State) -> list[Any] | None:
        return []

    def generate_code(self) -> Callable[..., Any]:
        def to_tensor(batch: Any, _: Any = None) -> Any:
            return batch if is_tensor(batch) else torch("ToTensor()").from_numpy(np.asarray(batch))

        return to_tensor

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        torch("ToTensor()")
        return replace(previous_state, jit_mode=False, dtype=torch_dtype(previous_state.dtype)), None


class ToDevice(BuiltIn):
    """Moves tensors to a device.

    Args:
        device: A ``torch.device``, its name, or the number of a GPU.
        non_blocking: The copy runs in parallel with the program if it can.
    """

    def __init__(self, device: Any, non_blocking: bool = True) -> None:
        super().__init__()
        self.device = device
        self.non_blocking = non_blocking

    def _target(self) -> Any:
        replacement = only_device.get() or os.environ.get("FUSELOOP_FFCV_DEVICE")
        return torch("ToDevice").device(self.device if replacement is None else replacement)

    def _fused(self, state: State) -> list[Any] | None:
        target = self._target()
        if target.type == "cpu" and is_cpu(state.device):
            return []
        if target.type == "cuda" and is_cpu(state.device):
            cuda = torch().cuda
            current = cuda.current_device() if cuda.is_available() else 0
            index = current if target.index is None else target.index
            return [ops.ToDevice(cast(Any, f"cuda:{index}"))] if index < 8 else None
        return None

    def generate_code(self) -> Callable[..., Any]:
        target = self._target()

        def to_device(batch: Any, _: Any = None) -> Any:
            return batch.to(target, non_blocking=self.non_blocking)

        return to_device

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_tensor(previous_state)
        return replace(previous_state, device=self._target()), None


class ToTorchImage(BuiltIn):
    """Turns images of (height, width, 3) into (3, height, width).

    Args:
        channels_last: Leaves the memory as it is, which torch calls ``channels_last``.
        convert_back_int16: Has no effect: half floats never pass as int16 here.
    """

    def __init__(self, channels_last: bool = True, convert_back_int16: bool = True) -> None:
        super().__init__()
        self.channels_last = channels_last
        self.convert_int16 = convert_back_int16

    @property
    def _is_view(self) -> bool:  # type: ignore[override]
        return self.channels_last

    def _fused(self, state: State) -> list[Any] | None:
        return [] if self.channels_last else [ops.ToChannelsFirst()]

    def generate_code(self) -> Callable[..., Any]:
        def to_torch_image(batch: Any, _: Any = None) -> Any:
            batch = batch.permute(0, 3, 1, 2)
            return batch if self.channels_last else batch.contiguous()

        return to_torch_image

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_tensor(previous_state)
        if previous_state.shape is None or len(previous_state.shape) != 3:
            raise self._wrong(previous_state, "images, (height, width, 3)", "leave it out")
        height, width, channels = previous_state.shape
        return replace(previous_state, shape=(channels, height, width)), None


class Convert(BuiltIn):
    """Converts to ``target_dtype``, of NumPy or torch."""

    def __init__(self, target_dtype: Any) -> None:
        super().__init__()
        self.target_dtype = target_dtype

    def _fused(self, state: State) -> list[Any] | None:
        name = dtype_name(self.target_dtype)
        if name == dtype_name(state.dtype):
            return []
        loop = LOOP_DTYPES >= {name, dtype_name(state.dtype)}
        return [ops.Convert(self.target_dtype)] if loop else None

    def generate_code(self) -> Callable[..., Any]:
        def convert(batch: Any, _: Any = None) -> Any:
            if is_tensor(batch):
                return batch.to(torch_dtype(self.target_dtype))
            return batch.astype(numpy_dtype(self.target_dtype))

        return convert

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        return replace(previous_state, dtype=_as_in(previous_state, self.target_dtype)), None


class View(BuiltIn):
    """Reads the elements as ``target_dtype``, of NumPy or torch."""

    _is_view = True

    def __init__(self, target_dtype: Any) -> None:
        super().__init__()
        self.target_dtype = target_dtype

    def _fused(self, state: State) -> list[Any] | None:
        # The loop could not go on with elements of another type.
        return [] if dtype_name(self.target_dtype) == dtype_name(state.dtype) else None

    def generate_code(self) -> Callable[..., Any]:
        def view(batch: Any, _: Any = None) -> Any:
            return batch.view(torch_dtype(self.target_dtype) if is_tensor(batch) else numpy_dtype(self.target_dtype))

        return view

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        return replace(previous_state, dtype=_as_in(previous_state, self.target_dtype)), None


def _as_in(state: State, dtype: Any) -> Any:
    """Returns an element type as one of NumPy for arrays, and of torch for tensors."""
    if state.jit_mode:
        return numpy_dtype(dtype)
    return dtype if is_torch_dtype(dtype) else torch_dtype(dtype)
