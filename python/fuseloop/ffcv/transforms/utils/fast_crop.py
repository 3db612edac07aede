"""Crops and OpenCV's ``INTER_AREA``, in NumPy: for operations that run in Python. The loader has its own, compiled
ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._builtin import generator


def get_random_crop(height: int, width: int, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Draws a crop as torchvision's RandomResizedCrop: top, left, height and width."""
    rng = generator()
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(10):
        area = height * width * rng.uniform(scale[0], scale[1])
        aspect = math.exp(rng.uniform(low, high))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
    w, h = width, height
    if width / height < min(ratio):
        h = round(width / min(ratio))
    elif width / height > max(ratio):
        w = round(height * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


def get_center_crop(height: int, width: int, ratio: float) -> tuple[int, int, int, int]:
    """Returns the square in the middle whose side is ``ratio`` of the shorter side: top, left, height and width."""
    side = int(ratio * min(height, width))
    return (height - side) // 2, (width - side) // 2, side, side


def resize_crop(
    source: np.ndarray, start_row: int, end_row: int, start_col: int, end_col: int, destination: np.ndarray
) -> None:
    """Resizes a crop of an image into ``destination``."""
    destination[...] = resize(source[start_row:end_row, start_col:end_col], *destination.shape[:2])


def resize(source: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resizes an image of uint8 by ``INTER_AREA``: means of areas where both axes shrink, and linear interpolation
    where one of them grows."""
    if source.shape[:2] == (height, width):
        return source.copy()
    if source.shape[0] >= height and source.shape[1] >= width:
        rows, columns = _area(source.shape[0], height), _area(source.shape[1], width)
    else:
        rows, columns = _linear(source.shape[0], height), _linear(source.shape[1], width)
    resized = np.einsum("yh,hwc->ywc", rows, source.astype(np.float64), optimize=True)
    resized = np.einsum("xw,ywc->yxc", columns, resized, optimize=True)
    return np.clip(np.rint(resized), 0, 255).astype(np.uint8)


def _area(source: int, size: int) -> np.ndarray:
    """Returns for each pixel the share that every source pixel has in its area."""
    edges = np.arange(size + 1) * (source / size)
    first, last = edges[:-1, None], edges[1:, None]
    pixels = np.arange(source)[None, :]
    covered = np.clip(np.minimum(last, pixels + 1) - np.maximum(first, pixels), 0, None)
    return covered / covered.sum(axis=1, keepdims=True)


def _linear(source: int, size: int) -> np.ndarray:
    """Returns for each pixel the weights of the two source pixels between which it lies."""
    scale = source / size
    at = np.arange(size)
    left = np.minimum(np.floor(at * scale).astype(int), source - 1)
    share = np.maximum((at + 1) - (np.floor(at * scale) + 1) / scale, 0)
    share = np.where(left >= source - 1, 0, share - np.floor(share))
    weights = np.zeros((size, source))
    weights[at, left] += 1 - share
    weights[at, np.minimum(left + 1, source - 1)] += share
    return weights
