"""Reads whole pages into the memory of the process."""

from .manager import ProcessCacheManager

__all__ = ["ProcessCacheManager"]
