"""FFCV's loader, on a :class:`fuseloop.Loader`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto, unique
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ... import loader as core
from ..._fuseloop import Dataset
from ..._workers import cores
from ...errors import ConfigError, DeviceError, PipelineError
from .._plan import IDS, Call, Plan, Planner
from ..fields.base import Field
from ..memory_managers import MemoryManager, OSCacheManager, ProcessCacheManager
from ..pipeline.compiler import Compiler
from ..pipeline.pipeline_spec import PipelineSpec
from ..reader import Reader
from ..transforms.ops import only_device
from ..traversal_order import QuasiRandom, Random, Sequential
from ..traversal_order.base import TraversalOrder
from .epoch_iterator import EpochIterator
from .ranks import rank_and_world


@unique
class OrderOption(Enum):
    """The orders of samples."""

    SEQUENTIAL = auto()
    RANDOM = auto()
    QUASI_RANDOM = auto()


ORDER_TYPE = TraversalOrder | OrderOption

ORDER_MAP: dict[OrderOption, type[TraversalOrder]] = {
    OrderOption.RANDOM: Random,
    OrderOption.SEQUENTIAL: Sequential,
    OrderOption.QUASI_RANDOM: QuasiRandom,
}

DEFAULT_PROCESS_CACHE = int(os.environ.get("FFCV_DEFAULT_CACHE_PROCESS", "0"))
DEFAULT_OS_CACHE = not DEFAULT_PROCESS_CACHE

def _absent(name: str) -> property:
    """Makes an attribute of FFCV's loader that has no meaning here."""

    def absent(self: Loader) -> Any:
        raise AttributeError(f"the loader of fuseloop.ffcv has no {name}: explain() tells how its pipelines run")

    return property(absent)


class _StoredLoader(core.Loader):
    """A loader whose arrays of types that tensors lack come as FFCV's do: as their bytes."""

    def _build(self) -> None:
        self._settings["stored_elements"] = True
        super()._build()


class Loader:
    """FFCV's loader. Iterating over it plays an epoch, then the next; the batches are tuples of tensors.

    Args:
        fname: A ``.beton`` file.
        batch_size: The number of samples of a batch.
        num_workers: The number of threads; below 1 one per core.
        os_cache: If false, whole pages of the file are read into memory ahead.
        order: An ``OrderOption``, or a ``TraversalOrder``: the class or an object.
        distributed: Several processes share each epoch, as with torch's DistributedSampler.
        seed: The order, and all draws, depend on it, the epoch and the sample alone. None takes one from NumPy's
            random numbers; with ``distributed=True`` it is 0.
        indices: Only these samples.
        pipelines: For each output its decoder and transforms, a ``PipelineSpec``, or None to leave the field out. A
            field that is not named has its default decoder and ``ToTensor()``.
        custom_fields: The classes of fields that FFCV does not have, by their names.
        drop_last: Leaves out a last batch with fewer samples.
        batches_ahead: The number of batches that are made before they are asked for.
        recompile: Functions of operations in Python are made again for each epoch.
        order_kwargs: More arguments of the order's class.
        on_damaged: ``"fail"``, ``"skip"`` leaves damaged samples out, ``"substitute"`` takes others.
        timeout: The most seconds to wait for a batch.
        device: The device of every ``ToDevice``, whatever it says. The environment variable
            ``FUSELOOP_FFCV_DEVICE`` does the same.
        fuse_modules: torchvision's ``Normalize``, right after a ``Convert`` to floats, runs in the compiled loop. Its
            results are rounded once and not twice.
    """

    def __init__(
        self,
        fname: str | os.PathLike[str],
        batch_size: int,
        num_workers: int = -1,
        os_cache: bool = DEFAULT_OS_CACHE,
        order: OrderOption | TraversalOrder | type[TraversalOrder] = OrderOption.SEQUENTIAL,
        distributed: bool = False,
        seed: int | None = None,
        indices: Sequence[int] | None = None,
        pipelines: Mapping[str, Sequence[Any] | PipelineSpec | None] = {},
        custom_fields: Mapping[str, type[Field]] = {},
        drop_last: bool = True,
        batches_ahead: int = 3,
        recompile: bool = False,
        order_kwargs: Mapping[str, Any] | None = None,
        *,
        on_damaged: Literal["fail", "skip", "substitute"] = "fail",
        timeout: float | None = None,
        device: str | None = None,
        fuse_modules: bool = False,
    ) -> None:
        self._args = {name: value for name, value in locals().items() if name != "self"}
        if seed is None:
            seed = 0 if distributed else int(np.random.randint(0, np.iinfo("int32").max))
        self._args["seed"] = seed
        self.fname = os.fspath(fname)
        self.batch_size = core._whole("batch_size", batch_size, 1)
        self.batches_ahead = batches_ahead
        self.seed = core._whole("seed", seed)
        self.reader = Reader(self.fname, custom_fields)
        self.num_workers = cores() if num_workers < 1 else num_workers
        self.drop_last = bool(drop_last)
        self.distributed = bool(distributed)
        self.os_cache = bool(os_cache)
        self.recompile = recompile
        self.next_epoch = 0
        if indices is None:
            self.indices = np.arange(self.reader.num_samples, dtype="uint64")
        else:
            self.indices = np.array(indices)
        self._subset = None if indices is None else self.indices
        Compiler.set_num_threads(self.num_workers)
        self.field_name_to_f_ix = {name: k for k, name in enumerate(self.reader.field_names)}
        self._armed: Mapping[str, Any] | None = None
        self.pipeline_specs = self._specs(pipelines)
        self._planner = Planner(self.pipeline_specs, self.reader, lambda: self.memory_manager, fuse_modules, recompile)
        self._device = device
        self._fuse_devices = True
        self._on_damaged, self._timeout = on_damaged, timeout
        self.traversal_order = self._order(order, dict(order_kwargs or {}))
        self._plan = self._planned()
        self._build()

    # Arguments

    def _specs(self, pipelines: Mapping[str, Any]) -> dict[str, PipelineSpec]:
        """Returns the outputs: fields as they are in the file, then all others."""
        given: dict[str, PipelineSpec | None] = {}
        for output, spec in pipelines.items():
            if isinstance(spec, PipelineSpec):
                copy = PipelineSpec(spec.source, spec.decoder, spec.transforms)
                copy.default_pipeline = spec.default_pipeline
                given[output] = copy
            elif spec is None:
                given[output] = None
            elif isinstance(spec, Sequence) and not isinstance(spec, (str, bytes)):
                given[output] = PipelineSpec(output, transforms=spec)
            else:
                raise ConfigError(
                    f"pipelines: {output} is {spec!r}, expected a list of operations, a PipelineSpec or None"
                )
        fields = self.reader.handlers
        named = {name: given.get(name, PipelineSpec(name)) for name in fields}
        specs = {name: spec for name, spec in {**named, **given}.items() if spec is not None}
        for output, spec in specs.items():
            decoder = None
            if isinstance(spec.source, str):
                if spec.source not in fields:
                    error = ConfigError(
                        f"pipelines: {self.fname} has no field {spec.source}; the fields are {', '.join(fields)}"
                    )
                    error.field = output
                    raise error
                decoder = fields[spec.source].get_decoder_class()
            spec.accept_decoder(decoder, output)
            for operation in spec.transforms:
                if not hasattr(operation, "declare_state_and_memory"):
                    raise ConfigError(
                        f"output {output}: {operation!r} is no operation: expected one of ffcv.transforms, a subclass "
                        "of ffcv.pipeline.operation.Operation or a torch.nn.Module"
                    )
        return specs

    def _order(self, order: Any, more: dict[str, Any]) -> TraversalOrder:
        if isinstance(order, OrderOption):
            return ORDER_MAP[order](self, **more)
        if isinstance(order, type) and hasattr(order, "sample_order"):
            return order(self, **more)
        if hasattr(order, "sample_order"):
            return order(self) if callable(order) else order
        raise ConfigError(f"order is {order!r}, expected an OrderOption or a subclass of TraversalOrder")

    # Building

    @cached_property
    def memory_manager(self) -> MemoryManager:
        """What operations in Python read from the file with."""
        return OSCacheManager(self.reader) if self.os_cache else ProcessCacheManager(self.reader)

    def _planned(self) -> Plan:
        Compiler.set_num_threads(self.num_workers)
        token = only_device.set(self._device)
        try:
            return self._planner.plan(self._fuse_devices)
        finally:
            only_device.reset(token)

    def _build(self) -> None:
        try:
            self._inner = self._made(self._plan.ops, self._plan.views, self.drop_last)
        except (DeviceError, PipelineError) as error:
            if isinstance(error, DeviceError) and not _has_gpu():
                error.add_note("FUSELOOP_FFCV_DEVICE=cpu sends every ToDevice to the CPU")
            # What the compiled loop can't do on that device, torch may.
            fused, self._fuse_devices = self._fuse_devices, False
            plan = self._planned()
            if not fused or plan.differs(self._plan) == {} or not _has_gpu():
                self._fuse_devices = fused
                raise
            self._plan = plan
            self._inner = self._made(plan.ops, plan.views, self.drop_last)

    def _made(self, ops: Mapping[str, Any], views: Mapping[str, core.View], drop_last: bool) -> core.Loader:
        order, ranks, indices = self._settings()
        return _StoredLoader(
            self._dataset,
            self.batch_size,
            ops=ops,
            views=views,
            order=order,
            ranks=ranks,
            seed=self.seed,
            indices=indices,
            drop_last=drop_last,
            workers=self.num_workers,
            batches_ahead=max(int(self.batches_ahead), 1),
            process_cache=not self.os_cache,
            number_rule="exact",
            on_damaged=self._on_damaged,
            timeout=self._timeout,
        )

    @cached_property
    def _dataset(self) -> Dataset:
        rows = {name: field.metadata_type for name, field in self.reader.custom_fields.items()}
        if not rows:
            return Dataset.open(self.fname)
        from ... import sources

        return sources.beton(self.fname, {name: (row.itemsize, row.alignment) for name, row in rows.items()})

    def _settings(self) -> tuple[Any, core.Ranks | None, Any]:
        """Returns the order, the ranks and the samples of the compiled loader."""
        kind = type(self.traversal_order)
        ranks = core.Ranks(*rank_and_world()) if self.distributed else None
        if kind is Sequential:
            return "sequential", ranks, self._subset
        if kind is Random:
            return "random", ranks, self._subset
        if kind is QuasiRandom:
            return core.QuasiRandom(2 * self.batch_size), ranks, self._subset
        return _OwnOrder(self.traversal_order), None, None

    def _order_of(self, epoch: int) -> np.ndarray:
        """Returns the samples of an epoch, by a loader that reads what is smallest."""
        loader = self._made(dict.fromkeys(self.reader.field_names), {IDS: self._planner.ids()}, False)
        ids = [batch.ids for batch in loader.epoch(epoch)]
        loader.close()
        return np.concatenate(ids) if ids else np.empty(0, np.int64)

    # Iterating

    def next_traversal_order(self) -> Sequence[int] | np.ndarray:
        """Returns the samples of the next epoch."""
        return self.traversal_order.sample_order(self.next_epoch)

    def __iter__(self) -> EpochIterator:
        self._renew()
        if self._armed is not None:
            epoch, self._armed = self._inner.resume(self._armed), None
            self.next_epoch = epoch.number + 1
        else:
            number, self.next_epoch = self.next_epoch, self.next_epoch + 1
            epoch = self._inner.epoch(number)
        return EpochIterator(self, epoch, self._plan)

    def __len__(self) -> int:
        return len(self._inner)

    def _renew(self) -> None:
        """Takes over what was changed in operations since the last epoch, such as the size of a decoder."""
        plan = self._planned()
        changed = plan.differs(self._plan)
        previous, self._plan = self._plan, plan
        try:
            if changed is None:
                self._build()
            elif changed:
                self._inner.set_ops(changed)
        except BaseException:
            self._plan = previous
            raise

    def filter(self, field_name: str, condition: Callable[[Any], bool]) -> Loader:
        """Returns a loader of the samples for which ``condition`` is true of what the pipeline of a field makes of
        them."""
        if field_name not in self.reader.handlers:
            known = ", ".join(self.reader.handlers)
            raise ConfigError(f"{self.fname} has no field {field_name}; the fields are {known}")
        pipelines = dict.fromkeys(self.reader.handlers)
        given = self._args["pipelines"]
        if given.get(field_name) is not None:
            pipelines[field_name] = given[field_name]
        else:
            del pipelines[field_name]
        changes = {"order": OrderOption.SEQUENTIAL, "order_kwargs": None, "distributed": False, "drop_last": False}
        epoch = iter(Loader(**{**self._args, **changes, "pipelines": pipelines}))
        selected: list[int] = []
        for (values,) in epoch:
            selected.extend(int(sample) for sample, value in zip(epoch.ids, values) if condition(value))
        return Loader(**{**self._args, "indices": np.array(selected, dtype=np.int64)})

    def get(self, indices: Sequence[int], epoch: int = 0) -> tuple[Any, ...]:
        """Returns any samples as one batch, as they are in this epoch."""
        batch = self._inner.get(indices, epoch)
        return self._plan(Call(batch, batch.ids, (self.seed, epoch, 0)))

    # State

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batches that were handed out."""
        if self._armed is not None:
            return dict(self._armed)
        self._inner.next_epoch = self.next_epoch
        return self._inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets the position of the next epoch that is played: the rest of the one that the state was taken in."""
        self._inner.load_state_dict(state)
        self._armed, self.next_epoch = dict(state), self._inner.next_epoch

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch is played next."""
        self._armed, self.next_epoch = None, core._whole("epoch", epoch)

    # What it tells

    def explain(self) -> core.Plan:
        """Describes what the compiled loop does, and what runs in Python."""
        return core.Plan("\n".join(part for part in (self._inner.explain(), self._plan.describe()) if part))

    def stats(self) -> core.Stats:
        """Tells where the time went, and what slows the loader down."""
        return self._inner.stats()

    def close(self) -> None:
        """Ends the threads. Batches that are held stay valid."""
        self._inner.close()

    graph = _absent("graph")
    code = _absent("code")
    generate_code = _absent("generate_code")

    def __repr__(self) -> str:
        return f"Loader({self.fname!r}, batch_size={self.batch_size}, outputs={list(self.pipeline_specs)})"


class _OwnOrder:
    """A user's order, as a sampler of the compiled loader."""

    def __init__(self, order: TraversalOrder) -> None:
        self._order = order
        self._epoch = 0
        self._length = len(order.sample_order(0))

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Any:
        order = self._order.sample_order(self._epoch)
        if len(order) < self._length:
            raise ConfigError(
                f"{type(self._order).__name__}.sample_order({self._epoch}) returned {len(order)} samples, expected "
                f"{self._length} as in epoch 0"
            )
        return iter(np.asarray(order)[: self._length].tolist())

    def __repr__(self) -> str:
        return f"{type(self._order).__module__}.{type(self._order).__qualname__}"


def _has_gpu() -> bool:
    import sys

    loaded = sys.modules.get("torch")
    return loaded is not None and loaded.cuda.is_available()
