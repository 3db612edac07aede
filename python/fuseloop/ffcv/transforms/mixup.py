"""Mixup: sums of two samples, and of their labels (https://arxiv.org/abs/1710.09412)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ... import ops
from .._builtin import BuiltIn
from .._torch import torch
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


def _shares(alpha: float, same_lambda: bool, indices: np.ndarray) -> np.ndarray:
    """Draws each sample's own share. It follows from the samples of the batch, so that images and labels agree."""
    rng = np.random.default_rng(np.asarray(indices, np.int64).view(np.uint64))
    drawn = rng.beta(alpha, alpha, 1 if same_lambda else len(indices))
    return np.broadcast_to(drawn, len(indices))


class _Mixup(BuiltIn):
    """What both kinds of mixup have in common: their arguments, and the op of the compiled loop."""

    def __init__(self, alpha: float, same_lambda: bool) -> None:
        super().__init__()
        self.alpha = alpha
        self.same_lambda = same_lambda

    def _fused(self, state: State) -> list[Any] | None:
        return [ops.MixUp(float(self.alpha), per_sample=not self.same_lambda)]


class ImageMixup(_Mixup):
    """Makes each image a weighted sum of itself and the one before it in the batch.

    Args:
        alpha: Shares are drawn from Beta(alpha, alpha).
        same_lambda: One share for the batch; if false, each image has its own.
    """

    def generate_code(self) -> Callable[..., Any]:
        def mix(images: Any, _: Any, indices: Any) -> Any:
            own = _shares(self.alpha, self.same_lambda, indices)[:, None, None, None]
            return (own * images + (1 - own) * np.roll(images, 1, axis=0)).astype(images.dtype)

        mix.with_indices = True  # type: ignore[attr-defined]
        return mix

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_image(previous_state)
        return previous_state, None


class LabelMixup(_Mixup):
    """Turns labels into (own label, label of the sample before it, own share), with the shares of an
    :class:`ImageMixup` of the same arguments."""

    def generate_code(self) -> Callable[..., Any]:
        def mix(labels: Any, _: Any, indices: Any) -> Any:
            own = np.asarray(labels).reshape(len(labels))
            shares = _shares(self.alpha, self.same_lambda, indices)
            return np.stack([own, np.roll(own, 1), shares], axis=1).astype(np.float32)

        mix.with_indices = True  # type: ignore[attr-defined]
        return mix

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        if not previous_state.jit_mode:
            raise self._wrong(previous_state, "arrays of NumPy", "put LabelMixup before ToTensor()")
        if tuple(previous_state.shape) != (1,) or np.dtype(previous_state.dtype) != np.int64:
            raise self._wrong(previous_state, "labels of int64, (1,)", "put it right after IntDecoder()")
        return replace(previous_state, shape=(3,), dtype=np.dtype("<f4")), None


class MixupToOneHot(BuiltIn):
    """Turns what :class:`LabelMixup` returns into a vector with the share of each class. Two samples of one class
    have a share of 1."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def generate_code(self) -> Callable[..., Any]:
        def one_hot(labels: Any, _: Any = None) -> Any:
            shares = labels.new_zeros((len(labels), int(self.num_classes)))
            own = labels[:, 2:3]
            shares.scatter_add_(1, labels[:, :2].long(), torch().cat([own, 1 - own], dim=1))
            return shares

        return one_hot

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        self._needs_tensor(previous_state)
        return replace(previous_state, shape=(int(self.num_classes),)), None
