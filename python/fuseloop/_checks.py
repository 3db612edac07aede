"""What a dataset holds, and whether it is whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _fuseloop
from ._fuseloop import Dataset
from .errors import _in_python

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ClassInfo", "DamagedValue", "DatasetInfo", "DegenerateObject", "FieldInfo", "VerifyReport"]

# The most classes and damaged values that are listed in words.
_MOST_CLASSES = 12
_MOST_DAMAGED = 50


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """A field of a dataset: its name, its kind in words, and what a ``.beton`` file's table says of its values."""

    name: str
    kind: str
    stats: Mapping[str, Any] | None
    """Of numbers ``min`` and ``max``, of bytes and JSON ``min_bytes`` and ``max_bytes``, of images ``jpeg``, ``raw``,
    ``bit_planes``, ``unreadable``, ``min_size`` and ``max_size``. None if nothing is known without reading all."""

    def __str__(self) -> str:
        return f"{self.name:<16} {self.kind:<10} {_stats(self.stats or {})}".rstrip()


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

    def __str__(self) -> str:
        unknown = "sequential, number of samples unknown"
        head = f"{self.name}: {unknown if self.samples is None else _count(self.samples, 'sample')}"
        if self.bytes is not None and self.page_size is not None:
            head += f", {_size(self.bytes)}, pages of {_size(self.page_size)}"
        lines = [head, _count(len(self.fields), "field"), *(f"  {field}" for field in self.fields)]
        if self.ignored:
            named = ", ".join(f"{count:,} .{extension}" for extension, count in self.ignored.items() if extension)
            names = _count(sum(self.ignored.values()), "other name")
            lines.insert(1, f"{names} ignored{f' ({named})' if named else ''}")
        if self.objects:
            lines.extend(["objects", *(f"  {name}: {what}" for name, what in self.objects.items())])
        if self.classes:
            classes = "1 class" if len(self.classes) == 1 else f"{len(self.classes):,} classes"
            counts = [one.objects for one in self.classes if one.objects is not None]
            lines.append(f"{classes}, {_count(sum(counts), 'object')}" if counts else classes)
        for one in self.classes[:_MOST_CLASSES]:
            count, what = (one.samples, "sample") if one.objects is None else (one.objects, "object")
            samples = "" if count is None else _count(count, what)
            lines.append(f"  {one.number:<4} {one.name:<24} {samples}".rstrip())
        if len(self.classes) > _MOST_CLASSES:
            lines.append(f"  and {len(self.classes) - _MOST_CLASSES:,} more")
        return "\n".join(lines)


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
    values: int
    images: int
    bytes: int
    damaged_samples: int
    damaged_values: int
    kinds: Mapping[str, int]
    """The number of damaged values of each kind."""
    damaged: tuple[DamagedValue, ...]
    """The first thousand damaged values."""
    degenerate_kinds: Mapping[str, int]
    """The number of degenerate objects of each kind, such as boxes without an area. They are no damage."""
    degenerate: tuple[DegenerateObject, ...]
    """The first thousand degenerate objects."""
    tables: Mapping[str, tuple[int, int, str]] | None
    """Where the tables of a ``.beton`` file contradict each other: how often, about how many bytes, and where first.
    Only ``"overlapping"`` and ``"outside"`` are damage. None for other formats."""
    good: np.ndarray = dataclasses.field(repr=False)
    """The samples without damage, as ``int64``."""
    _kinds: Mapping[str, str] = dataclasses.field(repr=False)

    @property
    def is_whole(self) -> bool:
        """True if nothing is damaged."""
        return not self.damaged_values and not any(name in (self.tables or {}) for name in _TABLE_DAMAGE)

    def __repr__(self) -> str:
        damage = _count(self.damaged_samples, "damaged sample") if self.damaged_values else "damaged tables"
        found = "whole" if self.is_whole else damage
        return f"VerifyReport({_count(self.samples, 'sample')} checked, {found})"

    def __str__(self) -> str:
        part = "" if self.samples == self.of_samples else f" of {self.of_samples:,}"
        lines = [f"{_count(self.samples, 'sample')} checked{part}"]
        images = _count(self.images, "image")
        lines.append(f"{_count(self.values, 'value')}, {_size(self.bytes)} read, {images} decoded")
        if self.is_whole:
            lines.append("no damage found")
        if self.damaged_values:
            damaged = _count(self.damaged_values, "damaged value")
            lines.append(f"{_count(self.damaged_samples, 'damaged sample')}, {damaged}:")
            lines += [f"  {self._kinds[kind]}: {count:,}" for kind, count in self.kinds.items()]
            lines += [f"  {value}" for value in self.damaged[:_MOST_DAMAGED]]
            if self.damaged_values > _MOST_DAMAGED:
                lines.append(f"  and {self.damaged_values - _MOST_DAMAGED:,} more")
        lines += [f"note: {self._kinds[kind]}: {count:,}" for kind, count in self.degenerate_kinds.items()]
        lines += [f"  {one}" for one in self.degenerate[:_MOST_DAMAGED]]
        more = sum(self.degenerate_kinds.values()) - _MOST_DAMAGED
        if more > 0:
            lines.append(f"  and {more:,} more")
        for name, (count, size, first) in (self.tables or {}).items():
            lines.append(f"{_TABLE_WORDS[name]}: {count:,}, {_size(size)}, the first {first}")
        return "\n".join(lines)


_TABLE_DAMAGE = ("overlapping", "outside")
_TABLE_WORDS = {
    "overlapping": "damaged: overlapping records of the allocation table",
    "outside": "damaged: records of the allocation table outside the data",
    "no_sample": "note: records of missing samples",
    "across_pages": "note: values in two pages, which FFCV can't read with `os_cache=False`",
    "several_pages": "note: samples in several pages, which FFCV can't read with `os_cache=False`",
    "shared": "note: values shared by several samples",
    "unreferenced": "note: records that no sample refers to",
}


def samples(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """Returns the samples of a dataset in order."""
    count = len(dataset)
    return (dataset[index] for index in range(count))


def info(dataset: Dataset) -> DatasetInfo:
    """Tells what a dataset holds."""
    found = _fuseloop.dataset_info(dataset)
    fields = tuple(FieldInfo(*field) for field in found.pop("fields"))
    classes = tuple(ClassInfo(*one) for one in found.pop("classes"))
    return DatasetInfo(fields=fields, classes=classes, **found)


def verify(
    dataset: Dataset, *, limit: int | None = None, threads: int | None = None, progress: Any = "auto"
) -> VerifyReport:
    """Checks every value of a dataset."""
    from .loader import _whole
    from .write import _Shown

    limit = None if limit is None else _whole("limit", limit)
    threads = None if threads is None else _whole("threads", threads, 1)
    with _Shown(progress) as shown:
        found = _fuseloop.verify(dataset, limit, threads, shown)
    kinds, degenerate = found.pop("kinds"), found.pop("degenerate_kinds")
    return VerifyReport(
        kinds={word: count for word, _, count in kinds},
        damaged=tuple(DamagedValue(**_in_python_words(value)) for value in found.pop("damaged")),
        degenerate_kinds={word: count for word, _, count in degenerate},
        degenerate=tuple(DegenerateObject(**one) for one in found.pop("degenerate")),
        _kinds={word: words for word, words, _ in [*kinds, *degenerate]},
        **found,
    )


def _in_python_words(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "error": _in_python(value["error"]), "text": _in_python(value["text"])}


def _stats(stats: Mapping[str, Any]) -> str:
    if "jpeg" in stats:
        words = {"jpeg": "as JPEG", "raw": "raw", "bit_planes": "as bit planes", "unreadable": "unreadable"}
        parts = [f"{stats[name]:,} {word}" for name, word in words.items() if stats[name]]
        low, high = stats["min_size"], stats["max_size"]
        if low is not None:
            same = low == high
            parts.append(
                f"all {low[1]} x {low[0]} pixels" if same else f"{low[1]} to {high[1]} wide, {low[0]} to {high[0]} high"
            )
        return ", ".join(parts)
    if stats.get("min") is not None:
        return f"{stats['min']} to {stats['max']}"
    if stats.get("min_bytes") is not None:
        return f"{_size(stats['min_bytes'])} to {_size(stats['max_bytes'])}"
    return ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
