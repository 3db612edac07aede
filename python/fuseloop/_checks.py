"""What a dataset holds, and whether it is whole."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _fuseloop
from ._fuseloop import Dataset
from .errors import _in_python

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ClassInfo", "DamagedValue", "DatasetInfo", "DegenerateObject", "FieldInfo", "VerifyReport"]


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """A field of a dataset: its name, its kind in words, and what a ``.beton`` file's table says of its values."""

    name: str
    kind: str
    stats: Mapping[str, Any] | None
    """Of numbers ``min`` and ``max``, of bytes and JSON ``min_bytes`` and ``max_bytes``, of images ``jpeg``, ``raw``,
    ``bit_planes``, ``unreadable``, ``min_size``, ``max_size`` and ``max_pixels``. None if nothing is known without
    reading all."""


@dataclasses.dataclass(frozen=True)
class ClassInfo:
    """A class with a name: its number, its name and, if the labels are in a table or a file of their own, its number of
    samples, or of objects."""

    number: int
    name: str
    samples: int | None
    objects: int | None = None


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """What a dataset holds, from :meth:`fuseloop.Dataset.info`. Its text is that of ``fuseloop info``.

    >>> from fuseloop import sources
    >>> info = sources.open(example_dataset()).info()
    >>> info.samples, [field.name for field in info.fields]
    (24, ['image', 'label'])
    >>> info.classes[1]
    ClassInfo(number=1, name='cow', samples=12, objects=None)
    """

    name: str
    samples: int | None
    """None for a stream of unknown length."""
    fields: tuple[FieldInfo, ...]
    classes: tuple[ClassInfo, ...]
    """Empty if the names of the classes are not known."""
    bytes: int | None = None
    """The size of a ``.beton`` file."""
    page_size: int | None = None
    """The size of its pages in bytes."""
    objects: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The fields of the objects of an image, such as boxes, and what each is in words."""
    ignored: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The number of files of a folder that are no images by their names, by extension: ``{"heic": 12}``. Files without
    an extension are under ``""``."""
    _text: str = dataclasses.field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self._text


@dataclasses.dataclass(frozen=True)
class DamagedValue:
    """A damaged value: its sample and field, the kind of damage, where it is stored as far as that is known, and the
    error. Its text is one line."""

    sample: int
    field: str
    kind: str
    """A word, such as ``"picture_cut"``."""
    path: str | None
    key: str | None
    """The name of the sample in its file."""
    offset: int | None
    """The position in the file in bytes."""
    error: str
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class DegenerateObject:
    """An object of an image that a loader delivers, although it trains nothing: its index in its sample, the id that a
    file of annotations has for it, and why it is degenerate. Its text is one line."""

    sample: int
    field: str
    object: int
    annotation: int | None
    kind: str
    """A word, such as ``"empty_box"``."""
    path: str | None
    key: str | None
    """The name of the sample in its file."""
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class VerifyReport:
    """What :meth:`fuseloop.Dataset.verify` found. Its text is that of ``fuseloop verify``.

    >>> from fuseloop import sources
    >>> report = sources.open(example_dataset()).verify()
    >>> report.is_whole, report.samples, report.images
    (True, 24, 24)

    ``good`` is what a loader of the samples that are whole takes:
    ``fl.Loader(dataset, indices=dataset.verify().good)``.
    """

    samples: int
    """The number of samples that were checked, from the first on."""
    of_samples: int
    """The number of samples of the dataset."""
    is_whole: bool
    """True if nothing is damaged."""
    values: int
    images: int
    pixels: int
    audio_files: int
    """The number of audio files that were decoded."""
    video_files: int
    """The number of video files that were decoded."""
    bytes: int
    damaged_samples: int
    damaged_values: int
    undecoded_videos: Mapping[str, int]
    """The number of values of a field that begin as video files do and were not decoded, because most of its first values do
    not. ``verify(video="FIELD")`` decodes them. They are no damage."""
    kinds: Mapping[str, int]
    """The number of damaged values of each kind."""
    damaged: tuple[DamagedValue, ...]
    """The first thousand damaged values."""
    degenerate_kinds: Mapping[str, int]
    """The number of degenerate objects of each kind, such as boxes without an area. They are no damage."""
    degenerate: tuple[DegenerateObject, ...]
    """The first thousand degenerate objects."""
    tables: Mapping[str, Any] | None
    """What comparing the tables of a ``.beton`` file found, such as ``"overlapping"`` and ``"outside"``: of each the
    ``count``, the ``bytes`` and the ``first``. Only these two are damage. None for other formats."""
    good: np.ndarray = dataclasses.field(repr=False)
    """The samples without damage, as ``int64``."""
    _text: str = dataclasses.field(repr=False)

    def __repr__(self) -> str:
        damage = _count(self.damaged_samples, "damaged sample") if self.damaged_values else "damaged tables"
        found = "whole" if self.is_whole else damage
        return f"VerifyReport({_count(self.samples, 'sample')} checked, {found})"

    def __str__(self) -> str:
        return self._text


def samples(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """Returns the samples of a dataset in order."""
    count = len(dataset)
    return (dataset[index] for index in range(count))


def info(dataset: Dataset) -> DatasetInfo:
    """Tells what a dataset holds."""
    text, as_json = _fuseloop.dataset_info(dataset)
    found = json.loads(as_json)
    kinds = dataset.fields
    return DatasetInfo(
        name=found["name"],
        samples=found["samples"],
        fields=tuple(FieldInfo(one["name"], kinds[one["name"]], _stats(one["stats"])) for one in found["fields"]),
        classes=tuple(ClassInfo(**one) for one in found["classes"]),
        bytes=found.get("bytes"),
        page_size=found.get("page_size"),
        objects=found.get("objects", {}),
        ignored=found.get("ignored", {}),
        _text=text.rstrip("\n"),
    )


def verify(
    dataset: Dataset,
    *,
    limit: int | None = None,
    threads: int | None = None,
    audio: str | Sequence[str] = (),
    video: str | Sequence[str] = (),
    start_field: str | None = None,
    end_field: str | None = None,
    progress: Any = "auto",
) -> VerifyReport:
    """Checks every value of a dataset."""
    from . import _hints
    from .loader import _whole
    from .write import _Shown

    limit = None if limit is None else _whole("limit", limit)
    threads = None if threads is None else _whole("threads", threads, 1)
    fields = (_hints.names("audio", audio), _hints.names("video", video))
    with _Shown(progress) as shown:
        text, as_json, good = _fuseloop.verify(dataset, limit, threads, *fields, (start_field, end_field), shown)
    found = json.loads(as_json)
    damaged = tuple(DamagedValue(**_in_python_words(value)) for value in found.pop("damaged"))
    degenerate = tuple(DegenerateObject(**one) for one in found.pop("degenerate"))
    text = _in_python(text).rstrip("\n")
    return VerifyReport(**found, damaged=damaged, degenerate=degenerate, good=good, _text=text)


def _in_python_words(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "error": _in_python(value["error"]), "text": _in_python(value["text"])}


def _stats(stats: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the statistics of a field with sizes as tuples."""
    return stats and {name: tuple(value) if isinstance(value, list) else value for name, value in stats.items()}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
