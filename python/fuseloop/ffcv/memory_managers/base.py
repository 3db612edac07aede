"""How operations in Python read from the file. The compiled loader has ways of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np

from ..reader import Reader


class MemoryContext(AbstractContextManager):  # type: ignore[type-arg]
    """The memory of an epoch."""

    @property
    @abstractmethod
    def state(self) -> Any:
        """What the function of :meth:`MemoryManager.compile_reader` takes besides the address."""
        raise NotImplementedError

    @abstractmethod
    def __enter__(self) -> Any:
        return super().__enter__()

    def start_batch(self, batch: int) -> None:
        """Begins a batch."""

    @abstractmethod
    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        return super().__exit__(exc_type, exc_value, traceback)


class MemoryManager(ABC):
    """Knows where the data of samples are in a file.

    Attributes:
        ptrs: The addresses of all data, in order.
        sizes: The size of each.
        page_to_samples: The samples of each page.
        sample_to_pages: The pages of each sample.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        super().__init__()

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        table = self.reader.alloc_table
        # Of values of no bytes, the longest that begins at their address comes first.
        order = np.lexsort((np.negative(table["size"].astype(np.int64)), table["ptr"]))
        return np.ascontiguousarray(table["ptr"][order]), np.ascontiguousarray(table["size"][order])

    @property
    def ptrs(self) -> np.ndarray:
        return self._sorted[0]

    @property
    def sizes(self) -> np.ndarray:
        return self._sorted[1]

    @cached_property
    def ptr_to_size(self) -> dict[int, int]:
        return dict(zip(self.ptrs[::-1].tolist(), self.sizes[::-1].tolist()))

    @cached_property
    def _pages(self) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        of_sample: dict[int, set[int]] = defaultdict(set)
        of_page: dict[int, set[int]] = defaultdict(set)
        table = self.reader.alloc_table
        pages = table["ptr"] // np.uint64(max(self.reader.page_size, 1))
        for sample, page in zip(table["sample_id"].tolist(), pages.tolist()):
            of_sample[sample].add(page)
            of_page[page].add(sample)
        return of_sample, of_page

    @property
    def sample_to_pages(self) -> dict[int, set[int]]:
        return self._pages[0]

    @property
    def page_to_samples(self) -> dict[int, set[int]]:
        return self._pages[1]

    @abstractmethod
    def schedule_epoch(self, batches: Sequence[Sequence[int]]) -> MemoryContext:
        """Returns the memory of an epoch."""
        raise NotImplementedError

    @abstractmethod
    def compile_reader(self) -> Callable[..., Any]:
        """Returns the function that reads: ``read(address, state)``."""
        raise NotImplementedError

    @property
    @abstractmethod
    def state_type(self) -> Any:
        """The type of the state."""
        raise NotImplementedError
