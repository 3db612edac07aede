"""Which of several processes this one is."""

from __future__ import annotations

import os
import sys

from ...errors import ConfigError

_NAMES = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))


def rank_and_world() -> tuple[int, int]:
    """Returns the number of this process and how many there are: from ``torch.distributed``, or from what torchrun,
    Slurm or MPI set."""
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded.distributed.is_available() and loaded.distributed.is_initialized():
        return loaded.distributed.get_rank(), loaded.distributed.get_world_size()
    for rank, world in _NAMES:
        if rank in os.environ and world in os.environ:
            return int(os.environ[rank]), int(os.environ[world])
    raise ConfigError(
        "distributed=True, but this process does not know its rank: call torch.distributed.init_process_group first, "
        "or start it by torchrun"
    )
