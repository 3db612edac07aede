"""The lists of ops by which torchvision's references train detectors.

Each list ends with images of uint8: append ``Normalize``, ``ToChannelsFirst``, and ops on batches such as
``SimpleCopyPaste``. The image needs boxes among its targets.

>>> from fuseloop import detection, ops
>>> detection.lsj(512) + [ops.Normalize.imagenet(), ops.ToChannelsFirst()]  # doctest: +ELLIPSIS
[ScaleJitter(512), FixedSizeCrop(512, fill=(123, 117, 104)), RandomHorizontalFlip(), SanitizeBoundingBoxes(), ...]
"""

from __future__ import annotations

from . import ops
from ._op import Op

__all__ = ["lsj", "multiscale", "ssd"]

# The mean colour of the references, which fills areas outside the image.
_MEAN = (123, 117, 104)


def ssd(size: ops.Size = 300) -> list[Op]:
    """Returns the training list of SSD, which ends with images of ``size``.

    In torchvision, the model resizes, after the flip.

    >>> len(ssd())
    6
    """
    return [
        ops.RandomPhotometricDistort(),
        ops.RandomZoomOut(fill=_MEAN),
        ops.RandomIoUCrop(),
        ops.Resize((size, size) if isinstance(size, int) else size),
        ops.RandomHorizontalFlip(),
        ops.SanitizeBoundingBoxes(),
    ]


def lsj(side: int = 1024) -> list[Op]:
    """Returns the list of large scale jittering (Ghiasi et al., arXiv:2012.07177) for squares of ``side`` pixels."""
    return [
        ops.ScaleJitter(side),
        ops.FixedSizeCrop(side, fill=_MEAN),
        ops.RandomHorizontalFlip(),
        ops.SanitizeBoundingBoxes(),
    ]


def multiscale() -> list[Op]:
    """Returns the list of multi-scale training: short sides of 480, 512, ..., 800 pixels, and at most 1333 for the long
    side. The images have different sizes: ``collate`` pads or lists them."""
    return [
        ops.RandomShortestSize(tuple(range(480, 801, 32)), max_size=1333),
        ops.RandomHorizontalFlip(),
        ops.SanitizeBoundingBoxes(),
    ]
