"""What a function of a pixel computes: values that record it, and the functions that take them."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ._draws import MAX_NUMBER, Draw, plain_number
from .errors import TraceError

__all__ = [
    "Pixel",
    "Value",
    "ceil",
    "clip",
    "cos",
    "exp",
    "floor",
    "fma",
    "log",
    "maximum",
    "mean",
    "minimum",
    "sin",
    "sqrt",
    "stack",
    "trunc",
    "where",
]

_PACKAGE = os.path.dirname(__file__) + os.sep

# What a program may have: see ops/src/pixel_program/text.rs.
_MAX_OPERATIONS = 4096


# The record


# An operand: a word, or the index of an operation.
_Operand = str | int


class Trace:
    """What a function computed so far of a pixel of some channels: each operation once."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.operations: list[tuple[_Operand, ...]] = []
        self.known: dict[tuple[_Operand, ...], int] = {}

    def add(self, *operation: _Operand) -> int:
        found = self.known.get(operation)
        if found is None:
            found = self.known[operation] = len(self.operations)
            self.operations.append(operation)
            if found > 16 * _MAX_OPERATIONS:
                raise _error(f"it computes more than {found} things: a program has up to {_MAX_OPERATIONS} operations")
        return found

    def lines(self, results: Sequence[_Operand]) -> list[str]:
        """Returns the operations that the results need, as lines of a program."""
        needed, left = set(), [one for one in results if isinstance(one, int)]
        while left:
            index = left.pop()
            if index not in needed:
                needed.add(index)
                left += [one for one in self.operations[index] if isinstance(one, int)]
        number = {index: f"%{k}" for k, index in enumerate(sorted(needed))}

        def words(operands: Sequence[_Operand]) -> str:
            return " ".join(number[one] if isinstance(one, int) else one for one in operands)

        lines = [words(self.operations[index]) for index in number]
        return [f"channels {self.channels}", *lines, f"return {words(results)}"]


class ChannelsError(TraceError):
    """What a function does is not possible for a pixel of this number of channels."""


class NoChannel(IndexError):
    """A pixel has no such channel. It ends loops over the channels."""


class _Channels(tuple[Any, ...]):
    """The channels of a pixel."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            raise NoChannel(f"channel {index} of a value of {len(self)} channels") from None


def _error(text: str, kind: type[TraceError] = TraceError) -> TraceError:
    """Returns an error that says which line of the user's it is of."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return kind(text)
    error = kind(f"{frame.f_code.co_filename}, line {frame.f_lineno}: {text}")
    error.path, error.line = frame.f_code.co_filename, frame.f_lineno
    return error


class Value:
    """A value of a pixel that a function of :func:`pixel_op` computes with: one number, or one for each channel; or, of
    comparisons, what is true or false.

    It has Python's arithmetic (``+ - * / // % **``, ``abs``, ``round``, ``divmod``), its comparisons, and ``& | ~`` for
    what is true or false, which counts as 1 or 0 among numbers. The functions of :mod:`fuseloop.ops` (``exp``, ``where``
    and others) take it, and so do those of NumPy of the same names. ``value[c]`` is one channel. All of it is computed in
    float32.
    """

    __slots__ = ("_is_mask", "_lanes", "_trace")

    def __init__(self, trace: Trace, lanes: tuple[_Operand, ...], is_mask: bool = False) -> None:
        self._trace, self._lanes, self._is_mask = trace, lanes, is_mask

    # What is only known for each pixel

    def _unknown(self, what: str, cure: str) -> NoReturn:
        raise _error(f"{what} needs a value that differs from pixel to pixel, which is not known while it is traced: {cure}")

    def __bool__(self) -> bool:
        self._unknown("a condition (if, while, and, or, not, min, max, a chained comparison)",
                      "take ops.where, & | ~, ops.minimum or ops.maximum")

    def __float__(self) -> float:
        self._unknown("float() or a function of math", "take one of fuseloop.ops or NumPy: exp, log, sqrt, sin, cos")

    def __int__(self) -> int:
        self._unknown("int()", "take ops.floor or round()")

    __index__ = __int__

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._unknown("an array", "compute with the value itself")

    def __setitem__(self, *_: Any) -> None:
        raise _error("a value does not change: make another with ops.where or ops.stack")

    def __len__(self) -> int:
        if len(self._lanes) == 1 != self._trace.channels:
            raise _error("this value is one number: it has no channels", ChannelsError)
        return len(self._lanes)

    def __getitem__(self, index: Any) -> Value:
        count = len(self)
        if not isinstance(index, (int, slice)):
            raise _error("a value takes the number of a channel, or a slice of them, in brackets")
        if isinstance(index, int) and not -count <= index < count:
            raise NoChannel(f"channel {index} of a value of {count} channels")
        lanes = self._lanes[index]
        return Value(self._trace, lanes if isinstance(lanes, tuple) else (lanes,), self._is_mask)

    def __iter__(self) -> Iterator[Value]:
        return iter([self[c] for c in range(len(self))])

    def __reduce__(self) -> NoReturn:
        raise _error("a value can't be pickled")

    # Arithmetic

    def __neg__(self) -> Value:
        return _apply("neg", self)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return _apply("abs", self)

    def __round__(self, digits: int | None = None) -> Value:
        if digits:
            raise _error("round() takes no number of digits here")
        return _apply("round", self)

    def __floor__(self) -> Value:
        return _apply("floor", self)

    def __ceil__(self) -> Value:
        return _apply("ceil", self)

    def __trunc__(self) -> Value:
        return _apply("trunc", self)

    def __add__(self, other: Any) -> Value:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return _apply("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return _apply("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return _apply("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return _apply("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return _apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return _apply("div", other, self)

    def __floordiv__(self, other: Any) -> Value:
        return _apply("floor_div", self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return _apply("floor_div", other, self)

    def __mod__(self, other: Any) -> Value:
        return _apply("remainder", self, other)

    def __rmod__(self, other: Any) -> Value:
        return _apply("remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return _NUMPY["divmod"](self, other)

    def __rdivmod__(self, other: Any) -> tuple[Value, Value]:
        return _NUMPY["divmod"](other, self)

    def _untraced(self, _: Any) -> NoReturn:
        raise _error("@, << and >> are not traced: there are + - * / // % ** and divmod()")

    __matmul__ = __rmatmul__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _untraced

    def __pow__(self, exponent: Any, modulus: None = None) -> Value:
        if modulus is not None:
            raise _error("pow() takes no modulus here")
        if isinstance(exponent, (int, float)) and exponent in (-1, 0.5):
            return 1 / self if exponent == -1 else sqrt(self)
        if isinstance(exponent, (int, float)) and exponent in range(1, 9):
            # By squares: 5 = 4 + 1.
            power, square = None, self
            for bit in f"{int(exponent):b}"[::-1]:
                if bit == "1":
                    power = square if power is None else power * square
                square = square * square
            assert power is not None
            return power
        return _apply("pow", self, exponent)

    def __rpow__(self, base: Any) -> Value:
        return _apply("pow", base, self)

    # Comparisons

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Any) -> Value:
        return _apply("less", self, other)

    def __gt__(self, other: Any) -> Value:
        return _apply("less", other, self)

    def __le__(self, other: Any) -> Value:
        return _apply("less_equal", self, other)

    def __ge__(self, other: Any) -> Value:
        return _apply("less_equal", other, self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return _apply("equal", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return ~(self == other)

    def __and__(self, other: Any) -> Value:
        return _masks("and", self, other)

    def __or__(self, other: Any) -> Value:
        return _masks("or", self, other)

    def __xor__(self, other: Any) -> Value:
        return _masks("or", self, other) & ~_masks("and", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Value:
        return _masks("not", self)

    # NumPy

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        return _of_numpy(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}", given, named)

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Value:
        return _of_numpy(function.__name__, given, named)


class Pixel(Value):
    """The pixel that a function of :func:`pixel_op` gets: a :class:`Value` with a number for each channel, in levels of 0
    to 255 before ``Normalize``."""

    __slots__ = ()

    def _input(self, word: str) -> Value:
        return Value(self._trace, (word,))

    @property
    def y(self) -> Value:
        """The row, from 0, in the image that the op gets."""
        return self._input("y")

    @property
    def x(self) -> Value:
        """The column, from 0, in the image that the op gets."""
        return self._input("x")

    @property
    def height(self) -> Value:
        """The height of the image that the op gets, in pixels."""
        return self._input("height")

    @property
    def width(self) -> Value:
        """The width of the image that the op gets, in pixels."""
        return self._input("width")

    @property
    def channels(self) -> tuple[Value, ...]:
        """The channels, each one number."""
        return _Channels(self)

    def _color(self, index: int, name: str) -> Value:
        if self._trace.channels < 3:
            raise _error(f"a pixel of {self._trace.channels} channel(s) has no {name}: take px.channels", ChannelsError)
        return self[index]

    @property
    def r(self) -> Value:
        """Red."""
        return self._color(0, "r")

    @property
    def g(self) -> Value:
        """Green."""
        return self._color(1, "g")

    @property
    def b(self) -> Value:
        """Blue."""
        return self._color(2, "b")


def as_value(trace: Trace, given: Any) -> Value:
    """Returns a value, a number, or a number or value for each channel, as a value."""
    if isinstance(given, Value):
        if given._trace is not trace:
            raise _error("a value of another call of a function: a function computes with its own pixel alone")
        return given
    if isinstance(given, Draw):
        raise _error(f"{given!r} is drawn for a parameter: make it the parameter's default, or pass it to the op")
    if isinstance(given, (list, tuple)) or getattr(given, "ndim", 0) == 1:
        values = [_numbers(as_value(trace, one)) for one in given]
        if len(values) == trace.channels and all(len(value._lanes) == 1 for value in values):
            return Value(trace, tuple(value._lanes[0] for value in values))
        raise _error(f"{len(values)} numbers for the {trace.channels} channel(s) of the pixel", ChannelsError)
    try:
        number = float(plain_number(given))
    except (TypeError, OverflowError):
        raise _error(f"{type(given).__name__} is no number, value or list of one for each channel") from None
    if math.isfinite(number) and abs(number) >= MAX_NUMBER:
        raise _error(f"{number!r} is too large for float32")
    return Value(trace, (repr(number),))


def _numbers(value: Value) -> Value:
    """Returns 1 and 0 for what is true and false."""
    return _lanes("where", False, value, as_value(value._trace, 1), as_value(value._trace, 0)) if value._is_mask else value


def _lanes(operation: str, is_mask: bool, *values: Value) -> Value:
    """Records an operation for each channel."""
    trace, count = values[0]._trace, max(len(value._lanes) for value in values)
    if any(len(value._lanes) not in (1, count) for value in values):
        shown = " and ".join(str(len(value._lanes)) for value in values)
        raise _error(f"values of {shown} channels can't be computed together", ChannelsError)
    each = [value._lanes if len(value._lanes) == count else value._lanes * count for value in values]
    return Value(trace, tuple(trace.add(operation, *operands) for operands in zip(*each)), is_mask)


def _trace_of(given: Sequence[Any]) -> Trace | None:
    """Returns the trace of the first value of some arguments, which may be in lists."""
    for one in given:
        if isinstance(one, Value):
            return one._trace
        if isinstance(one, (list, tuple)):
            found = _trace_of(one)
            if found is not None:
                return found
    return None


def _apply(operation: str, *given: Any) -> Value:
    """Records an operation on numbers, at least one of which is a value."""
    trace = _trace_of(given)
    assert trace is not None
    values = [as_value(trace, one) for one in given]
    if operation != "equal" and len(values) > 1 and all(value._is_mask for value in values):
        raise _error("what is true or false is combined by & and |")
    values = [_numbers(value) for value in values]
    return _lanes(operation, operation in ("less", "less_equal", "equal"), *values)


def _masks(operation: str, *given: Any) -> Value:
    """Records an operation on what is true or false."""
    for one in given:
        if not isinstance(one, Value) or not one._is_mask:
            raise _error("& | ^ ~ combine comparisons: put each in brackets, (px.r > 9) & (px.g > 9)")
    return _lanes(operation, True, *given)


def _of_numpy(name: str, given: Sequence[Any], named: Any) -> Any:
    function = _NUMPY.get(name)
    if function is None or named:
        with_named = f" with {', '.join(named)}" if named and function is not None else ""
        raise _error(f"numpy.{name}{with_named} is not traced: there are {', '.join(sorted(_NUMPY))}")
    return function(*given)


# Functions


def _function(operation: str, *given: Any, numpy: str | None = None) -> Any:
    """Records an operation, or calls NumPy's function if no argument is a value."""
    if _trace_of(given) is not None:
        return _apply(operation, *given)
    import numpy as np

    return getattr(np, numpy or operation)(*given)


def exp(x: Any) -> Any:
    """``e`` to the power of ``x``, within 1.1 ulp; of a :class:`Value`, or of what NumPy takes."""
    return _function("exp", x)


def log(x: Any) -> Any:
    """The natural logarithm, within 1 ulp; of a :class:`Value`, or of what NumPy takes."""
    return _function("log", x)


def sqrt(x: Any) -> Any:
    """The square root; of a :class:`Value`, or of what NumPy takes."""
    return _function("sqrt", x)


def sin(x: Any) -> Any:
    """The sine of ``x`` radians, within 2 ulp; of a :class:`Value`, or of what NumPy takes. NaN from 131072 on."""
    return _function("sin", x)


def cos(x: Any) -> Any:
    """The cosine of ``x`` radians, within 2 ulp; of a :class:`Value`, or of what NumPy takes. NaN from 131072 on."""
    return _function("cos", x)


def floor(x: Any) -> Any:
    """The next whole number downwards; of a :class:`Value`, or of what NumPy takes."""
    return _function("floor", x)


def ceil(x: Any) -> Any:
    """The next whole number upwards; of a :class:`Value`, or of what NumPy takes."""
    return _function("ceil", x)


def trunc(x: Any) -> Any:
    """The next whole number towards 0; of a :class:`Value`, or of what NumPy takes."""
    return _function("trunc", x)


def round(x: Any) -> Any:  # noqa: A001, NumPy's name
    """The nearest whole number, halves to even; of a :class:`Value`, or of what NumPy takes."""
    return _function("round", x)


def abs(x: Any) -> Any:  # noqa: A001, NumPy's name
    """The absolute value; of a :class:`Value`, or of what NumPy takes."""
    return _function("abs", x, numpy="absolute")


def minimum(a: Any, b: Any) -> Any:
    """The smaller one of two numbers; of a :class:`Value`, or of what NumPy takes. Of a :class:`Value`, NaN is not
    propagated: if one of the two is NaN, the result is ``b``."""
    return _function("min", a, b, numpy="minimum")


def maximum(a: Any, b: Any) -> Any:
    """The larger one of two numbers; of a :class:`Value`, or of what NumPy takes. Of a :class:`Value`, NaN is not
    propagated: if one of the two is NaN, the result is ``b``."""
    return _function("max", a, b, numpy="maximum")


def clip(x: Any, low: Any, high: Any) -> Any:
    """``x``, at least ``low`` and at most ``high``; of a :class:`Value`, or of what NumPy takes. A :class:`Value` that is
    NaN becomes ``low``."""
    return minimum(maximum(x, low), high)


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once, of a :class:`Value`: as fast as one of the two. NumPy's arrays are rounded twice."""
    return a * b + c if _trace_of((a, b, c)) is None else _apply("fma", a, b, c)


def where(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition is true, and ``b`` elsewhere; of a :class:`Value`, or of what NumPy takes."""
    trace = _trace_of((condition, a, b))
    if trace is None or not isinstance(condition, Value):
        import numpy as np

        if trace is not None:
            return a if condition else b
        return np.where(condition, a, b)
    if not condition._is_mask:
        raise _error("the condition of where is a number: compare it, as in ops.where(px.r > 128, a, b)")
    return _lanes("where", False, condition, *(_numbers(as_value(trace, one)) for one in (a, b)))


def mean(value: Any) -> Any:
    """The mean of the channels of a :class:`Value`: one number. Of an array, whose first axis are the channels."""
    if not isinstance(value, Value):
        import numpy as np

        return np.mean(value, axis=0)
    channels = list(value)
    total = channels[0]
    for channel in channels[1:]:
        total = total + channel
    return total / len(channels)


def stack(channels: Sequence[Any]) -> Any:
    """A :class:`Value` of 1 to 4 numbers, one for each channel. Of arrays, along a new first axis."""
    trace = _trace_of(channels)
    if trace is None:
        import numpy as np

        return np.stack(np.broadcast_arrays(*channels))
    return stacked(trace, channels)


def stacked(trace: Trace, channels: Sequence[Any]) -> Value:
    values = [_numbers(as_value(trace, one)) for one in channels]
    if not 1 <= len(values) <= 4 or any(len(value._lanes) != 1 for value in values):
        raise _error("expected 1 to 4 values of one number each, such as px.channels", ChannelsError)
    return Value(trace, tuple(value._lanes[0] for value in values))


# NumPy's names of what is traced. An array on the left of a value calls these.
_NUMPY: dict[str, Callable[..., Any]] = {
    "absolute": abs,
    "add": functools.partial(_apply, "add"),
    "ceil": ceil,
    "clip": clip,
    "cos": cos,
    "divide": functools.partial(_apply, "div"),
    "divmod": lambda a, b: (_apply("floor_div", a, b), _apply("remainder", a, b)),
    "equal": functools.partial(_apply, "equal"),
    "exp": exp,
    "floor": floor,
    "floor_divide": functools.partial(_apply, "floor_div"),
    "greater": lambda a, b: _apply("less", b, a),
    "greater_equal": lambda a, b: _apply("less_equal", b, a),
    "less": functools.partial(_apply, "less"),
    "less_equal": functools.partial(_apply, "less_equal"),
    "log": log,
    "logical_and": functools.partial(_masks, "and"),
    "logical_not": functools.partial(_masks, "not"),
    "logical_or": functools.partial(_masks, "or"),
    "maximum": maximum,
    "minimum": minimum,
    "multiply": functools.partial(_apply, "mul"),
    "negative": functools.partial(_apply, "neg"),
    "not_equal": lambda a, b: ~_apply("equal", a, b),
    "power": functools.partial(_apply, "pow"),
    "remainder": functools.partial(_apply, "remainder"),
    "rint": round,
    "round": round,
    "sin": sin,
    "sqrt": sqrt,
    "square": lambda a: a * a,
    "subtract": functools.partial(_apply, "sub"),
    "trunc": trunc,
    "where": where,
}
