"""Random order."""

from __future__ import annotations

import numpy as np

from .._torch import torch
from .base import TraversalOrder, positions, rank_and_world


class Random(TraversalOrder):
    """The permutation of NumPy's generator for the seed plus the epoch; with several ranks that of torch's
    DistributedSampler."""

    def sample_order(self, epoch: int) -> np.ndarray:
        if not self.distributed:
            return np.random.default_rng(self.seed + epoch).permutation(self.indices)
        library = torch("distributed=True")
        generator = library.Generator()
        generator.manual_seed(self.seed + epoch)
        order = library.randperm(len(self.indices), generator=generator).numpy()
        return self.indices[positions(len(order), order, *rank_and_world())]
