"""Batches of actors as tensors of PyTorch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from .. import torch as _torch
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
        # End of the signatures.
        pass

    _copies = True

    def _keep(self, given: dict[str, Any]) -> None:
        super()._keep(given)
        self._arguments["pin_memory"] = self._pinned = bool(given.get("pin_memory"))

    def _tensors_of(self, batch: Any) -> dict[str, Any]:
        return batch.torch(pin_memory=self._pinned and torch.cuda.is_available())
