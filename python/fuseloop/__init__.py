"""Fuseloop: decodes, augments and batches training data in compiled loops.

>>> import fuseloop as fl
>>> from fuseloop import ops
>>> loader = fl.Loader(example_dataset(), batch_size=4, image=[ops.RandomResizedCrop(32), ops.Normalize.imagenet()])
>>> loader.tensors
(TensorSpec(name='image', dtype='float32', shape=(32, 32, 3)), TensorSpec(name='label', dtype='int64', shape=()))
"""

import sys
from typing import TYPE_CHECKING

from . import errors, ops
from ._checks import ClassInfo, DamagedValue, DatasetInfo, DegenerateObject, FieldInfo, VerifyReport
from ._fuseloop import Batch, Dataset, RaggedTensor, Tensor
from ._op import check_ops
from ._preview import DrawnOp, Inspected, Sheet
from ._studio import Studio, studio
from .errors import *  # noqa: F403
from .loader import (
    Audio,
    Cache,
    ClassBalanced,
    Clips,
    Collate,
    DataMixture,
    Epoch,
    Headroom,
    HeadroomReport,
    ImageList,
    Loader,
    Plan,
    ProcessCache,
    Quarantine,
    QuasiRandom,
    Ranks,
    RepeatedAugment,
    Stats,
    Target,
    TensorSpec,
    View,
    Weighted,
)

__version__ = "0.1.0"

__all__ = [
    "Audio",
    "Batch",
    "Cache",
    "ClassBalanced",
    "ClassInfo",
    "Clips",
    "Collate",
    "DamagedValue",
    "DataMixture",
    "Dataset",
    "DatasetInfo",
    "DegenerateObject",
    "DrawnOp",
    "Epoch",
    "FieldInfo",
    "Headroom",
    "HeadroomReport",
    "ImageList",
    "Inspected",
    "Loader",
    "Plan",
    "ProcessCache",
    "Quarantine",
    "QuasiRandom",
    "RaggedTensor",
    "Ranks",
    "RepeatedAugment",
    "Sheet",
    "Stats",
    "Studio",
    "Target",
    "Tensor",
    "TensorSpec",
    "Transform",
    "VerifyReport",
    "View",
    "Weighted",
    "check_ops",
    "errors",
    "ops",
    "studio",
    *errors.__all__,
]

_LAZY = ("detection", "ffcv", "jax", "metrics", "ray", "sources", "torch", "write")


if TYPE_CHECKING:
    from . import detection, ffcv, jax, metrics, ray, sources, torch, write
    from .transform import Transform
else:

    def __getattr__(name: str):
        if name == "Transform":
            from .transform import Transform

            globals()[name] = Transform
            return Transform
        if name in _LAZY:
            import importlib

            try:
                return importlib.import_module(f"{__name__}.{name}")
            except (ImportError, OSError) as error:  # no PyTorch, or one whose libraries don't load
                # What probes a module, such as hasattr, help and inspect.getmembers, expects this exception. The import
                # itself, `import fuseloop.jax`, raises its own.
                raise AttributeError(str(error), name=name, obj=sys.modules[__name__]) from error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])
