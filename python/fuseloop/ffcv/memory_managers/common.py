"""Types."""

from collections.abc import Sequence

BATCHES_TYPE = Sequence[Sequence[int]]
