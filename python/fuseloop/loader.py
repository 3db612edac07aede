"""The loader, its epochs, and what its arguments may be."""

from __future__ import annotations

import atexit
import json
import logging
import os
import pickle
import re
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, SupportsInt, TypeVar

from . import _fuseloop, _hints
from ._arrow import class_of
from ._fuseloop import Batch, Dataset
from ._manifest import of_frames, opened
from ._op import Compose, Op, OpList, _plain
from ._preview import Inspected, Sheet, inspected
from .errors import _ENDINGS, ConfigError, FuseloopError, StateError, _in_python, _not_an_end

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import TypeVar as DefaultedTypeVar

    # What a loader gives as a batch.
    B = DefaultedTypeVar("B", default=Batch)
else:
    B = TypeVar("B")

__all__ = [
    "Cache",
    "ClassBalanced",
    "Clips",
    "Collate",
    "DataMixture",
    "Epoch",
    "Headroom",
    "HeadroomReport",
    "ImageList",
    "Loader",
    "Plan",
    "ProcessCache",
    "Quarantine",
    "QuasiRandom",
    "Ranks",
    "RepeatedAugment",
    "Stats",
    "TensorSpec",
    "View",
    "Weighted",
]

_logger = logging.getLogger("fuseloop")


# Arguments


@dataclass(frozen=True)
class View:
    """Another output of a field: with draws of its own, or, if ``after`` is given, as a branch of the output ``of``
    after its first ``after`` ops."""

    of: str
    ops: OpList = ()
    after: int | None = None


@dataclass(frozen=True)
class Audio:
    """What the audio files of a field are decoded to: float32, from -1 to 1 if they have integers.
    ``arrays={"audio": fuseloop.Audio(16_000)}`` declares that the bytes of a field are WAV, FLAC, MP3 or Ogg Vorbis files.

    One channel is the mean of the channels of a file, ``[T]``; several are ``[C, T]``, and all files have as many. A file
    of another sample rate is a damaged sample, unless ``resample`` is true: then it is resampled as by
    ``torchaudio.functional.resample``, and a crop has the samples of the whole.

    >>> speech = Audio(16_000, resample=True)
    """

    sample_rate: int
    num_channels: int = 1
    resample: bool = False


@dataclass(frozen=True)
class QuasiRandom:
    """Random order within a few pages of a ``.beton`` file at a time: for files that are larger than memory."""

    open_pages: int


@dataclass(frozen=True)
class Weighted:
    """Draws samples by weight, as torch's WeightedRandomSampler: ``samples`` of them an epoch, by default as many as
    there are weights."""

    weights: Any
    samples: int | None = None
    replacement: bool = True


@dataclass(frozen=True)
class ClassBalanced:
    """Every class equally often; ``field`` has the number of the class."""

    field: str = "label"
    replacement: bool = True


@dataclass(frozen=True)
class RepeatedAugment:
    """Each sample several times in a row, as timm's RepeatAugSampler."""

    repeats: int = 3


@dataclass(frozen=True)
class DataMixture:
    """Mixes the datasets that :func:`fuseloop.sources.concat` joins, its components, by weights that need not sum to 1.

    Each block of at least 64 samples has the share of each dataset, rounded to a whole number, and the next block makes
    up for what rounding added or took. :meth:`Loader.drawn` counts the samples of each dataset.

    >>> DataMixture([0.9, 0.1]).samples is None
    True
    >>> annealed = DataMixture({0: [0.9, 0.1], 10: [0.5, 0.5]}, linear=True)  # by the epoch, in a line
    >>> multilingual = DataMixture(temperature=3.0)  # weights are sizes to the power of 1/3

    Args:
        weights: One weight for each dataset, or the weights from several epochs on: ``{0: [..], 10.5: [..]}``.
        temperature: Instead of weights: they are the sizes of the datasets to the power of ``1 / temperature``.
        unit: ``"step"`` counts the times of ``weights`` in batches of all ranks together, over all epochs.
        linear: Weights go from each point to the next in a line, instead of in one step.
        samples: The number of samples of an epoch; by default that of all datasets together. Datasets that are
            exhausted repeat in another order, and the next epoch continues where they are.
        stopping_strategy: Instead of a number of samples, the end of an epoch in the words of Hugging Face's
            ``interleave_datasets``: ``"first_exhausted"``, ``"all_exhausted"`` (those that are exhausted repeat until
            then) or ``"all_exhausted_without_replacement"`` (the others share the weight of those that are exhausted).
        changes: Made by :meth:`changed_at`.
    """

    weights: Any = None
    temperature: float | None = None
    unit: Literal["epoch", "step"] = "epoch"
    linear: bool = False
    samples: int | None = None
    stopping_strategy: Literal["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"] | None = None
    changes: tuple[tuple[int, int, DataMixture], ...] = ()

    def changed_at(self, state: Mapping[str, Any], to: DataMixture | Sequence[float]) -> DataMixture:
        """Returns a mixture with other weights from the position of a state on. What came before stays as it was, so a
        loader with the result as its order takes ``load_state_dict(state)``.

        >>> state = {"fuseloop": 1, "cursor": "", "next_epoch": 2, "batches": 0}
        >>> DataMixture([0.9, 0.1]).changed_at(state, [0.6, 0.4]).changes[0][:2]
        (2, 0)
        """
        cursor, epoch, _ = _read_state(state)
        at = json.loads(cursor) if cursor else {"epoch": epoch, "position": 0}
        to = to if isinstance(to, DataMixture) else DataMixture(to)
        return replace(self, changes=(*self.changes, (at["epoch"], at["position"], to)))


_STOPPING = ("first_exhausted", "all_exhausted", "all_exhausted_without_replacement")


def _weights(weights: Any) -> list[float]:
    """Returns the weights of a mixture at one time."""
    try:
        if not isinstance(weights, str):
            return [float(weight) for weight in weights]
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"DataMixture: weights are {weights!r}, expected numbers, one for each dataset")


def _mixture(mixture: DataMixture) -> tuple[Any, ...]:
    """Returns what the extension makes a mixture of."""
    weights, temperature = mixture.weights, mixture.temperature
    if (weights is None) == (temperature is None):
        raise ConfigError("DataMixture: give either weights or a temperature")
    if mixture.samples is not None and mixture.stopping_strategy is not None:
        raise ConfigError("DataMixture: samples and stopping_strategy both say when an epoch ends: remove one of them")
    if mixture.stopping_strategy not in (None, *_STOPPING):
        known = ", ".join(map(repr, _STOPPING))
        raise ConfigError(f"DataMixture: stopping_strategy is {mixture.stopping_strategy!r}, expected one of {known}")
    if mixture.unit not in ("epoch", "step"):
        raise ConfigError(f"DataMixture: unit is {mixture.unit!r}, expected 'epoch' or 'step'")
    points = []
    if weights is not None:
        by_time = weights if isinstance(weights, Mapping) else {0: weights}
        for time in by_time:
            if not isinstance(time, Real):
                raise ConfigError(f"DataMixture: weights have the {mixture.unit} {time!r}, expected a number")
        if not by_time or min(by_time) != 0:
            raise ConfigError(f"DataMixture: weights begin at {min(by_time, default=None)}, expected some at 0")
        for time in sorted(by_time):
            if mixture.unit == "step":
                _whole("the step of weights", time)
            points.append((mixture.unit, float(time), _weights(by_time[time])))
    changes = [(epoch, position, _mixture(to)) for epoch, position, to in mixture.changes]
    stopping = mixture.stopping_strategy or ("dataset_size" if mixture.samples is None else "samples")
    samples = 0 if mixture.samples is None else _whole("samples", mixture.samples, 1)
    temperature = None if temperature is None else float(temperature)
    return temperature, points, bool(mixture.linear), stopping, samples, changes


class _HubDataset(Protocol):
    """What type checkers know a ``datasets.Dataset`` by."""

    @property
    def features(self) -> Any: ...

    @property
    def num_rows(self) -> Any: ...


class _Sampler(Protocol):
    """A user's order: the numbers of the samples of an epoch. A random one has ``set_epoch(epoch)``, too."""

    def __iter__(self) -> Iterator[SupportsInt]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Ranks:
    """This process is number ``rank`` of ``world_size`` that share each epoch. ``uneven`` says what happens to samples
    that can't be divided evenly: ``"pad"`` repeats a few, ``"drop"`` leaves them out, ``"exact"`` repeats a few and
    marks them in ``Batch.mask``, which the loaders for torch and JAX give as the last tensor of a
    batch, ``batch.mask``."""

    rank: int
    world_size: int
    uneven: Literal["pad", "drop", "exact"] = "pad"


@dataclass(frozen=True)
class Cache:
    """Keeps decoded samples for later epochs, in at most ``size`` bytes (``"32GiB"``) of memory, or of a file in
    ``folder``. The file is private to the loader and deleted with it: no other rank uses it, and the next run begins with
    an empty one. If the disk is full, the loader goes on without caching more: :meth:`Loader.stats` says it."""

    size: int | str
    folder: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class ProcessCache:
    """Reads whole pages of a ``.beton`` file ahead, in at most ``size`` bytes of memory."""

    size: int | str = "1GiB"
    threads: int = 4


_BOX_FORMATS = ("xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy")


def _one_of(parameter: str, given: Any, known: Iterable[str]) -> str:
    """Returns a word in lower case, if it is one of those that a parameter takes. torchvision's enums have one as
    their value."""
    word = getattr(given, "value", given)
    if isinstance(word, str) and word.lower() in known:
        return word.lower()
    choices = ", ".join(f'"{choice}"' for choice in known)
    raise ConfigError(f"Target.boxes: {parameter} is {given!r}, expected one of {choices}")


@dataclass(frozen=True)
class Target:
    """What a field is to the image that it follows: made by :meth:`boxes`, :meth:`keypoints`, :meth:`column`,
    :meth:`instance_masks` and :meth:`mask`.

    The objects of a sample are the rows of its boxes. Keypoints, columns and instance masks have one row for each object,
    and lose it together with the object.
    """

    options: dict[str, Any]

    @classmethod
    def boxes(
        cls, format: str = "xyxy", to: str | None = None, clamping: str = "soft", normalized: bool = False
    ) -> Target:
        """Bounding boxes: bytes that are rows of float32, in torchvision's ``format``. ``to`` is the format of a batch;
        ``normalized`` divides boxes by the size of the image; ``clamping`` is ``"soft"``, ``"hard"`` or ``"none"``.
        """
        options = {
            "as": "boxes",
            "format": _one_of("format", format, _BOX_FORMATS),
            "clamping": _one_of("clamping", clamping, ("soft", "hard", "none")),
            "normalized": bool(normalized),
        }
        return cls(options if to is None else {**options, "to": _one_of("to", to, _BOX_FORMATS)})

    @classmethod
    def keypoints(
        cls,
        each: int,
        flip_pairs: Iterable[tuple[int, int]] = (),
        visibility: bool = True,
        continuous: bool = False,
        keep_visibility: bool = False,
    ) -> Target:
        """``each`` keypoints for an object: bytes that are float32, x, y and visibility of each. ``flip_pairs`` are the
        left and right ones, which change places in a mirror. Positions are indices of pixels, or ``continuous``. A point
        that an op moves out of the image gets visibility 0, unless ``keep_visibility``. One that is stored with
        visibility 0 has no position, and is 0, 0, 0 in a batch.
        """
        pairs = [int(index) for pair in flip_pairs for index in pair]
        options = {"as": "keypoints", "each": int(each), "flip_pairs": pairs}
        options |= {"visibility": bool(visibility), "continuous": bool(continuous)}
        return cls({**options, "keep_visibility": bool(keep_visibility)})

    @classmethod
    def column(cls, dtype: Any = "int64") -> Target:
        """One number for each object, such as its class."""
        return cls({"as": "column", "dtype": _plain(dtype)})

    @classmethod
    def instance_masks(cls) -> Target:
        """The masks of the objects: a JSON list of COCO's polygons and run-length encodings."""
        return cls({"as": "instance_masks"})

    @classmethod
    def mask(cls, fill: int = 0) -> Target:
        """A mask of the image, of numbers of classes. Pixels that come in from outside become ``fill``."""
        return cls({"as": "mask", "fill": int(fill)})


@dataclass(frozen=True)
class Clips:
    """Clips of videos as samples: made by :meth:`random`, :meth:`regular`, :meth:`segments` and :meth:`all`.

    Videos are files such as ``clips/CLASS/VIDEO.mp4``, or the images of a dataset that lie in one folder, in the natural
    order of their names: ``clips/CLASS/VIDEO/img_00001.jpg``. A sample is a clip of ``frames`` frames, all of which the
    ops treat alike. An output of images ``[C, H, W]`` is ``[N, T, C, H, W]`` in a batch, or ``[N, C, T, H, W]`` with
    ``layout="NCTHW"``; ``pts`` has the presentation times in seconds, float64 ``[N, T]``.

    ``targets`` follow each frame by the draws of its clip, where frames have masks and boxes of their own: in folders of
    frames and in clip stores. A mask is ``[N, T, H, W, 1]``; boxes, keypoints, columns and instance masks are ragged, and
    ``batch["bbox"].frame(n, t)`` has those of frame ``t`` of sample ``n``.

    >>> loader = fl.Loader("DAVIS/", batch_size=8, clips=fl.Clips.random(frames=16), targets="auto", video=[
    ...     ops.RandomResizedCrop(112), ops.ToChannelsFirst()])  # doctest: +SKIP
    >>> next(iter(loader))["mask"].numpy().shape  # doctest: +SKIP
    (8, 16, 112, 112, 1)

    The frames of a clip are ``stride`` frames apart, or follow each other in time ``fps`` times per second. ``clips``
    is the number of clips of a sample, an axis before that of the frames if it is more than 1. ``range`` has the
    seconds that the frames are from; ``start_field`` and ``end_field`` are fields that have them for each video, such as
    columns of a table, of which several rows may be parts of one file. Frames that a video is too short for are the last
    one again (``on_short="repeat_last"``), the clip from its beginning (``"wrap"``), or make the video a damaged sample
    (``"error"``). ``per_frame`` has the ops draw for each frame. ``source_fps`` is the rate of folders of frames, which
    ``fps`` and settings in seconds need; without it their times are the numbers of the frames. ``field`` is the field of
    the frames if several have images, or of bytes that are video files. ``list`` is a file that lists the videos of a
    split: UCF-101's, Kinetics', HMDB-51's as MMAction2's tools write it, or TSN's, of which each line has a path, the
    number of frames and the label.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> loader = fl.Loader(example_dataset(), batch_size=2, clips=fl.Clips.random(frames=4, stride=2), video=[
    ...     ops.RandomResizedCrop(32), ops.ToChannelsFirst()])
    >>> batch = next(iter(loader))
    >>> batch["video"].numpy().shape, batch["pts"].numpy().shape
    ((2, 4, 3, 32, 32), (2, 4))
    """

    sampler: str
    frames: int
    stride: int | None = None
    fps: float | None = None
    clips: int | None = None
    range: tuple[float, float] | None = None
    start_field: str | None = None
    end_field: str | None = None
    on_short: str | None = None
    middle: bool = False
    per_frame: bool = False
    layout: str | None = None
    source_fps: float | None = None
    field: str | None = None
    list: str | None = None

    @classmethod
    def random(
        cls,
        frames: int,
        *,
        stride: int | None = None,
        fps: float | None = None,
        clips: int | None = None,
        range: tuple[float, float] | None = None,
        start_field: str | None = None,
        end_field: str | None = None,
        on_short: Literal["repeat_last", "wrap", "error"] | None = None,
        per_frame: bool = False,
        layout: Literal["NTCHW", "NCTHW"] | None = None,
        source_fps: float | None = None,
        field: str | None = None,
        list: str | os.PathLike[str] | None = None,
    ) -> Clips:
        """Clips whose start is drawn for each sample and epoch, so that all of a clip is inside a video that is long
        enough."""
        part = (range, start_field, end_field)
        return cls._of(
            "random", frames, stride, fps, clips, *part, on_short, False, per_frame, layout, source_fps, field, list
        )

    @classmethod
    def regular(
        cls,
        frames: int,
        *,
        stride: int | None = None,
        fps: float | None = None,
        clips: int | None = None,
        range: tuple[float, float] | None = None,
        start_field: str | None = None,
        end_field: str | None = None,
        on_short: Literal["repeat_last", "wrap", "error"] | None = None,
        per_frame: bool = False,
        layout: Literal["NTCHW", "NCTHW"] | None = None,
        source_fps: float | None = None,
        field: str | None = None,
        list: str | os.PathLike[str] | None = None,
    ) -> Clips:
        """Clips that are evenly spread, from one that begins with the video to one that ends with it; a single one is in
        the middle."""
        part = (range, start_field, end_field)
        return cls._of(
            "regular", frames, stride, fps, clips, *part, on_short, False, per_frame, layout, source_fps, field, list
        )

    @classmethod
    def segments(
        cls,
        frames: int,
        *,
        middle: bool = False,
        clips: int | None = None,
        range: tuple[float, float] | None = None,
        start_field: str | None = None,
        end_field: str | None = None,
        on_short: Literal["error"] | None = None,
        per_frame: bool = False,
        layout: Literal["NTCHW", "NCTHW"] | None = None,
        source_fps: float | None = None,
        field: str | None = None,
        list: str | os.PathLike[str] | None = None,
    ) -> Clips:
        """One frame of each of as many segments of the video: drawn, after temporal segment networks, or the ``middle``
        ones, for evaluation. A video that is too short for a segment has the nearest frame there."""
        part = (range, start_field, end_field)
        return cls._of(
            "segments", frames, None, None, clips, *part, on_short, middle, per_frame, layout, source_fps, field, list
        )

    @classmethod
    def all(
        cls,
        frames: int,
        *,
        stride: int | None = None,
        fps: float | None = None,
        range: tuple[float, float] | None = None,
        start_field: str | None = None,
        end_field: str | None = None,
        on_short: Literal["repeat_last", "wrap", "error"] | None = None,
        per_frame: bool = False,
        layout: Literal["NTCHW", "NCTHW"] | None = None,
        source_fps: float | None = None,
        field: str | None = None,
        list: str | os.PathLike[str] | None = None,
    ) -> Clips:
        """Every clip of a video as a sample of its own, for evaluation: ``video_index`` in a batch has the index of each
        sample's video, by which results are averaged."""
        part = (range, start_field, end_field)
        return cls._of(
            "all", frames, stride, fps, None, *part, on_short, False, per_frame, layout, source_fps, field, list
        )

    @classmethod
    def _of(cls, *options: Any) -> Clips:
        *others, path = options
        others.append(None if path is None else os.fspath(path))
        return cls(*others)


@dataclass(frozen=True)
class ImageList:
    """Lists of images of a field: samples have several images, any number up to ``max``.

    Such a field is a column ``List(Image())`` of ``datasets``, or a list of binary in a Parquet file. An output of images
    ``[C, H, W]`` is ``[N, max, C, H, W]`` in a batch, with zeros behind the last image of a sample, and
    ``NAME.length`` has the number of images of each sample, int64 ``[N]``. A longer list is an error, unless
    ``truncate`` is true. Ops draw once for a sample, or with ``per_image`` for each image.

    >>> import fuseloop as fl
    >>> fl.ImageList(max=4, truncate=True)
    ImageList(max=4, truncate=True, per_image=False)
    """

    max: int
    truncate: bool = False
    per_image: bool = False


@dataclass(frozen=True)
class Collate:
    """How samples of differing sizes become a batch: made by :meth:`pad`, :meth:`ragged` and :meth:`list`.

    Bytes are read as elements of ``dtype``, ``inner`` of them an item: boxes are ``dtype="f32", inner=(4,)``. ``to``
    is the largest number of items, or the largest height and width of images; a larger sample is an error, unless
    ``truncate`` is true. ``to_multiple`` rounds the height and width that the images of a batch are padded to up to a
    multiple: 32 for torchvision's detectors. Images are collated as their ops leave them.
    """

    form: str
    dtype: str | None = None
    inner: tuple[int, ...] = ()
    to: int | tuple[int, int] | None = None
    fill: float | None = None
    truncate: bool = False
    to_multiple: int | None = None

    @classmethod
    def pad(
        cls,
        dtype: str | None = None,
        inner: Iterable[int] = (),
        to: int | tuple[int, int] | None = None,
        fill: float | None = None,
        truncate: bool = False,
        to_multiple: int | None = None,
    ) -> Collate:
        """Pads all samples to one size. Their own sizes are in the tensor ``NAME.length`` or ``NAME.size``."""
        return cls("pad", dtype, tuple(inner), to, fill, truncate, to_multiple)

    @classmethod
    def ragged(
        cls,
        dtype: str | None = None,
        inner: Iterable[int] = (),
        to: int | None = None,
        truncate: bool = False,
    ) -> Collate:
        """Puts the values of all samples one after the other: the batch has a ``RaggedTensor``."""
        return cls("ragged", dtype, tuple(inner), to, None, truncate)

    @classmethod
    def list(
        cls,
        dtype: str | None = None,
        inner: Iterable[int] = (),
        to: int | tuple[int, int] | None = None,
        truncate: bool = False,
    ) -> Collate:
        """Keeps each sample by itself: the batch has a list of tensors."""
        return cls("list", dtype, tuple(inner), to, None, truncate)


# What a loader tells


class Plan(str):
    """How the pipelines were planned: what was fused, and why not. Its text is that of ``fuseloop explain``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of the batches: its name, the type of its elements, and the shape of one sample."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Stats:
    """Where the time went so far, in seconds. Its text is one sentence on what slows the loader down."""

    samples: int
    batches: int
    workers: int
    wall: float
    consumer_waited: float
    phases: dict[str, float]
    verdict: str
    cache_stopped: str | None = None
    """Why the cache in a folder takes no more samples, such as a full disk, or is not used any more."""
    stalls: int = 0
    """The number of batches that came so late that a warning names the cause."""
    batches_ready: int | None = None
    """The number of batches that are finished and not yet delivered; None if it is not known, as for ``batch_bytes``."""
    batch_bytes: int | None = None
    """The memory of all batches: in preparation, ready, held, and free for reuse."""
    waits: tuple[tuple[float, int], ...] = ()
    """Lengths of waits in seconds, each with the number of batches that were waited for no longer."""

    def __str__(self) -> str:
        return self.verdict if self.cache_stopped is None else f"{self.verdict}; the cache stopped: {self.cache_stopped}"

    def __repr__(self) -> str:
        return f"Stats({self.samples} samples in {self.batches} batches, {self.wall:.3g} s: {self.verdict})"


@dataclass(frozen=True)
class Quarantine:
    """The damaged samples found so far: for each its number, the epoch in which it was found and the error."""

    samples: tuple[tuple[int, int, str], ...]
    rows: int
    """The number of rows lost, over all epochs."""
    is_cut: bool
    """True if there are more than are listed."""


@dataclass
class _SamplerView:
    """What frameworks look for as ``loader.sampler``: ``set_epoch``, and the number of samples."""

    _loader: Loader[Any] = field(repr=False)

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        samples = self._loader._core().samples()
        if samples is None:
            raise TypeError("the number of samples of this stream is not known")
        return samples


class Epoch(Generic[B]):
    """The batches of one epoch. It begins when its first batch, its number or its length is asked for, and ends when it
    is closed or dropped, without waiting for anything."""

    def __init__(self, loader: Loader[B]) -> None:
        self._loader = loader
        self._core: _fuseloop.Epoch | None = None  # None until it begins
        self._number = self._taken = 0
        self._ended = False
        self._last: dict[str, Any] | None = None  # the position when it was closed
        _live.add(self)

    def _set(self, core: _fuseloop.Epoch, number: int, taken: int) -> Epoch[B]:
        self._core, self._number, self._taken = core, number, taken
        return self

    def _begun(self) -> _fuseloop.Epoch:
        """Begins with what the loader plays next, unless it has begun."""
        core = self._core
        if core is None:
            with self._loader._position():
                core = self._core
                if core is None:
                    if self._last is not None:
                        raise ConfigError("the epoch was closed before it began")
                    core = self._loader._play(self)
        return core

    @property
    def number(self) -> int:
        """The number of the epoch, from 0."""
        self._begun()
        return self._number

    def __iter__(self) -> Epoch[B]:
        return self

    def __next__(self) -> B:
        core = self._core
        if core is None and self._last is not None:
            raise StopIteration
        try:
            if core is None:
                core = self._begun()
            batch = core.next()
        except FuseloopError as error:
            if core is not None:
                error.epoch, error.batch = self._number, self._taken
            raise
        except _ENDINGS as error:  # of the functions of the epoch, or of a signal handler
            raise _not_an_end(error) from error
        if batch is None:
            self._loader._log_damage()
            self._ended = self._last is None
            raise StopIteration
        self._loader._log_damage(batch)
        self._loader._warn_unpinned()
        batch = self._loader._converted(batch)
        # Python handles no signal between these assignments and the return: the batch is neither lost nor repeated.
        self._taken += 1
        core.handed = True
        return batch

    def skip(self, batches: int) -> None:
        """Steps over the next batches without decoding them, for example after a loss spike. What follows is what a loop
        has that throws these batches away, on every rank by itself.

        >>> from fuseloop import ops
        >>> loader = Loader(example_dataset(), 4, order="random", image=[ops.CenterCrop(8)])
        >>> with loader.epoch(0) as whole, loader.epoch(0) as rest:
        ...     rest.skip(2)
        ...     [batch.fingerprint for batch in whole][2:] == [batch.fingerprint for batch in rest]
        True
        """
        if batches := _whole("batches", batches):
            self._taken += self._begun().skip(batches)

    def __len__(self) -> int:
        left = self._begun().remaining()
        if left is None:
            raise TypeError("the number of batches of this stream is not known: cut it with Stream.with_epoch")
        return left

    def __length_hint__(self) -> int:
        return 0 if self._core is None else self._core.remaining() or 0

    def __enter__(self) -> Epoch[B]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._core is None:
            return "Epoch(not begun)"
        left = self._core.remaining()
        return f"Epoch({self._number}, batches left: {'unknown' if left is None else left})"

    def close(self) -> None:
        """Ends the work of the epoch. Its position stays."""
        self._leave()
        if self._core is not None:
            self._core.close()

    def __del__(self) -> None:
        # `break` drops the epoch of a loop.
        if self.__dict__.get("_core") is not None:
            self._leave()

    def _leave(self) -> None:
        """Keeps the position, also in the loader, to be saved after the loop."""
        with self._loader._position():
            try:
                self._last = self.state_dict()
            except FuseloopError:  # in a process that was forked from its own
                pass
            if self._loader._playing == id(self):
                self._loader._left, self._loader._epoch, self._loader._playing = self._last, None, 0
                self._loader._position().notify_all()

    def join(self, timeout: float | None = None) -> None:
        """Does nothing: FFCV's iterator has this method of a thread."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batches taken, for :meth:`Loader.load_state_dict`."""
        with self._loader._position():
            if self._last is not None:
                return dict(self._last)
            if self._core is None:
                return self._loader.state_dict()
            if self._ended or self._core.remaining() == 0:
                return self._loader._state_between(self._number + 1)
            return _state(self._core.cursor() or "", self._number + 1, self._taken)

    get_state = state_dict

    def __reduce__(self) -> Any:
        raise TypeError("an epoch can't be pickled: pickle the loader and epoch.state_dict()")


@dataclass(frozen=True)
class HeadroomReport:
    """The samples per second of a loader and of the consumer of its batches, each without the other."""

    consumer: float
    loader: float

    @property
    def headroom(self) -> float:
        """How many times as fast as its consumer the loader is. Below 1, the loader is the limit."""
        return self.loader / self.consumer

    def __str__(self) -> str:
        limit = "loader" if self.headroom < 1 else "consumer"
        return (
            f"the consumer uses {self.consumer:,.0f} samples/s, the loader prepares {self.loader:,.0f} samples/s: "
            f"the {limit} is the limit (headroom {self.headroom:.2f})"
        )


class Headroom(Generic[B]):
    """One batch again and again: see :meth:`Loader.headroom`."""

    def __init__(self, loader: Loader[B], batches: int, epoch: int) -> None:
        if type(batches) is not int or batches < 1:
            raise ConfigError(f"batches={batches!r}: expected an int of at least 1")
        self._loader, self._batches, self._epoch = loader, batches, _epoch_number(epoch)
        core = self._started()
        batch = core.next()
        core.handed = True
        core.close()
        if batch is None:
            raise ConfigError(f"epoch {epoch} has no batch to replay: use smaller batches")
        self._batch = batch
        self._timed: tuple[int, float] | None = None  # batches and seconds

    def _started(self) -> _fuseloop.Epoch:
        """Starts the epoch for itself: the loader's position stays."""
        return self._loader._start_epoch(self._epoch)

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[B]:
        # The first tenth warms the consumer up, and is not timed.
        warm_up = min(max(self._batches // 10, 1), self._batches - 1)
        begin = 0.0
        for number in range(self._batches):
            if number == warm_up:
                begin = self._now()
            yield self._loader._converted(self._batch)
        self._timed = self._batches - warm_up, self._now() - begin

    def _now(self) -> float:
        self._loader._wait_for_device()
        return time.perf_counter()

    def report(self) -> HeadroomReport:
        """Times the loader for as many batches, or for the epoch if it has fewer, and returns both rates."""
        if self._timed is None:
            raise ConfigError(f"no batch was timed: iterate over all {self._batches} batches first")
        used, seconds = self._timed
        consumer = used * self._batch.samples / max(seconds, 1e-9)
        begin, prepared = time.perf_counter(), 0
        core = self._started()
        for _ in range(self._batches):
            batch = core.next()
            core.handed = True
            if batch is None:
                break
            prepared += batch.samples
        seconds = time.perf_counter() - begin
        core.close()
        return HeadroomReport(consumer, prepared / max(seconds, 1e-9))


def _state(cursor: str, next_epoch: int, batches: int) -> dict[str, Any]:
    return {"fuseloop": 1, "cursor": cursor, "next_epoch": next_epoch, "batches": batches}


def _read_state(state: Any) -> tuple[str, int, int]:
    """Returns the cursor, the next epoch and the number of batches of a state."""
    values = dict(state) if isinstance(state, Mapping) else {}
    cursor, numbers = values.get("cursor"), [values.get("next_epoch"), values.get("batches", 0)]
    is_version = type(values.get("fuseloop")) is int and values["fuseloop"] == 1
    # Epochs have 32 bits, and one more is played after the last.
    is_whole = all(type(number) is int and 0 <= number < 2**most for number, most in zip(numbers, (32, 63)))
    if not is_version or not is_whole or not isinstance(cursor, str) or not cursor.isascii():
        shown = " ".join(repr(state).split())
        shown = shown if len(shown) < 200 else f"{shown[:196]} ..."
        raise StateError(f"{shown} is no state of a loader: expected what Loader.state_dict returns")
    return cursor, *numbers


class Loader(Generic[B]):
    """Decodes, augments and batches the samples of a dataset, on threads, in compiled code.

    Iterating over it plays an epoch, then the next. The batches depend on ``seed``, the epoch and the samples alone,
    bit for bit, whatever the number of workers.

    Args:
        dataset: A ``.beton`` file, a folder of images, the files of MNIST or CIFAR (``"mnist/"``), tar shards, TFRecord
            files, MDS shards, an address, or a ``Dataset``. Several files are one dataset: ``"train-{000..015}.beton"``,
            ``"train-*.beton"``, or a list of names. Arrays in memory are one, too: ``(images, labels)``, or
            ``{"image": images, "label": labels}``; see :func:`fuseloop.sources.from_arrays`.
        batch_size: The number of samples of a batch.
        split: The split to open of a dataset that has several, such as ``"train"``.
        ops: The ops of each output, by its name; None leaves the output out. ``image=[...]`` is short for
            ``ops={"image": [...]}``. A function gets the epoch and returns its list.
        without: Fields that are left out, as those whose ops are None.
        views: More outputs of a field, by their names.
        share_draws: Outputs whose ops draw the same numbers as those of another: ``{"mask": "image"}``.
        component_ops: The ops of an output for samples of one component of a mix or concatenation, by (component, output).
        collate: How samples of differing sizes become a batch, by output.
        clips: Makes clips of videos the samples, of video files or of folders of frames:
            ``Clips.random(frames=16, stride=4)``.
        image_lists: Fields of lists of images that become images, by field: ``{"images": ImageList(max=4)}``.
        targets: The fields that follow an image, through all of its ops:
            ``{"image": {"bbox": Target.boxes("xywh"), "category_id": Target.column()}}``. ``"auto"`` takes those
            that the dataset knows of, as annotations of COCO, Pascal VOC and YOLO do.
        masks: Fields whose images are masks: numbers of classes, not colours. They have one channel.
        read_mode: What the images of a field are read as, by field: ``"rgb"``, ``"gray"`` (one channel),
            ``"gray16"`` (one channel of uint16: the levels of 16-bit gray PNGs), ``"rgb_alpha"`` or ``"index"``
            (one channel: indices of a palette, or gray levels as stored).
        axes: The axes of fields of arrays, one letter for each: ``{"scan": "DHW"}`` (slices, rows and columns),
            ``"HWC"``, ``"CHW"``, ``"TCHW"``. Without it they are guessed where the shape leaves little doubt.
        arrays: Fields of bytes that are arrays, with their types and shapes: ``{"points": ("float32", (-1, 3))}``. An
            axis of -1 differs from sample to sample; the ops must then make one size, for example by ``RandomCrop``.
            ``{"audio": fuseloop.Audio(16_000)}`` are the signals of audio files: WAV, FLAC, MP3 or Ogg Vorbis.
        order: ``"sequential"``, ``"random"``, ``"permuted"`` (random, without a list of all samples in memory),
            ``"quasi_random"``, ``"bucketed"`` (random, each batch with images of one size, for lists with
            ``ops.ResizeToBucket``), one of ``QuasiRandom``, ``Weighted``, ``ClassBalanced``, ``RepeatedAugment`` and
            ``DataMixture``, or a sampler: an object with ``__iter__`` and ``__len__``, and ``set_epoch`` if it is random.
        seed: Random orders and draws depend on it, the epoch and the sample.
        indices: Only these samples.
        filter: Only the samples for which this is true: a function that gets whole columns,
            ``filter=lambda column: column["label"] < 100``.
        drop_last: Leaves out a last batch with fewer samples.
        ranks: Several processes that share each epoch; ``"env"`` reads what torchrun, Slurm and MPI set.
        workers: Number of threads; by default one per core.
        batches_ahead: The number of batches that are begun before they are asked for.
        memory_limit: Maximum size of all batches, ahead and held, such as ``"2GiB"``. By default as many batches as
            you hold, and ``batches_ahead``.
        timeout: The most seconds to wait for a batch.
        unordered: Batches come as they are ready.
        on_damaged: ``"fail"``, ``"skip"`` leaves damaged samples out, ``"substitute"`` takes others.
        cache: Keeps decoded samples for later epochs.
        process_cache: Reads whole pages of a ``.beton`` file ahead; True takes the defaults.
        in_memory: Whether ``.beton`` files are read into memory when the loader is made: whole, whatever their size, or
            not at all. By default a local file is, if its samples have at most 16 KiB on average and it has at most a
            quarter of the free memory and 2 GiB.
        number_rule: How values are rounded between ops: ``"fused"`` keeps fractions, ``"exact"`` truncates after each
            op as torchvision does, ``"relaxed"`` merges colour matrices.
        exif_orientation: True turns images as their EXIF orientation says, as Ultralytics and Detectron2 do. By default
            they are not turned, and one that would be raises a ``ConfigError`` if it has targets: say True if
            boxes, keypoints and masks refer to the upright images, and False if they refer to the stored pixels.
        expect_classes: Refuses a dataset whose classes have other names or numbers: ``train.classes``, or the names in
            the order of their numbers. A folder numbers its classes in the order of their names, so that a validation
            folder without one of the classes numbers the others differently; ``classes`` of
            :func:`fuseloop.sources.folder` numbers them as the training set does.
        scaled_decode: Decodes a JPEG at 1/2, 1/4 or 1/8 of its size where an antialiased resize comes first that still
            reads twice as many rows and columns as it writes, as Pillow's ``draft`` with a ``reducing_gap`` of 2. For
            large photographs; pixels change by less than a level on average.
        device: Where the ops after ``ToDevice`` run: ``"cpu"``, ``"cuda:0"``, ``"auto"``.
        device_batches: Maximum number of batches on the device.
        pin_memory: Batches are in page-locked memory, from which copies to a GPU run asynchronously
            (``tensor.to("cuda", non_blocking=True)``). True takes the current device of PyTorch, ``LOCAL_RANK``, or
            GPU 0; a number is that of a GPU. Hold a batch until the copies from it are done, as
            ``fuseloop.torch.Loader`` does. Where pages can't be locked, a warning says why, and batches are the same.
        recompile: Plans and compiles all lists again for each epoch. Lists by epoch are without it.
        copy: Batches are dicts of arrays that own their memory, instead of sharing that of the batch. Checkers of types
            know them as ``fuseloop.Loader[dict[str, numpy.ndarray]]``.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> loader = fl.Loader(example_dataset(), batch_size=4, image=[ops.RandomResizedCrop(32), ops.ToChannelsFirst()])
    >>> for batch in loader:
    ...     images, labels = batch["image"].numpy(), batch["label"].numpy()
    >>> images.shape, images.dtype.name
    ((4, 3, 32, 32), 'uint8')
    """

    # The arguments that a derived class has of its own.
    _own_arguments: frozenset[str] = frozenset()

    def __init__(
        self,
        dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
        /,
        batch_size: int = 64,
        *,
        split: str | None = None,
        ops: Mapping[str, OpList | None] | None = None,
        without: Iterable[str] = (),
        views: Mapping[str, View] | None = None,
        share_draws: Mapping[str, str] | None = None,
        component_ops: Mapping[tuple[int, str], Iterable[Op]] | None = None,
        collate: Mapping[str, Collate] | None = None,
        clips: Clips | None = None,
        image_lists: Mapping[str, ImageList | int] | None = None,
        masks: Iterable[str] = (),
        read_mode: Mapping[str, Literal["rgb", "gray", "gray16", "rgb_alpha", "index"]] | None = None,
        targets: Mapping[str, Mapping[str, Target]] | Literal["auto"] | None = None,
        axes: Mapping[str, str] | None = None,
        arrays: Mapping[str, tuple[Any, Sequence[int]] | Audio] | None = None,
        order: Literal["sequential", "random", "permuted", "quasi_random", "bucketed"]
        | QuasiRandom
        | Weighted
        | ClassBalanced
        | RepeatedAugment
        | DataMixture
        | _Sampler = "sequential",
        seed: int = 0,
        indices: Any = None,
        filter: Callable[[Mapping[str, np.ndarray]], Any] | None = None,
        drop_last: bool = False,
        ranks: Ranks | Literal["env"] | None = None,
        workers: int | None = None,
        batches_ahead: int = 3,
        memory_limit: int | str | None = None,
        timeout: float | None = None,
        unordered: bool = False,
        on_damaged: Literal["fail", "skip", "substitute"] = "fail",
        cache: Cache | None = None,
        process_cache: ProcessCache | bool | None = None,
        in_memory: bool | None = None,
        number_rule: Literal["fused", "exact", "relaxed"] = "fused",
        exif_orientation: bool | None = None,
        expect_classes: Sequence[str] | Mapping[int, str] | None = None,
        scaled_decode: bool = False,
        device: str | None = None,
        device_batches: int | None = None,
        pin_memory: bool | int = False,
        recompile: bool | None = None,
        copy: bool = False,
        **fields: OpList | None,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "fields", "__class__")}
        lists = _outputs(ops, fields, self._own_arguments)
        views = _hints.by_name("views", views, "{'view2': fuseloop.View('image', [...])}")
        views = {name: _with_ops(name, view, None) for name, view in views.items()}
        if filter is not None and not callable(filter):
            raise _hints.no_filter(filter)
        if filter is not None and clips is not None:
            raise ConfigError("filter gets columns of images, but the samples are videos: choose them by `indices`")
        self._begin(dataset, {**arguments, "ops": lists, "views": views}, None)
        self._lists: dict[str, OpList] = {output: ops for output, ops in lists.items() if ops is not None}
        data = {
            "batch_size": batch_size,
            "seed": seed,
            "drop_last": drop_last,
            "workers": workers,
            "batches_ahead": batches_ahead,
            "memory_limit": memory_limit,
            "timeout": timeout,
            "unordered": unordered,
            "on_damaged": on_damaged,
            "in_memory": in_memory,
            "number_rule": number_rule,
            "exif_orientation": exif_orientation,
            "scaled_decode": scaled_decode,
            "device": device,
            "device_batches": device_batches,
            "pin_memory": _pinning_gpu(pin_memory, copy),
            "recompile": recompile,
            "without": [*_hints.names("without", without), *(output for output, ops in lists.items() if ops is None)],
            "masks": _hints.names("masks", masks),
            "read_mode": _hints.texts_by_name("read_mode", read_mode, "{'image': 'gray'}", "fields"),
            "targets": _targets(targets),
            "axes": _hints.texts_by_name("axes", axes, "{'scan': 'DHW'}", "fields"),
            "arrays": _hints.arrays(arrays),
            "share_draws": _hints.texts_by_name("share_draws", share_draws, "{'mask': 'image'}"),
            "collate": _collates(collate),
            "clips": _clips(clips),
            "image_lists": _image_lists(image_lists),
        }
        settings: dict[str, Any] = {
            "data": _data(data),
            "ranks": _ranks(ranks),
            "cache": _cache(cache),
            "process_cache": _process_cache(process_cache),
            "expect_classes": None if expect_classes is None else _class_pairs("expect_classes", expect_classes),
            "indices": _hints.indices(indices),
            "views": [],
            "component_ops": _component_ops(component_ops),
        }
        for name, view in views.items():
            self._lists[name] = view.ops
            settings["views"].append((name, view.of, view.after, _fixed(view.ops)))
        settings["lists"] = [(output, _fixed(ops)) for output, ops in lists.items() if ops is not None]
        if filter is not None:
            settings["indices"] = _chosen(self._dataset, filter, indices)
        chosen = settings["indices"]
        settings["order"] = _order(order, batch_size, self._dataset, chosen)
        self._copy = copy
        self._settings: dict[str, Any] = settings
        self._build()

    def _begin(self, dataset: Any, arguments: dict[str, Any], pipeline: str | None) -> None:
        # The dataset of a split is pickled with it.
        split = arguments.pop("split", None)
        if not isinstance(dataset, (str, os.PathLike, Dataset)):
            from .sources import _in_memory, from_datasets

            if class_of(dataset) is not None:
                dataset, split = from_datasets(dataset, split=split), None
            arrays = _in_memory(dataset)
            dataset = dataset if arrays is None else arrays
        if isinstance(dataset, (str, os.PathLike, list, tuple)):
            with of_frames(arguments.get("clips") is not None):
                dataset = opened(dataset, split)
        elif split is not None:
            raise ConfigError(f"split={split!r} is of a dataset that is opened by its name")
        if not isinstance(dataset, Dataset):
            raise ConfigError(
                f"a dataset is a path, a fuseloop.Dataset, or arrays, such as (x, y), not {type(dataset).__name__}: "
                "see fuseloop.sources for those that are made in Python"
            )
        arguments["dataset"] = dataset
        self._arguments = arguments
        self._pipeline = pipeline
        self._dataset = dataset
        self._copy = False
        self.next_epoch = 0
        self._lock = (os.getpid(), threading.Condition())
        self._armed: tuple[str, int, int] | None = None
        self._epoch: weakref.ref[Epoch[B]] | None = None
        self._playing = 0  # the id of that epoch
        self._left: dict[str, Any] | None = None  # its position when it was dropped

    @classmethod
    def from_spec(
        cls, pipeline: str | os.PathLike[str], dataset: str | os.PathLike[str] | Dataset, /, **changes: Any
    ) -> Self:
        """Builds the loader that a pipeline file (TOML) describes, as ``fuseloop bench --pipeline`` does. ``changes``
        are settings that override those of the file: ``batch_size``, ``seed``, ``order`` and such, as a file has them."""
        loader = cls.__new__(cls)
        loader._begin(dataset, dict(changes), os.fspath(pipeline))
        loader._lists, loader._settings = {}, {"data": _data(changes)}
        loader._build()
        return loader

    # Building

    def _build(self) -> None:
        self._inner = _fuseloop.Loader(self._dataset, self._settings, self._lists_of(0), self._pipeline)
        self._process = os.getpid()
        self._beginning: dict[str, Any] = json.loads(self._inner.beginning())
        # The file may say what happens to damaged samples, and that batches are page-locked.
        data = self._settings["data"]
        self._may_skip = self._pipeline is not None or data.get("on_damaged") != "fail"
        self._logged: set[int] = set()
        self._pins = self._pipeline is not None or "pin_memory" in data
        _live.add(self)
        reason = self._inner.fallback()
        if reason is not None:
            _logger.info("%s: the device is the CPU, since %s", self._dataset.name, reason)

    def _core(self) -> _fuseloop.Loader:
        """Returns the compiled loader. In a process forked from the loader's own it is built again: threads do not
        survive a fork."""
        if self._process != os.getpid():
            self._build()
        return self._inner

    def _lists_of(self, epoch: int) -> dict[str, list[Op]]:
        """Calls the functions of the epoch."""
        return {output: _list_of(ops, epoch) for output, ops in self._lists.items() if callable(ops)}

    def _converted(self, batch: Batch) -> Any:
        return batch.numpy(copy=True) if self._copy else batch

    def _log_damage(self, batch: Batch | None = None) -> None:
        """Logs the damaged samples of a batch, or all that are left, by their index. Each is logged once."""
        if not self._may_skip or (batch is not None and not len(batch.skipped) and not len(batch.replaced)):
            return
        try:
            found, _, _ = self._found_damage()
        except FuseloopError:  # the loader was closed, and its epoch goes on
            return
        # The loader has read ahead of this batch, and lists samples as its threads found them.
        own = None if batch is None else {*batch.skipped.tolist(), *batch.replaced.tolist()}
        for sample, epoch, error in sorted(found, key=itemgetter(0)):
            if sample not in self._logged and (own is None or sample in own):
                self._logged.add(sample)
                _logger.warning("epoch %d: sample %d is damaged: %s", epoch, sample, _in_python(error))

    def _warn_unpinned(self) -> None:
        """Warns once if batches are not page-locked, although they should be."""
        try:
            reason = self._inner.pin_failure() if self._pins else None
        except FuseloopError:  # the loader was closed, and its epoch goes on
            return
        if reason is not None:
            self._pins = False
            warnings.warn(f"pin_memory: batches are not page-locked: {reason}", stacklevel=3)

    # Iterating

    def __iter__(self) -> Epoch[B]:
        # Frameworks ask for iterators that they drop, and for others before they set the epoch: an epoch begins with
        # its first batch.
        return Epoch(self)

    def _position(self) -> threading.Condition:
        """Returns the lock of the loader's position, which tells when a dropped epoch has left its own. A thread that a
        fork left behind may hold the lock, so another process has one of its own."""
        process, lock = self._lock
        if process != os.getpid():
            lock = threading.Condition()
            self._lock = (os.getpid(), lock)
        return lock

    def _play(self, epoch: Epoch[B]) -> _fuseloop.Epoch:
        """Begins the rest of the epoch of a state that was loaded, or the next epoch. The caller holds the lock."""
        if self._armed is None:
            number, taken = _epoch_number(self.next_epoch), 0
            core = self._start_epoch(number)
        else:
            cursor, number, taken = self._armed
            core = self._resume_epoch(cursor, number)
            self._armed = None
        self._started(epoch._set(core, number, taken))
        self.next_epoch = number + 1
        return core

    def __len__(self) -> int:
        batches = self._core().batches()
        if batches is None:
            raise TypeError("the number of batches of this stream is not known: cut it with Stream.with_epoch")
        return batches

    def epoch(self, epoch: int | None = None) -> Epoch[B]:
        """Starts this epoch, or the next. Unlike ``iter(loader)``, it starts at once and leaves ``next_epoch`` as it is
        if an epoch is given."""
        with self._position():
            if epoch is None:
                epoch, self.next_epoch = _epoch_number(self.next_epoch), self.next_epoch + 1
            epoch = _epoch_number(epoch)
            return self._started(Epoch(self)._set(self._start_epoch(epoch), epoch, 0))

    def resume(self, state: Mapping[str, Any]) -> Epoch[B]:
        """Starts the rest of the epoch that a state was taken in."""
        with self._position():
            self.load_state_dict(state)
            epoch = Epoch(self)
            epoch._begun()
        return epoch

    def renew(self, epoch: Epoch[B]) -> Epoch[B]:
        """Continues an epoch with the current ops, from the first sample that was not delivered."""
        with self._position():
            core = self._renew_epoch(epoch._begun(), epoch.number)
            if core is None:
                raise ConfigError("the epoch was closed")
            return self._started(Epoch(self)._set(core, epoch.number, epoch._taken))

    # What a loader overrides whose batches are made elsewhere.

    def _start_epoch(self, number: int) -> _fuseloop.Epoch:
        return self._core().epoch(number, self._lists_of(number))

    def _resume_epoch(self, cursor: str, number: int) -> _fuseloop.Epoch:
        return self._core().resume(cursor, self._lists_of(number))

    def _renew_epoch(self, core: _fuseloop.Epoch, number: int) -> _fuseloop.Epoch | None:
        return self._core().renew(core, self._lists_of(number))

    def _found_damage(self) -> tuple[list[tuple[int, int, str]], int, bool]:
        return self._inner.quarantine()

    def _started(self, epoch: Epoch[B]) -> Epoch[B]:
        self._playing, self._left = id(epoch), None
        self._epoch = weakref.ref(epoch)
        return epoch

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch is played next. After :meth:`load_state_dict` with this epoch, its position stays."""
        epoch = _epoch_number(epoch)
        with self._position():
            if self._armed is not None and self._armed[1] != epoch:
                warnings.warn(
                    f"set_epoch({epoch}) after a state of epoch {self._armed[1]}: its position is dropped", stacklevel=2
                )
                self._armed = None
            if self._armed is None:
                self.next_epoch, self._left = epoch, None

    def set_ops(self, output: str | Mapping[str, OpList], ops: OpList | None = None) -> None:
        """Replaces the ops of an output from the next epoch on, and for the rest of one after :meth:`renew`. A dict
        replaces those of several outputs at once, which are checked together: an image and its label can only be
        mixed, and no longer mixed, together. If they do not fit, nothing is changed.

        >>> loader.set_ops({"image": [ops.RandomResizedCrop(224)], "label": [ops.OneHot(1000)]})  # doctest: +SKIP
        """
        if isinstance(output, str) and ops is not None:
            given: Mapping[str, OpList] = {output: ops}
        elif isinstance(output, Mapping) and ops is None:
            given = output
        else:
            raise ConfigError("set_ops takes an output and its ops, or a dict of the ops of several outputs")
        with self._position():
            changes = {self._given_name(name): _copied(ops) for name, ops in given.items()}
            lists = {**self._lists, **changes}
            epoch = min(self.next_epoch, _LAST_EPOCH)
            called = {name: _list_of(ops, epoch) for name, ops in lists.items() if callable(ops)}
            self._core().set_ops([(name, _fixed(ops)) for name, ops in changes.items()], epoch, called)
            self._lists, self._beginning = lists, json.loads(self._inner.beginning())
            for name, ops in changes.items():
                self._keep_ops(name, ops)

    def _keep_ops(self, output: str, ops: OpList) -> None:
        """Keeps the ops of an output for the loader that is built in another process."""
        views = self._arguments.get("views", {})
        kind = "views" if output in views else "lists"
        if output in views:
            self._arguments["views"] = {**views, output: _with_ops(output, views[output], ops)}
        else:
            self._arguments["ops"] = {**self._arguments.get("ops", {}), output: ops}
        kept = self._settings.setdefault(kind, [])
        for k, item in enumerate(kept):
            if item[0] == output:
                kept[k] = (*item[:-1], _fixed(ops))
                return
        kept.append((output, _fixed(ops)))

    def _given_name(self, output: str) -> str:
        """Returns the name by which the arguments have an output: a field has two if the file calls it otherwise."""
        for name, alias, _, _ in self._core().outputs():
            if output in (name, alias):
                return next((given for given in (name, alias) if given in self._lists), output)
        return output

    # State

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batches that were handed out, as texts and ints."""
        epoch: Epoch[B] | None = None

        def is_settled() -> bool:
            """False while another thread drops the epoch that is played, and has not left its position yet."""
            nonlocal epoch
            epoch = self._epoch() if self._epoch is not None else None
            return epoch is not None or self._playing == 0

        position = self._position()
        with position:
            if self._armed is not None:
                cursor, number, batches = self._armed
                return _state(cursor, number + 1, batches)
            position.wait_for(is_settled, timeout=1)
            state = self._left if epoch is None else epoch.state_dict()
            if state is None or state["next_epoch"] != self.next_epoch:
                return self._state_between(self.next_epoch)
            return dict(state)

    def _state_between(self, next_epoch: int) -> dict[str, Any]:
        """Returns the state before an epoch: the cursor of its beginning."""
        # Epochs have 32 bits.
        begin = {**self._beginning, "epoch": next_epoch} if next_epoch <= _LAST_EPOCH else None
        return _state("" if begin is None else json.dumps(begin, separators=(",", ":")), next_epoch, 0)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets the position of the next epoch that is played: the rest of the one that the state was taken in. A state of
        another dataset, order, seed, batch size or other ops is refused at once. Ops that a function of the epoch returns
        are compared when the epoch begins. Between two epochs, ops and the batch size may change. To begin an epoch with
        another order or seed, set ``next_epoch`` instead."""
        cursor, next_epoch, batches = _read_state(state)
        with self._position():
            epoch = self._core().epoch_of(cursor, next_epoch) if cursor else next_epoch
            armed = None if epoch == next_epoch else (cursor, epoch, batches)
            self._epoch, self._playing, self._left = None, 0, None
            self._armed, self.next_epoch = armed, next_epoch if armed is None else armed[1] + 1

    def skip(self, batches: int) -> None:
        """Steps over the next batches of the epoch that is played, or of the state that was loaded, without decoding
        them: see :meth:`Epoch.skip`. After a loss spike, load the state of the last checkpoint, and skip the batches up
        to the first after the spike.

        >>> loader.load_state_dict(checkpoint["loader"])  # doctest: +SKIP
        >>> loader.skip(200)  # doctest: +SKIP
        """
        batches = _whole("batches", batches)
        with self._position():
            if self._armed is not None:
                cursor, number, taken = self._armed
                whole = self._core().batches()
                stepped = batches if whole is None else min(batches, whole - taken)
                self._armed = (self._core().advanced(cursor, batches), number, taken + stepped)
                return
            epoch = self._epoch() if self._epoch is not None else None
            if epoch is None or epoch._ended or epoch._last is not None:
                at = self.next_epoch
                raise ConfigError(
                    f"no epoch is played, and no state in the middle of one was loaded: call skip of loader.epoch({at})"
                )
        epoch.skip(batches)

    @property
    def last_fingerprint(self) -> str | None:
        """The :attr:`Batch.fingerprint` of the batch that was delivered last, for loaders whose batches are tensors or
        arrays of a framework; None before the first."""
        return self._core().last_fingerprint()

    def log_fingerprints(self, path: str | os.PathLike[str] | None, *, ids: bool = False) -> None:
        """Appends a line of JSON to a file for each batch that is delivered from now on: epoch, batch, position, rank and
        fingerprint, and with ``ids`` the samples. ``fuseloop diff A.jsonl B.jsonl`` names the first batch in which two
        such logs differ, and the cause. Each rank needs a file of its own. None ends the log.

        >>> import json, pathlib, tempfile
        >>> from fuseloop import ops
        >>> log = pathlib.Path(tempfile.mkdtemp()) / "run.jsonl"
        >>> loader = Loader(example_dataset(), 4, image=[ops.CenterCrop(8)])
        >>> loader.log_fingerprints(log, ids=True)
        >>> prints = [batch.fingerprint for batch in loader]
        >>> header, *lines = map(json.loads, log.read_text().splitlines())
        >>> prints == [line["fingerprint"] for line in lines], lines[0]["ids"]
        (True, [0, 1, 2, 3])
        """
        self._core().log_fingerprints(None if path is None else os.fspath(path), bool(ids))

    # What it tells

    def drawn(self, state: Mapping[str, Any] | None = None) -> list[int] | None:
        """Returns the number of samples of each dataset that a :class:`DataMixture` has drawn in an epoch, on all ranks
        together: up to a state, by default that of :meth:`state_dict`. After the end of an epoch, these are all of the
        epoch. Samples that ``uneven="pad"`` repeats are not counted again. ``None`` for other orders."""
        cursor, next_epoch, _ = _read_state(self.state_dict() if state is None else state)
        if cursor and self._core().epoch_of(cursor, next_epoch) != next_epoch:
            return self._core().drawn(cursor, 0)
        counts = self._core().drawn(None, max(next_epoch - 1, 0))
        return counts if counts is None or next_epoch > 0 else [0] * len(counts)

    def get(self, indices: Any, epoch: int = 0) -> B:
        """Returns any samples as one batch: the rows that they have in this epoch."""
        epoch = _epoch_number(epoch)
        return self._converted(self._core().get_samples(indices, epoch, self._lists_of(epoch)))

    def preview(
        self,
        n: int = 8,
        *,
        epochs: int = 1,
        epoch: int = 0,
        each_op: bool = False,
        field: str | None = None,
        bands: Sequence[int] = (),
    ) -> Sheet:
        """Draws what the ops make of some samples, with what was drawn under each picture. A notebook shows the sheet.

        The targets of the output are drawn over the pictures: boxes with the names of their classes, keypoints and
        masks. In the place of the pictures of a damaged sample is its error; if all are damaged, that is raised.

        Args:
            n: The number of samples, spread over those of the loader.
            epochs: The number of epochs of each sample, one picture each.
            epoch: The first epoch.
            each_op: Shows the picture after every op instead, in one epoch.
            field: The output with the pictures; by default the first one.
            bands: The channels that are shown: one in gray, or three as red, green and blue.
        """
        n, epochs, epoch = _whole("n", n, 1), _whole("epochs", epochs, 1), _epoch_number(epoch)
        # More epochs than a sheet has room for are refused there.
        lists = [self._lists_of(number) for number in range(epoch, epoch + min(epochs, 2000))]
        return Sheet(_fuseloop.preview(self._core(), n, epoch, epochs, each_op, field, list(bands), lists))

    def inspect(self, sample: int, epoch: int = 0, *, field: str | None = None) -> Inspected:
        """Tells what is drawn for a sample in an epoch: the words of ``fuseloop replay``, and the stored image.

        Objects are listed before and after the ops, in words and as data.

        Args:
            sample: The number of the sample in the dataset.
            epoch: The epoch.
            field: The output; by default the first one with images.
        """
        sample, epoch = _whole("sample", sample), _epoch_number(epoch)
        return inspected(self._core(), sample, epoch, field, self._lists_of(epoch))

    def explain(self) -> Plan:
        """Describes how the pipelines were planned and compiled."""
        return Plan(_in_python(self._core().explain()))

    def stats(self) -> Stats:
        """Tells where the time went, and what slows the loader down."""
        return Stats(**self._core().stats())

    def headroom(self, batches: int = 100, epoch: int = 0) -> Headroom[B]:
        """Returns the first batch of an epoch ``batches`` times, for a loop that shows how fast its consumer is without
        the loader. ``report()`` then compares that with the loader's own rate. The position of the loader stays.

        The batch is the same memory each time: ops in place change it for the next step. A loop that sends work to
        a GPU is timed with it by the loader for PyTorch; with JAX, end each step with ``block_until_ready``.
        :meth:`stats` counts what is prepared for it, too.

        >>> import fuseloop as fl
        >>> from fuseloop import ops
        >>> loader = fl.Loader(example_dataset(), batch_size=4, image=[ops.RandomResizedCrop(32)])
        >>> replay = loader.headroom(batches=20)
        >>> for batch in replay:
        ...     step = batch["image"].numpy().mean()
        >>> print(replay.report())  # doctest: +SKIP
        the consumer uses 11,204 samples/s, the loader prepares 2,893 samples/s: the loader is the limit (headroom 0.26)
        """
        return Headroom(self, batches, epoch)

    def _wait_for_device(self) -> None:
        """Waits for the work that a loop has sent to a GPU, where the framework says how."""

    def quarantine(self) -> Quarantine:
        """Lists the damaged samples found so far, if they do not end the epoch."""
        self._core()
        samples, rows, is_cut = self._found_damage()
        listed = tuple((sample, epoch, _in_python(error)) for sample, epoch, error in samples)
        return Quarantine(listed, rows, is_cut)

    def close(self) -> None:
        """Ends the threads. Batches that are held stay valid."""
        epoch = self._epoch() if self._epoch is not None else None
        if epoch is not None:
            epoch.close()
        self._inner.close()

    @property
    def batch_size(self) -> int:
        return self._core().batch_size()

    @property
    def drop_last(self) -> bool:
        return bool(self._settings["data"].get("drop_last", False))

    @property
    def dataset(self) -> Dataset:
        return self._dataset

    def _marks_padding(self) -> bool:
        """Returns whether some samples may also be in another batch, which is said by the batch's mask alone."""
        ranks = self._arguments.get("ranks")
        return isinstance(ranks, Ranks) and ranks.uneven == "exact"

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(name, dtype, tuple(shape)) for name, _, dtype, shape in self._core().outputs())

    @property
    def device(self) -> str:
        """The device that runs the ops after ``ToDevice``, by PyTorch's name: ``"cpu"`` or ``"cuda:0"``.

        :meth:`explain` says why it is the CPU if ``"auto"`` found no GPU.
        """
        return self._core().device()

    @property
    def classes(self) -> dict[int, str]:
        """The names of the classes by their numbers; empty if they are not known."""
        return self._core().classes()

    @property
    def sampler(self) -> _SamplerView:
        return _SamplerView(self)

    def __repr__(self) -> str:
        if not hasattr(self, "_inner"):
            return f"{type(self).__name__}(not built)"
        outputs = ", ".join(f"{spec.name}: {spec.dtype} {list(spec.shape)}" for spec in self.tensors)
        return f"{type(self).__name__}('{self._dataset.name}', batch_size={self.batch_size}, {outputs})"

    def _repr_html_(self) -> str:
        import html

        core = self._core()
        rows = [("dataset", self._dataset.name), ("samples", core.samples()), ("batches", core.batches())]
        rows += [("batch size", self.batch_size), ("device", self.device)]
        rows += [(spec.name, f"{spec.dtype} {list(spec.shape)}") for spec in self.tensors]
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
            for name, value in rows
        )
        plan = html.escape(self.explain())
        return f"<table>{cells}</table><details><summary>plan</summary><pre>{plan}</pre></details>"

    def __reduce__(self) -> tuple[Any, ...]:
        for output, ops in self._lists.items():
            if callable(ops):
                try:
                    pickle.dumps(ops)
                except Exception as error:
                    raise TypeError(
                        f"the function of output {output} can't be pickled ({error}): define it with `def` in a module"
                    ) from None
        return _unpickled, (type(self), self._arguments, self._pipeline, self.state_dict())


def _unpickled(kind: type[Loader], arguments: dict[str, Any], pipeline: str | None, state: dict[str, Any]) -> Loader:
    arguments = dict(arguments)
    dataset = arguments.pop("dataset")
    if pipeline is not None:
        changed = arguments.pop("ops", {})
        loader = kind.from_spec(pipeline, dataset, **arguments)
        loader.set_ops(changed)
    else:
        loader = kind(dataset, arguments.pop("batch_size"), **arguments)
    loader.load_state_dict(state)
    return loader


# Reading arguments

_NAMES = frozenset(Loader.__init__.__kwdefaults__ or {}) | {"batch_size"}


def _outputs(
    ops: Mapping[str, OpList | None] | None, fields: Mapping[str, Any], own: frozenset[str]
) -> dict[str, OpList | None]:
    given = _hints.by_name("ops", ops, "{'image': [fuseloop.ops.Resize((224, 224))]}")
    lists = {name: None if value is None else _copied(value) for name, value in given.items()}
    for name, value in fields.items():
        if name in lists:
            raise ConfigError(f"the ops of {name} are given twice: in ops and as an argument of their own")
        is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        is_of_ops = isinstance(value, (list, tuple)) and all(isinstance(op, Op) for op in value)
        if name in _hints.ARGUMENTS and not is_of_ops:
            raise _hints.argument(name)
        if name in _hints.SOURCES and not (value is None or is_of_ops or isinstance(value, Op) or callable(value)):
            raise _hints.source_option(name, value)
        if isinstance(value, Op):
            raise ConfigError(f"{name} is {value!r}, expected a list of ops: {name}=[{value!r}]")
        if value is not None and not callable(value) and not is_list:
            raise _no_argument(name, f"{value!r} is no list of ops", own)
        is_data = isinstance(value, (list, tuple, dict, set)) and len(value) > 0 and not any(map(_may_be_op, value))
        if is_data and _near(name, own):
            raise _no_argument(name, f"{value!r} has no ops", own)
        lists[name] = None if value is None else _copied(value)
    return lists


def _near(name: str, own: frozenset[str]) -> list[str]:
    """Returns the argument of the loader that a name is like, if there is one."""
    from difflib import get_close_matches

    return get_close_matches(name, _NAMES | own, 1, 0.7)


def _no_argument(name: str, why: str, own: frozenset[str]) -> ConfigError:
    """Returns the error for an argument that the loader does not have."""
    near = _near(name, own)
    error = ConfigError(f"{name} is no argument of Loader, and {why}" + (f": did you mean {near[0]}?" if near else ""))
    error.hint = near[0] if near else None
    return error


def _may_be_op(value: Any) -> bool:
    """Returns whether something is meant as an op: an op, a list of ops, or what another library has for one."""
    return isinstance(value, Op) or callable(value) or isinstance(value, (list, tuple, Mapping))


def _list_of(ops: Callable[[int], Iterable[Op]], epoch: int) -> list[Op]:
    """Calls a function of the epoch."""
    try:
        return Compose(ops(epoch))
    except _ENDINGS as error:
        raise _not_an_end(error) from error


def _copied(ops: OpList) -> OpList:
    """Returns a list that no change of the caller's reaches, or the function of the epoch."""
    foreign = _hints.foreign_list(ops)
    if foreign is not None:
        raise foreign
    return ops if callable(ops) else Compose(ops)


def _with_ops(name: str, view: Any, ops: OpList | None) -> View:
    """Returns a copy of a view, with other ops if they are given."""
    if not isinstance(view, View):
        raise ConfigError(f"views: {name} is {view!r}, expected fuseloop.View(of, ops)")
    return replace(view, ops=_copied(view.ops if ops is None else ops))


def _data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that are given, as numbers, texts, lists and tables."""
    found = {}
    for name, value in settings.items():
        if isinstance(value, float | int | str | bytes) or value is None:
            plain = value
        elif type(value).__module__ == "torch" and type(value).__name__ == "device":
            plain = str(value)
        else:
            plain = _plain(value)
        if plain is not None and plain != {} and plain != ():
            found[name] = plain
    return found


def _targets(targets: Any) -> Any:
    if targets is None or targets == "auto":
        return targets
    if not isinstance(targets, Mapping):
        raise ConfigError(f'targets is {targets!r}, expected "auto", or a dict of the targets of each image')
    return {image: _targets_of(image, fields) for image, fields in targets.items()}


def _targets_of(image: str, targets: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(targets, Mapping):
        raise ConfigError(
            f"targets: {image} is {targets!r}, expected a dict of the fields that follow an image, by the name of that "
            "image: targets={'image': {'bbox': fuseloop.Target.boxes()}}"
        )
    for name, target in targets.items():
        if not isinstance(target, Target):
            raise ConfigError(
                f"targets: {name} of {image} is {target!r}, expected a fuseloop.Target, such as Target.boxes('xyxy')"
            )
    return {name: target.options for name, target in targets.items()}


def _component_ops(given: Any) -> list[tuple[int, str, list[Op]]]:
    example = "{(1, 'image'): [fuseloop.ops.Resize((224, 224))]}"
    found = []
    for key, ops in _hints.by_name("component_ops", given, example, "a dataset and an output").items():
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], str)):
            raise ConfigError(f"component_ops: {key!r}, expected the number of a dataset and an output: component_ops={example}")
        found.append((_whole("component_ops: a dataset", key[0]), key[1], Compose(ops)))
    return found


def _clips(clips: Any) -> dict[str, Any] | None:
    if clips is None:
        return None
    if not isinstance(clips, Clips):
        raise ConfigError(f"clips is {clips!r}, expected a fuseloop.Clips, such as Clips.random(frames=16, stride=4)")
    return {name: value for name, value in vars(clips).items() if value is not None and value is not False}


def _image_lists(image_lists: Any) -> dict[str, dict[str, Any]]:
    given = _hints.by_name("image_lists", image_lists, "{'images': fuseloop.ImageList(max=4)}", "fields")
    return {field: _image_list(field, images) for field, images in given.items()}


def _image_list(field: str, images: Any) -> dict[str, Any]:
    if isinstance(images, int) and not isinstance(images, bool):
        images = ImageList(images)
    if not isinstance(images, ImageList):
        raise ConfigError(f"image_lists: {field} is {images!r}, expected a fuseloop.ImageList, such as ImageList(max=4)")
    return dict(vars(images))


def _collates(collate: Any) -> dict[str, dict[str, Any]]:
    given = _hints.by_name("collate", collate, "{'image': fuseloop.Collate.pad()}")
    return {output: _collated(output, how) for output, how in given.items()}


def _collated(output: str, how: Any) -> dict[str, Any]:
    if not isinstance(how, Collate):
        raise ConfigError(f"collate: {output} is {how!r}, expected a fuseloop.Collate, such as Collate.pad()")
    form = {"as" if name == "form" else name: value for name, value in vars(how).items() if value is not None and value != ()}
    if isinstance(form.get("to"), (tuple, list)):
        form["to_size"] = form.pop("to")
    return form


def _fixed(ops: OpList) -> list[Op] | None:
    """Returns a list of ops; None for a function of the epoch."""
    return None if callable(ops) else Compose(ops)


def _class_pairs(name: str, classes: Sequence[str] | Mapping[int, str]) -> list[tuple[int, str]]:
    """Returns the numbers and the names of classes."""
    is_list = isinstance(classes, Sequence) and not isinstance(classes, (str, bytes))
    if not is_list and not isinstance(classes, Mapping):
        raise ConfigError(f"{name} is {classes!r}, expected a list of names, or names by their numbers")
    pairs: list[tuple[int, Any]]
    pairs = list(enumerate(classes)) if is_list else list(classes.items())  # type: ignore[union-attr]
    for number, text in pairs:
        if not isinstance(text, str):
            raise ConfigError(f"{name}: class {number!r} is {text!r}, expected a name")
    return [(_whole(f"{name}: a number", number, -(2**63)), text) for number, text in pairs]


def _whole(name: str, value: Any, least: int = 0) -> int:
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise ConfigError(f"{name} is {value!r}, expected a whole number") from None
    if not least <= number < 2**63:
        raise ConfigError(f"{name} is {number}, expected {least} or more")
    return number


_LAST_EPOCH = 2**32 - 1


def _epoch_number(epoch: Any) -> int:
    number = _whole("epoch", epoch)
    if number > _LAST_EPOCH:
        raise ConfigError(f"epoch is {number}, expected at most {_LAST_EPOCH}: numbers of epochs have 32 bits")
    return number


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def _bytes(name: str, value: int | str) -> int:
    if not isinstance(value, str):
        return _whole(name, value, 1)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    if not found or found[2].upper() not in _UNITS:
        raise ConfigError(f"{name} is {value!r}, expected a number of bytes, such as '2GiB'")
    return _whole(name, int(float(found[1]) * _UNITS[found[2].upper()]), 1)


def _pinning_gpu(pin_memory: bool | int, copy: bool) -> int | None:
    """Returns the number of the GPU whose context locks pages."""
    if pin_memory is False:
        return None
    if copy:
        raise ConfigError("pin_memory=True with copy=True: the copies are not page-locked, so use one of the two")
    if pin_memory is not True:
        return _whole("pin_memory", pin_memory)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    rank = os.environ.get("LOCAL_RANK", "")
    return int(rank) if rank.isdecimal() else 0


def _cache(cache: Cache | None) -> tuple[int, str | None] | None:
    if cache is None:
        return None
    if not isinstance(cache, Cache):
        raise ConfigError(f"cache is {cache!r}, expected fuseloop.Cache('32GiB')")
    return _bytes("cache", cache.size), None if cache.folder is None else os.fspath(cache.folder)


def _process_cache(cache: ProcessCache | bool | None) -> tuple[int, int] | None:
    if not cache:
        return None
    if cache is True:
        cache = ProcessCache()
    if not isinstance(cache, ProcessCache):
        raise ConfigError(f"process_cache is {cache!r}, expected True or fuseloop.ProcessCache('1GiB')")
    return _bytes("process_cache", cache.size), cache.threads


def _ranks(ranks: Ranks | str | None) -> str | tuple[int, int, str] | None:
    if ranks is None or ranks == "env":
        return ranks  # type: ignore[return-value]
    if not isinstance(ranks, Ranks):
        raise ConfigError(f"ranks is {ranks!r}, expected 'env' or fuseloop.Ranks(rank, world_size)")
    return _whole("rank", ranks.rank), _whole("world_size", ranks.world_size, 1), ranks.uneven


class _Columns(Mapping[str, Any]):
    """The columns of a dataset, read when they are asked for."""

    def __init__(self, dataset: Dataset, indices: Any) -> None:
        self._dataset, self._indices = dataset, indices

    def __getitem__(self, name: str) -> Any:
        return self._dataset.column(name, self._indices)

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset.fields)

    def __len__(self) -> int:
        return len(self._dataset.fields)


def _chosen(dataset: Dataset, keep: Callable[[Mapping[str, Any]], Any], indices: Any) -> Any:
    import numpy as np

    listed = None if indices is None else np.asarray(indices, dtype=np.int64)
    try:
        kept = np.asarray(keep(_Columns(dataset, listed)))
    except _ENDINGS as error:
        raise _not_an_end(error) from error
    count = len(dataset) if listed is None else len(listed)
    if kept.shape != (count,) or kept.dtype != np.bool_:
        raise ConfigError(
            f"filter returned an array of {kept.dtype} and shape {kept.shape}, expected bool and shape ({count},)"
        )
    return np.flatnonzero(kept) if listed is None else listed[kept]


def _order(order: Any, batch_size: int, dataset: Dataset, indices: Any) -> tuple[Any, ...]:
    if isinstance(order, str):
        if order in ("sequential", "random", "permuted", "bucketed"):
            return (order,)
        if order == "quasi_random":
            return (order, 2 * batch_size)
        raise ConfigError(
            f"order is {order!r}, expected 'sequential', 'random', 'permuted', 'quasi_random', 'bucketed', one of the "
            "classes of orders, or a sampler"
        )
    if isinstance(order, QuasiRandom):
        return ("quasi_random", _whole("open_pages", order.open_pages, 1))
    if isinstance(order, Weighted):
        weights = [float(weight) for weight in order.weights]
        samples = len(weights) if order.samples is None else _whole("samples", order.samples, 1)
        return ("weighted", weights, samples, bool(order.replacement))
    if isinstance(order, ClassBalanced):
        return ("class_balanced", order.field, bool(order.replacement))
    if isinstance(order, RepeatedAugment):
        return ("repeated_augment", _whole("repeats", order.repeats, 1))
    if isinstance(order, DataMixture):
        return ("mixture", _mixture(order))
    if hasattr(order, "__iter__") and hasattr(order, "__len__"):
        return ("custom", repr(order), len(order), _SamplerCall(order))
    raise ConfigError(f"order is {order!r}, which has no __iter__ and __len__: see fuseloop.Loader for the orders")


class _SamplerCall:
    """Asks a sampler for the order of an epoch."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __call__(self, seed: int, epoch: int) -> list[int]:
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        return [int(sample) for sample in self._sampler]


# The end

_live: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Ends all threads while the interpreter is whole: epochs first, then their loaders."""
    _fuseloop.end_functions()
    alive = list(_live)
    for kind in (Epoch, Loader):
        for one in alive:
            if isinstance(one, kind):
                inner = one._core if isinstance(one, Epoch) else one._inner
                if inner is not None:
                    inner.close()
