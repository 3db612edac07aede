"""A list of operations by itself, without a file: what it makes of a state, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._torch import cpu
from .allocation_query import Allocation, AllocationQuery, allocate_query
from .operation import Operation
from .state import State


class Pipeline:
    """A list of operations, of which those that follow each other in the same mode form a block."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.original_state = State(jit_mode=True, device=cpu(), dtype=np.dtype("u1"), shape=())
        self.operations = operations
        self.operation_blocks, _ = self.parse_pipeline()
        self.compiled_ops = self.compile_ops()
        self.compiled_code = None

    def parse_pipeline(self, batch_size: int = 16) -> tuple[list[tuple[bool, list[int]]], dict[int, Allocation | None]]:
        """Returns the blocks, each with its mode and the numbers of its operations, and the memory of every
        operation."""
        blocks: list[tuple[bool, list[int]]] = []
        memory: dict[int, Allocation | None] = {}
        state = self.original_state
        for number, operation in enumerate(self.operations):
            state, memory[number] = operation.declare_state_and_memory(state)
            if blocks and blocks[-1][0] == state.jit_mode:
                blocks[-1][1].append(number)
            else:
                blocks.append((state.jit_mode, [number]))
        return blocks, memory

    def compile_ops(self) -> dict[int, Callable[..., Any]]:
        """Returns the function of every operation."""
        return {number: operation.generate_code() for number, operation in enumerate(self.operations)}

    def allocate_query(self, memory_allocation: AllocationQuery, batch_size: int, batches_ahead: int) -> Any:
        """Allocates the memory of one query."""
        return allocate_query(memory_allocation, batch_size, batches_ahead)

    def allocate_memory(self, batch_size: int, batches_ahead: int) -> Mapping[int, Any]:
        """Allocates the memory of all operations."""
        allocated: dict[int, Any] = {}
        for number, query in self.parse_pipeline()[1].items():
            if isinstance(query, AllocationQuery):
                allocated[number] = allocate_query(query, batch_size, batches_ahead)
            elif query is None:
                allocated[number] = None
            else:
                allocated[number] = tuple(allocate_query(one, batch_size, batches_ahead) for one in query)
        return allocated
