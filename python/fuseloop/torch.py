"""Batches as tensors of PyTorch: loaders that share their memory with torch, and what torch's DataLoader needs.

>>> import fuseloop as fl
>>> from fuseloop import ops
>>> loader = fl.torch.Loader(example_dataset(), batch_size=4, image=[ops.RandomResizedCrop(32), ops.ToChannelsFirst()])
>>> for images, labels in loader:
...     pass
>>> images.shape, images.dtype, labels.dtype
(torch.Size([4, 3, 32, 32]), torch.uint8, torch.int64)
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, overload

try:
    import torch
    from torch.utils import data
except ImportError as error:
    raise ImportError("fuseloop.torch needs PyTorch: pip install torch") from error

from . import loader as _loader
from ._fuseloop import Batch, Dataset
from ._workers import cores as _cores
from .errors import _ENDINGS, ConfigError, _not_an_end
from .loader import Epoch, Ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from typing_extensions import TypeVar as DefaultedTypeVar

    from ._op import Op, OpList
    from .loader import (
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
    B = DefaultedTypeVar("B", default=tuple[torch.Tensor, ...])
else:
    B = TypeVar("B")

__all__ = ["DataLoader", "Loader", "as_iterable"]


class Loader(_loader.Loader[B]):
    """A loader whose batches are tuples of tensors of PyTorch, in the order of :attr:`fuseloop.Loader.tensors`: the
    outputs, and then the lengths or sizes of the samples of those that are padded or ragged (``bbox.length``).
    With ``Ranks(uneven="exact")`` the last one, ``batch.mask``, is false for samples that another batch has, too.

    The tensors share the memory of the batch, which is not used again while one of them, or a view of one, lives. With
    ``pin_memory`` it is also not used again before the work that is enqueued on the current stream when the next batch
    is asked for is done: ``images.to("cuda", non_blocking=True)`` needs no care. Copies on other streams do: let the
    current stream wait for them.

    Args:
        dataset: See :class:`fuseloop.Loader`, as for all other arguments.
        batch_size: The number of samples of a batch.
        as_dict: Batches are dicts from the names of the outputs to tensors.
        channels_last: Images are views of shape ``[batch, channels, height, width]`` whose memory format is
            ``torch.channels_last``. Their ops must leave the channels last, as they are without ``ToChannelsFirst``.
        after: A function that is called with the tensors of each batch, or with its dict, on the thread that iterates.
            What it returns is the batch. Modules of PyTorch belong here.
        **options: All arguments of :class:`fuseloop.Loader`. ``ranks="env"`` asks ``torch.distributed`` first, if its
            process group is there: not all launchers set the rank in the environment.
    """

    _own_arguments = frozenset({"as_dict", "channels_last", "after"})
    # Whether rows that only pad the epoch of a rank to the length of the others' are left out.
    _drops_padding = False
    # skip_first_batches of accelerate copies this into a DataLoader. Without it, that DataLoader refuses accelerate's
    # default value, and the user does not see the error of batch_sampler, which says what to do.
    prefetch_factor: None = None

    if TYPE_CHECKING:
        # Signatures of __init__, written by tools/generate.py.
        @overload
        def __init__(
            self: Loader[tuple[torch.Tensor, ...]],
            dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
            /,
            batch_size: int = 64,
            *,
            as_dict: Literal[False] = False,
            channels_last: bool = False,
            after: None = None,
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
            batches_ahead: int = 3,
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

        @overload
        def __init__(
            self: Loader[dict[str, torch.Tensor]],
            dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
            /,
            batch_size: int = 64,
            *,
            as_dict: Literal[True],
            channels_last: bool = False,
            after: None = None,
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
            batches_ahead: int = 3,
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

        @overload
        def __init__(
            self,
            dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
            /,
            batch_size: int = 64,
            *,
            as_dict: bool = False,
            channels_last: bool = False,
            after: Callable[..., B],
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
            batches_ahead: int = 3,
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

        def __init__(self, dataset: Any, /, batch_size: Any = 64, **given: Any) -> None: ...
        # End of the signatures.

    else:

        def __init__(self, dataset, /, batch_size=64, *, as_dict=False, channels_last=False, after=None, **options):
            self._set_form(as_dict, channels_last, after)
            if options.get("ranks") == "env":
                options["ranks"] = _ranks_of_process_group() or "env"
            super().__init__(dataset, batch_size, **options)
            self._arguments.update(as_dict=as_dict, channels_last=channels_last, after=after)
            self._check_layout()

    @classmethod
    def from_spec(
        cls,
        pipeline: str | os.PathLike[str],
        dataset: str | os.PathLike[str] | Dataset,
        /,
        *,
        as_dict: bool = False,
        channels_last: bool = False,
        after: Callable[..., Any] | None = None,
        **changes: Any,
    ) -> Self:
        """See :meth:`fuseloop.Loader.from_spec`."""
        loader = super().from_spec(pipeline, dataset, **changes)
        loader._set_form(as_dict, channels_last, after)
        loader._arguments.update(as_dict=as_dict, channels_last=channels_last, after=after)
        loader._check_layout()
        return loader

    def _set_form(self, as_dict: bool, channels_last: bool, after: Callable[..., Any] | None) -> None:
        if after is not None and not callable(after):
            raise ConfigError(f"after is {after!r}, expected a function of the tensors of a batch")
        self._as_dict, self._channels_last, self._after = bool(as_dict), bool(channels_last), after

    def _check_layout(self) -> None:
        if self._channels_last:
            for spec in self.tensors:
                if len(spec.shape) == 3 and self._is_image(spec.name):
                    _check_channels_last(spec.name, spec.shape)

    def _is_image(self, output: str) -> bool:
        views = self._arguments.get("views") or {}
        while output in views:
            output = views[output].of
        return self._dataset.fields.get(output, "image").startswith("image")

    def _tensors(self, batch: Batch) -> dict[str, Any]:
        tensors = self._tensors_of(batch)
        if self._channels_last:
            for name, tensor in tensors.items():
                if isinstance(tensor, torch.Tensor) and tensor.dim() == 4 and self._is_image(name):
                    _check_channels_last(name, tuple(tensor.shape[1:]))
                    tensors[name] = tensor.permute(0, 3, 1, 2)
        return tensors

    def _tensors_of(self, batch: Any) -> dict[str, Any]:
        return batch.torch(copy=self._copy)

    def _build(self) -> None:
        super()._build()
        self._in_flight = _InFlight() if self._pins else None

    def close(self) -> None:
        if self._in_flight is not None:
            self._in_flight.close()
        super().close()

    def _converted(self, batch: Batch) -> Any:
        if self._in_flight is not None:
            self._in_flight.add(batch)
        tensors = self._tensors(batch)
        if self._drops_padding:
            mask = torch.from_numpy(batch.mask)
            if not mask.any():
                return _EMPTY
            if not mask.all():
                tensors = {name: _rows(tensor, mask) for name, tensor in tensors.items()}
        elif self._marks_padding():
            tensors["batch.mask"] = torch.from_numpy(batch.mask)
        listed = (tensors,) if self._as_dict else tuple(tensors.values())
        if self._after is None:
            return tensors if self._as_dict else listed
        try:
            return self._after(*listed)
        except _ENDINGS as error:
            raise _not_an_end(error) from error

    def _wait_for_device(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def __iter__(self) -> Epoch[B]:
        self._check_worker()
        return super().__iter__()

    def epoch(self, epoch: int | None = None) -> Epoch[B]:
        self._check_worker()
        return super().epoch(epoch)

    def _check_worker(self) -> None:
        info = data.get_worker_info()
        if info is not None and self._arguments.get("workers") is None:
            raise ConfigError(
                f"this loader runs in one of {info.num_workers} workers of a DataLoader, and would start a thread a "
                "core in each: set num_workers=0, since the loader has threads of its own, or give workers=1 to the "
                "loader; fuseloop.torch.as_iterable(loader) also divides the samples between the workers"
            )

    @property
    def batch_sampler(self) -> _BatchSampler:
        return _BatchSampler(self)

    def __getitem__(self, index: object) -> NoReturn:
        raise ConfigError(
            "a loader has no items, it is iterated over: torch's DataLoader takes fuseloop.torch.as_iterable(loader) "
            "as its dataset, with batch_size=None, and fuseloop.torch.DataLoader(loader) is one; "
            "loader.get(indices) returns any samples as one batch"
        )


class _InFlight:
    """Batches in page-locked memory, from which copies to a GPU may run after their tensors were dropped."""

    def __init__(self) -> None:
        self._last: Batch | None = None
        # Those before, each with an event after the copies from it.
        self._held: deque[tuple[torch.cuda.Event, Batch]] = deque()

    def add(self, batch: Batch) -> None:
        """Holds a batch, and drops those whose copies are done."""
        self._mark_last()
        while self._held and self._held[0][0].query():
            self._held.popleft()
        self._last = batch

    def _mark_last(self) -> None:
        # Without CUDA in this process, nothing was copied.
        if self._last is not None and torch.cuda.is_initialized():
            event = torch.cuda.Event()
            event.record()
            self._held.append((event, self._last))
        self._last = None

    def close(self) -> None:
        """Waits for the copies."""
        self._mark_last()
        while self._held:
            self._held[0][0].synchronize()
            self._held.popleft()

    def __del__(self) -> None:
        # At the end of the interpreter, CUDA may be gone, and nothing is copied any more.
        with contextlib.suppress(Exception):
            self.close()


def _ranks_of_process_group() -> Ranks | None:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return Ranks(distributed.get_rank(), distributed.get_world_size())


class _BatchSampler:
    """What Lightning asks for as ``loader.batch_sampler``. It lists no batches: ``skip_first_batches`` of accelerate
    would make a DataLoader of them that has none of the ops."""

    def __init__(self, loader: Loader[Any]) -> None:
        self.sampler = loader.sampler
        self.batch_size, self.drop_last = loader.batch_size, loader.drop_last
        self._batches = loader.__len__

    def __len__(self) -> int:
        return self._batches()

    def __iter__(self) -> NoReturn:
        raise ConfigError(
            "the batches of a loader can't be listed, or skipped from outside: loader.load_state_dict(state) goes on "
            "where loader.state_dict() was taken; with transformers, set ignore_data_skip=True"
        )


def _check_channels_last(name: str, shape: tuple[int, ...]) -> None:
    if shape[-1] not in (1, 3, 4):
        raise ConfigError(
            f"channels_last=True, but {name} has shape {list(shape)}: leave ToChannelsFirst out, so that its channels "
            "are last in memory"
        )


class DataLoader(data.DataLoader):
    """A ``torch.utils.data.DataLoader`` that gives the batches of a loader, for code that asks for that class.

    It has no processes: the loader has threads. Its state is that of the loader.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> loader = fl.torch.Loader(example_dataset(), batch_size=4, image=[ops.Resize((32, 32))])
    >>> batches = fl.torch.DataLoader(loader)
    >>> isinstance(batches, torch.utils.data.DataLoader), len(batches) == len(loader)
    (True, True)
    """

    def __init__(self, loader: Loader[Any]) -> None:
        if not isinstance(loader, Loader):
            raise ConfigError(f"{type(loader).__name__}: expected a fuseloop.torch.Loader")
        self.loader = loader
        super().__init__(_Batches(loader), batch_size=None, num_workers=0, collate_fn=_same)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """See :meth:`fuseloop.Loader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """See :meth:`fuseloop.Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :meth:`fuseloop.Loader.load_state_dict`."""
        self.loader.load_state_dict(state)

    def __reduce__(self) -> tuple[Any, ...]:
        return DataLoader, (self.loader,)


class _Batches(data.IterableDataset):
    """What our DataLoader has as ``dataset``. It does not iterate over it, but the DataLoaders do that accelerate makes
    of it: they fetch a batch ahead, so that a saved position is wrong, and ``skip_first_batches`` skips again what
    ``load_state_dict`` has skipped."""

    def __init__(self, loader: Loader[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> NoReturn:
        raise ConfigError(
            "another DataLoader was made of a fuseloop.torch.DataLoader: give accelerator.prepare the "
            "fuseloop.torch.Loader, which it returns as it is, and instead of skip_first_batches call "
            "loader.load_state_dict(state), which goes on where loader.state_dict() was taken; with transformers, set "
            "ignore_data_skip=True"
        )

    def __len__(self) -> int:
        return len(self.loader)


def _same(batch: Any) -> Any:
    return batch


def as_iterable(loader: Loader) -> data.IterableDataset:
    """Returns a dataset for a DataLoader with processes, which divides the samples of the loader between them.

    Each process has a loader of its own, with its share of the cores as threads, and makes whole batches: pass
    ``batch_size=None``. Every sample comes once an epoch. The last batch of each process may have fewer samples, and
    with ``drop_last`` each process leaves out its own. Ranks with ``uneven="exact"`` are refused. Epochs are counted
    over all iterations; ``set_epoch`` sets the next. torchdata's StatefulDataLoader can save and resume it.

    A process sends its batches through shared memory, which costs a copy: use the loader itself, or
    :class:`DataLoader`, unless something else needs processes.
    """
    return _Shards(loader)


# Torch's workers, each of which counts its epochs.
_MAX_WORKERS = 1024


class _Shards(data.IterableDataset):
    def __init__(self, loader: Loader[Any]) -> None:
        if not isinstance(loader, Loader):
            raise ConfigError(f"{type(loader).__name__}: expected a fuseloop.torch.Loader")
        if loader._pipeline is not None:
            raise ConfigError("a loader of a pipeline file can't be divided between processes: use it by itself")
        if loader._arguments.get("ranks") == "env":
            raise ConfigError("as_iterable needs the ranks of the loader as fuseloop.Ranks(rank, world_size), not 'env'")
        ranks = loader._arguments.get("ranks")
        if isinstance(ranks, Ranks) and ranks.uneven == "exact":
            raise ConfigError(
                "as_iterable leaves out the rows by which ranks with uneven='exact' have equally many batches: take "
                "uneven='pad' or 'drop', or the loader without as_iterable"
            )
        self._kind, self._arguments = type(loader), dict(loader._arguments)
        # Workers are often new in each epoch, and copies of the dataset: the epochs are counted in memory that they
        # share.
        self._epochs = torch.full((_MAX_WORKERS,), loader.next_epoch, dtype=torch.int64).share_memory_()
        self._loader: Loader | None = None
        self._state: Mapping[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch is played next, by all workers."""
        self._epochs.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        # What a DataLoader makes of its dataset, and calls this: it knows whether it makes batches of what it gets.
        fetcher = sys._getframe(1).f_locals.get("self")
        makes_batches = getattr(fetcher, "auto_collation", False)
        if makes_batches and getattr(fetcher, "collate_fn", None) is data.default_collate:
            raise ConfigError(
                "as_iterable gives whole batches, and this DataLoader makes batches of batches: give it batch_size=None"
            )
        info = data.get_worker_info()
        number, count = (0, 1) if info is None else (info.id, info.num_workers)
        loader = self._share(number, count)
        if self._state is not None:
            loader.load_state_dict(self._state)
            self._state = None
        else:
            loader.set_epoch(int(self._epochs[number]))
        epoch = iter(loader)
        assert isinstance(epoch, Epoch)
        self._epochs[number] = epoch.number + 1
        return _Unpadded(epoch)

    def _share(self, number: int, count: int) -> Loader:
        """Returns the loader of worker ``number`` of ``count``."""
        if self._loader is None:
            if count > _MAX_WORKERS:
                raise ConfigError(f"{count} workers, expected {_MAX_WORKERS} or fewer")
            arguments = dict(self._arguments)
            dataset, batch_size = arguments.pop("dataset"), arguments.pop("batch_size")
            own = arguments["ranks"] or Ranks(0, 1, "exact")
            arguments["ranks"] = Ranks(own.rank * count + number, own.world_size * count, own.uneven)
            arguments["workers"] = arguments["workers"] or max(1, _cores() // count)
            self._loader = self._kind(dataset, batch_size, **arguments)
            self._loader._drops_padding = True
        return self._loader

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of this worker."""
        if self._loader is None:
            return {} if self._state is None else dict(self._state)
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets the position of this worker."""
        if state:
            _loader._read_state(state)
        self._state = state or None


# A batch of which no row counts.
_EMPTY = object()


class _Unpadded:
    """The batches of an epoch, without those that have no row."""

    def __init__(self, epoch: Iterator[Any]) -> None:
        self._epoch = epoch

    def __iter__(self) -> _Unpadded:
        return self

    def __next__(self) -> Any:
        while (batch := next(self._epoch)) is _EMPTY:
            pass
        return batch


def _rows(tensor: Any, mask: torch.Tensor) -> Any:
    """Returns the rows of an output for which the mask is true."""
    if isinstance(tensor, list):
        return [row for row, counts in zip(tensor, mask) if counts]
    if tensor.is_nested:
        rows = [row for row, counts in zip(tensor.unbind(), mask) if counts]
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    return tensor[mask.to(tensor.device)]
