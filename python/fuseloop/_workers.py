"""Processes that read the samples of a dataset: chunk by chunk, the results in order.

Worker ``w`` of ``n`` reads the chunks ``w``, ``w + n``, ... and sends them through a pipe of its own, a few ahead. A
pipe leaves nothing behind when a process is killed. Numbers of samples are in shared memory, so that the sample of a
worker that dies is known.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Generator
from multiprocessing.connection import Connection, wait
from typing import Any

from ._values import Rows
from .errors import ConfigError, FuseloopError, SampleError

CHUNK = 64
"""The number of samples that a worker reads between two messages."""

_AHEAD = 3
"""The chunks that a worker has ready besides the one it reads."""

_UNGUARDED = 'if this is a script, what it does must stand behind `if __name__ == "__main__":`'
"""The cure for a worker that imports the script, and then starts workers itself."""


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def row_or_error(dataset: Any, rows: Rows, index: int, skip: bool) -> tuple[Any, ...] | str:
    """Returns the row of a sample. With ``skip``, an exception of the dataset becomes its text."""
    try:
        sample = dataset[index]
    except Exception as error:
        if not skip:
            raise
        return _line(error)
    return rows(sample, index)


def _line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def start_methods() -> str:
    """Returns the default start method: processes are never forked, since threads may run."""
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def read(
    dataset: Any, rows: Rows, count: int, workers: int, skip: bool, start_method: str | None
) -> Generator[list[tuple[Any, ...] | str], None, None]:
    """Yields the chunks of all samples in order, read by processes."""
    methods = multiprocessing.get_all_start_methods()
    method = start_methods() if start_method is None else start_method
    if method not in methods:
        raise ConfigError(f"start_method is {start_method!r}, expected {' or '.join(map(repr, methods))}")
    context: Any = multiprocessing.get_context(method)
    chunks = -(-count // CHUNK)
    workers = max(1, min(workers, chunks))
    at = context.RawArray("q", [-1] * workers)
    running: list[tuple[Any, Connection]] = []
    try:
        for number in range(workers):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (theirs, dataset, rows, count, number, workers, skip, at)
            process = context.Process(target=_work, args=arguments, daemon=True, name=f"fuseloop-write-{number}")
            running.append((process, ours))
            try:
                process.start()
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                raise ConfigError(
                    f"the dataset can't be sent to other processes ({_line(error)}): define its class and its "
                    "functions in a module, or write with workers=0"
                ) from error
            except (ConnectionError, EOFError) as error:
                # From Python 3.14 on, the server that forks workers imports the script, whose error has ended it.
                raise FuseloopError(f"worker {number} could not be started ({_line(error)}): {_UNGUARDED}") from error
            finally:
                theirs.close()
        if not count:
            yield []
        for chunk in range(chunks):
            process, pipe = running[chunk % workers]
            yield _receive(process, pipe, at, chunk, chunk % workers)
        for process, _ in running:
            process.join(1)
    finally:
        for process, pipe in running:
            pipe.close()
            if process.pid is not None and process.is_alive():
                process.terminate()
        for process, _ in running:
            if process.pid is not None:
                process.join(1)
                if process.is_alive():
                    process.kill()
                    process.join()


def _receive(process: Any, pipe: Connection, at: Any, chunk: int, number: int) -> list[tuple[Any, ...] | str]:
    wait([pipe, process.sentinel])
    try:
        # The end of a process is seen after all that it has sent.
        message = pickle.loads(pipe.recv_bytes()) if pipe.poll() else None
    except (EOFError, OSError):
        message = None
    if message is None:
        raise _died(process, at[number], chunk, number)
    kind, content = message
    if kind == "rows":
        return content
    index, pickled, line, text = content
    error = _unpickled(pickled) or SampleError(f"sample {index}: {line}")
    if isinstance(error, FuseloopError) and error.sample is None:
        error.sample = index
    error.add_note(f"fuseloop: sample {index}, read by worker {number}:\n{text}")
    raise error


def _died(process: Any, index: int, chunk: int, number: int) -> FuseloopError:
    process.join(1)
    code = process.exitcode
    how = "ended" if code is None else f"ended with code {code}" if code >= 0 else f"was killed by {_signal(-code)}"
    if index < 0:
        # It did not come to its first sample.
        return FuseloopError(f"worker {number} {how} before its first sample, {chunk * CHUNK}: {_UNGUARDED}")
    error = SampleError(
        f"worker {number} {how} at sample {index}"
        + ("; the system kills processes when memory runs out: take fewer workers" if code == -9 else "")
    )
    error.sample = index
    return error


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _unpickled(pickled: bytes | None) -> BaseException | None:
    try:
        error = pickle.loads(pickled) if pickled is not None else None
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None


# In a worker


def _work(
    pipe: Connection, dataset: Any, rows: Rows, count: int, number: int, workers: int, skip: bool, at: Any
) -> None:
    # The parent ends the workers, also after Ctrl-C, which reaches all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ready: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
    sender = threading.Thread(target=_send, args=(pipe, ready), daemon=True)
    sender.start()
    for start in range(number * CHUNK, count, workers * CHUNK):
        index, chunk = start, []
        try:
            for index in range(start, min(start + CHUNK, count)):
                at[number] = index
                chunk.append(row_or_error(dataset, rows, index, skip))
            message = pickle.dumps(("rows", chunk), protocol=5)
        except BaseException as error:
            content = (index, _pickled(error), _line(error), "".join(traceback.format_exception(error)))
            ready.put(pickle.dumps(("error", content), protocol=5))
            break
        ready.put(message)
    ready.put(None)
    sender.join()


def _send(pipe: Connection, ready: queue.Queue[bytes | None]) -> None:
    try:
        while (message := ready.get()) is not None:
            pipe.send_bytes(message)
    except OSError:
        # The parent has ended, or wants no more.
        os._exit(0)


def _pickled(error: BaseException) -> bytes | None:
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return None
    return pickled
