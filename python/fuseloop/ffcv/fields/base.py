"""The interface of fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..pipeline.operation import Operation

ARG_TYPE = np.dtype([("", "<u1", 1024)])


def no_arguments() -> Any:
    """Returns the arguments of a field that has none."""
    return np.zeros(1, dtype=ARG_TYPE)[0]


class Field(ABC):
    """How the values of a field are stored, and which decoder reads them.

    A subclass outside of this package is a custom field: the file has no name of its kind, so that the loader must be
    passed with ``custom_fields={"name": Class}``.
    """

    @property
    @abstractmethod
    def metadata_type(self) -> np.dtype:
        """The row of a sample in the table at the beginning of the file."""
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def from_binary(binary: Any) -> Field:
        """Makes the field from the 1024 bytes that :meth:`to_binary` returned."""
        raise NotImplementedError

    @abstractmethod
    def to_binary(self) -> Any:
        """Returns what describes the field in the file, of type ``ARG_TYPE``."""
        raise NotImplementedError

    @abstractmethod
    def encode(self, destination: Any, field: Any, malloc: Callable[[int], tuple[int, np.ndarray]]) -> None:
        """Writes the value ``field`` into the row ``destination``. ``malloc(size)`` returns the address in the file
        and the memory of more bytes."""
        raise NotImplementedError

    @abstractmethod
    def get_decoder_class(self) -> type[Operation]:
        """Returns the class of the default decoder."""
        raise NotImplementedError
