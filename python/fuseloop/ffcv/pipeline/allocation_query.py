"""The memory that operations ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._torch import is_torch_dtype, torch


@dataclass(frozen=True)
class AllocationQuery:
    """Memory for a batch: ``shape`` and ``dtype`` of one sample. With a type of torch it is a tensor on ``device``."""

    shape: tuple[int, ...]
    dtype: Any
    device: Any = None


Allocation = AllocationQuery | Sequence[AllocationQuery]


def allocate_query(memory_allocation: AllocationQuery, batch_size: int, batches_ahead: int) -> Any:
    """Allocates the memory of ``batches_ahead`` batches: one array, or a list of tensors."""
    shape = (batch_size, *(int(n) for n in memory_allocation.shape))
    if is_torch_dtype(memory_allocation.dtype):
        empty = torch().empty
        dtype, device = memory_allocation.dtype, memory_allocation.device
        return [empty(shape, dtype=dtype, device=device) for _ in range(batches_ahead)]
    return np.empty((batches_ahead, *shape), dtype=memory_allocation.dtype)


def allocate_batch(allocation: Allocation | None, samples: int) -> Any:
    """Allocates the memory of one batch: None, an array or tensor, or a tuple of them."""
    if allocation is None:
        return None
    if isinstance(allocation, AllocationQuery):
        return allocate_query(allocation, samples, 1)[0]
    return tuple(allocate_batch(query, samples) for query in allocation)
