"""The exceptions of Fuseloop.

All derive from :class:`FuseloopError`, and from the class of Python that says the same: a wrong argument is also a
``ValueError``, a file that is not there a ``FileNotFoundError``. An exception that a function of yours raises comes
out as it is, with a note that says where.
"""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = [
    "ConfigError",
    "DatasetError",
    "DatasetNotFoundError",
    "DecodeError",
    "DeviceError",
    "ForkedError",
    "FuseloopError",
    "FuseloopWarning",
    "InternalError",
    "OutOfMemoryError",
    "OutputExistsError",
    "ParamError",
    "PipelineError",
    "ReadError",
    "SampleError",
    "SlotsHeldError",
    "StalledError",
    "StateError",
    "TraceError",
]


class FuseloopWarning(UserWarning):
    """Something is probably wrong, and the message says what to do: files that are not read, labels that are guessed.

    >>> import warnings
    >>> warnings.simplefilter("error", FuseloopWarning)  # makes errors of them  # doctest: +SKIP
    """


_PACKAGE = str(Path(__file__).parent)


def _warn(message: str) -> None:
    """Warns at the line of the user's that called this package."""
    message = _in_python(message)
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, FuseloopWarning, stacklevel=level)


class FuseloopError(Exception):
    """Any error of Fuseloop.

    Attributes:
        path: The file or folder, or the address of an object.
        sample: The number of the sample.
        field: The field or output.
        offset: The position in the file, in bytes.
        batch: The number of the batch in its epoch.
        epoch: The epoch.
        hint: The nearest valid name.

    Each is None where it is not known.
    """

    path: str | None = None
    sample: int | None = None
    field: str | None = None
    offset: int | None = None
    batch: int | None = None
    epoch: int | None = None
    hint: str | None = None


class ConfigError(FuseloopError, ValueError):
    """An argument is not valid, contradicts another one, or does not fit the dataset."""


class ParamError(ConfigError):
    """A parameter of an op is not valid.

    Attributes:
        op: The name of the op.
        param: The name of the parameter.
        expected: What is accepted.
    """

    op: str | None = None
    param: str | None = None
    expected: str | None = None


class PipelineError(ConfigError, TypeError):
    """A list of ops does not fit its field, or its ops do not fit each other."""


class TraceError(ConfigError, TypeError):
    """A function of ``fuseloop.ops.pixel_op`` does what can't be compiled.

    Attributes:
        line: The line of the function's file, which is ``path``.
    """

    line: int | None = None


class DatasetError(FuseloopError, OSError):
    """A dataset can't be opened or read: the system refuses, or its format is another or damaged."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """There is no such file, folder or object."""


class OutputExistsError(DatasetError, FileExistsError):
    """The destination exists already."""


class SampleError(FuseloopError):
    """A sample is damaged, or does not fit the others."""


class ReadError(SampleError, OSError):
    """A sample can't be read."""


class DecodeError(SampleError, ValueError):
    """A sample is damaged."""


class StateError(FuseloopError, ValueError):
    """A state is damaged, or belongs to another dataset, order, seed or pipeline."""


class StalledError(FuseloopError, TimeoutError):
    """No batch was ready within the timeout of the loader."""


class SlotsHeldError(FuseloopError, RuntimeError):
    """All the memory that is allowed for batches is in use by batches, and arrays of them, that you hold."""


class OutOfMemoryError(FuseloopError, MemoryError):
    """More memory is needed than there is, or than a limit allows."""


class DeviceError(FuseloopError, RuntimeError):
    """A GPU can't be used, or has failed."""


class ForkedError(FuseloopError, RuntimeError):
    """An object is used in another process than the one that it belongs to, or its threads have ended."""


class InternalError(FuseloopError, RuntimeError):
    """A defect of Fuseloop: please report it."""


# What ends loops and generators, whoever raises it.
_ENDINGS = (StopIteration, StopAsyncIteration, GeneratorExit)


def _not_an_end(error: BaseException) -> BaseException:
    """Returns what is raised instead of an exception of the user's code: itself, or a RuntimeError if it would end the
    loop over the batches as if there were no more (PEP 479). Called by the compiled module, too."""
    if not isinstance(error, _ENDINGS):
        return error
    raised = RuntimeError(
        f"a function or an object that the loader calls raised {type(error).__name__}, which would end the loop over "
        "the batches as if it were complete: catch it there, or give next() a default"
    )
    raised.__cause__ = error
    return raised


# The words are those of src/errors.rs.
_CLASSES: dict[str, type[FuseloopError]] = {
    "not_found": DatasetNotFoundError,
    "already_exists": OutputExistsError,
    "io": DatasetError,
    "format": DatasetError,
    "damaged": DecodeError,
    "unsupported": ConfigError,
    "parameter": ConfigError,
    "op": ParamError,
    "pipeline": PipelineError,
    "field": ConfigError,
    "cursor": StateError,
    "memory": OutOfMemoryError,
    "batches_held": SlotsHeldError,
    "device": DeviceError,
    "timeout": StalledError,
    "threads": ForkedError,
    "panic": InternalError,
}

_CURES = {
    "batches_held": "; arrays of a batch hold it too: take copies (`copy=True`), call `batch.release()`, or raise "
    "memory_limit",
}


# What messages of the library call things of Rust, and what they are in Python.
_IN_PYTHON = {
    "`to_size((height, width))`, in a pipeline file `to_size = [height, width]`": "`to=(height, width)`",
    "`to_size((height, width))`": "`to=(height, width)`",
    "`to_size` is for images: use `to(max)`": "a height and a width are for images: use `to=max`",
    "`to(max)`": "`to=max`",
    "; in a program, declare it in `OpenOptions::custom_fields`": "",
    ", or raise `max_pixels` (LoaderBuilder::limits)": "",
    ", or raise `max_row_bytes` (LoaderBuilder::limits)": "",
    " (`Limits::max_unpacked_bytes`): unpack the shard, or raise the limit": ": unpack the shard",
    " (`Limits::max_unpacked_bytes`): unpack the file, or raise the limit": ": unpack the file",
    " (`Limits::max_unpacked_bytes`)": "",
    ": fix `Source::longest`": "",
    "field is declared as `As::NdArray`": "kind is 'array'",
    "`Clips::field`": "`field`",
    "`Collate::of`": "the `dtype` of `fuseloop.Collate`",
    'Normalize::unit, or scale = "unit"': 'scale="unit"',
    'Normalize::levels, or scale = "levels"': 'scale="levels"',
    'Normalize::values, or scale = "values"': 'scale="values"',
    "Levels::of(black, white)": "Levels(black, white)",
    "Convert::to(DType::F32)": "Convert('float32')",
    "RandomCrop::new((1, length))": "RandomCrop((1, length))",
    'Interpolation::Nearest or WarpInterpolation::Nearest (interpolation = "nearest")': 'interpolation="nearest"',
    "`Stream::": "`Stream.",
    "`OnDamaged::Skip`": "on_damaged='skip'",
    "OnDamaged::Substitute": "on_damaged='substitute'",
    "NumberRule::Exact": "number_rule='exact'",
    "`WriteMode::Mask`": "`fuseloop.write.Image('mask')`",
    "`Loader::": "`Loader.",
    "`YoloOptions::keypoints`": "the format",
    "; a program can name their folder in `Annotated::coco`": "; `fuseloop.sources.coco(images, annotations)` takes "
    "their folder",
    'set `auto_targets()`, or `Targets::mask` in `targets`; in a pipeline file `targets = "auto"`': 'targets="auto", or '
    "fuseloop.Target.mask() in targets",
    'set `Targets::mask` in `targets`; in a pipeline file `"mask"` in the table of the image in `[targets]`': "targets="
    "{'image': {'mask': fuseloop.Target.mask()}}, by the names of the two",
    "set `label` to its name, or to `none`": "call fuseloop.sources.table(path, label=...) with its name, or with "
    "label=None",
    "set `label` to `folder` or `none`": "call fuseloop.sources.folder(path, label='folder'), or with label=None",
    "set `image` to one of": "call fuseloop.sources.table(path, image=...) with one of",
    "set `delimiter`": "call fuseloop.sources.table(path, delimiter=...)",
    "set `quotes` to": "call fuseloop.sources.table(path, quotes=True) to",
    "`, `WriteOptions::rename`": "` of the command, `rename=`",
    "`drop_last(false)`": "`drop_last=False`",
    "`on_damaged` set to skip": "`on_damaged='skip'`",
    "`overwrite: true`": "`overwrite=True`",
    "list features in `TfOptions`": "name them by `features=` of `fuseloop.sources.tfrecord`",
}


# Settings of folders and tables that messages of the library name, with a value: patterns, and what stands for them in
# Python.
_SETTINGS = [
    (re.compile(r"set `split`, such as to `([^`]*)`"), r"call fuseloop.sources.folder(path, split='\1')"),
    (re.compile(r"name one by `split`, such as `([^`]*)`"), r"name one, such as by split='\1'"),
    (re.compile(r"set `label` to `none`"), "call fuseloop.sources.folder(path, label=None)"),
    (re.compile(r"set `label` to `(folder|file_name)`"), r"call fuseloop.sources.folder(path, label='\1')"),
    (re.compile(r"set `label` to `([^`]*)`"), r"call fuseloop.sources.table(path, label='\1')"),
    (re.compile(r", or to `none`"), ", or with label=None"),
    (re.compile(r", or to `(folder|file_name)`"), r", or with label='\1'"),
]


def _in_python(message: str) -> str:
    """Returns a message with Python's names of things."""
    for rust, python in _IN_PYTHON.items():
        message = message.replace(rust, python)
    for pattern, python in _SETTINGS:
        message = pattern.sub(python, message)
    return message


def _of_system(path: str | bytes, error: OSError) -> DatasetError:
    """Returns the exception for a file that can't be read."""
    name = path if isinstance(path, str) else repr(path)
    kind = DatasetNotFoundError if isinstance(error, FileNotFoundError) else DatasetError
    made = kind(f"{name}: {error.strerror or error}")
    made.path = name
    return made


def _of_kind(kind: str, message: str, /, **attributes: Any) -> FuseloopError:
    """Makes the exception of a kind; called by the compiled module."""
    made: type[FuseloopError] = _CLASSES.get(kind, FuseloopError)
    if kind in ("io", "not_found") and attributes.get("sample") is not None:
        made = ReadError
    error = made(_in_python(message) + _CURES.get(kind, ""))
    for name, value in attributes.items():
        if value is not None:
            setattr(error, name, _in_python(value) if name == "expected" else value)
    return error
