"""The actors of a loader: how they are started, replaced, added and removed.

Actors have no restarts by Ray, and requests no retries: an actor that dies is replaced by another one, on any node that
has room for it, and what it was asked for is asked of others. All calls of Ray here either return at once or have a
time limit.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

import fuseloop

from .._fuseloop import Dataset
from ..errors import ConfigError, FuseloopError, StalledError
from ._actor import BatchActor, ConsumerEnvironment, EpochRun, Failure, LoaderRecipe, fingerprint

_logger = logging.getLogger("fuseloop")

STEP = 0.5
"""The seconds of one wait. Between two of them, Python handles signals."""

START_TIMEOUT = 300.0
"""The most seconds in which one actor has to be ready."""

SLOW_START = 10.0
"""The seconds after which a wait for the first actor is logged."""

REPLY_TIMEOUT = 60.0
"""The most seconds in which a reply that Ray says is ready has to arrive, from another node, too."""


@dataclass(eq=False)
class PooledActor:
    """An actor."""

    number: int
    handle: Any
    starting: Any
    """A reference to its first answer; None when that has come."""
    where: str = "not started yet"
    requests: set[Any] = field(default_factory=set)
    """References to the replies that it has still to give."""
    is_leaving: bool = False

    def __str__(self) -> str:
        return f"actor {self.number} ({self.where})"


class ActorPool:
    """The actors of a loader."""

    def __init__(
        self,
        recipe: LoaderRecipe,
        environment: ConsumerEnvironment,
        count: int,
        options: Mapping[str, Any],
        retries: int,
        dataset: Dataset,
    ) -> None:
        self._recipe, self._environment = ray.put(recipe.to_buffers()), environment
        self._options, self._retries, self._dataset = dict(options), retries, dataset
        self._count = 0
        self._actors: list[PooledActor] = []
        self._numbers = 0
        self._failed_starts = 0
        self._waits_since: float | None = None  # when the wait for a first actor began
        self._has_logged = False  # a long wait
        self.scale(count)

    def __len__(self) -> int:
        return self._count

    def scale(self, count: int) -> None:
        """Sets the number of actors. Those that are left over answer what they were asked for, and end."""
        self._count = count
        staying = [actor for actor in self._actors if not actor.is_leaving]
        # Those that were started last end first, if they have not answered yet.
        for actor in sorted(staying, key=lambda actor: (actor.starting is not None, actor.number))[count:]:
            actor.is_leaving = True
        for _ in range(count - len(staying)):
            self._start()
        self._end_leaving()

    def _start(self) -> None:
        handle: Any = ray.remote(BatchActor).options(**self._options).remote(self._recipe, self._environment)
        self._actors.append(PooledActor(self._numbers, handle, handle.ready.remote()))
        self._numbers += 1

    def update(self) -> None:
        """Notes which actors have started, and which replies have come."""
        if not self._count:
            raise ConfigError("the loader was closed")
        for actor in [actor for actor in self._actors if actor.starting is not None]:
            if _finished([actor.starting]):
                self._note_start(actor)
        unanswered = [ref for actor in self._actors for ref in actor.requests]
        finished = set(_finished(unanswered))
        for actor in self._actors:
            actor.requests -= finished
        self._end_leaving()

    def _note_start(self, actor: PooledActor) -> None:
        try:
            ready = ray.get(actor.starting, timeout=REPLY_TIMEOUT)
        except RayError as error:
            self._failed_starts += 1
            self.lost(actor)
            if self._failed_starts > self._retries:
                raise FuseloopError(
                    f"{self._failed_starts} actors ended before they were ready, the last with {cause(error)}"
                ) from error
            return
        if isinstance(ready, Failure):
            raise raised(ready, f"fuseloop.ray: when actor {actor.number} built its loader")
        actor.starting, actor.where = None, f"process {ready.process} on {ready.node}"
        self._failed_starts = 0
        if ready.version != fuseloop.__version__:
            raise ConfigError(f"{actor} has fuseloop {ready.version}, expected {fuseloop.__version__}: install the same")
        if ready.dataset != fingerprint(self._dataset):
            raise ConfigError(
                f"{self._dataset.name}: {actor} has another dataset of this name: fingerprint {ready.dataset}, expected "
                f"{fingerprint(self._dataset)}; all machines must have the same files"
            )

    def ask(self, run: EpochRun, index: int, most: int | None) -> tuple[PooledActor, Any] | None:
        """Asks the actor with the fewest requests for a batch; None if no actor is ready, or all have ``most``."""
        able = [actor for actor in self._actors if actor.starting is None and not actor.is_leaving]
        able = [actor for actor in able if most is None or len(actor.requests) < most]
        if not able:
            return None
        actor = min(able, key=lambda actor: (len(actor.requests), actor.number))
        ref = actor.handle.make.remote(run, index)
        actor.requests.add(ref)
        self._waits_since = None
        return actor, ref

    def lost(self, actor: PooledActor) -> None:
        """Replaces an actor that has died, or does not answer."""
        if actor in self._actors:
            self._actors.remove(actor)
            _kill(actor)
            if not actor.is_leaving:
                self._start()

    def wait_for_start(self) -> None:
        """Waits a moment for the first actor.

        Raises:
            StalledError: None has started in time.
        """
        self._waits_since = self._waits_since or time.monotonic()
        waited = time.monotonic() - self._waits_since
        if waited > START_TIMEOUT or (waited > SLOW_START and not self._has_logged):
            own = ("max_concurrency", "max_restarts", "max_task_retries", "scheduling_strategy")
            needed = {name: value for name, value in self._options.items() if name not in own}
            free = {name: value for name, value in ray.available_resources().items() if not name.startswith("node:")}
            text = (
                f"none of {self._count} actors has started in {waited:.0f} s: each needs {needed}, and the cluster has "
                f"{free} free: add nodes that have this, or ask for less"
            )
            if waited > START_TIMEOUT:
                raise StalledError(text)
            _logger.warning("%s", text)
            self._has_logged = True
        starting = self.starting()
        if starting:
            ray.wait(starting, timeout=STEP)
        else:
            time.sleep(0.01)

    def starting(self) -> list[Any]:
        """Returns references that are ready when an actor has started."""
        return [actor.starting for actor in self._actors if actor.starting is not None]

    def forget(self, refs: list[Any]) -> None:
        """Cancels requests."""
        for actor in self._actors:
            actor.requests -= set(refs)
        for ref in refs:
            with contextlib.suppress(Exception):
                ray.cancel(ref)
        self._end_leaving()

    def _end_leaving(self) -> None:
        for actor in [actor for actor in self._actors if actor.is_leaving and not actor.requests]:
            self._actors.remove(actor)
            _kill(actor)

    def close(self) -> None:
        """Ends all actors."""
        for actor in self._actors:
            _kill(actor)
        self._actors, self._count = [], 0


def _kill(actor: PooledActor) -> None:
    if ray.is_initialized():
        with contextlib.suppress(Exception):
            ray.kill(actor.handle)


def _finished(refs: list[Any]) -> list[Any]:
    """Returns the references whose objects exist somewhere, or never will."""
    return ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)[0] if refs else []


def has_value(ref: Any) -> bool:
    """Returns whether a reply has come, and was not lost."""
    if not _finished([ref]):
        return False
    try:
        ray.get(ref, timeout=REPLY_TIMEOUT)
    except RayError:
        return False
    return True


def cause(error: BaseException) -> str:
    """Returns an exception of Ray in one line: of an actor that could not be built, that of its exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = next(iter(lines[-1:] if "creation task" in "".join(lines[:1]) else lines[:1]), "")
    return f"{type(error).__name__}: {line[:300]}"


def raised(found: Failure, note: str) -> Exception:
    """Returns the exception that an actor has sent."""
    import pickle

    try:
        error = pickle.loads(found.pickled) if found.pickled is not None else None
    except Exception:
        error = None
    if not isinstance(error, Exception):
        error = FuseloopError(found.line)
    error.add_note(note)
    return error
