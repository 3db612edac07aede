"""The actor: a loader in another process that makes the batches it is asked for.

A batch is asked for by its epoch and its index. The actor steps over the batches in between, which are not decoded, so
that any actor can make any batch, with the same bits. It begins the next batch that it was asked for before it answers.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import ray

import fuseloop

from .. import loader as _loader
from .._fuseloop import LAUNCHER_VARIABLES, Dataset
from .._workers import _line, _pickled
from ._batch import SentBatch, sent


class SamplerOrder:
    """The order that a user's sampler gives: asked for on the consumer, once per epoch. Actors get its numbers."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self._text, self._length = repr(sampler), len(sampler)
        self._epoch = 0
        self._numbers: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "sampler": None, "_numbers": {}}

    def __repr__(self) -> str:
        return self._text

    def __len__(self) -> int:
        return self._length

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        if self._epoch not in self._numbers:
            self.ask(self._epoch)
        return iter(self._numbers[self._epoch].tolist())

    def ask(self, epoch: int) -> np.ndarray:
        """Asks the sampler for the order of an epoch."""
        order = _loader._SamplerCall(self.sampler)(0, epoch)
        return self.give(epoch, np.asarray(order, np.int64))

    def numbers(self, epoch: int) -> np.ndarray:
        """Returns the order of an epoch as it was given last."""
        return self._numbers[epoch] if epoch in self._numbers else self.ask(epoch)

    def give(self, epoch: int, numbers: np.ndarray) -> np.ndarray:
        """Sets the order of an epoch. All but the last few epochs are forgotten."""
        kept = [(known, order) for known, order in self._numbers.items() if known != epoch]
        self._numbers = dict([*kept[-2:], (epoch, numbers)])
        return numbers


@dataclass(frozen=True)
class LoaderRecipe:
    """What the loader of an actor is built from: its arguments, and the pipeline file if there is one."""

    pipeline: str | None
    arguments: dict[str, Any]

    def to_buffers(self) -> list[Any]:
        """Returns the recipe in bytes, and its arrays, which actors of a machine share. A dataset is opened where the bytes
        are read."""
        buffers: list[pickle.PickleBuffer] = []
        text = ray.cloudpickle.dumps(self, protocol=5, buffer_callback=buffers.append)
        return [text, *(np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers)]

    @classmethod
    def from_buffers(cls, given: list[Any]) -> LoaderRecipe:
        """Reads what :meth:`to_buffers` returned."""
        text, *buffers = given
        recipe = pickle.loads(text, buffers=buffers)
        assert isinstance(recipe, cls)
        return recipe

    def loader(self) -> _loader.Loader[Any]:
        """Builds the loader."""
        arguments = dict(self.arguments)
        dataset = arguments.pop("dataset")
        if self.pipeline is not None:
            return _loader.Loader.from_spec(self.pipeline, dataset, **arguments)
        return _loader.Loader(dataset, arguments.pop("batch_size"), **arguments)


@dataclass(frozen=True)
class ConsumerEnvironment:
    """What names of files and ranks of the consumer refer to."""

    folder: str
    """The working directory."""
    environment: dict[str, str] | None
    """The variables of the launcher, if they set the rank."""

    def enter(self) -> None:
        """Makes them those of this process."""
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        if self.environment is not None:
            for name in LAUNCHER_VARIABLES:
                os.environ.pop(name, None)
            os.environ.update(self.environment)


@dataclass(frozen=True)
class EpochRun:
    """A pass of the consumer over an epoch, or over the rest of one. ``number`` tells passes apart."""

    number: int
    epoch: int
    changes: tuple[dict[str, Any], ...] = ()
    """The ops that were set since the loader was built, one after the other."""
    order: Any = None
    """A reference to the numbers of the samples, if they come from a sampler."""


class ActorInfo(NamedTuple):
    """What an actor says when its loader is built."""

    node: str
    process: int
    version: str
    """That of this package."""
    dataset: str
    """The fingerprint of the dataset."""


class Failure(NamedTuple):
    """An exception of the loader, or of a function that it calls: as the consumer would have raised it."""

    pickled: bytes | None
    line: str


class Reply(NamedTuple):
    """The answer to a request. Without a batch there is none with this index: all of its samples are damaged and left
    out, or the epoch is over."""

    batch: SentBatch | None
    is_end: bool = False
    cursor: str = ""
    """The position after the batch."""
    damaged: tuple[tuple[int, int, str], ...] = ()
    log: tuple[str, str] = ("", "")
    """The header and the line of the batch in a log of fingerprints without samples."""
    phases: dict[str, float] | None = None
    """Where the time of the actor went so far, in seconds."""


class _Log:
    """The log of fingerprints of the loader, read back after each batch. Its file has no name, so that an actor that is
    killed leaves none behind."""

    def __init__(self, loader: _loader.Loader[Any]) -> None:
        folder = tempfile.mkdtemp(prefix="fuseloop-")
        path = os.path.join(folder, "log.jsonl")
        loader.log_fingerprints(path)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115
        self._header = ""
        shutil.rmtree(folder, ignore_errors=True)

    def read(self) -> tuple[str, str]:
        """Returns the header and the line of the batch that was taken last."""
        self._file.seek(0)
        lines = self._file.read().decode().splitlines()
        self._file.truncate(0)
        for line in lines:
            self._header = line if line.startswith('{"fuseloop_log":') else self._header
        return self._header, lines[-1] if lines else ""


@dataclass
class _OpenEpoch:
    """The pass that the loader is in, and the index of the batch that comes next."""

    run: EpochRun
    core: Any
    next: int = 0

    def step_to(self, index: int) -> None:
        if index > self.next:
            self.core.skip(index - self.next)
            self.next = index


@dataclass
class _WaitingRequests:
    """The requests that wait for the loader."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: list[tuple[int, int]] = field(default_factory=list)

    def add(self, request: tuple[int, int]) -> None:
        with self.lock:
            self.requests.append(request)

    def remove(self, request: tuple[int, int]) -> None:
        with self.lock:
            self.requests.remove(request)

    def after(self, run: int, index: int) -> int | None:
        """Returns the index of the next batch from ``index`` on."""
        with self.lock:
            return min((at for number, at in self.requests if number == run and at >= index), default=None)


class BatchActor:
    """The class of the actors. Ray calls two of its methods at a time: one waits for a batch, the other sends one."""

    def __init__(self, recipe: list[Any], environment: ConsumerEnvironment) -> None:
        """``recipe`` has the buffers of a :class:`LoaderRecipe`."""
        self._turn = threading.Lock()
        self._asked = _WaitingRequests()
        self._open: _OpenEpoch | None = None
        try:
            environment.enter()
            self._recipe = LoaderRecipe.from_buffers(recipe)
            self._build()
            self._ready: ActorInfo | Failure = ready(self._loader)
        except Exception as error:
            self._ready = failed(error)

    def _build(self) -> None:
        self._loader = self._recipe.loader()
        # The consumer logs what is damaged.
        self._loader._may_skip = False
        self._changes = 0  # the number of those that were set
        self._log = _Log(self._loader)

    def ready(self) -> ActorInfo | Failure:
        """Answers when the loader is built."""
        return self._ready

    def make(self, run: EpochRun, index: int) -> Reply | Failure:
        """Makes a batch."""
        request = (run.number, index)
        self._asked.add(request)
        with self._turn:
            self._asked.remove(request)
            try:
                return self._made(run, index)
            except Exception as error:
                self._end()
                return failed(error)

    def _made(self, run: EpochRun, index: int) -> Reply:
        opened = self._opened(run, index)
        core = opened.core
        opened.step_to(index)
        batch = core.next()
        core.handed = True
        log = self._log.read()
        if batch is None or batch.index != index:
            # The batches up to this one have lost all of their samples.
            self._end()
            return Reply(None, batch is None, damaged=self._damaged())
        opened.next = index + 1
        cursor = core.cursor()
        following = self._asked.after(run.number, opened.next)
        if following is not None:
            opened.step_to(following)
        own = {*batch.skipped.tolist(), *batch.replaced.tolist()}
        damaged = tuple(one for one in self._damaged() if one[0] in own) if own else ()
        return Reply(sent(batch), False, cursor, damaged, log, self._loader.stats().phases)

    def _opened(self, run: EpochRun, index: int) -> _OpenEpoch:
        """Returns the pass, before the batch."""
        opened = self._open
        if opened is None or opened.run.number != run.number or opened.next > index:
            self._end()
            self._set_ops(run)
            if run.order is not None:
                self._recipe.arguments["order"].give(run.epoch, ray.get(run.order, timeout=60))
            opened = self._open = _OpenEpoch(run, self._loader._start_epoch(run.epoch))
        return opened

    def _set_ops(self, run: EpochRun) -> None:
        """Sets the ops of a pass."""
        if self._changes > len(run.changes):
            # A pass that began before the last change.
            self._loader.close()
            self._build()
        for change in run.changes[self._changes :]:
            self._loader.set_ops(change)
        self._changes = len(run.changes)

    def _damaged(self) -> tuple[tuple[int, int, str], ...]:
        return tuple(self._loader._found_damage()[0])

    def _end(self) -> None:
        if self._open is not None:
            self._open.core.close()
            self._open = None


def fingerprint(dataset: Dataset) -> str:
    """Returns what tells a dataset from others; nothing of a stream, which has no table."""
    return "" if dataset.is_stream else dataset.fingerprint


def ready(loader: _loader.Loader[Any]) -> ActorInfo:
    """Returns what an actor says of its loader, and of where it is."""
    node = ray.get_runtime_context().get_node_id()
    where = f"{ray.util.get_node_ip_address()} ({node[:8]})"
    return ActorInfo(where, os.getpid(), fuseloop.__version__, fingerprint(loader.dataset))


def failed(error: Exception) -> Failure:
    """Returns what is sent of an exception."""
    return Failure(_pickled(error), _line(error))
