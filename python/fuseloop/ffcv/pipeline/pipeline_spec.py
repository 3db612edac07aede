"""An output that is declared by its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .operation import Operation


class PipelineSpec:
    """An output of a loader.

    Args:
        source: A field, or an operation of another output: the new output goes on from its result.
        decoder: The decoder of the field; by default that of its kind.
        transforms: What comes after the decoder. Its first element may be the decoder.
    """

    def __init__(
        self, source: str | Operation, decoder: Operation | None = None, transforms: Sequence[Any] | None = None
    ) -> None:
        self.source = source
        self.decoder = decoder
        self.transforms = [] if transforms is None else list(transforms)
        self.default_pipeline = decoder is None and not self.transforms and isinstance(source, str)

    def __repr__(self) -> str:
        return repr((self.source, self.decoder, self.transforms))

    def __str__(self) -> str:
        return self.__repr__()

    def accept_decoder(self, Decoder: type[Operation] | None, output_name: str) -> None:  # noqa: N803, FFCV's name
        """Takes the first transform as the decoder if it is one of this class, and makes the default one if there is
        none."""
        from ..transforms.module import ModuleWrapper
        from ..transforms.ops import ToTensor
        from .._torch import is_module

        if not isinstance(self.source, str) and self.decoder is not None:
            raise ValueError(f"output {output_name}: its source is an operation, so it can't have a decoder")
        if Decoder is not None:
            if self.transforms and isinstance(self.transforms[0], Decoder):
                self.decoder, self.transforms = self.transforms[0], self.transforms[1:]
            elif self.decoder is None:
                try:
                    self.decoder = Decoder()
                except TypeError:
                    raise ValueError(
                        f"output {output_name}: {Decoder.__name__} has no defaults: put a decoder first in the list"
                    ) from None
        if self.default_pipeline:
            self.transforms = [ToTensor()]
        self.transforms = [ModuleWrapper(op) if is_module(op) else op for op in self.transforms]
