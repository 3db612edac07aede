"""Numbers that ops of one's own draw for each image."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .errors import ParamError

__all__ = ["Draw", "choice", "integers", "normal", "uniform"]

# The smallest number that is too large for an f32.
MAX_NUMBER = 3.4028235677973366e38


@dataclasses.dataclass(frozen=True)
class Draw:
    """A number that an op of :func:`pixel_op` draws for each image, made by :func:`uniform`, :func:`normal`,
    :func:`integers` or :func:`choice`."""

    kind: str
    numbers: tuple[float, ...]

    def __repr__(self) -> str:
        numbers = ", ".join(map(repr, self.numbers))
        return f"{self.kind}([{numbers}])" if self.kind == "choice" else f"{self.kind}({numbers})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.kind, self.numbers)


def _unpickled(kind: Any, numbers: Any) -> Draw:
    made: dict[str, Callable[..., Draw]] = {
        "uniform": uniform, "normal": normal, "integers": integers, "choice": lambda *numbers: choice(numbers),
    }
    try:
        return made[kind](*numbers)
    except (KeyError, TypeError):
        raise ParamError("the pickle of a draw is damaged: make the draw again") from None


def _draw(kind: str, numbers: Sequence[Any], expected: str, is_valid: Callable[..., bool]) -> Draw:
    try:
        plain = tuple(plain_number(number) for number in numbers)
    except TypeError:
        plain = ()
    if not plain or not all(math.isfinite(number) and abs(number) < MAX_NUMBER for number in plain) or not is_valid(*plain):
        error = ParamError(f"{kind}({', '.join(map(repr, numbers))}): expected {expected}")
        error.op, error.expected = kind, expected
        raise error
    return Draw(kind, plain)


def uniform(low: float = 0.0, high: float = 1.0) -> Draw:
    """A number that is uniform from ``low`` to ``high``, ``low <= high``, for a parameter of an op of :func:`pixel_op`."""
    return _draw("uniform", (low, high), "low <= high, both finite", lambda low, high: low <= high)


def normal(mean: float = 0.0, deviation: float = 1.0) -> Draw:
    """A number of the normal distribution, for a parameter of an op of :func:`pixel_op`."""
    return _draw("normal", (mean, deviation), "a mean, and a deviation of 0 or more", lambda _, deviation: deviation >= 0)


def integers(low: int, high: int) -> Draw:
    """A whole number from ``low`` to ``high - 1``, as of ``numpy.random.Generator.integers``, for a parameter of an op of
    :func:`pixel_op`. Both are within 2**24."""

    def is_valid(low: float, high: float) -> bool:
        return low < high and all(number == int(number) and abs(number) <= 2**24 for number in (low, high))

    return _draw("integers", (low, high), "whole numbers, low < high, within 2**24", is_valid)


def choice(numbers: Sequence[float]) -> Draw:
    """One of up to 256 numbers, each as often, for a parameter of an op of :func:`pixel_op`."""
    if not isinstance(numbers, Iterable):
        error = ParamError(f"choice({numbers!r}): expected a list of 1 to 256 finite numbers, such as choice([{numbers!r}])")
        error.op, error.expected = "choice", "1 to 256 finite numbers"
        raise error
    return _draw("choice", tuple(numbers), "1 to 256 finite numbers", lambda *numbers: len(numbers) <= 256)


def plain_number(given: Any) -> float:
    """Returns a number of Python: of one of Python or NumPy."""
    if hasattr(given, "dtype") and getattr(given, "ndim", 1) == 0:
        given = given.item()
    if isinstance(given, (int, float)):
        return given
    raise TypeError(f"{given!r} is no number")
