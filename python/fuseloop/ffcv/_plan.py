"""Decides what of the pipelines runs in the compiled loop, and what in Python after it.

An output is a chain of operations. The first ones that the compiled loop knows become its list of ops. Those that only
change how memory is read, such as ``ToTensor`` and ``ToTorchImage``, are applied to what the loop delivers. From the
first other operation on, a chain runs in Python, on the thread that iterates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from .._op import Compose, Op
from ..errors import ConfigError, ParamError, PipelineError, _not_an_end
from ..loader import View
from ._builtin import forget_generator, is_builtin, seed_generator
from ._crop import CropOf, Crops
from ._torch import cpu, dtype_name
from .fields import FloatField, IntField, RGBImageField
from .memory_managers.os_cache import read_region
from .pipeline.allocation_query import Allocation, allocate_batch
from .pipeline.compiler import compiled_or_plain
from .pipeline.operation import Operation
from .pipeline.pipeline_spec import PipelineSpec
from .pipeline.state import State
from .reader import Reader
from .transforms.mixup import ImageMixup, LabelMixup
from .transforms.module import ModuleWrapper
from .transforms.ops import LOOP_DTYPES, ToDevice, ToTensor

if TYPE_CHECKING:
    from .._fuseloop import Batch
    from .memory_managers import MemoryManager

# The name of the output that only tells the samples of a batch.
IDS = "fuseloop.ffcv.ids"

# The element types of stored arrays that the compiled loop delivers as such; it delivers others as bytes.
_STORED = {"|u1", "<u2", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8"}


class Code:
    """The functions of an operation."""

    def __init__(self, operation: Operation, state: State) -> None:
        self.operation = operation
        code = operation.generate_code()
        self.with_indices = bool(getattr(code, "with_indices", False))
        self.call = self._compiled(code, state)
        shared = operation.generate_code_for_shared_state()
        self.shared = None if shared is None else self._compiled(shared, state)

    def _compiled(self, code: Callable[..., Any], state: State) -> Callable[..., Any]:
        is_own = str(getattr(code, "__module__", "")).startswith(f"{__package__}.")
        return compiled_or_plain(code, type(self.operation).__name__) if state.jit_mode and not is_own else code


class Step:
    """An operation that runs in Python."""

    def __init__(
        self, operation: Operation, code: Code, before: State, allocation: Allocation | None, number: int
    ) -> None:
        self.operation = operation
        self.name = type(operation).__name__
        self._code = code
        self._allocation = allocation
        self._shared_allocation = operation.declare_shared_memory(before)
        self._number = number

    def run(self, value: Any, more: Sequence[Any], call: Call) -> Any:
        """Runs the operation on a batch."""
        arguments = [value, allocate_batch(self._allocation, len(call.ids))]
        if self._code.with_indices:
            arguments.append(call.ids)
        arguments.extend(more)
        if self._code.shared is not None:
            key = id(self.operation)
            if key not in call.shared:
                call.shared[key] = allocate_batch(self._shared_allocation, len(call.ids))
                self._code.shared(call.shared[key])
            arguments.append(call.shared[key])
        seed_generator(*call.numbers, self._number)
        try:
            return self._code.call(*arguments)
        except (Exception, GeneratorExit) as raised:
            error = _not_an_end(raised)
            error.add_note(f"fuseloop.ffcv: in {self.name}, batch {call.numbers[2]} of epoch {call.numbers[1]}")
            if error is raised:
                raise
            raise error from raised
        finally:
            forget_generator()


@dataclass
class Call:
    """A batch that goes through the operations in Python."""

    batch: Batch
    ids: np.ndarray
    numbers: tuple[int, int, int]
    """The seed, the epoch and the batch."""
    shared: dict[int, Any] = field(default_factory=dict)
    values: dict[tuple[int, int], Any] = field(default_factory=dict)


@dataclass(eq=False)
class Chain:
    """The operations of an output. Positions count them from 0, beginning with the decoder."""

    number: int
    name: str
    source: str | None
    """The field that it begins with; None if it goes on from an operation of its parent."""
    operations: list[Any]
    parent: Chain | None = None
    parent_at: int = -1
    tensor: str | None = None
    """The output of the compiled loop that it begins with; None if it begins in Python."""
    fused: list[Op] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """How many ops of the loop there are up to each position."""
    states: list[State] = field(default_factory=list)
    views: list[tuple[int, Callable[..., Any]]] = field(default_factory=list)
    border: int = 0
    """The number of operations that the loop does."""
    stored: np.dtype | None = None
    """The element type of a stored array that the loop delivers as bytes."""
    steps: list[Step] = field(default_factory=list)
    first: Callable[[Call], Any] | None = None
    """Decodes in Python."""

    def value(self, call: Call, at: int | None = None) -> Any:
        """Returns the result of the operation at a position, by default the last."""
        at = len(self.operations) - 1 if at is None else at
        key = (self.number, at)
        if key not in call.values:
            call.values[key] = self._value(call, at)
        return call.values[key]

    def _value(self, call: Call, at: int) -> Any:
        if at >= self.border and at >= 0:
            if at == 0 and self.first is not None:
                return self.first(call)
            return self.steps[at - self.border].run(self.value(call, at - 1), (), call)
        if self.tensor is None:
            if self.parent is None:
                raise PipelineError(f"output {self.name} has no operations")
            value = self.parent.value(call, self.parent_at)
        else:
            value = self._delivered(call.batch)
        for position, view in self.views:
            if position <= at:
                value = view(value, None)
        return value

    def _delivered(self, batch: Batch) -> Any:
        tensor = batch[self.tensor or self.name]
        is_tensor = any(isinstance(self._operation(at), ToTensor) for at, _ in self.views)
        if is_tensor and self.stored is None:
            value = tensor.torch()
        else:
            value = tensor.numpy()
            if self.stored is not None:
                value = value.view(self.stored)
                value = value.reshape(value.shape[: 1 + len(self.states[0].shape)])
        return value.reshape(-1, 1) if value.ndim == 1 else value

    def _operation(self, at: int) -> Operation | None:
        """Returns the operation at a position; those of the parent have negative ones."""
        if at >= 0:
            return self.operations[at]
        return None if self.parent is None else self.parent._operation(self.parent_at + 1 + at)


@dataclass
class Plan:
    """What a loader is built with, and the chains of its outputs."""

    chains: list[Chain]
    ops: dict[str, list[Op] | None]
    views: dict[str, View]

    def __call__(self, call: Call) -> tuple[Any, ...]:
        for chain in self.chains:
            for op in chain.fused:
                if isinstance(op, CropOf):
                    op.check()
        return tuple(chain.value(call) for chain in self.chains)

    def differs(self, other: Plan) -> dict[str, list[Op]] | None:
        """Returns the lists that differ from those of another plan; None if more than lists differs."""
        mine, theirs = self._lists(), other._lists()
        shape = [(name, ops is None, view) for name, (ops, view) in mine.items()]
        if shape != [(name, ops is None, view) for name, (ops, view) in theirs.items()]:
            return None
        changed = {name: ops for name, (ops, _) in mine.items() if ops is not None and ops != theirs[name][0]}
        has_branches = any(view.after is not None for view in self.views.values())
        return None if changed and has_branches else changed

    def _lists(self) -> dict[str, tuple[list[Op] | None, Any]]:
        lists: dict[str, tuple[list[Op] | None, Any]] = {name: (ops, None) for name, ops in self.ops.items()}
        return lists | {name: (Compose(view.ops), (view.of, view.after)) for name, view in self.views.items()}

    def describe(self) -> str:
        """Tells what runs in Python."""
        lines = []
        for chain in self.chains:
            names = [type(op).__name__ for op in chain.operations]
            if names[chain.border :]:
                lines.append(f"output {chain.name}: in Python: {', '.join(names[chain.border :])}")
        return "\n".join(lines)


class Planner:
    """Makes a plan of the outputs of a loader."""

    def __init__(
        self,
        specs: Mapping[str, PipelineSpec],
        reader: Reader,
        manager: Callable[[], MemoryManager],
        fuse_modules: bool,
        recompile: bool,
    ) -> None:
        self._specs = specs
        self._reader = reader
        self._manager = manager
        self._fuse_modules = fuse_modules
        self._recompile = recompile
        self._codes: dict[int, Code] = {}
        self._crops = Crops()
        self._compiled_read: Callable[..., Any] | None = None

    def plan(self, fuse_devices: bool) -> Plan:
        plan = self._plan(fuse_devices, True)
        return plan if _mixed_alike(plan.chains) else self._plan(fuse_devices, False)

    def _plan(self, fuse_devices: bool, fuse_mixup: bool) -> Plan:
        chains: list[Chain] = []
        for name, spec in self._specs.items():
            decoder = [spec.decoder] if isinstance(spec.source, str) else []
            source = spec.source if isinstance(spec.source, str) else None
            chains.append(Chain(len(chains), name, source, [*decoder, *spec.transforms]))
        for chain, spec in zip(chains, self._specs.values()):
            if chain.source is None:
                chain.parent, chain.parent_at = _found(chain.name, spec.source, chains)
        waiting = list(chains)
        while waiting:
            ready = [chain for chain in waiting if chain.parent is None or chain.parent not in waiting]
            if not ready:
                raise ConfigError(f"the sources of {', '.join(chain.name for chain in waiting)} refer to each other")
            for chain in ready:
                try:
                    self._split(chain, fuse_devices, fuse_mixup)
                except PipelineError as error:
                    error.field = chain.name
                    error.args = (f"output {chain.name}: {error.args[0]}",)
                    raise
            waiting = [chain for chain in waiting if chain not in ready]
        return self._listed(chains)

    def _split(self, chain: Chain, fuse_devices: bool, fuse_mixup: bool) -> None:
        """Divides the operations of a chain between the loop and Python."""
        state = State(True, cpu(), (), np.dtype("u1"))
        source = self._source(chain)
        handler = self._reader.handlers[source]
        # The loop knows nothing of the rows of custom fields.
        in_loop, mixed = source not in self._reader.custom_fields, False
        if chain.parent is not None:
            parent = chain.parent
            if chain.parent_at >= 0:
                state = parent.states[chain.parent_at]
            in_loop = parent.tensor is not None and chain.parent_at < parent.border
            before_it = parent.operations[: chain.parent_at + 1]
            mixed = in_loop and any(isinstance(op, (ImageMixup, LabelMixup)) for op in before_it)
        for at, operation in enumerate(chain.operations):
            own = is_builtin(operation)
            operation.accept_field(handler)
            is_decoder = at == 0 and chain.parent is None
            if not (own and in_loop) or operation._needs_rows:
                operation.accept_globals(self._rows(source), None if own and in_loop else self._read(is_decoder))
            before = state
            state, allocation = operation.declare_state_and_memory(before)
            fused = operation._fused(before) if own and in_loop else None  # type: ignore[attr-defined]
            if fused is not None and not fuse_mixup and isinstance(operation, (ImageMixup, LabelMixup)):
                fused = None
            is_odd = dtype_name(before.dtype) not in LOOP_DTYPES
            if fused and (mixed or is_odd or (not fuse_devices and isinstance(operation, ToDevice))):
                fused = None
            if fused is None and in_loop and self._fuse_modules and isinstance(operation, ModuleWrapper):
                fused = _fused_module(operation, chain, before)
            in_loop = in_loop and fused is not None
            if in_loop:
                chain.fused.extend(self._crops.same(chain.number << 16 | at, fused or []))
                chain.border = at + 1
                mixed = mixed or isinstance(operation, (ImageMixup, LabelMixup))
                if operation._is_view:  # type: ignore[attr-defined]
                    chain.views.append((at, operation.generate_code()))
            else:
                number = chain.number << 16 | at
                step = Step(operation, self._code(operation, own, number, state), before, allocation, number)
                chain.steps.append(step)
                if is_decoder:
                    chain.first = self._decoder(step, self._rows(source))
            chain.states.append(state)
            chain.counts.append(len(chain.fused))
        self._begin(chain, source)

    def _rows(self, source: str) -> np.ndarray:
        """Returns the rows of a field."""
        return self._reader.metadata[f"f{self._reader.field_names.index(source)}"]

    def _read(self, is_decoder: bool) -> Callable[..., Any]:
        """Returns the function that reads from the file. Decoders, which may be compiled, get it compiled."""
        if not is_decoder:
            return read_region
        if self._compiled_read is None:
            self._compiled_read = self._manager().compile_reader()
        return self._compiled_read

    def _code(self, operation: Operation, own: bool, number: int, state: State) -> Code:
        """Returns the functions of an operation. Those of users are made once, unless the loader recompiles."""
        known = self._codes.get(number)
        if own or self._recompile or known is None or known.operation is not operation:
            known = self._codes[number] = Code(operation, state)
        return known

    def _begin(self, chain: Chain, source: str) -> None:
        """Says what the chain begins with: an output of the loop, or the result of its parent."""
        parent = chain.parent
        if parent is None:
            if chain.border:
                chain.tensor = chain.name
                first = chain.states[0]
                if np.dtype(first.dtype).str not in _STORED:
                    chain.stored = np.dtype(first.dtype)
            return
        ends_with_loop = parent.counts[-1] == parent.counts[chain.parent_at]
        if parent.tensor is None or chain.parent_at >= parent.border or (ends_with_loop and not chain.fused):
            return
        chain.tensor = chain.name
        shift = chain.parent_at + 1
        inherited = [(at - shift, view) for at, view in parent.views if at <= chain.parent_at]
        chain.views = inherited + chain.views

    def _decoder(self, step: Step, rows: np.ndarray) -> Callable[[Call], Any]:
        manager = self._manager()
        context = manager.schedule_epoch(())
        context.__enter__()

        def decode(call: Call) -> Any:
            return step.run(call.ids, (rows, context.state), call)

        return decode

    def _source(self, chain: Chain) -> str:
        """Returns the field that a chain begins with."""
        while chain.source is None:
            assert chain.parent is not None
            chain = chain.parent
        return chain.source

    def _listed(self, chains: list[Chain]) -> Plan:
        fields = self._reader.field_names
        lists: dict[str, list[Op] | None] = dict.fromkeys(fields)
        views: dict[str, View] = {}
        for chain in sorted(chains, key=_depth):  # The loop wants branches after what they begin with.
            if chain.tensor is None:
                continue
            if chain.parent is not None and chain.parent.tensor is not None:
                after = chain.parent.counts[chain.parent_at]
                views[chain.name] = View(chain.parent.tensor, chain.fused, after)
            elif chain.name == chain.source:
                lists[chain.name] = chain.fused
            else:
                views[chain.name] = View(self._source(chain), chain.fused)
        if all(ops is None for ops in lists.values()) and not views:
            views[IDS] = self.ids()
        return Plan(chains, lists, views)

    def ids(self) -> View:
        """Returns the output that costs least to read."""
        costs = {name: self._cost(name) for name in self._reader.handlers}
        name = min(costs, key=lambda name: costs[name])
        return View(name, [ops.Resize((1, 1), interpolation="nearest")] if costs[name] == 2 else [])

    def _cost(self, name: str) -> int:
        handler = self._reader.handlers[name]
        if name in self._reader.custom_fields:
            return 1
        return 0 if isinstance(handler, (IntField, FloatField)) else 2 if isinstance(handler, RGBImageField) else 1


def _depth(chain: Chain) -> int:
    return 0 if chain.parent is None else 1 + _depth(chain.parent)


def _mixed_alike(chains: list[Chain]) -> bool:
    """Tells if all images and labels that are mixed are mixed in the loop, and each label as an image is: only then
    do both have the same shares."""
    found: dict[type, set[tuple[Any, ...]]] = {ImageMixup: set(), LabelMixup: set()}
    for chain in chains:
        for at, op in enumerate(chain.operations):
            if isinstance(op, (ImageMixup, LabelMixup)):
                if at >= chain.border:
                    return False
                found[ImageMixup if isinstance(op, ImageMixup) else LabelMixup].add((op.alpha, op.same_lambda))
    return found[LabelMixup] <= found[ImageMixup]


def _found(name: str, source: Any, chains: list[Chain]) -> tuple[Chain, int]:
    """Returns the chain that an operation is in, and its position there."""
    found = [(chain, at) for chain in chains for at, op in enumerate(chain.operations) if op is source]
    if len(found) != 1:
        problem = "is in no pipeline" if not found else "is in several pipelines"
        raise ConfigError(f"output {name}: its source, {type(source).__name__}, {problem}")
    return found[0]


def _fused_module(operation: ModuleWrapper, chain: Chain, state: State) -> list[Op] | None:
    """Returns the ops of a module that the loop knows: torchvision's Normalize of floats."""
    module = operation.module
    last = chain.fused[-1] if chain.fused else None
    if type(module).__name__ != "Normalize" or not isinstance(last, ops.Convert):
        return None
    if not dtype_name(state.dtype).endswith(("float16", "float32")):
        return None
    try:
        normalize = ops.Normalize([float(m) for m in module.mean], [float(s) for s in module.std], "levels")
    except (ParamError, TypeError, ValueError):
        return None
    chain.fused[-1:] = [normalize]
    return [] if last.params["to"] == "f32" else [last]
