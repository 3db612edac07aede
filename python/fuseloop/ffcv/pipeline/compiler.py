"""Compiles the operations of users with numba, if it is installed."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

from ..._workers import cores


@functools.cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


class Compiler:
    """Compiles functions of batches. Unlike FFCV's, it leaves the number of threads of numba and torch alone."""

    is_enabled = True
    num_threads = 1

    @classmethod
    def set_enabled(cls, b: bool) -> None:
        """Says whether functions are compiled; if not, they run as plain Python."""
        cls.is_enabled = bool(b)

    @classmethod
    def set_num_threads(cls, n: int) -> None:
        """Sets the number of threads; below 1 all cores. Functions are compiled as parallel ones above 1."""
        cls.num_threads = cores() if n < 1 else n

    @classmethod
    def compile(cls, code: Callable[..., Any], signature: Any = None) -> Callable[..., Any]:
        """Returns the function compiled by numba; the function itself if numba is not installed or disabled."""
        if not cls.is_enabled or not _has_numba():
            return code
        import numba

        parallel = bool(getattr(code, "is_parallel", False)) and cls.num_threads > 1
        options: dict[str, Any] = {"fastmath": True, "nogil": True, "error_model": "numpy", "parallel": parallel}
        return numba.njit(signature, **options)(code) if signature else numba.njit(**options)(code)

    @classmethod
    def get_iterator(cls) -> Any:
        """Returns numba's ``prange`` if there are several threads and numba, and ``range`` if not."""
        if cls.num_threads > 1 and cls.is_enabled and _has_numba():
            import numba

            return numba.prange
        return range


def compiled_or_plain(code: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns the function compiled; where numba can't compile it, the function runs as plain Python, with a
    warning."""
    fast = Compiler.compile(code)
    if fast is code:
        return code
    from numba.core.errors import NumbaError

    chosen: Callable[..., Any] | None = None

    def call(*args: Any) -> Any:
        nonlocal chosen
        if chosen is not None:
            return chosen(*args)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", module="numba")
                result = fast(*args)
        except NumbaError as error:
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"{name}: numba can't compile it, so it runs as plain Python: {reason}", stacklevel=2)
            chosen = code
            return code(*args)
        chosen = fast
        return result

    return call
