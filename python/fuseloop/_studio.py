"""The studio in a notebook: a page that shows a pipeline live, served by the command ``fuseloop``."""

from __future__ import annotations

import html
import os
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
        url = html.escape(self.url)
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884; border-radius: 8px"
        return f'<iframe src="{url}" style="{style}" allow="clipboard-write"></iframe>'


def studio(
    dataset: str | os.PathLike[str],
    pipeline: str | os.PathLike[str] | None = None,
    *,
    height: int = 820,
    command: str | os.PathLike[str] | None = None,
) -> Studio:
    """Starts ``fuseloop studio``, a page on which a pipeline is put together, and returns it for a notebook to show.

    The server listens on this machine alone. Where the notebook runs on another machine than the browser, forward its
    port: ``ssh -L PORT:localhost:PORT``.

    Args:
        dataset: The dataset, by its path.
        pipeline: The pipeline file, which the page reads and saves. One that does not exist is made when you save.
        height: The height of the frame in pixels.
        command: The command; by default ``fuseloop`` of the ``PATH``, beside the interpreter, or in ``~/.cargo/bin``.

    Raises:
        ConfigError: If there is no such command, or it ends with an error, such as a dataset that can't be opened.
    """
    import subprocess

    found = os.fspath(command) if command is not None else _find()
    if found is None:
        raise ConfigError(
            "the studio is a part of the command `fuseloop`, which is not in the PATH, beside the interpreter or in "
            "~/.cargo/bin. To install it, with Rust 1.95 or later: `git clone https://github.com/fuseloop/fuseloop`, then "
            "`cargo install --locked --path fuseloop/cli`. If it is elsewhere, name it: "
            'fl.studio(..., command="/path/to/fuseloop")'
        )
    arguments: list[Any] = [found, "studio", os.fspath(dataset)]
    if pipeline is not None:
        arguments += ["--pipeline", os.fspath(pipeline)]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    except OSError as error:
        raise ConfigError(f"{found}: {error.strerror}") from error
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    if not line.startswith("studio: "):
        process.terminate()
        message = process.stderr.read().strip()
        process.wait()
        raise ConfigError(message or f"{found} is not the command `fuseloop`")
    return Studio(process, line.removeprefix("studio: ").strip(), height)


def _find() -> str | None:
    """Returns the path of the command: a kernel of a notebook often lacks the ``PATH`` of a shell."""
    import shutil
    import sys

    beside = os.path.dirname(sys.executable)
    cargo = os.path.join(os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo"), "bin")
    return shutil.which("fuseloop") or shutil.which("fuseloop", path=os.pathsep.join([beside, cargo]))


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
