"""An epoch whose batches are made by actors: which batches are asked for, of whom, and when again.

The methods are those of the compiled ``Epoch``. Batches ``index``, ``index + 1``, ... are asked for before the consumer
wants them, and are given to it in this order, whoever made them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from ..errors import FuseloopError
from ._actor import EpochRun, Failure, Reply
from ._batch import RemoteBatch
from ._pool import REPLY_TIMEOUT, STEP, ActorPool, PooledActor, cause, has_value, raised


@dataclass(frozen=True)
class RequestLimits:
    """How many batches are asked for ahead, how often a batch is asked for again, and how long an actor may take."""

    ahead: int
    retries: int
    seconds: float


@dataclass(eq=False)
class Position:
    """The index of the next batch, and the cursor before it, if an actor has sent that."""

    epoch: int
    index: int
    cursor: str | None = None


@dataclass(eq=False)
class _Request:
    actor: PooledActor
    ref: Any
    begin: float


class RemoteEpoch:
    """The batches of one epoch, or of the rest of one."""

    def __init__(
        self,
        pool: Callable[[], ActorPool],
        run: EpochRun,
        position: Position,
        end: int | None,
        limits: Callable[[], RequestLimits],
        delivered: Callable[[Reply, PooledActor, Position], RemoteBatch | None],
        cursor_before: Callable[[Position], str],
        waiting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """``end`` is the index after the last batch, if it is known. ``pool`` starts the actors, ``delivered`` notes a reply
        and returns its batch, ``cursor_before`` returns the cursor of a position, and ``waiting`` counts the time in which
        the consumer waits."""
        self._start, self.run, self.position, self._end = pool, run, position, end
        self._limits, self._delivered, self._cursor_before = limits, delivered, cursor_before
        self._waiting = waiting
        self._pool: ActorPool | None = None
        self._requests: dict[int, _Request] = {}
        self._tries: dict[int, int] = {}
        self._unhanded: tuple[RemoteBatch, str] | None = None
        self.is_closed = False

    @property
    def index(self) -> int:
        """The index of the next batch."""
        return self.position.index

    # What the compiled epoch has

    def next(self) -> RemoteBatch | None:
        """Returns the next batch; the same one until it is handed out."""
        if self._unhanded is None:
            try:
                with self._waiting():
                    self._unhanded = self._next()
            except Exception:
                self.close()
                raise
        return None if self._unhanded is None else self._unhanded[0]

    @property
    def handed(self) -> bool:
        return self._unhanded is None

    @handed.setter
    def handed(self, _handed: bool) -> None:
        if self._unhanded is not None:
            self.position.index, self.position.cursor = self.position.index + 1, self._unhanded[1]
            self._unhanded = None

    def skip(self, batches: int) -> int:
        """Steps over batches, which are not made. Returns how many there were."""
        left = self.remaining()
        stepped = batches if left is None else min(batches, left)
        if stepped:
            self._unhanded = None
            self.position.index, self.position.cursor = self.index + stepped, None
            self._drop([index for index in self._requests if index < self.index])
        return stepped

    def remaining(self) -> int | None:
        if self.is_closed:
            return 0
        return None if self._end is None else max(self._end - self.index, 0)

    def cursor(self) -> str | None:
        return self._cursor_before(self.position)

    def close(self) -> None:
        """Cancels what was asked for."""
        self.is_closed = True
        self._unhanded = None
        if ray.is_initialized():
            self._drop(list(self._requests))

    def __del__(self) -> None:
        if self.__dict__.get("_requests"):
            self.close()

    # Asking

    def _next(self) -> tuple[RemoteBatch, str] | None:
        while not self.is_closed and self.remaining() != 0:
            self._pool = self._pool or self._start()
            reply, actor = self._reply(self._pool)
            if reply.batch is None and reply.is_end:
                self._end = self.index
                self._drop(list(self._requests))
            batch = self._delivered(reply, actor, self.position)
            if batch is not None:
                return batch, reply.cursor
            if not reply.is_end:
                # All of its samples are damaged and left out.
                self.position.index += 1
        return None

    def _reply(self, pool: ActorPool) -> tuple[Reply, PooledActor]:
        """Waits for the reply with the next batch."""
        begin = time.monotonic()
        while True:
            pool.update()
            self._ask_ahead(pool)
            request = self._requests.get(self.index)
            if request is None:
                pool.wait_for_start()
                continue
            # An actor that starts gets its share at once.
            ready, _ = ray.wait([request.ref, *pool.starting()], timeout=STEP)
            if request.ref in ready:
                reply = self._received(request, pool)
                if reply is not None:
                    return reply, request.actor
                begin = time.monotonic()
            elif time.monotonic() - max(begin, request.begin) > self._limits().seconds:
                self._failed(request, pool, TimeoutError(f"no answer in {self._limits().seconds:.0f} s"), is_lost=True)
                begin = time.monotonic()

    def _ask_ahead(self, pool: ActorPool) -> None:
        limits = self._limits()
        end = self.index + limits.ahead
        most = max(2, -(-limits.ahead // len(pool)))
        for index in range(self.index, end if self._end is None else min(end, self._end)):
            if index not in self._requests:
                asked = pool.ask(self.run, index, None if index == self.index else most)
                if asked is None:
                    break
                self._requests[index] = _Request(*asked, time.monotonic())
        # Batches that are ready on other nodes come here before they are wanted.
        refs = [request.ref for request in self._requests.values()]
        if refs:
            ray.wait(refs, num_returns=len(refs), timeout=0)

    def _received(self, request: _Request, pool: ActorPool) -> Reply | None:
        """Returns a reply that is ready; None if it was lost, and the batch has to be made again."""
        try:
            reply = ray.get(request.ref, timeout=REPLY_TIMEOUT)
        except GetTimeoutError as error:
            self._failed(request, pool, error, is_lost=False)
            return None
        except RayError as error:
            self._failed(request, pool, error, is_lost=isinstance(error, RayActorError))
            return None
        del self._requests[self.index]
        self._tries.pop(self.index, None)
        if isinstance(reply, Failure):
            raise raised(reply, f"fuseloop.ray: batch {self.index} of epoch {self.run.epoch}, made by {request.actor}")
        return reply

    def _failed(self, request: _Request, pool: ActorPool, error: Exception, is_lost: bool) -> None:
        """Has the next batch made by another actor.

        Raises:
            FuseloopError: That was done too often.
        """
        tries = self._tries[self.index] = self._tries.get(self.index, 0) + 1
        self._drop([self.index])
        if is_lost:
            pool.lost(request.actor)
            others = [index for index, other in self._requests.items() if other.actor is request.actor]
            self._drop([index for index in others if not has_value(self._requests[index].ref)])
        if tries > self._limits().retries:
            raise FuseloopError(
                f"batch {self.index} of epoch {self.run.epoch} was asked for {tries} times and did not come; the last time it "
                f"was {request.actor}, which had also begun the batch after it: {cause(error)}"
            ) from error

    def _drop(self, indices: list[int]) -> None:
        dropped = [self._requests.pop(index).ref for index in indices]
        if self._pool is not None:
            self._pool.forget(dropped)
