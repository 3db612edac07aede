"""Functions of Python as ops."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from ._fuseloop import Function
from ._op import Op
from .errors import ParamError

__all__ = ["Lambda"]


class Lambda(Op):
    """Calls a function of yours with NumPy arrays, on the threads of the loader.

    By default the function gets each finished batch of its output once: an array of all rows, and the numbers of
    their samples. It then must be the last op of its list, before or after MixUp and CutMix, and it can change any
    output: images of any type and layout, labels, floats, arrays. With ``per_sample=True`` it gets one uint8 image
    at a time, ``[height, width, 3]``, and the number of its sample; it can stand between any ops on uint8 images, also
    in RandomApply and such. The ops before and after it are still compiled.

    The function changes the array in place and returns None, or returns an array of the same type and shape. It may
    keep the array that it gets. What it raises ends the epoch, whatever ``on_damaged`` says, and is raised again by
    ``next(epoch)``, with a note that says where.

    With the GIL, Python runs one function at a time, whatever the number of workers: ``Loader.stats`` shows the cost.
    Without it, they run at the same time. A function that refers to its loader keeps it alive until ``Loader.close``. It
    may take batches of another loader; its own, whose thread would wait for itself, raises a ``PipelineError``. Threads
    of the loader round floats to the nearest and keep denormals, whatever ``torch.set_flush_denormal`` or
    ``fesetround`` have set elsewhere.

    Args:
        f: Called as ``f(array, ids)``, or as ``f(array)`` if it takes no more. ``ids`` is an int64 array, or one int
            with ``per_sample``. It may run on any thread, and not only for samples that are asked for.
        name: The name in plans, errors and states; by default that of the function.
        rng: Adds an argument, a ``numpy.random.Generator`` that depends on the seed, the epoch and the sample (or the
            batch) alone: draw from it, and results are the same for any number of workers.
        per_sample: Calls the function for each sample, not for each batch.
        output: The height and width of the images that a function on samples returns, if it changes them.

    The state of an epoch fits only a function of the same name and the same code. The values that a function takes
    from around it are not compared.

    >>> import numpy as np
    >>> from fuseloop import ops
    >>> def invert(images, ids):
    ...     np.subtract(255, images, out=images)
    >>> ops.Lambda(invert)
    Lambda(invert)
    >>> import fuseloop as fl
    >>> loader = fl.Loader(example_dataset(), batch_size=4, image=[ops.Resize((8, 8)), ops.Lambda(invert)])
    >>> next(iter(loader))["image"].shape
    (4, 8, 8, 3)
    """

    __slots__ = ("_function", "name")
    __match_args__ = ("f", "name", "rng", "per_sample", "output")

    name: str

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        name: str | None = None,
        rng: bool = False,
        per_sample: bool = False,
        output: int | Sequence[int] | None = None,
    ) -> None:
        if not callable(f):
            raise _refused("f", f, "a function")
        if name is not None and (not isinstance(name, str) or not name.isprintable() or not name):
            raise _refused("name", name, "a text")
        size = None if output is None else _size(output)
        if size is not None and not per_sample:
            raise _refused("output", output, "None, unless per_sample is true: a function on batches keeps the shape")
        own = _name(f)
        params = {"f": f, "name": name, "rng": bool(rng), "per_sample": bool(per_sample), "output": size}
        takes_ids = _takes_ids(f, bool(rng))
        function = Function(f, name or own, _code(f), bool(rng), bool(per_sample), size, takes_ids)
        object.__setattr__(self, "name", name or own)
        object.__setattr__(self, "_params", params)
        object.__setattr__(self, "_function", function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lambda) and self._params == other._params

    def __hash__(self) -> int:
        return hash((self.name, *list(self._params.values())[2:]))

    def __repr__(self) -> str:
        given = [f"{key}={value!r}" for key, value in self._params.items() if key != "f" and value not in (None, False)]
        return f"Lambda({', '.join([_name(self._params['f']), *given])})"

    def __reduce__(self) -> tuple[Any, ...]:
        own = _name(self._params["f"])
        if "<" in own:
            raise TypeError(f"{self!r} can't be pickled, as its function is {own}: define it with `def` in a module")
        return _rebuilt, (self._params,)


def _rebuilt(params: dict[str, Any]) -> Lambda:
    return Lambda(**params)


def _refused(param: str, found: object, expected: str) -> ParamError:
    error = ParamError(f"Lambda: {param} is {found!r}, expected {expected}")
    error.op, error.param, error.expected = "Lambda", param, expected
    return error


def _size(output: Any) -> tuple[int, int]:
    try:
        height, width = (output, output) if hasattr(output, "__index__") else output
        size = height.__index__(), width.__index__()
    except (AttributeError, TypeError, ValueError):
        raise _refused("output", output, "a height and a width") from None
    if not all(0 < side < 2**16 for side in size):
        raise _refused("output", output, "a height and a width of 1 to 65535")
    return size


def _name(f: Callable[..., Any]) -> str:
    """Returns the name of a function, of that inside of a partial, or of the class of a callable."""
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(f, "__qualname__", None) or type(f).__qualname__


def _takes_ids(f: Callable[..., Any], rng: bool) -> bool:
    """Returns whether a function takes the numbers of samples besides the array."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return True  # a function of C does not always tell
    for ids in (True, False):
        try:
            signature.bind(*[None] * (1 + ids + rng))
            return ids
        except TypeError:
            continue
    wanted = "array, ids, rng" if rng else "array, ids"
    raise _refused("f", f, f"a function that can be called with ({wanted}); its parameters are {signature}")


def _code(f: Any) -> str:
    """Returns a hash of a function's code, the same in every process."""
    import hashlib  # here: importing Fuseloop does not load OpenSSL

    while isinstance(f, functools.partial):
        f = f.func
    f = inspect.unwrap(f)
    f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None and not isinstance(f, type):
        code = getattr(getattr(type(f), "__call__", None), "__code__", None)
    text = _text(code) if code is not None else f"{getattr(f, '__module__', None)}.{_name(f)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(value: Any) -> str:
    """Returns constants of code as a text without addresses, in an order that does not change."""
    if isinstance(value, types.CodeType):
        parts = (value.co_code.hex(), value.co_names, value.co_varnames, value.co_freevars)
        return f"{parts}{[_text(constant) for constant in value.co_consts]}"
    if isinstance(value, frozenset):
        return f"frozenset{sorted(map(_text, value))}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return repr(value)
