"""Reads whole pages into the memory of the process."""

from __future__ import annotations

from collections.abc import Sequence

from ..os_cache import OSCacheContext, OSCacheManager


class ProcessCacheManager(OSCacheManager):
    """What ``os_cache=False`` means to operations in Python: they read from the map of the file all the same. The
    compiled loader reads whole pages into memory."""

    def schedule_epoch(self, batches: Sequence[Sequence[int]]) -> OSCacheContext:
        return super().schedule_epoch(batches)
