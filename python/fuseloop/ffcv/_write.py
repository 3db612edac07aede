"""Writes ``.beton`` files whose fields bring code of their own, in Python and on one thread."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import ConfigError
from .fields.base import Field
from .types import ALLOC_TABLE_TYPE, CURRENT_VERSION, TYPE_ID_HANDLER, FieldDescType, HeaderType, get_metadata_type


class _Full(Exception):
    """A sample does not fit into what is left of its page."""


class _Pages:
    """The pages of a file. Everything that a sample holds is in one of them."""

    def __init__(self, file: Any, start: int, page_size: int) -> None:
        self._file, self._page_size = file, page_size
        self._at = start
        self._page = np.zeros(page_size, np.uint8)
        self._used = 0
        self.sample = 0
        self._begun = 0
        self._taken: list[tuple[int, int, int]] = []
        self.allocations: list[tuple[int, int, int]] = []

    def begin(self, sample: int) -> None:
        """Begins a sample, or begins it again."""
        self.sample, self._begun, self._taken = sample, self._used, []

    def end(self) -> None:
        self.allocations.extend(self._taken)

    def malloc(self, size: int) -> tuple[int, np.ndarray]:
        """Returns the address in the file and the memory of more bytes of the sample."""
        size = int(size)
        if size > self._page_size - self._used:
            raise _Full
        address, memory = self._at + self._used, self._page[self._used : self._used + size]
        self._taken.append((self.sample, address, size))
        # A value of no bytes takes one, so that no two values have the same address.
        self._used += max(size, 1)
        return address, memory

    def next_page(self) -> bool:
        """Writes the page without the current sample; false if the sample has a page of its own already."""
        if self._begun == 0:
            return False
        self._page[self._begun :] = 0
        self._used = self._begun
        self.flush()
        return True

    def flush(self) -> None:
        """Writes the page if there is anything in it."""
        if self._used:
            self._file.seek(self._at)
            self._file.write(self._page)
            self._at += self._page_size
            self._page[:] = 0
            self._used = self._begun = 0


def write_in_python(
    samples: Iterable[Any], fname: str, fields: Mapping[str, Field], page_size: int, count: int | None
) -> int:
    """Writes samples by the code of their fields, and returns how many there were."""
    kinds = {kind: number for number, kind in TYPE_ID_HANDLER.items() if kind is not None}
    described = np.zeros(len(fields), FieldDescType)
    for row, (name, field) in zip(described, fields.items()):
        encoded = name.encode("ascii")
        if len(encoded) > 16:
            raise ConfigError(f"field {name}: a name has at most 16 characters in a .beton file")
        row["type_id"] = kinds.get(type(field), 255)
        row["name"][: len(encoded)] = np.frombuffer(encoded, np.uint8)
        row["arguments"][:] = field.to_binary()[0]
    row_type = get_metadata_type(list(fields.values()))
    if count is None:
        # The table of rows comes before the pages, so that their number must be known.
        samples = list(samples)
        count = len(samples)
    start = HeaderType.itemsize + described.nbytes
    rows = np.zeros(count, row_type)
    data = -(-(start + rows.nbytes) // page_size) * page_size
    part = f"{fname}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            pages = _Pages(file, data, page_size)
            written = 0
            for number, sample in enumerate(samples):
                if number >= count:
                    raise ConfigError(f"there are more than the {count} samples that the dataset announced")
                _write_sample(sample, number, rows, fields, pages)
                written += 1
            if written < count:
                raise ConfigError(f"there are {written} samples, and the dataset announced {count}")
            pages.flush()
            file.seek(0, os.SEEK_END)
            end = max(file.tell(), start + rows.nbytes)
            file.seek(end)
            file.write(np.array(pages.allocations, ALLOC_TABLE_TYPE).tobytes())
            header = np.zeros(1, HeaderType)[0]
            header["version"], header["num_fields"], header["page_size"] = CURRENT_VERSION, len(fields), page_size
            header["num_samples"], header["alloc_table_ptr"] = count, end
            file.seek(0)
            file.write(header.tobytes() + described.tobytes() + rows.tobytes())
            file.truncate(end + len(pages.allocations) * ALLOC_TABLE_TYPE.itemsize)
        if os.path.isfile(fname):
            shutil.copymode(fname, part)
        os.replace(part, fname)
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return count


def _write_sample(sample: Any, number: int, rows: np.ndarray, fields: Mapping[str, Field], pages: _Pages) -> None:
    if isinstance(sample, Mapping):
        missing = [name for name in fields if name not in sample]
        if missing:
            raise ConfigError(f"sample {number} has no {', '.join(missing)}, only {', '.join(map(str, sample))}")
        values = [sample[name] for name in fields]
    else:
        values = list(sample) if isinstance(sample, (tuple, list)) else [sample]
    if len(values) != len(fields):
        raise ConfigError(f"sample {number} has {len(values)} values, expected {len(fields)}: {', '.join(fields)}")
    while True:
        pages.begin(number)
        try:
            for k, ((name, field), value) in enumerate(zip(fields.items(), values)):
                try:
                    field.encode(rows[f"f{k}"][number : number + 1], value, pages.malloc)
                except _Full:
                    raise
                except Exception as error:
                    error.add_note(f"fuseloop.ffcv: sample {number}, field {name}")
                    raise
            pages.end()
            return
        except _Full:
            if not pages.next_page():
                raise ConfigError(
                    f"sample {number} is larger than a page of {pages._page_size} bytes: give DatasetWriter a larger "
                    "page_size"
                ) from None
