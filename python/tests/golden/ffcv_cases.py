"""Loaders as users of FFCV write them, whose batches FFCV itself and fuseloop.ffcv must agree on.

``python ffcv_cases.py`` in an environment with FFCV 1.0.2 writes what FFCV returns to ``ffcv_batches.json``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch as ch
from ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    FloatDecoder,
    IntDecoder,
    NDArrayDecoder,
)
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline import PipelineSpec
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.transforms import (
    Convert,
    Cutout,
    NormalizeImage,
    Poison,
    RandomHorizontalFlip,
    RandomTranslate,
    ReplaceLabel,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)

HERE = Path(__file__).parent
BETON = HERE.parents[2] / "tests" / "golden" / "beton"
RAW = BETON / "images_raw_resized_p16k.beton"
MEAN = np.array([0.485, 0.456, 0.406]) * 255
STD = np.array([0.229, 0.224, 0.225]) * 255


def _crop():
    return CenterCropRGBImageDecoder((32, 32), 224 / 256)


def _mask():
    rows, columns = np.mgrid[:32, :32]
    return np.stack([rows * 7 % 256, columns * 5 % 256, (rows + columns) * 3 % 256], axis=-1).astype("float64")


def validation_f16():
    image = [_crop(), NormalizeImage(MEAN, STD, np.float16), ToTensor(), ToTorchImage()]
    label = [IntDecoder(), ToTensor(), Squeeze(), ToDevice(ch.device("cpu"), non_blocking=True)]
    return Loader(str(RAW), 4, num_workers=1, drop_last=False, pipelines={"image": image, "label": label})


def validation_f32_contiguous():
    image = [_crop(), NormalizeImage(MEAN, STD, np.float32), ToTensor(), ToTorchImage(channels_last=False)]
    return Loader(str(RAW), 4, num_workers=1, drop_last=False, pipelines={"image": image, "label": None})


def certain_augmentations():
    image = [_crop(), RandomHorizontalFlip(1.0), RandomTranslate(0, (9, 8, 7)), Cutout(32, (1, 2, 3)), ToTensor()]
    flipped = [_crop(), RandomHorizontalFlip(1.0), RandomTranslate(0), ToTensor(), ToTorchImage(), Convert(ch.float16)]
    specs = {"image": image, "flipped": PipelineSpec("image", transforms=flipped), "label": None}
    return Loader(str(RAW), 6, num_workers=1, pipelines=specs)


def poisoned():
    weight = np.where(np.arange(32)[:, None] < 10, 0.25, 0.0) * np.ones((32, 32))
    image = [_crop(), Poison(_mask(), weight, [5, 1, 3])]
    label = [IntDecoder(), ReplaceLabel([2, 0], 77)]
    return Loader(str(RAW), 5, num_workers=1, drop_last=False, pipelines={"image": image, "label": label})


def branches():
    first = _crop()
    flip = RandomHorizontalFlip(1.0)
    specs = {
        "image": [first, flip, ToTensor()],
        "cropped": PipelineSpec(first, transforms=[ToTensor()]),
        "again": PipelineSpec(flip, transforms=[RandomHorizontalFlip(1.0), ToTensor()]),
    }
    return Loader(str(RAW), 3, num_workers=1, pipelines=specs)


def random_order():
    return Loader(str(RAW), 4, num_workers=1, order=OrderOption.RANDOM, seed=11, pipelines={"image": None})


def random_subset():
    options = {"order": OrderOption.RANDOM, "seed": 5, "indices": [5, 4, 0, 2, 1], "drop_last": False}
    return Loader(str(RAW), 2, num_workers=1, pipelines={"image": None, "label": [IntDecoder()]}, **options)


def defaults_of_numbers():
    return Loader(str(BETON / "scalars.beton"), 2, num_workers=1)


def numbers():
    idx = [IntDecoder(), ToTensor(), Convert(ch.float32)]
    val = [FloatDecoder(), ToTensor(), Squeeze(1)]
    return Loader(str(BETON / "scalars_edge.beton"), 3, num_workers=1, pipelines={"idx": idx, "val": val})


def defaults_of_arrays():
    # FFCV itself never returns from half floats and from elements of another byte order.
    unread = {"c8": [NDArrayDecoder()], "u64": [NDArrayDecoder()], "f2": None, "be": None}
    return Loader(str(BETON / "nd_dtypes_p4k.beton"), 2, num_workers=1, pipelines=unread)


def viewed_arrays():
    specs = {"u64": [NDArrayDecoder(), View(np.int64), ToTensor()]}
    specs["f8"] = [NDArrayDecoder(), ToTensor(), View(ch.int64)]
    others = dict.fromkeys(["u8", "b", "f2", "c8", "be"])
    return Loader(str(BETON / "nd_dtypes_p4k.beton"), 2, num_workers=1, pipelines={**others, **specs})


class Quarter(Operation):
    """Keeps the upper left quarter, and writes the sample into its corner."""

    def generate_code(self):
        parallel_range = Compiler.get_iterator()

        def quarter(images, memory, indices):
            for k in parallel_range(images.shape[0]):
                memory[k] = images[k, : images.shape[1] // 2, : images.shape[2] // 2]
                memory[k, 0, 0, 0] = 10 + indices[k]
            return memory

        quarter.is_parallel = True
        quarter.with_indices = True
        return quarter

    def declare_state_and_memory(self, previous_state):
        height, width, channels = previous_state.shape
        shape = (height // 2, width // 2, channels)
        return replace(previous_state, shape=shape), AllocationQuery(shape, previous_state.dtype)


def own_operation():
    normalize = NormalizeImage(MEAN, STD, np.float32)
    image = [_crop(), Quarter(), RandomHorizontalFlip(1.0), normalize, ToTensor(), ToTorchImage()]
    options = {"order": OrderOption.RANDOM, "seed": 3, "drop_last": False}
    return Loader(str(RAW), 4, num_workers=1, pipelines={"image": image, "label": [IntDecoder()]}, **options)


CASES = {
    case.__name__: case
    for case in (
        validation_f16,
        validation_f32_contiguous,
        certain_augmentations,
        poisoned,
        branches,
        random_order,
        random_subset,
        defaults_of_numbers,
        numbers,
        defaults_of_arrays,
        viewed_arrays,
        own_operation,
    )
}


def described(value):
    """Describes an array or a tensor to the bit."""
    is_tensor = isinstance(value, ch.Tensor)
    array = value.contiguous().numpy() if is_tensor else value
    return {
        "kind": "tensor" if is_tensor else "array",
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "stride": list(value.stride()) if is_tensor and value.ndim == 4 else None,
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
    }


def played(case, epochs=2):
    """Returns what the loader of a case says of itself, and what it delivers in some epochs."""
    loader = CASES[case]()
    batches = [[[described(value) for value in batch] for batch in loader] for _ in range(epochs)]
    return {"len": len(loader), "epochs": batches}


if __name__ == "__main__":
    found = {}
    for name in CASES:
        print(name, flush=True)
        found[name] = played(name)
    text = ",\n".join(f"{json.dumps(case)}: {json.dumps(result)}" for case, result in found.items())
    (HERE / "ffcv_batches.json").write_text("{\n" + text + "\n}\n")
