"""Reads from a map of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..pipeline.compiler import Compiler
from .base import MemoryContext, MemoryManager


def read_region(address, mem_state):  # type: ignore[no-untyped-def]  # numba infers the types
    """Returns the bytes that begin at an address."""
    size = mem_state[2][np.searchsorted(mem_state[1], address)]
    return mem_state[0][address : address + size]


class OSCacheContext(MemoryContext):
    """The map of a file."""

    def __init__(self, manager: MemoryManager) -> None:
        self.manager = manager
        self.mmap: np.ndarray | None = None

    @property
    def state(self) -> tuple[Any, np.ndarray, np.ndarray]:
        return self.mmap, self.manager.ptrs, self.manager.sizes

    def __enter__(self) -> Any:
        if self.mmap is None:
            self.mmap = np.memmap(self.manager.reader.file_name, np.uint8, "r").view(np.ndarray)
        return super().__enter__()

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        return super().__exit__(exc_type, exc_value, traceback)


class OSCacheManager(MemoryManager):
    """Reads from a map of the file."""

    def __init__(self, reader: Any) -> None:
        super().__init__(reader)
        self.context = OSCacheContext(self)

    def schedule_epoch(self, schedule: Sequence[Sequence[int]]) -> OSCacheContext:
        return self.context

    @property
    def state_type(self) -> type:
        return tuple

    def compile_reader(self) -> Callable[..., Any]:
        return Compiler.compile(read_region)
