"""Datasets written and read by the tasks of a Ray cluster. Each task writes whole shards; the driver writes the manifest."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    import ray
    import ray.data
    from ray.data.block import BlockAccessor
    from ray.data.datasource import Datasink
except ImportError as error:
    raise ImportError("datasets of fuseloop.ray need Ray Data: pip install 'ray[data]'") from error

from .. import _manifest
from .. import write as _write
from .._fuseloop import Dataset
from ..errors import ConfigError, DatasetNotFoundError, OutputExistsError
from ..loader import Collate, Loader, _whole
from ..write import Image

_PathLike = str | os.PathLike[str]


class FuseloopDatasink(Datasink[dict[str, Any] | None]):
    """Writes the rows of a Ray dataset as shards with a manifest, by ``dataset.write_datasink``.

    The shards are in a hidden folder until all are written: a task that fails or is killed leaves nothing behind.

    Args:
        folder: Where the shards go: a folder that all machines share.
        fields: The types by column, as for :func:`fuseloop.write.write`, or the names of the columns; by default all
            columns, with the types of each shard's first row.
        rows_per_shard: The least number of rows of a shard, as far as there are rows. By default a shard has the rows
            of one block.
        overwrite: Replaces a dataset that is in the folder.
        **options: Arguments of :func:`fuseloop.write.write`: ``image``, ``images``, ``page_size``, ``threads`` (by
            default 1 in a task) and ``on_damaged``.
    """

    def __init__(
        self,
        folder: _PathLike,
        fields: Mapping[str, Any] | Sequence[str] | None = None,
        *,
        rows_per_shard: int | None = None,
        overwrite: bool = False,
        **options: Any,
    ) -> None:
        for name in options:
            if name not in ("image", "images", "page_size", "threads", "on_damaged"):
                raise ConfigError(f"{name} is no argument of FuseloopDatasink")
        self._folder = _shared(folder)
        self._fields = fields
        self._rows = None if rows_per_shard is None else _whole("rows_per_shard", rows_per_shard, 1)
        self._overwrite = overwrite
        self._options = {"threads": 1, **options}
        self._unfinished = self._folder / f".fuseloop-{uuid.uuid4().hex}"

    @property
    def min_rows_per_write(self) -> int | None:
        return self._rows

    def get_name(self) -> str:
        return "Fuseloop"

    def on_write_start(self, *_: Any) -> None:
        """Makes the folder. Called by Ray on the driver."""
        _check_free(self._folder, self._overwrite)
        self._unfinished.mkdir(parents=True)

    def write(self, blocks: Iterable[Any], ctx: Any) -> dict[str, Any] | None:
        """Writes a shard. Called by Ray in a task.

        Returns:
            The shard's entry of the manifest; None if there are no rows.
        """
        rows = self._rows_of(blocks)
        first = next(rows, None)
        if first is None:
            return None
        # A task that is run again writes another file.
        path = self._unfinished / f"part-{ctx.task_idx:06}-{uuid.uuid4().hex[:8]}.beton"

        def samples() -> Iterator[dict[str, Any]]:
            yield first
            yield from rows

        _write.write(samples(), path, self._fields, progress=None, **self._options)
        return _manifest.entry(path)

    def _rows_of(self, blocks: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for block in blocks:
            row: Mapping[str, Any]
            for row in BlockAccessor.for_block(block).iter_rows(public_row_format=True):
                names = row if self._fields is None else self._fields
                yield {name: _cell(row, name) for name in names}

    def on_write_complete(self, write_result: Any) -> None:
        """Publishes the shards. Called by Ray on the driver."""
        shards = [shard for shard in write_result.write_returns if shard is not None]
        for shard in shards:
            if not (self._unfinished / shard["name"]).exists():
                error = DatasetNotFoundError(
                    f"{self._unfinished / shard['name']} was written by a task, and is not there for the driver: "
                    "the folder must be one that all machines share"
                )
                error.path = str(self._unfinished / shard["name"])
                raise error
        replaced = _listed(self._folder) if self._overwrite else set()
        # The old manifest goes first: it must not list shards beside those of another dataset.
        if replaced:
            (self._folder / _manifest.NAME).unlink()
        for shard in shards:
            os.replace(self._unfinished / shard["name"], self._folder / shard["name"])
        _manifest.write_manifest(self._folder, shards)
        for path in replaced - {self._folder / shard["name"] for shard in shards}:
            path.unlink(missing_ok=True)
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def on_write_failed(self, error: Exception) -> None:
        """Removes what was written. Called by Ray on the driver."""
        shutil.rmtree(self._unfinished, ignore_errors=True)


def _cell(row: Mapping[str, Any], name: str) -> Any:
    try:
        return row[name]
    except KeyError:
        from difflib import get_close_matches

        near = get_close_matches(name, list(row), 1)
        cure = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(row)}"
        error = ConfigError(f"fields: there is no column {name}; {cure}")
        error.field, error.hint = name, near[0] if near else None
        raise error from None


def _shared(folder: _PathLike) -> Path:
    name = os.fspath(folder)
    if "://" in name:
        raise ConfigError(f"{name}: expected a folder of a file system that all machines share, not an address")
    return Path(os.path.abspath(name))


def _listed(folder: Path) -> set[Path]:
    """Returns the shards of the dataset in a folder."""
    if not (folder / _manifest.NAME).exists():
        return set()
    return {path for path, _ in _manifest.read_manifest(folder / _manifest.NAME)}


def _check_free(folder: Path, overwrite: bool) -> None:
    path = folder / _manifest.NAME
    if path.exists() and not overwrite:
        error = OutputExistsError(f"{path} exists already: give another folder, or overwrite=True")
        error.path = str(path)
        raise error


def write_dataset(
    ds: ray.data.Dataset,
    folder: _PathLike,
    fields: Mapping[str, Any] | Sequence[str] | None = None,
    *,
    rows_per_shard: int | None = None,
    overwrite: bool = False,
    concurrency: int | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Writes a Ray dataset as shards with a manifest.

    Args:
        ds: The dataset.
        folder: See :class:`FuseloopDatasink`, as for ``fields``, ``rows_per_shard``, ``overwrite`` and ``options``.
        concurrency: The most tasks at a time.
        ray_remote_args: Arguments of ``ray.remote`` for the tasks.

    Returns:
        The path of the manifest.
    """
    sink = FuseloopDatasink(folder, fields, rows_per_shard=rows_per_shard, overwrite=overwrite, **options)
    _check_free(sink._folder, overwrite)
    ds.write_datasink(sink, concurrency=concurrency, ray_remote_args=ray_remote_args)
    return sink._folder / _manifest.NAME


# Conversion: files in, files out, without Ray Data


class _Range:
    """Consecutive samples of a dataset."""

    def __init__(self, dataset: Dataset, start: int, end: int) -> None:
        self._dataset, self._start, self._end = dataset, start, end
        classes = dataset.classes
        if list(classes) == list(range(len(classes))):
            self.classes = list(classes.values())

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._dataset[self._start + index]


def _convert_range(
    source: str | Dataset, path: Path, start: int, end: int, fields: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    # The file appears whole: one that is there was written by an earlier call.
    if not path.exists():
        dataset = source if isinstance(source, Dataset) else _manifest.opened(source)
        _write.write(_Range(dataset, start, end), path, fields, progress=None, **options)
    return _manifest.entry(path)


def convert(
    source: _PathLike | Dataset,
    folder: _PathLike,
    shards: int,
    *,
    overwrite: bool = False,
    ray_remote_args: dict[str, Any] | None = None,
    image: Image = Image(),
    **options: Any,
) -> Path:
    """Converts a dataset to shards with a manifest, one task a shard: task ``k`` copies the ``k``-th of the parts.

    A conversion that was interrupted goes on when it is called again with the same arguments: shards that are whole
    are kept.

    Args:
        source: A dataset whose samples are read by number, or its name: a ``.beton`` file, a folder, tar shards. All
            machines must be able to open it.
        folder: Where the shards go: a folder that all machines share.
        shards: The number of shards.
        overwrite: Replaces a dataset, or an unfinished conversion, that is in the folder.
        ray_remote_args: Arguments of ``ray.remote`` for the tasks.
        image: How images are stored; by default only alpha and bits beyond 8 a sample are lost.
        **options: Arguments of :func:`fuseloop.write.write`: ``images``, ``page_size``, ``threads`` (by default 1) and
            ``on_damaged``.

    Returns:
        The path of the manifest.
    """
    for name in options:
        if name not in ("images", "page_size", "threads", "on_damaged"):
            raise ConfigError(f"{name} is no argument of convert")
    options = {"threads": 1, **options, "image": image}
    target, shards = _shared(folder), _whole("shards", shards, 1)
    dataset = source if isinstance(source, Dataset) else _manifest.opened(source)
    if dataset.is_stream:
        raise ConfigError(f"{dataset.name} is a stream, whose samples can't be divided: convert its shards one by one")
    samples = len(dataset)
    if shards > max(samples, 1):
        raise ConfigError(f"{shards} shards of {samples} samples: expected {samples} or fewer")
    _check_free(target, overwrite)
    target.mkdir(parents=True, exist_ok=True)
    plan = f"{dataset.fingerprint} {samples} {shards} {sorted(options.items())!r}\n"
    _begin(target, plan, overwrite)

    names = [f"part-{k:06}-of-{shards:06}.beton" for k in range(shards)]
    bounds = [samples * k // shards for k in range(shards + 1)]
    task = ray.remote(_convert_range).options(**(ray_remote_args or {}))
    given = source if isinstance(source, Dataset) else os.fspath(source)
    fields = _write._specs_of(dataset)
    started = [
        task.remote(given, target / name, bounds[k], bounds[k + 1], fields, options) for k, name in enumerate(names)
    ]
    try:
        written = ray.get(started)
    except BaseException:
        for one in started:
            ray.cancel(one, force=True)
        raise
    path = _manifest.write_manifest(target, written)
    (target / _JOURNAL).unlink()
    return path


# What an unfinished conversion is, in its folder.
_JOURNAL = ".fuseloop-conversion"


def _begin(folder: Path, plan: str, overwrite: bool) -> None:
    """Notes what the conversion is, or checks that an unfinished one is the same."""
    journal = folder / _JOURNAL
    if overwrite:
        replaced = _listed(folder)
        (folder / _manifest.NAME).unlink(missing_ok=True)
        if not journal.exists() or journal.read_text(encoding="utf-8") != plan:
            replaced |= set(folder.glob("part-*-of-*.beton")) if journal.exists() else set()
            journal.unlink(missing_ok=True)
        for path in replaced:
            path.unlink(missing_ok=True)
    if journal.exists():
        if journal.read_text(encoding="utf-8") != plan:
            error = OutputExistsError(
                f"{folder} has an unfinished conversion of another dataset, or with other options: overwrite=True "
                "replaces it"
            )
            error.path = str(folder)
            raise error
        return
    left = next(folder.glob("part-*-of-*.beton"), None)
    if left is not None:
        error = OutputExistsError(f"{left} exists already: give another folder")
        error.path = str(left)
        raise error
    journal.write_text(plan, encoding="utf-8")


# Reading


def _rows(shard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    dataset = Dataset.open(shard["path"])
    images = [name for name, kind in dataset.fields.items() if kind.startswith("image")]
    others = [name for name in dataset.fields if name not in images]
    if not images:
        for k in range(len(dataset)):
            yield dataset[k]
        return
    loader = Loader(
        dataset, 16, workers=1, collate={name: Collate.list() for name in images}, ops=dict.fromkeys(others)
    )
    sample = 0
    for batch in loader:
        pixels = {name: batch[name] for name in images}
        for k in range(batch.samples):
            values = dataset[sample] if others else {}
            copied = {name: rows[k].numpy(copy=True) for name, rows in pixels.items()}
            yield {name: copied[name] if name in copied else values[name] for name in dataset.fields}
            sample += 1


def read(name: _PathLike, *, ray_remote_args: dict[str, Any] | None = None) -> ray.data.Dataset:
    """Returns the samples of a dataset as rows of a Ray dataset, for inference and statistics: images are decoded, as
    arrays ``[height, width, 3]``. A shard is read by one task. To train, give the manifest to a loader.

    Args:
        name: A manifest, its folder, or a ``.beton`` file.
        ray_remote_args: Arguments of ``ray.remote`` for the tasks.
    """
    path = _shared(name)
    if path.is_dir():
        path /= _manifest.NAME
    if _manifest.is_manifest(path):
        shards = [shard for shard, _ in _manifest.read_manifest(path)]
    else:
        Dataset.open(path)
        shards = [path]
    listed = ray.data.from_items([{"path": str(shard)} for shard in shards], override_num_blocks=len(shards))
    return listed.flat_map(_rows, **(ray_remote_args or {}))

