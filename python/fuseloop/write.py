"""Writes datasets: of Python's samples, of folders, of other datasets.

>>> import numpy as np, tempfile
>>> from fuseloop import write
>>> squares = [(np.full((8, 8, 3), n, np.uint8), n) for n in range(10)]
>>> report = write.write(squares, tempfile.mkdtemp() + "/squares.beton")
>>> report.samples
10
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as _dataclass_fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _fuseloop
from ._arrow import class_of
from ._checks import _count, _size
from ._fuseloop import Dataset
from ._manifest import of_frames
from ._values import Array, Rows, Spec, fields_of, size
from ._workers import CHUNK, read, row_or_error
from .errors import ConfigError, FuseloopError, OutputExistsError, _in_python
from .loader import Ranks, _bytes, _HubDataset, _ranks, _whole

__all__ = [
    "Array",
    "Image",
    "IndexReport",
    "RecutFolderReport",
    "Reencoded",
    "Skipped",
    "WriteReport",
    "convert",
    "index",
    "recut",
    "write",
]

if not TYPE_CHECKING:

    def __getattr__(name: str):
        from ._hints import missing_writer

        raise missing_writer(name)


Progress = Literal["auto"] | None | bool | Callable[[int, int | None], object]
"""``"auto"`` is a bar of tqdm, if that is installed and stderr is a terminal; a function gets the samples done, and all
or None; None is no progress."""

OnDamaged = Literal["fail", "skip"]

_PathLike = str | os.PathLike[str]

_CHUNK_BYTES = 8 << 20
_CHUNK_SECONDS = 0.1


@dataclass(frozen=True)
class Image:
    """How images are stored.

    Args:
        write_mode: ``"lossless"`` keeps JPEG files byte for byte and stores other images as pixels; ``"raw"`` stores pixels;
            ``"mask"`` class numbers of masks, which must be neither JPEGs nor lossy WebPs; ``"jpg"`` JPEGs;
            ``"smart"`` JPEGs if the pixels take more than ``smart_threshold`` bytes; ``"proportion"`` JPEGs with
            a probability of ``compress_probability``.
        max_resolution: Images with a longer side are scaled down to it.
        jpeg_quality: Encodes all JPEGs with this quality, from 1 to 100, and with ``"lossless"`` stores all images as JPEGs,
            but for masks. By default JPEG files stay unchanged, and other images are encoded with 90.
        smart_threshold: The limit of ``"smart"``, in bytes.
        compress_probability: The share of ``"proportion"``, from 0 to 1; by default 0.5.
        tile: Re-cuts JPEGs without loss, so that crops decode in less time: every N pixels, such as 32, or
            ``"row"``.
        bit_planes: Stores JPEGs as bit planes, from which crops decode in half the time of re-cut JPEGs, in tiles of
            ``tile`` or 32 pixels. FFCV does not read such files; :func:`convert` without it restores the JPEGs byte for byte.
        verify: Also decodes the JPEG files that are stored as they are, to find damaged ones.
        seed: Selects the images of ``"proportion"``.
    """

    write_mode: Literal["lossless", "raw", "mask", "jpg", "smart", "proportion"] = "lossless"
    max_resolution: int | None = None
    jpeg_quality: int | None = None
    smart_threshold: int | None = None
    compress_probability: float | None = None
    tile: int | Literal["row"] | None = None
    bit_planes: bool = False
    verify: bool = False
    seed: int = 0

    def _options(self) -> dict[str, Any]:
        def in_range(name: str, value: Any, least: int, most: int) -> int | None:
            if value is None:
                return None
            if isinstance(value, bool):
                raise ConfigError(f"Image.{name} is {value}, expected a whole number")
            number = _whole(f"Image.{name}", value, least)
            if number > most:
                raise ConfigError(f"Image.{name} is {number}, expected {least} to {most}")
            return number

        for name, mode in (("smart_threshold", "smart"), ("compress_probability", "proportion")):
            if getattr(self, name) is not None and self.write_mode != mode:
                raise ConfigError(f"Image.{name} is only for write_mode={mode!r}, and it is {self.write_mode!r}")
        share = 0.5 if self.compress_probability is None else self.compress_probability
        if isinstance(share, bool) or not isinstance(share, (int, float)):
            raise ConfigError(f"Image.compress_probability is {share!r}, expected a number from 0 to 1")
        return {
            "write_mode": self.write_mode,
            "max_resolution": in_range("max_resolution", self.max_resolution, 1, 2**32 - 1),
            "jpeg_quality": in_range("jpeg_quality", self.jpeg_quality, 1, 100),
            "smart_threshold": in_range("smart_threshold", self.smart_threshold, 0, 2**63 - 1),
            "compress_probability": float(share),
            "tile": None if self.tile is None else str(self.tile),
            "bit_planes": bool(self.bit_planes),
            "verify": bool(self.verify),
            "seed": in_range("seed", self.seed, 0, 2**63 - 1),
        }


# Reports

# The most entries of a list that the text of a report has.
_MOST_LISTED = 10


class _Report:
    """A report, whose text is its lines, and whose repr the first of them."""

    def _lines(self) -> list[str]:
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._lines()[0]})"


def _listed(what: str, count: int, entries: Iterable[object]) -> list[str]:
    """Returns a line with a number, and a line for each of the first entries."""
    if not count:
        return []
    lines = [f"{what}: {count:,}", *(f"  {entry}" for _, entry in zip(range(_MOST_LISTED), entries))]
    more = count - len(lines) + 1
    return lines if more <= 0 else [*lines, f"  and {more:,} more"]


def _left_out(skipped: int) -> str:
    return f", {skipped:,} left out" if skipped else ""


@dataclass(frozen=True)
class Skipped:
    """A sample that was left out: its index in the input, its file if it has one, and why."""

    sample: int
    path: str | None
    cause: str

    def __str__(self) -> str:
        return self.cause if self.path is None or self.path in self.cause else f"{self.path}: {self.cause}"


@dataclass(frozen=True)
class Reencoded:
    """A number of images that are not stored as given: their form before and after (``"jpeg"``, ``"png"`` or
    ``"raw"``), and whether anything was lost."""

    before: str
    after: str
    is_lossy: bool
    images: int
    lost_orientations: int = 0
    """The number of these images that had an EXIF orientation, which their new form does not keep. Their pixels are not
    turned."""

    def __str__(self) -> str:
        loss = "with loss" if self.is_lossy else "without loss"
        if self.before == self.after:
            how = "made smaller, as raw pixels" if self.after == "raw" else f"encoded again as {self.after}"
            return f"{_count(self.images, 'image')} {how}, {loss}"
        return f"{_count(self.images, 'image')} stored as {self.after} instead of {self.before}, {loss}"


@dataclass(frozen=True, repr=False)
class WriteReport(_Report):
    """What was written, by any function that writes a dataset."""

    samples: int
    """The number of samples written."""
    resumed: int
    """The number of samples that an interrupted conversion had processed before."""
    skipped: tuple[Skipped, ...]
    """The first 100 samples that were left out."""
    skipped_count: int
    """The number of samples that were left out."""
    passed_through: int
    """The number of JPEG files that were stored byte for byte."""
    reencoded: tuple[Reencoded, ...]
    """The images that are not stored as given."""
    reencoded_bytes: tuple[int, int]
    """The bytes of these images, before and after."""
    recut: int
    """The number of JPEGs that were re-cut."""
    recut_bytes: tuple[int, int]
    """The bytes of these JPEGs, before and after."""
    not_recut: tuple[tuple[int, str], ...]
    """The first 100 samples whose JPEGs could not be re-cut, and why."""
    not_recut_count: int
    """The number of JPEGs that could not be re-cut."""
    renamed: tuple[tuple[str, str], ...]
    """The fields with another name than in the source: the old names and the new ones."""
    files: int
    """The number of files."""
    pages: int
    """The number of pages of ``.beton`` files."""
    bytes: int
    """The size of the files."""
    ignored: tuple[tuple[str, str], ...]
    """Of a folder, the first 100 files that are no samples, and why."""
    ignored_count: int
    links: dict[str, int]
    """Of a folder, the numbers of symbolic links by what was done with them."""
    notes: tuple[str, ...]
    """What readers of the new dataset should know."""

    def _lines(self) -> list[str]:
        files = _count(self.files, "file")
        lines = [f"{_count(self.samples, 'sample')} in {files}, {_size(self.bytes)}{_left_out(self.skipped_count)}"]
        if self.resumed:
            lines.append(f"{_count(self.resumed, 'sample')} of an interrupted conversion")
        if self.passed_through:
            lines.append(f"{_count(self.passed_through, 'JPEG')} stored byte for byte")
        lines += map(str, self.reencoded)
        if self.reencoded:
            lines.append(f"re-encoded: {_size(self.reencoded_bytes[0])} to {_size(self.reencoded_bytes[1])}")
        if self.recut:
            lines.append(f"{_count(self.recut, 'JPEG')} re-cut: {_size(self.recut_bytes[0])} to {_size(self.recut_bytes[1])}")
        lines += [f"field {old} is called {new}" for old, new in self.renamed]
        lines += [f"note: {note}" for note in self.notes]
        lines += _listed("left out", self.skipped_count, self.skipped)
        lines += _listed("not re-cut", self.not_recut_count, (f"sample {k}: {why}" for k, why in self.not_recut))
        return lines + _listed("ignored", self.ignored_count, (f"{path}: {why}" for path, why in self.ignored))


@dataclass(frozen=True, repr=False)
class RecutFolderReport(_Report):
    """A folder that was copied with its JPEGs re-cut."""

    recut: int
    recut_bytes: tuple[int, int]
    not_recut: tuple[tuple[str, str], ...]
    not_recut_count: int
    copied: int
    """The number of other files."""
    bytes: tuple[int, int]
    """The bytes of all files, before and after."""
    skipped: tuple[Skipped, ...]
    skipped_count: int
    ignored: tuple[tuple[str, str], ...]
    ignored_count: int
    links: dict[str, int]

    def _lines(self) -> list[str]:
        jpegs, (before, after) = _count(self.recut, "JPEG"), self.bytes
        sizes = f"{_size(before)} to {_size(after)}"
        lines = [f"{jpegs} re-cut, {self.copied:,} other files, {sizes}{_left_out(self.skipped_count)}"]
        lines += _listed("left out", self.skipped_count, self.skipped)
        lines += _listed("not re-cut", self.not_recut_count, (f"{path}: {why}" for path, why in self.not_recut))
        return lines + _listed("ignored", self.ignored_count, (f"{path}: {why}" for path, why in self.ignored))


@dataclass(frozen=True, repr=False)
class IndexReport(_Report):
    """Indexes that were written: of ``shards`` shards, or the listing of a folder (no shards)."""

    samples: int
    shards: int
    bytes: int

    def _lines(self) -> list[str]:
        where = f" in {_count(self.shards, 'shard')}" if self.shards else ""
        return [f"{_count(self.samples, 'sample')}{where}, an index of {_size(self.bytes)}"]


def _report(kind: type[Any], found: dict[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for field in _dataclass_fields(kind):
        value = found[field.name]
        if field.name == "skipped":
            value = tuple(Skipped(sample, path, _in_python(cause)) for sample, path, cause in value)
        elif field.name in ("not_recut", "ignored"):
            value = tuple((one, _in_python(why)) for one, why in value)
        elif field.name == "notes":
            value = tuple(map(_in_python, value))
        elif field.name == "reencoded":
            value = tuple(Reencoded(*one) for one in value)
        elif isinstance(value, list):
            value = tuple(value)
        values[field.name] = value
    return kind(**values)


# Options


def _options(
    overwrite: bool,
    threads: int | None = None,
    on_damaged: OnDamaged = "fail",
    image: Image | None = None,
    images: Mapping[str, Image] | None = None,
    page_size: int | str | None = None,
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "overwrite": bool(overwrite),
        "threads": None if threads is None else _whole("threads", threads, 1),
        "on_damaged": on_damaged,
    }
    if images is not None and not isinstance(images, Mapping):
        raise ConfigError(f"images is {images!r}, expected a mapping of the names of fields to Image(...)")
    for name, one in [("image", image), *(images or {}).items()]:
        if one is not None and not isinstance(one, Image):
            raise ConfigError(f"{name} is {one!r}, expected fuseloop.write.Image(...)")
    if image is not None:
        options["image"] = image._options()
    if images:
        options["images"] = {field: one._options() for field, one in images.items()}
    if page_size is not None:
        options["page_size"] = min(_bytes("page_size", page_size), 2**32 - 1)
    return options


def _path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise ConfigError(f"{name} is {value!r}, expected a path")
    return os.fspath(value)


def _local(out: _PathLike) -> str:
    """Returns a path to write to. An address, such as ``s3://bucket/x``, is refused before anything is done."""
    path = _path("the output", out)
    _fuseloop.check_destination(path)
    return path


def _free(out: _PathLike, overwrite: bool) -> str:
    """Returns the path to write to, which is a path of this machine."""
    path = _local(out)
    if not overwrite and os.path.isfile(path):
        error = OutputExistsError(f'"{path}" already exists: choose a different output, or set `overwrite=True`')
        error.path = path
        raise error
    return path


class _Shown:
    """Progress, as the functions of the compiled module report it."""

    def __init__(self, progress: Progress, unit: str = "samples") -> None:
        self._bar: Any = None
        self._unit = unit
        if progress == "auto":
            progress = sys.stderr is not None and sys.stderr.isatty()
        self._call: Callable[[int, int | None], object] | None = None
        if callable(progress):
            self._call = progress
        elif progress:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(unit=f" {unit}", dynamic_ncols=True)
            self._call = self._update

    def _update(self, done: int, total: int | None) -> None:
        if total is not None and self._bar.total != total:
            self._bar.total = total
        self._bar.update(done - self._bar.n)

    def __enter__(self) -> Callable[[int, int | None], object] | None:
        return self._call

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


# Samples from Python


def write(
    samples: Any,
    out: _PathLike,
    fields: Mapping[str, Any] | Sequence[str] | None = None,
    *,
    workers: int = 0,
    image: Image = Image(),
    images: Mapping[str, Image] | None = None,
    page_size: int | str | None = None,
    threads: int | None = None,
    on_damaged: OnDamaged = "fail",
    progress: Progress = "auto",
    start_method: str | None = None,
    overwrite: bool = False,
) -> WriteReport:
    """Writes samples to a ``.beton`` file, which FFCV reads as its own.

    The file appears whole or not at all, also after an exception or Ctrl-C. Its bytes depend on the samples and the
    options, not on ``workers`` or ``threads``.

    Args:
        samples: A dataset with ``__len__`` and ``__getitem__``, such as a Dataset of torch or of Hugging Face, or
            any iterable of samples. A sample is a dict, a tuple or a single value.
        out: The file.
        fields: The types by name: ``"image"``, ``"int"``, ``"float"``, ``"bytes"``, ``"json"`` or ``Array(dtype,
            shape)``. Or only names; the first sample then tells the types. Values of a tuple are by default named by
            their kinds: ``image``, ``label`` (an int), ``image2`` and so on.
        workers: The number of processes that read the samples; 0 reads them on this thread. Images are encoded by
            threads in any case.
        image: How images are stored.
        images: How the images of single fields are stored, by the field's name.
        page_size: The size of a page, a power of two: a larger sample is an error. By default 8 MiB, or what the largest
            sample needs.
        threads: Number of threads; by default one per core.
        on_damaged: ``"fail"`` ends with the first exception of the dataset, or the first image that can't be read;
            ``"skip"`` leaves such samples out and lists them in the report. Values of a wrong type are errors in any
            case, and so are exceptions of an iterator, which can't go on after one.
        progress: ``"auto"`` shows a bar of tqdm, if that is installed and stderr is a terminal. A function gets the
            number of samples that are done, and of all or None.
        start_method: How processes are started; by default ``"forkserver"``, or ``"spawn"`` where there is none.
        overwrite: Replaces an existing file.
    """
    if isinstance(samples, (str, os.PathLike)):
        return convert(
            samples,
            out,
            image=image,
            images=images,
            page_size=page_size,
            threads=threads,
            on_damaged=on_damaged,
            progress=progress,
            overwrite=overwrite,
        )
    if isinstance(samples, Mapping):
        raise ConfigError("samples is a mapping, expected a dataset or an iterable of samples")
    if _is_batched(samples):
        raise ConfigError(
            "samples is a DataLoader that makes batches: give its dataset instead, or batch_size=None to the DataLoader"
        )
    workers = _whole("workers", workers)
    if on_damaged not in ("fail", "skip"):
        raise ConfigError(f"on_damaged is {on_damaged!r}, expected 'fail' or 'skip'")
    options = _options(overwrite, threads, on_damaged, image, images, page_size)
    path = _free(out, overwrite)
    skip = on_damaged == "skip"
    samples, fields, classes = _adapted(samples, fields)
    is_indexed = _is_indexed(samples)
    if workers and not is_indexed:
        raise ConfigError(
            f"workers={workers} need a dataset with __len__ and __getitem__, which {type(samples).__name__} is not: "
            "write it with workers=0"
        )
    count: int | None
    if is_indexed:
        count = len(samples)
        specs = _first_specs(samples, count, fields, skip)
        rows = Rows(specs, all_names=fields is None)
        if workers:
            chunks = read(samples, rows, count, workers, skip, start_method)
        else:
            chunks = _indexed(samples, rows, count, skip)
    else:
        if not isinstance(samples, Iterable) and not hasattr(samples, "__getitem__"):
            raise ConfigError(f"samples is {samples!r}, expected a dataset or an iterable of samples")
        iterator = iter(samples)
        count = _length_hint(samples)
        first = list(_take_one(iterator))
        if not first and fields is None:
            raise ConfigError("there are no samples, and fields= does not say what they would be")
        specs = fields_of(fields, first[0] if first else tuple(None for _ in fields or ()))
        chunks = _iterated(first, iterator, Rows(specs, all_names=fields is None))
    try:
        # The processes are started before there are threads to write.
        first_chunk = next(chunks)
        with _Shown(progress) as shown:
            writer = _fuseloop.Writer(path, specs, options, count)
            try:
                for chunk in chain([first_chunk], chunks):
                    if not writer.push(chunk, shown):
                        break
                found = writer.finish(shown, _class_list(classes, specs))
            except BaseException:
                writer.abort()
                raise
    finally:
        chunks.close()
    return _report(WriteReport, found)


def _is_batched(samples: Any) -> bool:
    """True for a DataLoader of torch whose items are batches."""
    names = [f"{base.__module__}.{base.__name__}" for base in type(samples).__mro__]
    return "torch.utils.data.dataloader.DataLoader" in names and samples.batch_sampler is not None


def _is_indexed(samples: Any) -> bool:
    """True for a dataset with samples by number. IterableDataset of torch has a ``__getitem__`` that only raises."""
    is_iterable = any(base.__name__ == "IterableDataset" for base in type(samples).__mro__)
    return hasattr(samples, "__getitem__") and hasattr(samples, "__len__") and not is_iterable


def _adapted(samples: Any, fields: Any) -> tuple[Any, Any, Sequence[str] | None]:
    """Replaces datasets of known libraries by what needs less work, and finds the names of the classes."""
    module = type(samples).__module__
    if isinstance(samples, Dataset):
        return samples, fields if fields is not None else _specs_of(samples), _class_sequence(samples.classes)
    if module == "torchvision.datasets.folder" and type(samples).__name__ == "ImageFolder":
        plain = all(getattr(samples, name, None) is None for name in ("transform", "target_transform", "transforms"))
        if plain and all(name.lower().endswith((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".webp", ".tif", ".tiff")) for name, _ in samples.samples):
            return _Files(samples.samples), fields if fields is not None else ["image", "label"], samples.classes
        return samples, fields, samples.classes
    if module.partition(".")[0] == "datasets" and hasattr(samples, "features") and hasattr(samples, "cast_column"):
        names = None
        for name, feature in dict(samples.features).items():
            if type(feature).__name__ == "Image" and getattr(feature, "decode", True):
                samples = samples.cast_column(name, type(feature)(decode=False))
            elif type(feature).__name__ == "ClassLabel" and names is None:
                names = list(feature.names)
        return samples, fields, names
    classes = getattr(samples, "classes", None)
    if isinstance(classes, (list, tuple)) and all(isinstance(name, str) for name in classes):
        return samples, fields, classes
    return samples, fields, None


class _Files:
    """The files and labels of a folder: their images are read by the threads that encode."""

    def __init__(self, samples: Sequence[tuple[str, int]]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Path, int]:
        path, label = self._samples[index]
        return Path(path), label


def _specs_of(dataset: Dataset) -> dict[str, Any]:
    """Returns the fields of a dataset of Fuseloop."""
    specs: dict[str, Any] = {}
    for name, kind in dataset.fields.items():
        if kind[:1] in "<>|":
            dtype, _, shape = kind.partition(" ")
            sides = [int(side) for side in shape.strip("[]").split(",") if side.strip()]
            specs[name] = Spec(name, "array", dtype, tuple(sides))
        else:
            specs[name] = kind
    return specs


def _class_sequence(classes: dict[int, str]) -> Sequence[str] | None:
    return [classes[number] for number in range(len(classes))] if list(classes) == list(range(len(classes))) else None


def _class_list(classes: Sequence[str] | None, specs: Sequence[Spec]) -> list[tuple[int, str]] | None:
    """Returns the names of the classes, if there is one field that can hold their numbers."""
    if not classes or sum(spec.kind == "int" for spec in specs) != 1:
        return None
    return list(enumerate(classes))


def _first_specs(samples: Any, count: int, fields: Any, skip: bool) -> list[Spec]:
    if isinstance(fields, Mapping) and None not in fields.values():
        return fields_of(fields, ())
    for index in range(count):
        try:
            return fields_of(fields, samples[index])
        except FuseloopError:
            raise
        except Exception as error:
            if not skip:
                error.add_note(f"fuseloop: sample {index}")
                raise
    raise ConfigError(
        "no sample can be read, and fields= does not say what they would be"
        if count
        else "there are no samples, and fields= does not say what they would be"
    )


def _length_hint(samples: Any) -> int | None:
    """Returns how many samples an iterable says it has."""
    try:
        return len(samples)
    except (TypeError, NotImplementedError):
        return None


def _take_one(iterator: Iterator[Any]) -> Iterator[Any]:
    for sample in iterator:
        yield sample
        return


class _Chunks:
    """Collects rows to chunks: not too many, not too large, not too late."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._rows: list[Any] = []
        self._bytes, self._started = 0, time.monotonic()

    def add(self, row: Any) -> list[Any] | None:
        """Adds a row, and returns the chunk if it is complete."""
        self._rows.append(row)
        self._bytes += size(row)
        is_late = time.monotonic() - self._started > _CHUNK_SECONDS
        return self.end() if len(self._rows) >= CHUNK or self._bytes >= _CHUNK_BYTES or is_late else None

    def end(self) -> list[Any]:
        rows = self._rows
        self._begin()
        return rows


def _indexed(samples: Any, rows: Rows, count: int, skip: bool) -> Generator[list[Any], None, None]:
    chunks = _Chunks()
    for index in range(count):
        try:
            row = row_or_error(samples, rows, index, skip)
        except Exception as error:
            if not isinstance(error, FuseloopError):
                error.add_note(f"fuseloop: sample {index}")
            raise
        if (chunk := chunks.add(row)) is not None:
            yield chunk
    yield chunks.end()


def _iterated(first: list[Any], rest: Iterator[Any], rows: Rows) -> Generator[list[Any], None, None]:
    chunks, index = _Chunks(), 0
    for samples in (first, rest):
        for sample in samples:
            if (chunk := chunks.add(rows(sample, index))) is not None:
                yield chunk
            index += 1
    yield chunks.end()


# Folders and other datasets


def _rate(fps: Any) -> float | None:
    if fps is None:
        return None
    if isinstance(fps, bool) or not isinstance(fps, (int, float)):
        raise ConfigError(f"source_fps is {fps!r}, expected the number of frames per second")
    return float(fps)


def convert(
    source: _PathLike | Dataset | _HubDataset | Sequence[_PathLike | Dataset],
    dst: _PathLike,
    *,
    indices: Iterable[int] | None = None,
    max_samples: int | None = None,
    max_bytes: int | str | None = None,
    shards: int | None = None,
    ranks: Ranks | Literal["env"] | None = None,
    image: Image = Image(),
    images: Mapping[str, Image] | None = None,
    rename: Mapping[str, str] | None = None,
    videos: Literal["frames", "files"] | None = None,
    source_fps: float | None = None,
    frame_stride: int | None = None,
    video_list: _PathLike | None = None,
    page_size: int | str | None = None,
    threads: int | None = None,
    on_damaged: OnDamaged = "fail",
    progress: Progress = "auto",
    overwrite: bool = False,
) -> WriteReport:
    """Writes a folder or any other dataset in the format that the name of ``dst`` tells: ``x.beton``,
    ``x-{000}.beton``, ``x-{000000}.tar``, ``x-{00000}-of-{N}.tfrecord``, ``x-{00000}-of-{N}.parquet``, ``x/index.json``
    (the MDS shards of mosaicml-streaming), or a folder of images.

    Values are copied as they are stored, unless ``image`` says otherwise; bit planes become JPEGs again, byte for byte.
    A conversion that was interrupted goes on when it is called again: what is whole is kept.

    Video files become a clip store, if ``dst`` is a ``.beton``: a row for each frame, with the fields ``video_index`` and
    ``pts``. A loader with ``clips`` groups its rows to videos again::

        write.convert("clips/", "clips.beton", image=write.Image(tile=32))
        loader = fl.torch.Loader("clips.beton", clips=fl.Clips.random(frames=16, stride=4), video=[...])

    Args:
        source: A dataset, or its name, such as that of a folder or of a table; several are joined.
        dst: What to write.
        indices: Writes these samples only, in this order: ``range(1000)``.
        max_samples: Maximum number of samples per shard.
        max_bytes: Maximum size of a shard in bytes.
        shards: The number of shards, instead: ``convert("x.beton", "part-{000}.beton", shards=4)`` splits a file.
        ranks: Writes only the share of one of several processes, on one machine or many: all together write the same
            shards as one. It needs ``shards``. ``"env"`` reads what torchrun, Slurm and MPI set.
        image: How images are stored; by default without loss, except that pixels in a ``.beton`` have no alpha and
            8 bits a sample. Fields that the dataset knows as masks keep their class numbers, whatever is given.
        images: How the images of single fields are stored, by the field's name.
        rename: New names of fields.
        videos: ``"frames"`` stores the frames of videos, which may be files or folders of frames; ``"files"`` stores video
            files unchanged. By default the frames of video files that become a ``.beton``. Frames of video files are stored
            as JPEGs, unless ``image`` says otherwise, and a sample is a frame in the report.
        source_fps: The frames per second of folders of frames. Without it their store has no times.
        frame_stride: Stores every N-th frame of a video.
        video_list: A file that lists the videos to store, as ``Clips.list`` does.
        page_size: The size of a page of a ``.beton`` file: see :func:`write`. By default that of the source, if it is
            such a file.
        threads: Number of threads; by default one per core.
        on_damaged: ``"skip"`` leaves samples out that can't be read.
        progress: See :func:`write`.
        overwrite: Replaces existing outputs.
    """
    path = _local(dst)
    options = _options(overwrite, threads, on_damaged, image, images, page_size)
    if rename is not None and not isinstance(rename, Mapping):
        raise ConfigError(f"rename is {rename!r}, expected a mapping of old names to new ones")
    if indices is not None and not isinstance(indices, Iterable):
        raise ConfigError(f"indices is {indices!r}, expected the numbers of samples, such as range(1000)")
    options |= {
        "indices": None if indices is None else [_whole("indices", index) for index in indices],
        "max_samples": None if max_samples is None else _whole("max_samples", max_samples, 1),
        "max_bytes": None if max_bytes is None else _bytes("max_bytes", max_bytes),
        "shards": None if shards is None else _whole("shards", shards, 1),
        "ranks": _ranks(ranks),
        "rename": list((rename or {}).items()),
        "videos": videos,
        "source_fps": _rate(source_fps),
        "frame_stride": None if frame_stride is None else _whole("frame_stride", frame_stride, 1),
        "video_list": None if video_list is None else _path("video_list", video_list),
    }
    if videos not in (None, "frames", "files"):
        raise ConfigError(f"videos is {videos!r}, expected 'frames' or 'files'")
    if isinstance(source, Dataset):
        dataset = source
    elif class_of(source) is not None:
        from .sources import from_datasets

        dataset = from_datasets(source)
    else:
        from .sources import concat

        with of_frames(videos == "frames"):
            if isinstance(source, Sequence) and not isinstance(source, str):
                dataset = concat(source)
            else:
                dataset = Dataset.open(_path("source", source))
    with _Shown(progress) as shown:
        return _report(WriteReport, _fuseloop.convert(dataset, path, options, shown))


def recut(
    src: _PathLike,
    out: _PathLike,
    tile: int | Literal["row"] = 32,
    *,
    threads: int | None = None,
    on_damaged: OnDamaged = "fail",
    links: Literal["follow", "within", "refuse"] = "follow",
    progress: Progress = "auto",
    overwrite: bool = False,
) -> RecutFolderReport:
    """Copies a folder with its JPEGs re-cut, so that crops decode in less time. No pixel changes, and other files are
    copied too. ``links`` says which symbolic links are followed: all, those within the folder, none. A folder that is
    not empty is refused; with ``overwrite``, files of the same names in it are replaced. For other datasets, see
    :func:`convert` with ``image=Image(tile=32)``."""
    options = _options(overwrite, threads, on_damaged, Image(tile=tile)) | {"links": links}
    path = _local(out)
    if os.path.isfile(_path("src", src)):
        raise ConfigError(f'"{src}" is a file, expected a folder: convert(src, out, image=Image(tile=32)) re-cuts a dataset')
    with _Shown(progress, "files") as shown:
        return _report(RecutFolderReport, _fuseloop.recut(os.fspath(src), path, options, shown))


def index(
    name: _PathLike,
    *,
    join: bool = False,
    links: Literal["follow", "within", "refuse"] = "follow",
    progress: Progress = "auto",
) -> IndexReport:
    """Writes an index next to each shard that ``name`` stands for, or the listing of a folder, so that they open
    faster. Of a folder of video files it also writes ``FOLDER.videos.fidx``, with the packets and times of each file, which
    loaders use as long as a file has the same length and time of change.

    With ``join``, one file in the folder of the tar or TFRecord shards, ``joined.fjdx``, indexes all of them. Opening them
    reads a few dozen bytes a shard; positions of samples are read when they are needed, and shards are opened when they are
    read:

    >>> index("train-{00000..99999}.tar", join=True).shards  # doctest: +SKIP
    100000"""
    if join and os.path.isdir(_path("name", name)):
        raise ConfigError(f'"{name}" is a folder: join=True is for tar and TFRecord shards')
    with _Shown(progress, "shards") as shown:
        return _report(IndexReport, _fuseloop.index(_path("name", name), links, join, shown))
