"""Compresses the files in wheels anew, as small as deflate gets: ``python recompress.py WHEEL ...``

Needs the package zopflipy of PyPI, which takes two minutes for a wheel, and finds about 3 % that zlib does not.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import zopfli


def recompress(wheel: Path) -> None:
    """Replaces a wheel by one with the same files."""
    smaller = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as old, zopfli.ZipFile(
        smaller, "w", zipfile.ZIP_DEFLATED, block_splitting_max=0
    ) as new:
        for file in old.infolist():
            new.writestr(file, old.read(file))
    os.replace(smaller, wheel)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        recompress(Path(name))
