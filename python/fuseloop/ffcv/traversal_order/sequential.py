"""Samples one after the other."""

from __future__ import annotations

import numpy as np

from .base import TraversalOrder, positions, rank_and_world


class Sequential(TraversalOrder):
    """Samples as they are in the file, or in ``indices``."""

    def sample_order(self, epoch: int) -> np.ndarray:
        if not self.distributed:
            return self.indices
        return self.indices[positions(len(self.indices), np.arange(len(self.indices)), *rank_and_world())]
