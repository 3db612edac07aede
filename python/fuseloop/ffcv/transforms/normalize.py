"""Normalized images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ... import ops
from ...errors import ConfigError, ParamError
from .._builtin import BuiltIn
from .._torch import is_tensor, numpy_dtype, torch, torch_dtype
from ..pipeline.allocation_query import AllocationQuery
from ..pipeline.state import State


class NormalizeImage(BuiltIn):
    """Subtracts the mean of each channel, divides by its standard deviation and converts to ``type``.

    Args:
        mean: The channels' means, of levels 0 to 255.
        std: The channels' standard deviations, of levels 0 to 255.
        type: The element type of the result, of NumPy or torch.
    """

    def __init__(self, mean: np.ndarray, std: np.ndarray, type: np.dtype) -> None:  # noqa: A002, FFCV's name
        super().__init__()
        self.mean = np.asarray(mean, np.float64)
        self.std = np.asarray(std, np.float64)
        self.dtype = numpy_dtype(type)
        if self.mean.shape != (3,) or self.std.shape != (3,):
            raise ConfigError(
                f"NormalizeImage: mean has the shape {self.mean.shape} and std {self.std.shape}, expected (3,): red, "
                "green and blue"
            )
        levels = np.arange(256)[:, None]
        self.lookup_table = ((levels - self.mean[None, :]) / self.std[None, :]).astype(self.dtype)

    def _fused(self, state: State) -> list[Any] | None:
        try:
            normalize = ops.Normalize(self.mean.tolist(), self.std.tolist(), "levels")
        except ParamError:  # Constants that the compiled loop has no room for.
            return None
        if self.dtype == np.float32:
            return [normalize]
        return [normalize, ops.Convert("f16")] if self.dtype == np.float16 else None

    def generate_code(self) -> Callable[..., Any]:
        channels_first = self._channels_first

        def normalize(images: Any, _: Any = None) -> Any:
            if not is_tensor(images):
                return self.lookup_table[images, np.arange(3)]
            table = torch().from_numpy(self.lookup_table).to(images.device)
            last = images.permute(0, 2, 3, 1) if channels_first else images
            found = torch().stack([table[:, c][last[..., c].long()] for c in range(3)], dim=-1)
            return found.permute(0, 3, 1, 2) if channels_first else found

        return normalize

    _channels_first = False

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        dtype, shape = previous_state.dtype, previous_state.shape
        if shape is None or len(shape) != 3 or numpy_dtype(dtype) != np.uint8:
            raise self._wrong(previous_state, "images of uint8", "put it after the decoder and before Convert")
        self._channels_first = shape[2] != 3
        return replace(previous_state, dtype=self.dtype if previous_state.jit_mode else torch_dtype(self.dtype)), None
