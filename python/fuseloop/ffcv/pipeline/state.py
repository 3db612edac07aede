"""What is known about the data between two operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._torch import is_cpu, is_torch_dtype


@dataclass
class State:
    """The data that an operation receives.

    Attributes:
        jit_mode: True for arrays of NumPy, and false for tensors of torch.
        device: The device: the CPU in jit mode.
        shape: The shape of one sample.
        dtype: The type of the elements: one of NumPy in jit mode.
    """

    jit_mode: bool
    device: Any
    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        if self.jit_mode and not is_cpu(self.device):
            raise AssertionError(f"arrays in jit mode are on the CPU, not on {self.device}")
        if self.jit_mode and is_torch_dtype(self.dtype):
            raise AssertionError(f"arrays in jit mode have an element type of NumPy, not {self.dtype}")
