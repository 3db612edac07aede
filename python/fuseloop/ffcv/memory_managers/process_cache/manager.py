"""Reads whole pages into the memory of the process."""

from __future__ import annotations

from ..os_cache import OSCacheManager


class ProcessCacheManager(OSCacheManager):
    """What ``os_cache=False`` means to operations in Python: they read from the map of the file all the same. The
    compiled loader reads whole pages into memory."""
