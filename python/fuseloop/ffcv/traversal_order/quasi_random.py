"""Random order within a few pages at a time."""

from __future__ import annotations

import numpy as np

from .base import TraversalOrder


class QuasiRandom(TraversalOrder):
    """Random order within ``2 * batch_size`` pages at a time: for files that are larger than memory. Unlike FFCV's it
    depends on the seed and the epoch alone, and works with ``distributed=True``."""

    def sample_order(self, epoch: int) -> np.ndarray:
        return np.asarray(self.loader._order_of(epoch))
