"""The lists of ops by which torchvision's references train detectors.

Each list ends with images of uint8: append ``Normalize``, ``ToChannelsFirst``, and ops on batches such as
``SimpleCopyPaste``. The image needs boxes among its targets.

>>> from fuseloop import detection, ops
>>> detection.lsj(512) + [ops.Normalize.imagenet(), ops.ToChannelsFirst()]  # doctest: +ELLIPSIS
[ScaleJitter(512), FixedSizeCrop(512, fill=(123, 117, 104)), RandomHorizontalFlip(), SanitizeBoundingBoxes(), ...]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import ops
from ._op import Op
from .errors import ConfigError

__all__ = ["as_list", "lsj", "multiscale", "ssd"]

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


def as_list(
    image: str = "image", *, first_label: int = 0, **targets: str
) -> Callable[..., tuple[list[Any], list[dict[str, Any]]]]:
    """Returns a function that makes of a batch what detectors of torchvision take: a list of images, and a list of
    dicts of the targets of each. It is for ``after=`` of ``fuseloop.torch.Loader`` with ``as_dict=True``.

    torchvision's detectors take label 0 as background, and have ``num_classes`` of one more than there are classes, so
    their labels begin with 1. The classes of a dataset begin with 0: say ``first_label=1``, unless its numbers already
    begin with 1, as with ``keep_category_ids`` of :func:`fuseloop.sources.coco`.

    Args:
        image: The output with the images: a tensor, or a list where they differ in size.
        first_label: The label of class 0, which is added to all of ``labels``: 1 for torchvision's detectors, 0 for models
            without a class of the background.
        **targets: The outputs by the names that the dicts have: ``boxes="bbox", labels="category_id"``. Each is ragged, a
            list, or a tensor with one row for each image.

    >>> loader = fl.torch.Loader(
    ...     "coco/train", 8, image=detection.multiscale() + [ops.Normalize.imagenet(), ops.ToChannelsFirst()],
    ...     targets={"image": {"bbox": fl.Target.boxes("xywh", to="xyxy"), "category_id": fl.Target.column()}},
    ...     collate={"image": fl.Collate.list()}, as_dict=True,
    ...     after=detection.as_list(boxes="bbox", labels="category_id", first_label=1),
    ... )  # doctest: +SKIP
    >>> for images, targets in loader:  # doctest: +SKIP
    ...     losses = model(images, targets)
    """
    if isinstance(first_label, bool) or not isinstance(first_label, int):
        raise ConfigError(f"as_list: first_label is {first_label!r}, expected a whole number: the label of class 0")
    if first_label and "labels" not in targets:
        raise ConfigError(f'as_list: first_label={first_label} without labels: name their output, labels="category_id"')

    def listed(*tensors: Any) -> tuple[list[Any], list[dict[str, Any]]]:
        if len(tensors) != 1 or not isinstance(tensors[0], Mapping):
            raise ConfigError("as_list takes a batch as a dict: give fuseloop.torch.Loader as_dict=True, too")
        batch: Mapping[str, Any] = tensors[0]
        for output in (image, *targets.values()):
            if output not in batch:
                raise ConfigError(f"as_list: the batch has no output {output}, it has {', '.join(batch)}")
        rows = {name: _rows(batch[output]) for name, output in targets.items()}
        if first_label:
            rows["labels"] = [row + first_label for row in rows["labels"]]
        images = _rows(batch[image])
        return images, [{name: of[k] for name, of in rows.items()} for k in range(len(images))]

    return listed


def _rows(values: Any) -> list[Any]:
    """Returns the rows of an output: views of its tensor."""
    if isinstance(values, (list, tuple)):
        return list(values)
    return list(values.unbind())
