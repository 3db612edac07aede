"""The interface of operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .allocation_query import AllocationQuery
from .state import State

if TYPE_CHECKING:
    from ..fields.base import Field


class Operation(ABC):
    """A decoder or a transform of whole batches. Subclasses outside of this package run in Python, once per batch."""

    def __init__(self) -> None:
        self.metadata: Any = None
        self.memory_read: Any = None

    def accept_field(self, field: Field) -> None:
        """Tells the operation its field."""
        self.field: Any = field

    def accept_globals(self, metadata: Any, memory_read: Any) -> None:
        """Tells the operation the rows of its field, and the function that reads from the file."""
        self.metadata = metadata
        self.memory_read = memory_read

    @abstractmethod
    def generate_code(self) -> Callable[..., Any]:
        """Returns the function of a batch: ``f(input, memory)``, then the samples if ``f.with_indices`` is true, then
        the shared memory if there is any."""
        raise NotImplementedError

    def declare_shared_memory(self, previous_state: State) -> AllocationQuery | None:
        """Asks for memory that all pipelines with this operation share."""
        return None

    def generate_code_for_shared_state(self) -> Callable[..., Any] | None:
        """Returns the function that fills the shared memory, once per batch."""
        return None

    @abstractmethod
    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        """Returns what the operation makes of its input, and the memory that it needs for a batch."""
        raise NotImplementedError
