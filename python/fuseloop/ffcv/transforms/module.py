"""Modules of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._builtin import BuiltIn
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class ModuleWrapper(BuiltIn):
    """Calls a ``torch.nn.Module`` with the whole batch. A module in a list is wrapped by itself."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def generate_code(self) -> Callable[..., Any]:
        def apply(batch: Any, _: Any = None) -> Any:
            return self.module(batch)

        return apply

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        if previous_state.jit_mode:
            name = type(self.module).__name__
            raise self._wrong(previous_state, "a tensor of torch", f"put ToTensor() before the module {name}")
        return previous_state, None
