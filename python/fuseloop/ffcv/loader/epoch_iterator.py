"""The batches of an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._fuseloop import Batch
from ...loader import Epoch
from .._plan import Call, Plan

if TYPE_CHECKING:
    from .loader import Loader


class EpochIterator:
    """The batches of one epoch: tuples of tensors. It ends when it is closed or dropped, and waits for nothing.

    Attributes:
        loader: The loader.
        batch: The ``fuseloop.Batch`` of the tuple that was returned last: its ``ids`` are the samples.
    """

    def __init__(self, loader: Loader, epoch: Epoch, plan: Plan) -> None:
        self.loader = loader
        self.batch: Batch | None = None
        self._epoch = epoch
        self._plan = plan
        self._closed = False

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> tuple[Any, ...]:
        self.batch = None
        try:
            batch = next(self._epoch)
        except StopIteration:
            self.close()
            raise
        call = Call(batch, batch.ids, (self.loader.seed, self._epoch.number, batch.index))
        result = self._plan(call)
        self.batch = batch
        return result

    def __len__(self) -> int:
        """The number of batches that are left."""
        return 0 if self._closed else len(self._epoch)

    @property
    def ids(self) -> np.ndarray:
        """The samples of the tuple that was returned last, by their numbers in the file."""
        if self.batch is None:
            raise ValueError("no batch has been taken yet")
        return self.batch.ids

    @property
    def closed(self) -> bool:
        return self._closed

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batches taken, for :meth:`Loader.load_state_dict`."""
        return self._epoch.state_dict()

    def close(self) -> None:
        """Ends the work of the epoch."""
        self._closed = True
        self._epoch.close()

    def join(self, timeout: float | None = None) -> None:
        """Does nothing: FFCV's iterator is a thread."""

    def is_alive(self) -> bool:
        """Tells if there may be more batches."""
        return not self._closed
