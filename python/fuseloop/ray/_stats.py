"""How fast batches come: what a loader of actors tells of its time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ..loader import Stats
from ._batch import RemoteBatch


class Counters:
    """What was delivered, and how long the consumer has waited for it."""

    def __init__(self) -> None:
        self._samples = self._batches = 0
        self._begin: float | None = None
        self._waited = 0.0
        self._phases: dict[int, dict[str, float]] = {}

    def add(self, batch: RemoteBatch, actor: int, phases: dict[str, float]) -> None:
        self._samples += batch.samples
        self._batches += 1
        self._phases[actor] = phases

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        begin = time.monotonic()
        self._begin = begin if self._begin is None else self._begin
        try:
            yield
        finally:
            self._waited += time.monotonic() - begin

    def stats(self, actors: int, threads: int) -> Stats:
        wall = 0.0 if self._begin is None else time.monotonic() - self._begin
        phases: dict[str, float] = {}
        for known in self._phases.values():
            for name, seconds in known.items():
                phases[name] = phases.get(name, 0.0) + seconds
        share = self._waited / wall if wall else 0.0
        verdict = f"the consumer waited {share:.0%} of the time for batches of {actors} actors"
        cure = "more actors, a faster network or fewer bytes in a batch raise the rate" if share > 0.1 else "they suffice"
        counts = (self._samples, self._batches, actors * threads, wall, self._waited)
        return Stats(*counts, phases, f"{verdict}: {cure}" if self._batches else "no batch was delivered yet")
