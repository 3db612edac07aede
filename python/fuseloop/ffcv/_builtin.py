"""What the operations of this package have in common, and the random numbers of those that run in Python."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .._op import Op
from ..errors import PipelineError
from .pipeline.operation import Operation
from .pipeline.state import State


class BuiltIn(Operation):
    """An operation of FFCV. It joins the compiled loop if all before it in its list do; ``generate_code`` is what it
    does after an operation that runs in Python."""

    # True for an operation that changes no bytes of the batch: its code runs on what the compiled loop delivers.
    _is_view = False

    # True for a decoder that asks for the rows of its field also where the loop decodes.
    _needs_rows = False

    def _fused(self, state: State) -> list[Op] | None:
        """Returns the ops of the compiled loop that do the same; None if there are none."""
        return None

    def _wrong(self, state: State, expected: str, cure: str) -> PipelineError:
        kind = "an array" if state.jit_mode else "a tensor"
        shape = "unknown shape" if state.shape is None else f"shape {tuple(int(n) for n in state.shape)}"
        found = f"{kind} of {state.dtype} and {shape}"
        error = PipelineError(f"{type(self).__name__} expects {expected}, but its input is {found}: {cure}")
        return error

    def _needs_image(self, state: State) -> tuple[int, int, int]:
        """Returns height, width and channels of images that are arrays of levels."""
        if not state.jit_mode:
            raise self._wrong(state, "arrays of NumPy", f"put {type(self).__name__} before ToTensor()")
        if state.shape is None or len(state.shape) != 3 or np.dtype(state.dtype) != np.uint8:
            raise self._wrong(state, "images of uint8, (height, width, 3)", "put it right after the decoder")
        height, width, channels = (int(n) for n in state.shape)
        return height, width, channels

    def _needs_tensor(self, state: State) -> None:
        if state.jit_mode:
            raise self._wrong(state, "a tensor of torch", f"put ToTensor() before {type(self).__name__}")


def is_builtin(operation: Any) -> bool:
    """Tells if an operation does what this package wrote: subclasses that bring code of their own do not."""
    if not isinstance(operation, BuiltIn):
        return False
    for kind in type(operation).__mro__:
        if kind.__module__.startswith(__package__ + "."):
            return True
        if {"generate_code", "declare_state_and_memory"} & set(vars(kind)):
            return False
    return False


class _Draws(threading.local):
    generator: np.random.Generator | None = None


_draws = _Draws()


def generator() -> np.random.Generator:
    """Returns the random numbers of the operation that runs: they follow from the seed of the loader, the epoch, the
    batch and the position of the operation. Outside of a loader they are not reproducible."""
    return _draws.generator if _draws.generator is not None else np.random.default_rng()


def seed_generator(*numbers: int) -> None:
    """Sets what :func:`generator` returns in this thread."""
    _draws.generator = np.random.default_rng([number & (2**64 - 1) for number in numbers])


def forget_generator() -> None:
    _draws.generator = None


def shown_color(fill: Any) -> Any:
    """Returns a level or a colour as whole numbers."""
    levels = np.asarray(fill)
    return int(levels) if levels.ndim == 0 else tuple(int(level) for level in levels)
