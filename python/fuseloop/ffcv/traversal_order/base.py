"""The interface of orders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..loader.loader import Loader


class TraversalOrder(ABC):
    """The order of samples. A subclass is given to the loader as ``order=MyOrder``.

    With ``distributed=True`` it returns the samples of this process alone.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.indices = loader.indices
        self.seed = loader.seed
        self.distributed = loader.distributed
        self.sampler: Any = None

    @abstractmethod
    def sample_order(self, epoch: int) -> Sequence[int] | np.ndarray:
        """Returns the samples of an epoch, by their numbers in the file. Every epoch has as many as the first."""
        raise NotImplementedError


def positions(count: int, order: Any, rank: int, world: int) -> Any:
    """Returns the positions of a rank: every ``world``-th, after the first ones were repeated at the end so that all
    ranks have as many."""
    total = -(-count // world) * world
    return np.resize(order, total)[rank::world]


def rank_and_world() -> tuple[int, int]:
    """Returns the number of this process and how many there are."""
    from ..loader.ranks import rank_and_world

    return rank_and_world()
