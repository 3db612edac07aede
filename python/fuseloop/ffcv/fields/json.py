"""JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from .._torch import is_tensor
from .bytes import BytesField

ENCODING = "utf8"
SEPARATOR = "\0"


class JSONField(BytesField):
    """What JSON can hold: dicts, lists, texts and numbers. The loader returns its bytes, which :meth:`unpack`
    parses."""

    @property
    def metadata_type(self) -> np.dtype:
        return np.dtype([("ptr", "<u8"), ("size", "<u8")])

    def encode(self, destination: Any, field: Any, malloc: Callable[..., Any]) -> None:
        content = (json.dumps(field) + SEPARATOR).encode(ENCODING)
        super().encode(destination, np.frombuffer(content, dtype="uint8"), malloc)

    @staticmethod
    def unpack(batch: Any) -> Any:
        """Parses the values of a batch, to a list, or one value of it.

        >>> import numpy as np
        >>> JSONField.unpack(np.frombuffer(b'{"a": 1}\\0\\0', dtype="uint8"))
        {'a': 1}
        """
        rows = np.asarray(batch.cpu() if is_tensor(batch) else batch)
        if rows.ndim == 1:
            text, _, _ = rows.tobytes().partition(SEPARATOR.encode())
            return json.loads(text.decode(ENCODING))
        return [JSONField.unpack(row) for row in rows]
