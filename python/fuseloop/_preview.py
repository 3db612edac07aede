"""What a loader shows of its samples: sheets of pictures, and what was drawn for one sample."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _fuseloop
from .errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DrawnOp", "Inspected", "Sheet"]


class Sheet:
    """Pictures of samples with captions, which :meth:`fuseloop.Loader.preview` draws. A notebook shows it.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> loader = fl.Loader(example_dataset(), image=[ops.RandomResizedCrop(32), ops.RandomHorizontalFlip()])
    >>> sheet = loader.preview(2, epochs=3)
    >>> sheet
    Sheet(width=984, height=616)
    >>> sheet.array().shape
    (616, 984, 3)
    """

    __slots__ = ("_core",)

    def __init__(self, core: _fuseloop.Sheet) -> None:
        self._core = core

    @property
    def width(self) -> int:
        """The width in pixels."""
        return self._core.width

    @property
    def height(self) -> int:
        """The height in pixels."""
        return self._core.height

    @property
    def damaged(self) -> list[int]:
        """The damaged samples, in the place of whose pictures the sheet has the errors."""
        return self._core.damaged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the sheet as a PNG or JPEG file, as the extension says. An existing file is replaced.

        Args:
            path: The file, with the extension ``.png``, ``.jpg`` or ``.jpeg``.
        """
        _fuseloop.check_destination(path)
        suffix = Path(path).suffix.lower()
        if suffix not in (".png", ".jpg", ".jpeg"):
            raise ConfigError(f"{os.fspath(path)}: sheets are saved as .png, .jpg or .jpeg")
        Path(path).write_bytes(self._core.png() if suffix == ".png" else self._core.jpeg())

    def array(self) -> np.ndarray:
        """Returns the pixels as an array ``[height, width, 3]`` of ``uint8``."""
        import numpy as np

        pixels = np.frombuffer(bytearray(self._core.rgb()), dtype=np.uint8)
        return pixels.reshape(self.height, self.width, 3)

    def pil(self) -> Any:
        """Returns the sheet as a ``PIL.Image``. Needs Pillow."""
        from PIL import Image

        return Image.frombytes("RGB", (self.width, self.height), self._core.rgb())

    def _repr_png_(self) -> bytes:
        return self._core.png()

    def __repr__(self) -> str:
        return f"Sheet(width={self.width}, height={self.height})"


@dataclasses.dataclass(frozen=True)
class DrawnOp:
    """What an op does to one sample.

    ``outcome`` is ``"runs"``, ``"skipped"`` if its own draw left it out, or ``"not chosen"`` by the policy that it is
    in. ``words`` describe what was drawn.
    """

    name: str
    outcome: str
    words: str


@dataclasses.dataclass(frozen=True, eq=False)
class Inspected:
    """What happens to one sample in one epoch, from :meth:`fuseloop.Loader.inspect`. Its text is a list of the ops.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> loader = fl.Loader(example_dataset(), image=[ops.Resize(48), ops.CenterCrop(32)])
    >>> print(loader.inspect(3))
    sample 3 in epoch 0, output image
      stored 68x52, decoded rows 0..52, columns 0..68
      Resize                   to 62x48
      CenterCrop               rows 8..40, columns 15..47
      output: a u8 image [32, 32, 3]
      stored label 0
    """

    sample: int
    epoch: int
    field: str
    """The name of the output."""
    size: tuple[int, int]
    """The height and the width of the stored image."""
    window: tuple[int, int, int, int]
    """The part of ``image`` that a batch needs: its first row and column, its height and width."""
    ops: tuple[DrawnOp, ...]
    labels: tuple[str, ...]
    """The numbers that are stored with the sample, such as ``"label 3"``."""
    output: str
    """The type of the output."""
    agrees: bool
    """True if the compiled code gives the same pixels as the definition of each op. False is a defect of Fuseloop."""
    not_compiled: str | None
    """Why the ops are not compiled on this machine, if they are not."""
    objects: tuple[str, ...]
    """The objects of the sample before and after the ops, in words: nothing if none are declared for the output."""
    targets: dict[str, Any] | None
    """The same as data, if targets are declared for the output. ``targets["before"]`` and ``targets["after"]`` each
    have the ``size`` of the image, ``[height, width]``, and its ``objects``. An object has its ``box`` and ``format``,
    ``class`` and ``name``, and ``keypoints``, as far as they are declared: the numbers that are stored, or those of a
    batch. One that an op removes has ``removed_by``, and one after the ops ``before``, the index that it had."""
    image: np.ndarray = dataclasses.field(repr=False)
    """The decoded image, ``uint8`` and ``[height, width, 3]``: all of the stored one, or a smaller one, by
    ``scaled_decode``."""

    def __str__(self) -> str:
        top, left, height, width = self.window
        lines = [f"sample {self.sample} in epoch {self.epoch}, output {self.field}"]
        scale = "" if self.image.shape[:2] == self.size else f" at {self.image.shape[1]}x{self.image.shape[0]},"
        lines.append(
            f"  stored {self.size[1]}x{self.size[0]}, decoded{scale} rows {top}..{top + height}, "
            f"columns {left}..{left + width}"
        )
        lines += [f"  {op.name:<24} {op.words}".rstrip() for op in self.ops]
        lines += [f"  {line}" if number == 0 else f"    {line}" for number, line in enumerate(self.objects)]
        lines.append(f"  output: {self.output}")
        if not self.agrees:
            lines.append("  compiled and evaluated pixels differ: this is a defect of Fuseloop, please report it")
        lines += [f"  stored {label}" for label in self.labels]
        return "\n".join(lines)


def inspected(core: _fuseloop.Loader, sample: int, epoch: int, output: str | None, lists: dict[str, Any]) -> Inspected:
    """Inspects a sample."""
    import numpy as np

    found = _fuseloop.inspect(core, sample, epoch, output, lists)
    image = np.frombuffer(bytearray(found.pop("image")), dtype=np.uint8).reshape(*found.pop("decoded"), -1)
    ops = tuple(DrawnOp(*op) for op in found.pop("ops"))
    targets = found.pop("targets")
    return Inspected(
        sample=sample,
        epoch=epoch,
        ops=ops,
        labels=tuple(found.pop("labels")),
        objects=tuple(found.pop("objects")),
        targets=None if targets is None else json.loads(targets),
        image=image,
        **found,
    )
