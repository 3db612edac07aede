"""FFCV's interface on Fuseloop's engine.

A script that imports FFCV runs with ``import fuseloop.ffcv as ffcv`` in its place, or unchanged with
``python -m fuseloop.ffcv script.py``. :func:`install` makes ``import ffcv`` find this package.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

from .loader import Loader
from .writer import DatasetWriter

__version__ = "1.0.2"

__all__ = ["DatasetWriter", "Loader", "install"]


def install() -> None:
    """Makes ``import ffcv``, and imports of its modules, find this package.

    Raises:
        ImportError: If FFCV itself is imported already.
    """
    present = sys.modules.get("ffcv")
    own = sys.modules[__name__]
    if present is own:
        return
    is_shim = present is not None and str(getattr(present, "__file__", "")).startswith(f"{__path__[0]}/_path/")
    if present is not None and not is_shim:
        raise ImportError(
            f"ffcv is imported already, from {getattr(present, '__file__', 'an unknown place')}: call "
            "fuseloop.ffcv.install() before anything imports it"
        )
    for found in pkgutil.walk_packages(__path__, f"{__name__}."):
        name = found.name.removeprefix(f"{__name__}.")
        if not any(part.startswith("_") for part in name.split(".")):
            sys.modules[f"ffcv.{name}"] = importlib.import_module(found.name)
    sys.modules["ffcv"] = own
