"""What all ops have in common. The ops themselves are in ``ops.py``, which ``tools/generate.py`` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from . import _fuseloop
from ._fuseloop import check_op
from .errors import ConfigError, ParamError

__all__ = ["Compose", "Op", "check_ops", "from_albumentations", "from_timm", "from_torchvision"]

# The words of ops for types of elements, by those of NumPy and torch.
_DTYPES = {
    "uint8": "u8",
    "uint16": "u16",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float": "f32",
    "float64": "f64",
    "double": "f64",
}


class _OpType(type):
    __match_args__: tuple[str, ...]

    @property
    def __signature__(cls) -> Any:
        import inspect

        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:], return_annotation=cls)

    # Checkers of types shall see the parameters of each op instead.
    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **given: Any) -> Any:
            known = cls.__match_args__
            for name in given:
                if name not in known:
                    from difflib import get_close_matches

                    from ._hints import parameter

                    hint = parameter(cls.__name__, name)
                    near = [] if hint else get_close_matches(name, known, 1)
                    cure = f"did you mean {near[0]}?" if near else f"its parameters: {', '.join(known) or 'none'}"
                    error = ParamError(f"{cls.__name__} has no parameter {name}; {hint or cure}")
                    error.op, error.param, error.hint = cls.__name__, name, hint or (near[0] if near else None)
                    raise error
            if len(args) > len(known):
                from ._hints import ORDERS

                theirs = f"; torchvision has {', '.join(ORDERS[cls.__name__])}" if cls.__name__ in ORDERS else ""
                raise ParamError(f"{cls.__name__} has {len(args)} parameters here, and takes {len(known)}: "
                                 f"{', '.join(known) or 'none'}{theirs}")
            try:
                return super().__call__(*args, **given)
            except ParamError as error:
                from ._hints import position

                hint = position(cls.__name__, known, error.param, len(args))
                if hint is not None:
                    error.args, error.hint = (f"{error}; {hint}",), hint
                raise


class Op(metaclass=_OpType):
    """An augmentation or conversion, as it is listed. An op does not change, equals any other with the same
    parameters, can be pickled, and its ``repr`` is Python.

    Attributes:
        name: The name of the op.
        params: Its parameters; those not given have their defaults. Each is an attribute, too.
    """

    __slots__ = ("_params",)
    __match_args__ = ()
    name: str = ""
    _params: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        try:
            params = {name: _plain(value) for name, value in given.items() if value is not None}
        except RecursionError:
            raise ParamError(f"{self.name}: a list contains itself, expected one of numbers, texts, lists and ops") from None
        except UnicodeEncodeError as error:
            raise ParamError(
                f"{self.name}: {error.object!r} is no text: half of a pair of UTF-16 stands alone in it"
            ) from None
        check_op(self.name, params)
        object.__setattr__(self, "_params", params)

    @property
    def params(self) -> dict[str, Any]:
        return dict(self._params)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).__match_args__:
            return self._params.get(name)
        raise AttributeError(f"{type(self).__name__} has no parameter {name}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an op does not change: make another {self.name} with {name}={value!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Op):
            return NotImplemented
        return self.name == other.name and self._params == other._params

    def __hash__(self) -> int:
        return hash((self.name, repr(self._params)))

    def __repr__(self) -> str:
        code = type(self).__init__.__code__
        names = code.co_varnames[1 : code.co_argcount]
        defaults = type(self).__init__.__defaults__ or ()
        required = len(names) - len(defaults)
        shown = [repr(self._params[name]) for name in names[:required]]
        for name, default in zip(names[required:], defaults):
            if name in self._params and self._params[name] != default:
                shown.append(f"{name}={self._params[name]!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self._params)


def _rebuilt(kind: type[Op], params: dict[str, Any]) -> Op:
    is_whole = isinstance(kind, type) and issubclass(kind, Op) and isinstance(params, dict)
    if not is_whole or not all(isinstance(name, str) for name in params):
        raise ConfigError("the pickle of an op is damaged: make the op again")
    return kind(**params)


def _plain(value: Any) -> Any:
    """Returns a parameter as bools, numbers, texts, tuples and ops."""
    if isinstance(value, Enum):  # torchvision's InterpolationMode, Pillow's Resampling
        value = value.value
    if value is None or isinstance(value, (bool, int, float, str, Op)):
        if isinstance(value, str):
            value.encode()  # raises for half a pair of UTF-16
            return _DTYPES.get(value, value)
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return tuple(_plain(item) for item in value)
    kind = type(value)
    if kind.__module__ == "torch" and kind.__name__ == "dtype":
        return _dtype(str(value).removeprefix("torch."))
    if hasattr(value, "tolist") and not isinstance(value, type):  # an array or a number of NumPy or torch
        return _plain(value.tolist())
    if isinstance(value, type) or kind.__name__.endswith("DType") or kind.__name__ == "dtype":
        # A type of NumPy, such as numpy.float16 or numpy.dtype("float16").
        return _dtype(str(getattr(value, "name", None) or getattr(value, "__name__", value)))
    if isinstance(value, Iterable):
        return tuple(_plain(item) for item in value)
    raise ConfigError(f"{value!r} is no parameter of an op: expected a number, a text, a list or an op")


def _unless(other: Any, value: Any, default: Any) -> Any:
    """Returns a value, and None for a default that another parameter, which is given, stands in place of."""
    return None if other is not None and value == default else value


def _dtype(name: str) -> str:
    return _DTYPES.get(name, name)


def Compose(*ops: Any) -> list[Op]:  # noqa: N802, torchvision's name
    """Joins ops and lists of ops to one list. None is left out.

    >>> from fuseloop import ops
    >>> ops.Compose([ops.Resize(256), ops.CenterCrop(224)], None, ops.ToChannelsFirst())
    [Resize(256), CenterCrop(224), ToChannelsFirst()]
    """
    joined: list[Op] = []
    for op in ops:
        if op is None:
            continue
        if isinstance(op, Op):
            joined.append(op)
        elif isinstance(op, Iterable) and not isinstance(op, (str, bytes, Mapping, type)):
            joined.extend(Compose(*op))
        else:
            from ._hints import not_an_op

            raise not_an_op(op)
    return joined


def from_torchvision(transform: Any, *, report: Callable[[str], object] | None = None) -> list[Op]:
    """Returns the ops for a transform of ``torchvision.transforms`` or ``.v2``, for a list of them, or for
    ``weights.transforms()`` of a model.

    What makes tensors of pictures (``ToTensor``, ``ToImage``, ``ToDtype``) becomes the order of the axes and the scale
    of the ops. Transforms without an op, and values of parameters that the op does not have, are a ``ConfigError`` that
    names each. ``docs/migration.md`` lists all classes.

    Args:
        report: Is called with a line for each transform: the op, and how its images differ. By default a
            ``FuseloopWarning`` lists the differences of more than a level, and those of targets.
    """
    from ._torchvision import converted

    return converted(transform, report)


def from_albumentations(transform: Any, *, report: Callable[[str], object] | None = None) -> list[Op]:
    """Returns the ops for an ``A.Compose`` of Albumentations, for one of its transforms, or for a list of them.

    ``ToTensorV2`` becomes ``ToChannelsFirst`` at the end. Boxes, keypoints and masks follow the image if ``targets=`` of
    the loader declares them. Transforms without an op, and values of parameters that the op does not have, are a
    ``ConfigError`` that names each. ``docs/migration.md`` lists all classes.

    Args:
        report: Is called with a line for each transform: the op, and how its images differ. By default a
            ``FuseloopWarning`` lists the differences of more than a level, and those of targets.
    """
    from ._albumentations import converted

    return converted(transform, report)


def from_timm(transform: Any, *, report: Callable[[str], object] | None = None) -> list[Op]:
    """Returns the ops for what ``timm.data.create_transform`` returns: a transform of timm and of torchvision, or a
    tuple of them (``separate=True``), which run one after the other.

    Transforms without an op, and values of parameters that the op does not have, are a ``ConfigError`` that names each.
    ``docs/migration.md`` lists all classes.

    Args:
        report: Is called with a line for each transform: the op, and how its images differ. By default a
            ``FuseloopWarning`` lists the differences of more than a level, and those of targets.
    """
    from ._timm import converted

    return converted(transform, report)


def check_ops(
    ops: Iterable[Op], size: tuple[int, int] = (48, 64), *, channels: int = 3, samples: int = 100
) -> None:
    """Compiles a list of ops, and checks on random uint8 images that the compiled loop returns the bits that the
    definitions of the ops return: for the test of an op of your own, between other ops, since they share a loop.

    Args:
        ops: The list.
        size: The height and the width of the images.
        channels: Their number of channels.
        samples: The number of images, with the draws of as many samples. Both are the same in every call.

    Raises:
        PipelineError: The list does not fit such images, or an image differs.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> fl.check_ops([ops.RandomCrop(32), ops.RandomSolarize(128), ops.Normalize.imagenet()], samples=20)
    """
    _fuseloop.check_ops(ops, size, channels, samples)


# Any iterable will do. An op by itself, which has an attribute of any name, would pass for one.
OpList = Sequence[Op] | Callable[[int], Iterable[Op]]
