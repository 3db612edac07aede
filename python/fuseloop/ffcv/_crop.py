"""Crops by a user's ``get_crop_generator``, in the compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._fuseloop import Crop
from .._lambda import _code, _name
from .._op import Op


class CropOf(Op):
    """Cuts the window that a function chooses for each image, and resizes it by ``INTER_AREA``.

    Args:
        f: Called with the height and the width of the image, ``scale`` and ``ratio``; returns the top, the left, the
            height and the width of the window. It may run on any thread.
        size: Height and width of the output.
        scale: What the function gets as its third argument.
        ratio: What the function gets as its fourth argument.
    """

    __slots__ = ("_crop",)
    __match_args__ = ("f", "size", "scale", "ratio")
    name = "CropOf"

    def __init__(self, f: Callable[..., Any], size: tuple[int, int], scale: Any, ratio: Any) -> None:
        object.__setattr__(self, "_params", {"f": f, "size": size, "scale": scale, "ratio": ratio})
        object.__setattr__(self, "_crop", Crop(f, _name(f), _code(f), size, scale, ratio))

    def check(self) -> None:
        """Raises what the function raised since the last call."""
        self._crop.check()

    def __repr__(self) -> str:
        params = self._params
        return f"CropOf({_name(params['f'])}, {params['size']}, {params['scale']}, {params['ratio']})"


class Crops:
    """The crops that are in use, by the operations that they are made of: an equal one is not made again, since the
    loop keeps the first."""

    def __init__(self) -> None:
        self._known: dict[int, CropOf] = {}

    def same(self, number: int, fused: Sequence[Op]) -> list[Op]:
        """Returns the ops of an operation, with the crop that is in use if it is equal."""
        if len(fused) == 1 and isinstance(fused[0], CropOf):
            known = self._known.get(number)
            if known != fused[0]:
                known = self._known[number] = fused[0]
            return [known]
        return list(fused)
