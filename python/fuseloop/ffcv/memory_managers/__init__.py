"""How operations in Python read from the file."""

from .base import MemoryContext, MemoryManager
from .os_cache import OSCacheManager
from .process_cache import ProcessCacheManager

__all__ = ["MemoryContext", "MemoryManager", "OSCacheManager", "ProcessCacheManager"]
