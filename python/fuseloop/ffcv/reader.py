"""What a ``.beton`` file says about itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ..errors import ConfigError, DatasetError, DatasetNotFoundError
from .fields.base import Field
from .types import (
    ALLOC_TABLE_TYPE,
    CURRENT_VERSION,
    TYPE_ID_HANDLER,
    FieldDescType,
    HeaderType,
    get_handlers,
    get_metadata_type,
)


class Reader:
    """The header, the fields, and the tables of a ``.beton`` file. The tables are read when they are first used.

    Attributes:
        num_samples: The number of samples.
        page_size: The size of a page in bytes.
        field_names: The names of the fields.
        handlers: The fields by their names.
        custom_fields: Those whose classes were passed to the loader.
        metadata: The row of each sample, an array with one field ``f0``, ``f1``, ... for each field.
        alloc_table: The address and the size of everything that samples hold outside of their rows.
    """

    def __init__(
        self, fname: str | os.PathLike[str], custom_handlers: Mapping[str, type[Field]] | None = None
    ) -> None:
        self._fname = os.fspath(fname)
        self._custom_handlers = dict(custom_handlers or {})
        self.read_header()
        self.read_field_descriptors()

    @property
    def file_name(self) -> str:
        return self._fname

    def _wrong(self, text: str) -> DatasetError:
        error = DatasetError(f"{self._fname}: {text}")
        error.path = self._fname
        return error

    def _check(self, dtype: np.dtype, offset: int, count: int) -> None:
        if offset + count * dtype.itemsize > os.path.getsize(self._fname):
            raise self._wrong(f"{count} records of {dtype.itemsize} bytes at offset {offset} go beyond the file's end")

    def _records(self, dtype: np.dtype, offset: int, count: int) -> np.ndarray:
        """Reads records of the file."""
        self._check(dtype, offset, count)
        records = np.fromfile(self._fname, dtype, count, offset=offset)
        records.setflags(write=False)
        return records

    def read_header(self) -> None:
        """Reads the header."""
        try:
            with open(self._fname, "rb") as file:
                data = file.read(HeaderType.itemsize)
        except FileNotFoundError:
            error = DatasetNotFoundError(f"{self._fname}: there is no such file")
            error.path = self._fname
            raise error from None
        except OSError as cause:
            raise self._wrong(str(cause.strerror)) from cause
        if len(data) < HeaderType.itemsize:
            raise self._wrong(f"a .beton file begins with {HeaderType.itemsize} bytes, and this one has {len(data)}")
        self.header = np.frombuffer(data, HeaderType)[0]
        if self.header["version"] != CURRENT_VERSION:
            raise self._wrong(
                f"the version of the format is {self.header['version']}, expected {CURRENT_VERSION}: is it a .beton "
                "file?"
            )
        self.num_samples = int(self.header["num_samples"])
        self.page_size = int(self.header["page_size"])
        self.num_fields = int(self.header["num_fields"])

    def read_field_descriptors(self) -> None:
        """Reads the descriptions of the fields."""
        if self.num_fields == 0:
            raise self._wrong("it has no fields")
        self.field_descriptors = self._records(FieldDescType, HeaderType.itemsize, self.num_fields)
        names = (bytes(name).partition(b"\0")[0] for name in self.field_descriptors["name"])
        self.field_names = [name.decode("ascii", "replace") for name in names]
        for name in self._custom_handlers:
            if name[:16] not in self.field_names:
                names_there = ", ".join(self.field_names)
                raise ConfigError(f"custom_fields: {self._fname} has no field {name}, only {names_there}")
        custom = {name[:16]: kind for name, kind in self._custom_handlers.items()}
        self.handlers: dict[str, Field] = {}
        # The fields whose rows only their classes understand, by name.
        self.custom_fields: dict[str, Field] = {}
        try:
            known = get_handlers(self.field_descriptors)
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, SyntaxError) as error:
            raise self._wrong(f"the description of a field is damaged: {error}") from error
        for name, described, handler in zip(self.field_names, self.field_descriptors, known):
            if name in custom:
                handler = custom[name].from_binary(described["arguments"])
            if handler is None:
                raise ConfigError(
                    f"{self._fname}: field {name} is of a kind that FFCV does not have: name its class, "
                    f"custom_fields={{{name!r}: MyField}}"
                )
            self.handlers[name] = handler
            is_known = type(handler) in TYPE_ID_HANDLER.values() and name not in custom
            if int(described["type_id"]) == 255 or not is_known:
                self.custom_fields[name] = handler
        self.metadata_type = get_metadata_type(list(self.handlers.values()))
        self._check(self.metadata_type, HeaderType.itemsize + self.field_descriptors.nbytes, self.num_samples)

    @cached_property
    def metadata(self) -> np.ndarray:
        offset = HeaderType.itemsize + self.num_fields * FieldDescType.itemsize
        return self._records(self.metadata_type, offset, self.num_samples)

    @cached_property
    def alloc_table(self) -> np.ndarray:
        offset = int(self.header["alloc_table_ptr"])
        if offset == 0:
            raise self._wrong("the file was not written to its end")
        count = (os.path.getsize(self._fname) - offset) // ALLOC_TABLE_TYPE.itemsize
        return self._records(ALLOC_TABLE_TYPE, offset, max(count, 0))

    def read_metadata(self) -> np.ndarray:
        """Returns the rows."""
        return self.metadata

    def read_allocation_table(self) -> np.ndarray:
        """Returns the table of allocations."""
        return self.alloc_table
