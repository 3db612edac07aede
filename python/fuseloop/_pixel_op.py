"""Ops of one's own that are functions of a pixel, which are traced and compiled."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ._draws import Draw, plain_number
from ._op import Op
from ._trace import ChannelsError, NoChannel, Pixel, Trace, Value, as_value, stacked
from .errors import ParamError, TraceError

__all__ = ["PixelFunction", "pixel_op"]


class TracedOp(Op):
    """An op of a function of :func:`pixel_op`. It is a ``PixelProgram``, and equals any other of the same program."""

    __slots__ = ()
    __match_args__ = ("program",)
    name = "PixelProgram"

    def __init__(self, program: Sequence[str]) -> None:
        super().__init__(program=program)

    def __repr__(self) -> str:
        return str(self._params["program"][1])


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """The number that is drawn first, second and so on."""

    index: int


def _with_draws(trace: Trace, param: Any) -> Any:
    """Returns a parameter as a function gets it."""
    if isinstance(param, tuple):
        return tuple(_with_draws(trace, one) for one in param)
    return Value(trace, (f"d{param.index}",)) if isinstance(param, _Drawn) else param


def _shown(param: Any) -> str:
    """Returns a parameter as Python."""
    if isinstance(param, (list, tuple)):
        return f"({', '.join(map(_shown, param))}{',' if len(param) == 1 else ''})"
    return repr(param.item() if hasattr(param, "dtype") and getattr(param, "ndim", 1) == 0 else param)


def _is_of_channels(error: Exception) -> bool:
    """Returns whether a function failed because a pixel has too few or too many channels for it."""
    is_unpacking = isinstance(error, ValueError) and ("values to unpack" in str(error) or str(error).startswith("zip() arg"))
    return is_unpacking or isinstance(error, (ChannelsError, NoChannel))


class PixelFunction:
    """What :func:`pixel_op` makes of a function: called with parameters, it makes an op."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ParamError(f"pixel_op takes a function, found {function!r}")
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", "")
        if not self._name.isidentifier():
            raise ParamError(f"pixel_op takes a function with a name, made by `def`, found {self._name or function!r}")
        try:
            params = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise ParamError(
                f"pixel_op takes a function of Python, made by `def`, found {self._name}, which does not tell its parameters"
            ) from None
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        is_named = params and params[0].kind <= kinds[0] and all(param.kind in kinds for param in params[1:])
        if not is_named or any(param.name == "p" for param in params):
            raise ParamError(
                f"{self._name}: expected a function of a pixel and of parameters with names, none of them p, which is the "
                "share of the images; found (" + ", ".join(str(param) for param in params) + ")"
            )
        share = inspect.Parameter("p", inspect.Parameter.KEYWORD_ONLY, default=1.0)
        own = [param.replace(annotation=inspect.Parameter.empty) for param in params[1:]]
        self.__signature__ = inspect.Signature([*own, share], return_annotation=Op)

    def __repr__(self) -> str:
        return f"<pixel_op {self._name}{self.__signature__}>"

    def __reduce__(self) -> str:
        return self._function.__qualname__

    def __call__(self, *args: Any, **given: Any) -> Any:
        if args and isinstance(args[0], Value):
            return self._function(*args, **given)  # a function that another one calls
        try:
            bound = self.__signature__.bind(*args, **given)
        except TypeError as error:
            raise self._refused(f"{error}; its parameters: {self.__signature__}") from None
        defaults = {param.name: param.default for param in self.__signature__.parameters.values()}
        # A parameter that has its default is not shown.
        try:
            given = {name: _shown(value) for name, value in bound.arguments.items()}
        except RecursionError:
            raise self._refused("a parameter is a list that contains itself") from None
        shown = [f"{name}={text}" for name, text in given.items() if text != _shown(defaults[name])]
        bound.apply_defaults()
        share = bound.arguments.pop("p")
        is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
        if not is_number or not 0.0 <= share <= 1.0:
            raise self._refused(f"p is {share!r}, expected 0.0 to 1.0", "p")
        draws: list[str] = []
        plain = {name: self._param(name, value, draws) for name, value in bound.arguments.items()}
        head = ["fuseloop pixel program 1", f"{self._name}({', '.join(shown)})", f"p {share!r}", *draws]
        return TracedOp([*head, *self._sections(plain)])

    def _param(self, name: str, value: Any, draws: list[str]) -> Any:
        """Returns a parameter as the function gets it, and adds what is drawn for it."""
        if isinstance(value, Draw):
            draws.append(f"draw {name} {value.kind} {' '.join(repr(float(number)) for number in value.numbers)}")
            return _Drawn(len(draws) - 1)
        if isinstance(value, (list, tuple)):
            return tuple(self._param(f"{name}{k}", one, draws) for k, one in enumerate(value))
        if value is None or isinstance(value, (str, bool)):
            return value
        try:
            return plain_number(value)
        except TypeError:
            raise self._refused(
                f"{name} is {value!r}, expected a number, a draw such as ops.uniform(0, 1), a text, or several of them", name
            ) from None

    def _sections(self, params: dict[str, Any]) -> list[str]:
        """Traces the function for images of 1 to 4 channels. Those that have too few or too many for it are left out; for
        3 channels, any other error of it is its own."""
        found: dict[int, list[str]] = {}
        first: Exception | None = None
        for channels in (3, 1, 2, 4):
            try:
                found[channels] = self._traced(channels, params)
            except (IndexError, ValueError) as error:  # an unpacking, or a channel that there is not
                if isinstance(error, TraceError) and not isinstance(error, ChannelsError):
                    raise
                if channels == 3 and not _is_of_channels(error):
                    error.add_note(f"fuseloop: {self._name} was traced for a pixel of 3 channels")
                    raise
                first = first or error
        if not found:
            assert first is not None
            raise first
        return [line for channels in sorted(found) for line in found[channels]]

    def _traced(self, channels: int, params: dict[str, Any]) -> list[str]:
        trace = Trace(channels)
        pixel = Pixel(trace, tuple(f"c{c}" for c in range(channels)))
        result = self._function(pixel, **{name: _with_draws(trace, value) for name, value in params.items()})
        if isinstance(result, (list, tuple)):
            if not 1 <= len(result) <= 4:
                raise self._located(
                    f"it returns a list of {len(result)}, expected 1 to 4 values, one for each channel", ChannelsError
                )
            if any(isinstance(one, Value) and len(one._lanes) > 1 for one in result):
                raise self._located(
                    "it returns a list with a value of several channels, expected one number for each channel: "
                    "[px.r, px.g, px.b], or px itself"
                )
        try:
            if isinstance(result, (list, tuple)):
                value = stacked(trace, result)
                return trace.lines(value._lanes)
            value = as_value(trace, result)
        except ChannelsError:
            raise
        except TraceError as error:
            raise self._located(f"it returns {type(result).__name__}, expected a value, or one for each channel") from error
        if value._is_mask:
            raise self._located("it returns what is true or false, expected numbers: ops.where(mask, 255, 0)")
        return trace.lines(value._lanes * channels if len(value._lanes) == 1 else value._lanes)

    def _located(self, text: str, kind: type[TraceError] = TraceError) -> TraceError:
        """Returns an error that names the function."""
        code = getattr(self._function, "__code__", None)
        where = f"{code.co_filename}, line {code.co_firstlineno}: " if code else ""
        error = kind(f"{where}{self._name}: {text}")
        if code:
            error.path, error.line = code.co_filename, code.co_firstlineno
        return error

    def _refused(self, text: str, param: str | None = None) -> ParamError:
        error = ParamError(f"{self._name}: {text}")
        error.op, error.param = self._name, param
        return error


def pixel_op(function: Callable[..., Any]) -> PixelFunction:
    """Makes an op of a function of a pixel, which is compiled with the ops before and after it.

    The function is called once, when an op is made of it, with a :class:`Pixel` and the parameters. What it computes is
    recorded, and runs for each pixel of each image: on all processors and devices, in float32, with the same bits. It
    returns the new pixel: a value, one number for all channels, or a list of 1 to 4 numbers, one for each channel of the
    new image. Levels are clamped to 0 to 255 afterwards, and keep their fractions until they are stored.

    A condition on pixels is ``ops.where(px.r > 128, a, b)``: an ``if`` on one, ``float()``, and functions that are not
    traced are a :class:`~fuseloop.errors.TraceError`, which names the line. Loops, other functions, and numbers from
    around the function are run and read while it is traced.

    Calling the result makes an op. Its parameters are those of the function besides the pixel, and ``p``, the share of
    the images that it changes. A parameter that is a number, a text or None is this in the function. One that is
    :func:`uniform`, :func:`normal`, :func:`integers` or :func:`choice` is drawn for each image, and in the function a
    value like any other. The op takes images of the numbers of channels, 1 to 4, that the function can be traced with,
    and of more, which are computed channel by channel, if it treats all channels alike.

    An op is pickled, and compared, by what was recorded: it needs no function where it is loaded, and the state of an
    epoch fits only the same record.

    Raises:
        TraceError: The function does what is not traced, or returns no value.
        ParamError: A parameter is not one of the function's, or is none of the above.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> @ops.pixel_op
    ... def vignette(px, *, strength=ops.uniform(1.0, 3.0)):
    ...     d = (px.y / px.height - 0.5) ** 2 + (px.x / px.width - 0.5) ** 2
    ...     return px * ops.exp(-strength * d)
    >>> vignette(strength=ops.uniform(0.5, 1.0), p=0.8)
    vignette(strength=uniform(0.5, 1.0), p=0.8)
    >>> fl.check_ops([ops.RandomHorizontalFlip(), vignette(), ops.ToChannelsFirst()])
    >>> loader = fl.Loader(example_dataset(), batch_size=4, image=[ops.RandomResizedCrop(32), vignette()])
    """
    return PixelFunction(function)
