"""FFCV's writer, on :func:`fuseloop.write.write`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from .. import _fuseloop
from ..errors import ConfigError
from ._torch import numpy_dtype
from .._workers import cores
from ._write import write_in_python
from .fields import (
    BytesField,
    Field,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)
from .types import get_metadata_type

MIN_PAGE_SIZE = 1 << 21
MAX_PAGE_SIZE = 1 << 32

_KINDS = {IntField: "int", FloatField: "float", BytesField: "bytes", JSONField: "json", RGBImageField: "image"}
_ARRAYS = (NDArrayField, TorchTensorField)


class DatasetWriter:
    """Writes a ``.beton`` file. Its bytes depend on the samples and the fields, not on the number of processes, and it
    appears whole or not at all.

    Args:
        fname: The file. One that exists is replaced.
        fields: The fields, by their names and in their order.
        page_size: The size of a page, a power of two of 2 MiB or more; no sample can be larger.
        num_workers: The number of processes that read samples; below 1 one per core.
    """

    def __init__(
        self,
        fname: str | os.PathLike[str],
        fields: Mapping[str, Field],
        page_size: int = 4 * MIN_PAGE_SIZE,
        num_workers: int = -1,
    ) -> None:
        for name, field in fields.items():
            if not isinstance(field, Field):
                raise ConfigError(f"field {name} is {field!r}, expected an object such as IntField()")
        self.fields = fields
        self.fname = os.fspath(fname)
        _fuseloop.check_destination(self.fname)
        self.metadata_type = get_metadata_type(list(fields.values()))
        self.num_workers = cores() if num_workers < 1 else num_workers
        if page_size & (page_size - 1) or not MIN_PAGE_SIZE <= page_size < MAX_PAGE_SIZE:
            raise ConfigError(f"page_size is {page_size}, expected a power of two from {MIN_PAGE_SIZE} to 2147483648")
        self.page_size = page_size

    def from_indexed_dataset(
        self, dataset: Any, indices: Sequence[int] | None = None, chunksize: int = 100, shuffle_indices: bool = False
    ) -> None:
        """Writes the samples of a dataset that has ``__getitem__`` and ``__len__``.

        Args:
            dataset: The dataset.
            indices: Only these samples, in this order.
            chunksize: Has no effect.
            shuffle_indices: Writes the samples in a random order, of NumPy's random numbers.
        """
        if indices is not None or shuffle_indices:
            order = np.array(range(len(dataset)) if indices is None else indices, dtype=np.int64)
            if shuffle_indices:
                np.random.shuffle(order)
            dataset = _Subset(dataset, order)
        self._write(_Indexed(dataset), len(dataset), self.num_workers)

    def from_webdataset(self, shards: Sequence[str], pipeline: Callable[[Any], Any]) -> None:
        """Writes the samples of WebDataset's shards. Each is read once, and in this process.

        Args:
            shards: The shards.
            pipeline: Called with the ``WebDataset`` of a shard; returns an iterable of tuples.
        """
        self._write(_from_shards(list(shards), pipeline), None, 0)

    def _write(self, samples: Any, count: int | None, workers: int) -> None:
        own = [name for name, field in self.fields.items() if type(field) not in (*_KINDS, *_ARRAYS)]
        if own:
            write_in_python(samples, self.fname, self.fields, self.page_size, count)
            return
        from .. import write

        images = {name: _image(field) for name, field in self.fields.items() if isinstance(field, RGBImageField)}
        kinds: dict[str, Any] = {}
        for name, field in self.fields.items():
            if isinstance(field, _ARRAYS):
                is_tensor = isinstance(field, TorchTensorField)
                kinds[name] = write.Array(numpy_dtype(field.dtype), field.shape, tensor=is_tensor)
            else:
                kinds[name] = _KINDS[type(field)]
        # As in FFCV: processes are started as everywhere in the program.
        method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        write.write(
            samples,
            self.fname,
            kinds,
            workers=workers,
            images=images,
            page_size=self.page_size,
            start_method=method if workers else None,
            overwrite=True,
        )


class _Subset:
    """Some samples of a dataset."""

    def __init__(self, dataset: Any, indices: np.ndarray) -> None:
        self._dataset, self._indices = dataset, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, number: int) -> Any:
        return self._dataset[int(self._indices[number])]


class _Indexed:
    """A dataset of which only ``__getitem__`` and ``__len__`` are used, as FFCV does."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> Any:
        return self._dataset[number]

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))


def _from_shards(shards: list[str], pipeline: Callable[[Any], Any]) -> Iterator[Any]:
    from webdataset import WebDataset

    for shard in shards:
        yield from pipeline(WebDataset(shard))


def _image(field: RGBImageField) -> Any:
    """Returns how the images of a field are stored."""
    from ..write import Image

    mode = field.write_mode
    if mode not in ("raw", "jpg", "smart", "proportion"):
        raise ConfigError(f"write_mode is {mode!r}, expected 'raw', 'jpg', 'smart' or 'proportion'")
    if mode == "smart" and field.smart_threshold is None:
        mode = "raw"
    return Image(
        write_mode=cast(Any, mode),
        max_resolution=field.max_resolution,
        # Without another quality, JPEG files stay as they are.
        jpeg_quality=None if field.jpeg_quality == 90 else field.jpeg_quality,
        smart_threshold=field.smart_threshold if mode == "smart" else None,
        compress_probability=(field.proportion or 0.0) if mode == "proportion" else None,
    )
