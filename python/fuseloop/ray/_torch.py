"""Batches of actors as tensors of PyTorch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch

from .. import torch as _torch
from ._batch import RemoteBatch
from ._loader import Loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
        Ranks,
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


class TorchLoader(Loader[B], _torch.Loader[B]):
    """A :class:`fuseloop.ray.Loader` whose batches are those of :class:`fuseloop.torch.Loader`: tuples of tensors.

    Tensors are copies of the batch in the object store, whose place is free again when they are made. With
    ``pin_memory=True`` the copies are in page-locked memory of PyTorch, so that
    ``images.to("cuda", non_blocking=True)`` returns at once.

    Args:
        dataset: See :class:`fuseloop.ray.Loader`, as for all arguments that are not listed here.
        batch_size: The number of samples of a batch.
        as_dict: See :class:`fuseloop.torch.Loader`, as for ``channels_last`` and ``after``.
        pin_memory: The tensors are in page-locked memory.
        **options: All other arguments of :class:`fuseloop.ray.Loader`.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> lists = {"image": [ops.RandomResizedCrop(32), ops.ToChannelsFirst()]}
    >>> with fl.ray.TorchLoader(example_dataset(), batch_size=8, ops=lists, actors=1) as loader:
    ...     for images, labels in loader:
    ...         pass
    >>> images.shape, labels.dtype
    (torch.Size([8, 3, 32, 32]), torch.int64)
    """

    _own_arguments = Loader._own_arguments | _torch.Loader._own_arguments
    _here_only = _torch.Loader._own_arguments

    if TYPE_CHECKING:
        # Signatures of __init__, written by tools/generate.py.
        @overload
        def __init__(
            self: TorchLoader[tuple[torch.Tensor, ...]],
            dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
            /,
            batch_size: int = 64,
            *,
            as_dict: Literal[False] = False,
            channels_last: bool = False,
            after: None = None,
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

        @overload
        def __init__(
            self: TorchLoader[dict[str, torch.Tensor]],
            dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
            /,
            batch_size: int = 64,
            *,
            as_dict: Literal[True],
            channels_last: bool = False,
            after: None = None,
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

        def __init__(self, dataset: Any, /, batch_size: Any = 64, **given: Any) -> None: ...
        # End of the signatures.

    _copies = True

    def _keep(self, given: dict[str, Any]) -> None:
        super()._keep(given)
        self._arguments["pin_memory"] = self._pinned = bool(given.get("pin_memory"))

    def _tensors_of(self, batch: Any) -> dict[str, Any]:
        if not isinstance(batch, RemoteBatch):  # of `get`
            return super()._tensors_of(batch)
        return batch.torch(pin_memory=self._pinned and torch.cuda.is_available())
