"""The studio in a notebook: a page that shows a pipeline live, served by ``python -m fuseloop studio``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .errors import ConfigError

if TYPE_CHECKING:
    import subprocess

__all__ = ["Studio", "studio"]


class Studio:
    """A running server of the studio, which a notebook shows as a frame. :func:`fuseloop.studio` returns it.

    The server ends with :meth:`close`, at the end of a ``with`` block, or with the interpreter.
    """

    __slots__ = ("__weakref__", "_end", "_process", "height", "url")

    def __init__(self, process: subprocess.Popen[str], url: str, height: int) -> None:
        import weakref

        self._process = process
        self._end = weakref.finalize(self, _end, process)
        self.url = url
        self.height = height

    def close(self) -> None:
        """Ends the server. A second call does nothing."""
        self._end()

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Studio({self.url!r})" if self._end.alive else "Studio(closed)"

    def _repr_html_(self) -> str:
        import html

        url = html.escape(self.url)
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884; border-radius: 8px"
        return f'<iframe src="{url}" style="{style}" allow="clipboard-write"></iframe>'


def studio(
    dataset: str | os.PathLike[str],
    pipeline: str | os.PathLike[str] | None = None,
    *,
    height: int = 820,
) -> Studio:
    """Starts the studio, a page on which a pipeline is put together, and returns it for a notebook to show.

    The server listens on this machine alone. Where the notebook runs on another machine than the browser, forward its
    port: ``ssh -L PORT:localhost:PORT``.

    Args:
        dataset: The dataset, by its path.
        pipeline: The pipeline file, which the page reads and saves. One that does not exist is made when you save.
        height: The height of the frame in pixels.

    Raises:
        ConfigError: If the server ends with an error, such as a dataset that can't be opened.
    """
    import subprocess

    arguments = [sys.executable, "-P", "-m", "fuseloop", "studio", os.fspath(dataset)]
    if pipeline is not None:
        arguments += ["--pipeline", os.fspath(pipeline)]
    # The server finds the package where this interpreter has found it.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        arguments, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=environment
    )
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    if not line.startswith("studio: "):
        process.terminate()
        message = process.stderr.read().strip()
        process.wait()
        raise ConfigError(message.removeprefix("error: ") or "the server of the studio ended without a message")
    return Studio(process, line.removeprefix("studio: ").strip(), height)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
