"""A loader whose batches are made by the actors of a Ray cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

import ray

from .. import loader as _loader
from .._fuseloop import LAUNCHER_VARIABLES
from ..errors import ConfigError
from ..loader import Ranks, Stats, _whole
from ._actor import BatchActor, ConsumerEnvironment, EpochRun, LoaderRecipe, Reply, SamplerOrder
from ._batch import RemoteBatch
from ._epoch import Position, RemoteEpoch, RequestLimits
from ._pool import ActorPool, PooledActor
from ._stats import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal

    import numpy as np
    from typing_extensions import TypeVar as DefaultedTypeVar

    from .._fuseloop import Dataset
    from .._op import Op, OpList
    from ..loader import (
        Audio,
        Cache,
        ClassBalanced,
        Clips,
        Collate,
        DataMixture,
        ImageList,
        ProcessCache,
        QuasiRandom,
        RepeatedAugment,
        Target,
        View,
        Weighted,
        _HubDataset,
        _Sampler,
    )

    # What a loader gives as a batch.
    B = DefaultedTypeVar("B", default=RemoteBatch)
else:
    B = TypeVar("B")

# What the loader in this process has, which makes no batches.
_HERE: dict[str, Any] = {"workers": 1, "batches_ahead": 1, "in_memory": False, "cache": None, "process_cache": None}
_HERE |= {"memory_limit": None, "pin_memory": False}

GRACE = 10.0
"""The seconds that an actor has to say that a batch took longer than ``timeout``."""

# The most damaged samples that are listed, as by a loader of its own.
_LISTED = 1000


class Loader(_loader.Loader[B]):
    """A loader whose batches are made by actors on the machines of a Ray cluster: the batches of
    :class:`fuseloop.Loader` with the same arguments, in the same order, with the same bits and fingerprints, for any
    number of actors. Its state is that of such a loader, and each can load that of the other.

    Each batch is a :class:`RemoteBatch`, whose arrays are views of Ray's object store: they are not copied, and only
    read. :class:`TorchLoader` yields tensors of PyTorch.

    Each rank makes a loader, which starts actors of its own with the first batch. They end with the loader, and with the
    process. An actor that dies, or whose machine does, is replaced by another one, which makes its batches. Only the rest
    of the epoch that is played is made: actors are idle between epochs.

    The process of the rank opens the dataset, too, and reads its table, but no samples. ``preview``, ``inspect`` and
    ``get`` run in it. All machines need the files under the same names, and this package in the same version.

    Args:
        dataset: See :class:`fuseloop.Loader`, as for all arguments that are not listed here.
        batch_size: The number of samples of a batch.
        actors: The number of actors; :meth:`scale` changes it.
        num_cpus: The CPUs that Ray reserves for each actor.
        ray_remote_args: Other arguments of ``ray.remote`` for the actors: ``{"label_selector": {"pool": "cpu"}}`` or
            ``{"resources": {"loader": 1}}`` chooses their machines. By default they are spread over all.
        batches_ahead: The number of batches that are asked for before they are wanted, which are made or in the object
            store at a time. By default two per actor.
        retries: The number of times that a batch is asked for again if an actor or a machine dies.
        workers: Number of threads of an actor; by default ``num_cpus``.
        timeout: The most seconds to wait for a batch. An actor that gives no answer for 10 more is replaced; by default
            after 600. Actors that no machine has room for are logged after 10 seconds, and an error after 300.
        ranks: ``"env"`` asks ``torch.distributed`` and Ray Train before the environment.
        **options: All other arguments of :class:`fuseloop.Loader`. ``cache``, ``process_cache``, ``memory_limit`` and
            ``in_memory`` are those of each actor. A sampler is called in this process.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> lists = {"image": [ops.RandomResizedCrop(32), ops.ToChannelsFirst()]}
    >>> with fl.ray.Loader(example_dataset(), batch_size=8, order="random", ops=lists, actors=1) as loader:
    ...     prints = [batch.fingerprint for batch in loader]
    >>> local = fl.Loader(example_dataset(), batch_size=8, order="random", ops=lists)
    >>> prints == [batch.fingerprint for batch in local]
    True
    """

    _own_arguments = frozenset({"actors", "num_cpus", "ray_remote_args", "retries"})

    if TYPE_CHECKING:
        # Signatures of __init__, written by tools/generate.py.
        def __init__(
            self,
            dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
            /,
            batch_size: int = 64,
            *,
            actors: int = 2,
            num_cpus: float = 1,
            ray_remote_args: dict[str, Any] | None = None,
            retries: int = 3,
            batches_ahead: int | None = None,
            split: str | None = None,
            ops: Mapping[str, OpList | None] | None = None,
            without: Iterable[str] = (),
            views: Mapping[str, View] | None = None,
            share_draws: Mapping[str, str] | None = None,
            component_ops: Mapping[tuple[int, str], Iterable[Op]] | None = None,
            collate: Mapping[str, Collate] | None = None,
            clips: Clips | None = None,
            image_lists: Mapping[str, ImageList | int] | None = None,
            masks: Iterable[str] = (),
            read_mode: Mapping[str, Literal["rgb", "gray", "gray16", "rgb_alpha", "index"]] | None = None,
            targets: Mapping[str, Mapping[str, Target]] | Literal["auto"] | None = None,
            axes: Mapping[str, str] | None = None,
            arrays: Mapping[str, tuple[Any, Sequence[int]] | Audio] | None = None,
            order: Literal["sequential", "random", "permuted", "quasi_random", "bucketed"] | QuasiRandom | Weighted | ClassBalanced | RepeatedAugment | DataMixture | _Sampler = "sequential",
            seed: int = 0,
            indices: Any = None,
            filter: Callable[[Mapping[str, np.ndarray]], Any] | None = None,
            drop_last: bool = False,
            ranks: Ranks | Literal["env"] | None = None,
            workers: int | None = None,
            memory_limit: int | str | None = None,
            timeout: float | None = None,
            unordered: bool = False,
            on_damaged: Literal["fail", "skip", "substitute"] = "fail",
            cache: Cache | None = None,
            process_cache: ProcessCache | bool | None = None,
            in_memory: bool | None = None,
            number_rule: Literal["fused", "exact", "relaxed"] = "fused",
            exif_orientation: bool | None = None,
            expect_classes: Sequence[str] | Mapping[int, str] | None = None,
            scaled_decode: bool = False,
            device: str | None = None,
            device_batches: int | None = None,
            pin_memory: bool | int = False,
            recompile: bool | None = None,
            copy: bool = False,
            **fields: OpList | None,
        ) -> None: ...
        # End of the signatures.
    else:

        def __init__(
            self, dataset, /, batch_size=64, *, actors=2, num_cpus=1, ray_remote_args=None, retries=3, **options
        ):
            self._set_actors(actors, num_cpus, ray_remote_args, retries)
            given = self._checked(options)
            super().__init__(dataset, batch_size, **{**given, **_HERE})
            defaults = {**(_loader.Loader.__init__.__kwdefaults__ or {}), "batches_ahead": None}
            self._arguments.update({name: given.get(name, defaults[name]) for name in _HERE})
            self._keep(given)

    @classmethod
    def from_spec(
        cls,
        pipeline: str | os.PathLike[str],
        dataset: str | os.PathLike[str] | Dataset,
        /,
        *,
        actors: int = 2,
        num_cpus: float = 1,
        ray_remote_args: dict[str, Any] | None = None,
        retries: int = 3,
        **changes: Any,
    ) -> Self:
        """See :meth:`fuseloop.Loader.from_spec`. All machines need the file under the same name."""
        given = cls._checked(changes)
        here = {"workers": 1, "batches_ahead": 1, "in_memory": False}
        own = {name: value for name, value in given.items() if name not in _HERE}
        loader = super().from_spec(pipeline, dataset, **own, **here)
        loader._set_actors(actors, num_cpus, ray_remote_args, retries)
        loader._arguments = {**given, "dataset": loader._dataset}
        loader._keep(given)
        return loader

    def _set_actors(self, actors: Any, num_cpus: Any, ray_remote_args: Any, retries: Any) -> None:
        self._actors, self._retries = _whole("actors", actors, 1), _whole("retries", retries)
        is_number = isinstance(num_cpus, int | float) and not isinstance(num_cpus, bool)
        if not (is_number and 0 <= num_cpus < 2**20 and (num_cpus < 1 or num_cpus == int(num_cpus))):
            raise ConfigError(f"num_cpus is {num_cpus!r}, expected a number of CPUs per actor, or a fraction of one")
        given = {} if ray_remote_args is None else ray_remote_args
        if not isinstance(given, Mapping):
            raise ConfigError(f"ray_remote_args is {given!r}, expected a dict of arguments of ray.remote")
        for name in ("num_cpus", "max_concurrency", "max_restarts", "max_task_retries", "lifetime"):
            if name in given:
                cure = "give num_cpus to the loader" if name == "num_cpus" else "the loader sets it"
                raise ConfigError(f"ray_remote_args has {name}: {cure}")
        self._own = {"actors": actors, "num_cpus": num_cpus, "ray_remote_args": ray_remote_args, "retries": retries}
        # Two calls at a time: one makes a batch, the other sends the one before.
        fixed = {"num_cpus": num_cpus, "max_concurrency": 2, "max_restarts": 0, "max_task_retries": 0}
        self._options = {"scheduling_strategy": "SPREAD", **given, **fixed}
        try:
            ray.remote(BatchActor).options(**self._options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"num_cpus or ray_remote_args: {error}") from error
        self._threads = max(1, int(num_cpus))

    @classmethod
    def _checked(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of the loaders, after a check of those that actors can't have."""
        given = dict(options)
        if given.get("unordered"):
            raise ConfigError("unordered=True: the batches of actors come in their order")
        if given.get("pin_memory") and not cls._copies:
            raise ConfigError("pin_memory: the object store is not page-locked; fuseloop.ray.TorchLoader copies from it")
        device = given.get("device")
        if device is not None and str(device) not in ("cpu", "auto"):
            raise ConfigError(f"device is {device}: actors have no GPU; leave it out, and move the batches to the GPU")
        if device is not None:
            given["device"] = "cpu"
        ahead = given.get("batches_ahead")
        if ahead is not None:
            _whole("batches_ahead", ahead, 1)
        if given.get("ranks") == "env":
            given["ranks"] = _ranks_here() or "env"
        order = given.get("order")
        if hasattr(order, "__iter__") and hasattr(order, "__len__") and not isinstance(order, str | SamplerOrder):
            given["order"] = SamplerOrder(order)
        return given

    def _keep(self, given: dict[str, Any]) -> None:
        """Keeps what the actors build their loaders from, and what a copy of this loader is made from."""
        self._ahead, self._timeout = given.get("batches_ahead"), given.get("timeout")
        order = given.get("order")
        self._sampler_order = order if isinstance(order, SamplerOrder) else None
        arguments = {name: value for name, value in self._arguments.items() if name not in self._here_only}
        arguments["workers"] = given.get("workers") or self._threads
        arguments["batches_ahead"] = 1
        arguments.pop("pin_memory", None)
        if self._pipeline is None:
            # A filter and the environment of this process are not those of others.
            arguments |= {"filter": None, "indices": self._settings["indices"], "copy": False}
        environment = None
        if arguments.get("ranks") == "env":
            environment = {name: os.environ[name] for name in LAUNCHER_VARIABLES if name in os.environ}
        self._recipe = LoaderRecipe(self._pipeline, arguments)
        self._environment = ConsumerEnvironment(os.getcwd(), environment)
        self._arguments.update(self._own)
        if self._sampler_order is not None:
            self._arguments["order"] = self._sampler_order.sampler
        self._changes: tuple[dict[str, Any], ...] = ()
        self._pool: ActorPool | None = None
        self._runs = 0
        self._last_position: Position | None = None  # by the epoch that was begun last
        self._log: tuple[str, bool] | None = None
        self._log_header = ""
        self._damaged: dict[tuple[int, int], str] = {}
        self._lost_rows = 0
        self._counters = Counters()

    # The arguments of the form of a batch, which actors don't have.
    _here_only: frozenset[str] = frozenset()
    # Whether batches are copies, whose memory may be page-locked.
    _copies = False

    # Actors

    def scale(self, actors: int) -> None:
        """Sets the number of actors, at any time. New ones get the next batches that are asked for; those that are left
        over finish theirs. The batches stay the same.

        >>> loader.scale(32)  # doctest: +SKIP
        """
        self._actors = self._arguments["actors"] = self._own["actors"] = _whole("actors", actors, 1)
        if self._pool is not None:
            self._pool.scale(self._actors)

    def _actor_pool(self) -> ActorPool:
        if self._pool is None:
            self._core().batch_size()  # refuses a loader that was closed
            options = (self._actors, self._options, self._retries, self._dataset)
            self._pool = ActorPool(self._recipe, self._environment, *options)
        return self._pool

    def _limits(self) -> RequestLimits:
        seconds = 600.0 if self._timeout is None else float(self._timeout) + GRACE
        return RequestLimits(self._ahead or 2 * self._actors, self._retries, seconds)

    # Epochs

    def _start_epoch(self, number: int) -> Any:
        if self._sampler_order is not None:
            self._sampler_order.ask(number)
        return self._remote_epoch(Position(number, 0))

    def _resume_epoch(self, cursor: str, number: int) -> Any:
        # The loader of this process refuses what does not fit. It begins a batch, which it drops.
        core = super()._resume_epoch(cursor, number)
        left, begin, whole = core.remaining(), core.cursor(), self._core().batches()
        core.close()
        index = self._index_of(cursor) if left is None or whole is None else whole - left
        return self._remote_epoch(Position(number, index, begin))

    def _renew_epoch(self, core: Any, number: int) -> Any:
        if core.is_closed:
            return None
        fingerprint = json.loads(core.cursor()).get("fingerprint")
        core.close()
        position = Position(number, core.index)
        cursor = json.loads(self._cursor_before(position))
        cursor.pop("fingerprint", None)
        # That of the last batch, which had the old ops.
        cursor |= {} if fingerprint is None else {"fingerprint": fingerprint}
        position.cursor = json.dumps(cursor, separators=(",", ":"))
        return self._remote_epoch(position)

    def _remote_epoch(self, position: Position) -> RemoteEpoch:
        end = self._core().batches()
        order = None
        if self._sampler_order is not None:
            order = ray.put(self._sampler_order.numbers(position.epoch))
        self._runs += 1
        self._last_position = position
        run = EpochRun(self._runs, position.epoch, self._changes, order)
        calls = (self._limits, self._delivered, self._cursor_before, self._counters.waiting)
        return RemoteEpoch(self._actor_pool, run, position, end, *calls)

    def _index_of(self, cursor: str) -> int:
        """Returns the index of the batch after a cursor, in a stream of unknown length."""
        known = json.loads(cursor)
        begin = json.dumps({**known, "position": 0})
        return known["position"] // json.loads(self._core().advanced(begin, 1))["position"]

    def _cursor_before(self, position: Position) -> str:
        """Returns the cursor before a batch. If no actor has sent it, the loader of this process has it."""
        if position.cursor is None:
            core = super()._start_epoch(position.epoch)
            core.skip(position.index)
            position.cursor = core.cursor() or ""
            core.close()
        return position.cursor

    def _delivered(self, reply: Reply, actor: PooledActor, position: Position) -> RemoteBatch | None:
        """Notes a reply, and returns its batch."""
        for sample, epoch, error in reply.damaged:
            if len(self._damaged) < _LISTED:
                self._damaged.setdefault((sample, epoch), error)
        if reply.batch is None:
            self._lost_rows += self._rows_lost(position.index, reply.is_end)
            return None
        aliases = {alias: name for name, alias, _, _ in self._core().outputs() if alias}
        batch = RemoteBatch(reply.batch, aliases)
        self._lost_rows += len(batch.skipped) + len(batch.replaced)
        self._counters.add(batch, actor.number, reply.phases or {})
        self._write_log(batch, *reply.log)
        return batch

    def _rows_lost(self, index: int, is_end: bool) -> int:
        """Returns the number of rows of a batch that lost all of them, or of all batches from it to the end."""
        size, samples = self.batch_size, self._core().samples()
        if samples is None:
            return 0 if is_end else size
        left = samples - index * size
        return left if is_end else min(size, left)

    def _write_log(self, batch: RemoteBatch, header: str, line: str) -> None:
        if self._log is None:
            return
        path, has_ids = self._log
        if has_ids:
            line = f'{line[:-1]},"ids":[{",".join(map(str, batch.ids.tolist()))}]}}'
        lines = f"{line}\n" if header == self._log_header else f"{header}\n{line}\n"
        with open(path, "a", encoding="utf-8") as file:
            file.write(lines)
        self._log_header = header

    # What differs from a loader that makes its batches here

    def set_ops(self, output: Any, ops: Any = None) -> None:
        with self._position():
            super().set_ops(output, ops)
            self._changes = (*self._changes, dict(output) if isinstance(output, Mapping) else {output: ops})

    set_ops.__doc__ = _loader.Loader.set_ops.__doc__

    @property
    def last_fingerprint(self) -> str | None:
        """See :attr:`fuseloop.Loader.last_fingerprint`."""
        if self._last_position is None:
            return None
        return json.loads(self._cursor_before(self._last_position)).get("fingerprint")

    def log_fingerprints(self, path: str | os.PathLike[str] | None, *, ids: bool = False) -> None:
        """See :meth:`fuseloop.Loader.log_fingerprints`."""
        if path is not None:
            # Refuses a file that is no log.
            self._core().log_fingerprints(os.fspath(path), bool(ids))
            self._core().log_fingerprints(None, False)
        self._log, self._log_header = None if path is None else (os.fspath(path), bool(ids)), ""

    def _found_damage(self) -> tuple[list[tuple[int, int, str]], int, bool]:
        found = [(sample, epoch, error) for (sample, epoch), error in self._damaged.items()]
        return found, self._lost_rows, len(found) >= _LISTED

    def stats(self) -> Stats:
        """Tells how long the consumer has waited for batches, and where the time of the actors went."""
        return self._counters.stats(self._actors, self._recipe.arguments["workers"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the actors. Batches that are held stay valid."""
        super().close()
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _ranks_here() -> Ranks | None:
    """Returns the rank of this process, if PyTorch or Ray Train know it."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size())
    train: Any = sys.modules.get("ray.train")
    if train is not None:
        try:
            context = train.get_context()
            rank, size = context.get_world_rank(), context.get_world_size()
        except (RuntimeError, AttributeError):  # outside of a training
            return None
        return None if rank is None or size is None else Ranks(rank, size)
    return None
