"""The layout of ``.beton`` files, version 2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField, TorchTensorField
from .fields.base import Field

CURRENT_VERSION = 2

HeaderType = np.dtype(
    [
        ("version", "<u2"),
        ("num_fields", "<u2"),
        ("page_size", "<u4"),
        ("num_samples", "<u8"),
        ("alloc_table_ptr", "<u8"),
    ],
    align=True,
)

ALLOC_TABLE_TYPE = np.dtype([("sample_id", "<u8"), ("ptr", "<u8"), ("size", "<u8")])

FieldDescType = np.dtype([("type_id", "<u1"), ("name", ("<u1", 16)), ("arguments", ("<u1", (1024,)))], align=True)

TYPE_ID_HANDLER: dict[int, type[Field] | None] = {
    255: None,
    0: FloatField,
    1: IntField,
    2: RGBImageField,
    3: BytesField,
    4: NDArrayField,
    5: JSONField,
    6: TorchTensorField,
}


def get_handlers(field_descriptors: Iterable[Any]) -> list[Field | None]:
    """Returns the fields that a file describes; None for custom ones."""
    handlers: list[Field | None] = []
    for descriptor in field_descriptors:
        number = int(descriptor["type_id"])
        if number not in TYPE_ID_HANDLER:
            raise ValueError(f"a field has the type id {number}, expected 0 to 6 or 255")
        kind = TYPE_ID_HANDLER[number]
        handlers.append(None if kind is None else kind.from_binary(descriptor["arguments"]))
    return handlers


def get_metadata_type(handlers: list[Field]) -> np.dtype:
    """Returns the type of a sample's row in the table at the beginning of the file."""
    return np.dtype([("", handler.metadata_type) for handler in handlers], align=True)
