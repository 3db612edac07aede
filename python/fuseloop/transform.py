"""A list of ops as a function on images: for datasets, services and batches of your own.

>>> import numpy as np
>>> import fuseloop as fl
>>> from fuseloop import ops
>>> augment = fl.Transform([ops.RandomResizedCrop(32), ops.Normalize.imagenet(), ops.ToChannelsFirst()])
>>> x = augment(np.zeros((48, 64, 3), np.uint8))
>>> x.shape, x.dtype.name
((3, 32, 32), 'float32')
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from . import _fuseloop, _hints
from ._images import NUMPY, TORCH, image_of, result_of, tensor_of
from ._objects import Objects
from ._op import Compose, Op
from ._values import _is_tensor
from .errors import ConfigError, FuseloopError, _in_python, _of_system
from .loader import Plan, Target, _data, _epoch_number, _targets_of

__all__ = ["Transform"]

_getpid = os.getpid
_WORD = 2**64


class Transform:
    """A list of ops as a function: it takes an image, and returns what the ops make of it.

    The bits are those that a :class:`fuseloop.Loader` with the same ops gives for the same seed, epoch and sample.
    Threads may call one transform at once, and the interpreter is free while it works; an array must not be written to
    in the meantime. The first image of a type (its number of channels and the type of its elements) compiles the ops,
    in milliseconds; sizes do not matter.

    ====================================  ===========================================================================
    image                                 result
    ====================================  ===========================================================================
    array ``[H, W, C]`` or ``[H, W]``     array
    tensor of torch, ``[C, H, W]``        tensor: ``[C, H, W]``, unless ``ToChannelsLast`` is among the ops
    image of PIL                          image of PIL, if the ops end with uint8 ``[H, W, C]``; an array otherwise
    bytes or path of an image file,       array; only the part of a JPEG that the drawn crop needs is decoded
    or ``{"bytes", "path"}``
    ====================================  ===========================================================================

    Args:
        ops: The ops, in the order in which they run. Those that mix samples, such as ``MixUp``, are for loaders. Those
            after ``ToDevice`` run on a GPU: see :meth:`batch`.
        seed: Calls without a key draw what a loader with this seed draws for the samples 0, 1, 2, ... of epoch 0. By
            default they draw from the system's entropy. In a worker of a DataLoader, they draw from the worker's seed and
            from this one: workers and epochs differ, and ``torch.manual_seed`` repeats them.
        targets: What follows the image, by name: ``{"boxes": Target.boxes("xywh"), "labels": Target.column()}``. Names
            and types say it of what is not declared: see :meth:`__call__`.
        read_mode: What image files and images of PIL are read as: ``"rgb"``, ``"gray"``, ``"gray16"``, ``"rgb_alpha"``
            or ``"index"``. Arrays and tensors have the channels that they have.
        number_rule: How values are rounded between ops, as for :class:`fuseloop.Loader`.
        exif_orientation: Whether image files are turned as their EXIF orientation says. By default they are not, and one
            that would be is an error if it has targets. Images of PIL are taken as they are:
            ``PIL.ImageOps.exif_transpose`` turns one.
        scaled_decode: Decodes a large JPEG at a part of its size where a resize comes first, as
            :class:`fuseloop.Loader` does.
        device: Where the ops after ``ToDevice`` run: ``"cpu"``, ``"cuda:0"``, ``"auto"``. By default, the op says it.
        device_batches: Maximum number of batches on the device that are held at a time, 16 by default.

    >>> from fuseloop import ops
    >>> augment = Transform([ops.RandomHorizontalFlip(), ops.CenterCrop(4)], seed=7)
    >>> augment
    Transform([RandomHorizontalFlip(), CenterCrop(4)], seed=7)
    >>> image = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    >>> first, second = augment(image), augment(image)
    >>> bool((first == augment(image, seed=7, epoch=0, sample=0)).all())
    True
    """

    def __init__(
        self,
        ops: Iterable[Op],
        *,
        seed: int | None = None,
        targets: Mapping[str, Target] | None = None,
        read_mode: Literal["rgb", "gray", "gray16", "rgb_alpha", "index"] = "rgb",
        number_rule: Literal["fused", "exact", "relaxed"] = "fused",
        exif_orientation: bool | None = None,
        scaled_decode: bool = False,
        device: str | None = None,
        device_batches: int | None = None,
    ) -> None:
        settings = {
            "read_mode": read_mode,
            "number_rule": number_rule,
            "exif_orientation": exif_orientation,
            "scaled_decode": scaled_decode,
            "device": device,
            "device_batches": device_batches,
        }
        self._begin(_listed(ops), None, {"seed": seed, "targets": targets, **settings})

    @classmethod
    def from_spec(cls, pipeline: str | os.PathLike[str], *, seed: int | None = None) -> Transform:
        """Makes the transform of a pipeline file (TOML): the ops of its field ``image``, or of its only field with ops, and
        its settings ``seed``, ``number_rule``, ``exif_orientation``, ``scaled_decode``, ``read_mode``, ``device`` and
        ``device_batches``.

        Args:
            pipeline: The file.
            seed: See :class:`Transform`; by default that of the file.
        """
        if not isinstance(pipeline, (str, os.PathLike)):
            raise ConfigError(f"from_spec: {pipeline!r} is no path, expected that of a pipeline file")
        path = os.fspath(pipeline)
        if "\0" in os.fsdecode(path):
            raise ConfigError(f"from_spec: {path!r} has a zero byte, which no path has")
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: not a text in UTF-8, expected a pipeline file") from None
        except OSError as error:
            raise _of_system(path, error) from error
        transform = cls.__new__(cls)
        transform._begin([], (str(path), text), {"seed": seed})
        return transform

    def _begin(self, ops: list[Op], spec: tuple[str, str] | None, arguments: dict[str, Any]) -> None:
        seed = arguments.get("seed")
        self._ops, self._spec, self._arguments = ops, spec, arguments
        self._targets = _declared(arguments.get("targets"))
        self._settings = _data({name: arguments.get(name) for name in _SETTINGS})
        self._read_mode = arguments.get("read_mode", "rgb")
        if not isinstance(self._read_mode, str):
            raise ConfigError(
                f'read_mode is {self._read_mode!r}, expected "rgb", "gray", "gray16", "rgb_alpha" or "index"'
            )
        if spec is None:
            self._settings["read_mode"] = {"image": self._read_mode}
        self._seed = None if seed is None else _seed(seed)
        self._home = _getpid()
        self._processes: dict[int, _Process] = {}
        core = self._start().core
        self._is_channels_first, self._is_channels_last = core.channels_first is True, core.channels_first is False
        self._read_mode = core.read_mode
        if self._seed is None:
            self._seed = core.seed

    def _made(self, targets: Mapping[str, Any]) -> _fuseloop.Transform:
        """Builds the compiled part."""
        settings = {**self._settings, "targets": {"image": dict(targets)}} if targets else self._settings
        return _fuseloop.Transform(self._ops, settings, self._spec)

    def _start(self) -> _Process:
        """Builds what belongs to this process: of two threads that do it, one is taken."""
        return self._processes.setdefault(_getpid(), _Process(self._made({})))

    # Calls

    def __call__(
        self,
        image: Any = None,
        target: Any = None,
        /,
        *,
        seed: int | None = None,
        epoch: int | None = None,
        sample: int | None = None,
        **named: Any,
    ) -> Any:
        """Returns what the ops make of an image.

        With targets, ``augment(image=image, boxes=boxes, labels=labels)`` returns a dict of the same names, and
        ``augment(image, {"boxes": boxes})``, as datasets of torchvision call it, a pair. Of what ``targets`` does not
        declare:

        * tensors of ``torchvision.tv_tensors`` say what they are.
        * ``boxes`` or ``bboxes`` ``[n, 4]`` are ``"xyxy"``, ``keypoints`` ``[n, points, 2 or 3]``, ``masks`` ``[n, H, W]``
          the masks of the objects, ``mask`` ``[H, W]`` one of numbers of classes.
        * Any other array or list with one entry for each object, such as ``labels``, loses those of objects that an op
          removes. Single numbers, texts and None come back as they are. Arrays and lists that look like places in the
          image (the last axis is 2, 3 or 4, or the size is the image's) are not moved: a ``FuseloopWarning`` says so.

        Each call gives all targets that ``targets`` declares.

        Args:
            image: An image: see :class:`Transform`.
            target: The targets, by name.
            seed: With ``epoch`` and ``sample``, the key of the draws: those of a loader with this seed, for this sample in
                this epoch. By default the transform's seed, or 0.
            epoch: By default 0.
            sample: By default 0; needed with ``epoch``.
            named: The image, as ``image``, and the targets, by name.
        """
        here = self._processes.get(_getpid()) or self._start()
        if seed is None and epoch is None and sample is None:
            seed, numbers = here.draws or self._begin_draws(here)
            epoch, sample = 0, next(numbers)
        else:
            seed, epoch, sample = self._key(seed, epoch, sample)
        if type(image) is np.ndarray and target is None and not named and not self._targets:
            return here.core.apply(image, NUMPY, seed, epoch, sample)
        if target is None and not named and not _is_sample(image):
            if self._targets:
                Objects({}, self._targets)  # which names the first one
            return self._image(here, image, (seed, epoch, sample))
        image, values, is_pair = _parts(image, target, named)
        result, found = self._image_with(here, image, values, (seed, epoch, sample))
        return (result, found) if is_pair else {"image": result, **found}

    def batch(
        self,
        images: Iterable[Any],
        *,
        threads: int | None = None,
        seed: int | None = None,
        epoch: int | None = None,
        samples: Iterable[int] | None = None,
    ) -> Any:
        """Returns what the ops make of several images as one array ``[N, ...]``, or as one tensor if they are tensors.

        The result is that of a call for each, whatever the number of threads. The arrays must have one size.

        If the list has ``ToDevice``, the ops after it run on the GPU, as one kernel for all images, and the result is a
        :class:`fuseloop.Tensor` there, as of a loader's batch (``.torch()``, ``.jax()``, ``.numpy()``, DLPack); or in host
        memory, if :attr:`device` is the CPU. Of tensors of torch, it is a tensor of torch. At most ``device_batches`` of
        them may be held at a time: one more is an error.

        Args:
            images: Images of any kind, or an array or a tensor of them.
            threads: The number of threads, at most one for each image; by default one per core.
            seed: See :meth:`__call__`, as for ``epoch``.
            epoch: By default 0.
            samples: The number of the sample of each image; by default 0, 1, 2, ... if a seed is given.
        """
        if self._targets:
            raise ConfigError(
                f"batch takes images alone, but targets= declares {', '.join(self._targets)}: call the transform for "
                "each image"
            )
        here = self._processes.get(_getpid()) or self._start()
        if here.core.on_device and _worker() is not None:
            raise ConfigError(
                "a list with ToDevice ends on the device of the process that calls batch, and a worker of a DataLoader can't "
                "send it on: call batch in the main process, and let the workers read the files"
            )
        listed = [image_of(image, self._read_mode) for image in _several(images)]
        if threads is not None:
            threads = min(_within("threads", threads, 1, None), max(len(listed), 1))
        if seed is None and epoch is None and samples is None:
            seed, unused = here.draws or self._begin_draws(here)
            epoch, numbers = 0, [*itertools.islice(unused, len(listed))]
        else:
            numbers = [*range(len(listed))] if samples is None and epoch is None else _numbers(samples, len(listed))
            seed, epoch, _ = self._key(seed, epoch, 0)
        kinds = {kind for _, kind in listed}
        kind = TORCH if kinds == {TORCH} else NUMPY
        inputs = [(image, given_kind == TORCH) for image, given_kind in listed]
        if here.core.on_device:
            tensor = here.core.batch_on_device(inputs, seed, epoch, numbers, threads)
            return tensor.torch() if kind == TORCH else tensor
        array = here.core.batch(inputs, kind, seed, epoch, numbers, threads)
        return tensor_of(array) if kind == TORCH else array

    def on(self, column: str, to: str | None = None) -> OnColumn:
        """Returns the transform as a function of a batch of columns, for ``set_transform`` and ``with_transform`` of
        Hugging Face's datasets: a dict of lists, of which one is transformed.

        Args:
            column: The column with the images. Files that are not decoded are fastest:
                ``dataset.cast_column("image", datasets.Image(decode=False))``.
            to: The column that gets the results, such as ``"pixel_values"``, in place of ``column``.

        >>> from fuseloop import ops
        >>> augment = Transform([ops.CenterCrop(2)])
        >>> batch = augment.on("image", to="pixel_values")({"image": [np.zeros((4, 4, 3), np.uint8)] * 2, "label": [0, 1]})
        >>> [*batch], len(batch["pixel_values"]), batch["pixel_values"][0].shape
        (['label', 'pixel_values'], 2, (2, 2, 3))
        """
        for name in (column,) if to is None else (column, to):
            if not isinstance(name, str):
                raise ConfigError(f"on: {name!r} is no column, expected a name")
        return OnColumn(self, column, to)

    def _image(self, here: _Process, image: Any, key: tuple[int, int, int]) -> Any:
        given, kind = image_of(image, self._read_mode)
        return result_of(here.core.apply(given, kind, *key), kind, image, self._is_channels_first)

    def _image_with(
        self, here: _Process, image: Any, values: Mapping[str, Any], key: tuple[int, int, int]
    ) -> tuple[Any, dict[str, Any]]:
        """Returns what the ops make of an image and its targets."""
        if not values and not self._targets:
            return self._image(here, image, key), {}
        given, kind = image_of(image, self._read_mode)
        objects = Objects(values, self._targets, _size_of(given, kind))
        core = here.with_targets.get(objects.key)
        if core is None:
            core = here.with_targets.setdefault(objects.key, self._made(objects.declared))
        array, outputs, kept = core.apply_targets(given, kind, *key, objects.values)
        is_first = self._is_channels_first or (kind == TORCH and not self._is_channels_last)
        size = array.shape[1:3] if is_first and array.ndim == 3 else array.shape[:2]
        return result_of(array, kind, image, self._is_channels_first), objects.results(outputs, kept, size)

    def _key(self, seed: Any, epoch: Any, sample: Any) -> tuple[int, int, int]:
        """Returns the key that a call gives."""
        if epoch is not None and sample is None:
            raise ConfigError(
                f"epoch={epoch!r} without sample: the draws of a call depend on both, give the number of the image by "
                "sample="
            )
        if seed is None:
            seed = self._seed or 0
        epoch = 0 if epoch is None else _epoch_number(epoch)
        return _seed(seed), epoch, 0 if sample is None else _within("sample", sample, 0, 63)

    def _begin_draws(self, here: _Process) -> tuple[int, itertools.count[int]]:
        """Begins with the calls without a key in this process.

        ==============================================  =============================================================
        in                                              the seed
        ==============================================  =============================================================
        the process that made the transform             ``seed``, or the system's entropy
        a worker of a DataLoader                        ``seed`` and the worker's, which torch draws for each epoch
        another process of ``multiprocessing``          ``seed`` and the name of the process, or the system's entropy
        any other process that was forked               the system's entropy
        ==============================================  =============================================================
        """
        with here.lock:
            if here.draws is None:
                info = _worker()
                if self._seed is None:
                    seed = _entropy() if info is None else _mixed(0, info.seed)
                    here.draws = _SHARED.setdefault(_getpid(), (seed, itertools.count()))
                elif info is not None:
                    here.draws = _mixed(self._seed, info.seed), itertools.count()
                elif self._home == _getpid():
                    here.draws = self._seed, itertools.count()
                else:
                    name = _process_name()
                    seed = _entropy() if name is None else _mixed(self._seed, *name.encode())
                    here.draws = seed, itertools.count()
            return here.draws

    # What it tells

    @property
    def ops(self) -> list[Op]:
        """The ops; empty for a transform of a pipeline file."""
        return list(self._ops)

    @property
    def device(self) -> str:
        """The device of the batches, ``"cpu"`` or ``"cuda:0"``, which is chosen for the first one; ``"cpu"`` before it."""
        return (self._processes.get(_getpid()) or self._start()).core.device()

    def explain(self) -> Plan:
        """Describes how the ops were planned and compiled for each type of image so far, or for image files."""
        return Plan(_in_python((self._processes.get(_getpid()) or self._start()).core.explain()))

    def __repr__(self) -> str:
        given = {name: value for name, value in self._arguments.items() if value != _DEFAULTS[name]}
        named = "".join(f", {name}={value!r}" for name, value in given.items())
        if self._spec is None:
            return f"{type(self).__name__}({self._ops!r}{named})"
        return f"{type(self).__name__}.from_spec({self._spec[0]!r}{named})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Without a seed, the same transform has the same bytes in every process, which caches of datasets hash.
        home = 0 if self._seed is None else self._home
        return _unpickled, (type(self), self._ops, self._spec, self._arguments, home)


def _unpickled(
    kind: type[Transform],
    ops: list[Op],
    spec: tuple[str, str] | None,
    arguments: dict[str, Any],
    home: int,
) -> Transform:
    is_whole = (
        isinstance(kind, type)
        and issubclass(kind, Transform)
        and isinstance(ops, list)
        and all(isinstance(op, Op) for op in ops)
        and (spec is None or (isinstance(spec, tuple) and [type(text) for text in spec] == [str, str]))
        and isinstance(arguments, dict)
        and all(name in _DEFAULTS for name in arguments)
        and isinstance(home, int)
    )
    if not is_whole:
        raise ConfigError("the pickle of a transform is damaged: make the transform again")
    transform = kind.__new__(kind)
    transform._begin(ops, spec, arguments)
    if _process_name() is not None:
        transform._home = home
    return transform


class OnColumn:
    """A transform of one column of a batch of columns: see :meth:`Transform.on`."""

    __slots__ = ("column", "to", "transform")

    def __init__(self, transform: Transform, column: str, to: str | None) -> None:
        self.transform, self.column, self.to = transform, column, to

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(batch, Mapping):
            raise ConfigError(f"on({self.column!r}) takes a dict of columns, not {type(batch).__name__}")
        if self.column not in batch:
            raise _hints.no_column(self.column, [str(name) for name in batch])
        columns = dict(batch)
        given = columns[self.column] if self.to is None else columns.pop(self.column)
        is_column = isinstance(given, (list, tuple))
        results = []
        for row, image in enumerate(given if is_column else [given]):
            try:
                results.append(self.transform(image))
            except FuseloopError as error:
                error.field = error.field or self.column
                error.add_note(f"fuseloop: row {row} of column {self.column}")
                raise
        columns[self.to or self.column] = results if is_column else results[0]
        return columns

    def __repr__(self) -> str:
        return f"{self.transform!r}.on({self.column!r}{'' if self.to is None else f', to={self.to!r}'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return OnColumn, (self.transform, self.column, self.to)


# Draws


def _worker() -> Any:
    """Returns what torch tells a worker of a DataLoader; None elsewhere."""
    data = sys.modules.get("torch.utils.data")
    return None if data is None else data.get_worker_info()


class _Process:
    """What a transform has in one process. A forked child builds its own: its parent's locks may be held for ever.

    Attributes:
        core: The compiled part.
        with_targets: The same for each set of targets.
        draws: The seed of calls without a key, and the numbers that none of them has had yet. None before the first.
    """

    __slots__ = ("core", "draws", "lock", "with_targets")

    def __init__(self, core: _fuseloop.Transform) -> None:
        self.core = core
        self.with_targets: dict[tuple[Any, ...], _fuseloop.Transform] = {}
        self.draws: tuple[int, itertools.count[int]] | None = None
        self.lock = threading.Lock()


# The draws of transforms without a seed, by process: two of them never draw the same.
_SHARED: dict[int, tuple[int, itertools.count[int]]] = {}


def _entropy() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _process_name() -> str | None:
    """Returns the name of this process if ``multiprocessing`` started it."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return None
    return str(process.current_process().name)


def _mixed(seed: int, *words: int) -> int:
    """Returns a seed that depends on all numbers. SplitMix64, as in the library."""
    for word in words:
        seed = (seed ^ word) + 0x9E3779B97F4A7C15
        seed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) % _WORD
        seed = ((seed ^ (seed >> 27)) * 0x94D049BB133111EB) % _WORD
        seed ^= seed >> 31
    return seed


# Reading arguments

_SETTINGS = ("number_rule", "exif_orientation", "scaled_decode", "device", "device_batches")
_DEFAULTS: dict[str, Any] = {"seed": None, "targets": None, **(Transform.__init__.__kwdefaults__ or {})}


def _listed(ops: Any) -> list[Op]:
    if ops is None:
        raise ConfigError("ops is None, expected a list of ops: an empty one, [], changes nothing")
    if callable(ops) and not isinstance(ops, Op) and _hints.foreign_list(ops) is None:
        raise ConfigError(
            f"{ops!r} is a function: a transform has one list for all epochs. Make a transform for each, as compiling one "
            "takes milliseconds"
        )
    foreign = _hints.foreign_list(ops)
    if foreign is not None:
        raise foreign
    return Compose(ops)


def _declared(targets: Any) -> dict[str, Target]:
    if targets is None:
        return {}
    _targets_of("image", targets)
    return dict(targets)


def _seed(seed: Any) -> int:
    return _within("seed", seed, 0, 64)


def _within(name: str, value: Any, least: int, bits: int | None) -> int:
    """Returns a whole number of at least ``least`` that fits into ``bits`` bits; of any size for None."""
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise ConfigError(f"{name} is {value!r}, expected a whole number") from None
    if bits is None and number < least:
        raise ConfigError(f"{name} is {number}, expected {least} or more")
    if bits is not None and not least <= number < 2**bits:
        raise ConfigError(f"{name} is {number}, expected {least} to 2**{bits} - 1")
    return number


def _is_sample(image: Any) -> bool:
    """Returns whether something is a dict of an image and its targets, or missing."""
    return image is None or (isinstance(image, Mapping) and "image" in image)


def _parts(image: Any, target: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any], bool]:
    """Returns the image, the targets, and whether they come out as a pair."""
    if image is not None and target is not None and not named:
        if isinstance(target, Mapping):
            return image, dict(target), True
        raise ConfigError(
            f"the second argument is {type(target).__name__}, expected a dict of targets: augment(image, {{'boxes': boxes}})"
        )
    if isinstance(image, Mapping) and target is None and not named:
        named, image = dict(image), None
    if image is not None or target is not None or named.get("image") is None:
        raise ConfigError(
            "a transform takes augment(image), augment(image=image, boxes=boxes), or augment(image, {'boxes': boxes})"
        )
    return named.pop("image"), named, False


def _size_of(given: Any, kind: int) -> tuple[int, int] | None:
    """Returns the height and the width of an image; None for a file."""
    if not isinstance(given, np.ndarray) or given.ndim < 2:
        return None
    height, width = given.shape[-2:] if kind == TORCH else given.shape[:2]
    return height, width


def _several(images: Any) -> Sequence[Any]:
    """Returns a list of images."""
    is_one = isinstance(images, (str, bytes, bytearray, memoryview, os.PathLike, Mapping))
    if is_one or not isinstance(images, Iterable) or getattr(images, "ndim", 4) < 3:
        raise ConfigError(f"batch: {type(images).__name__} is no list of images: augment(image) takes one")
    shape = tuple(getattr(images, "shape", ()))
    if len(shape) == 3:
        # Gray images in an array are [N, H, W]; an image has few channels, last in an array and first in a tensor.
        is_image = shape[0] <= 4 if _is_tensor(images) else shape[2] <= 4
        if is_image:
            raise ConfigError(
                f"batch: {type(images).__name__} of shape {shape} is one image, expected several: augment(image), or "
                "batch(image[None])"
            )
    return list(images)


def _numbers(samples: Any, count: int) -> list[int]:
    if samples is None:
        raise ConfigError(
            "epoch without samples: the draws of a call depend on both, give the number of each image by samples="
        )
    if not isinstance(samples, Iterable) or isinstance(samples, (str, bytes)):
        raise ConfigError(f"samples is {samples!r}, expected the number of each image: samples=[0, 1, 2]")
    numbers = [_within("samples: a number", number, 0, 63) for number in samples]
    if len(numbers) != count:
        raise ConfigError(f"samples has {len(numbers)} numbers for {count} images")
    return numbers
