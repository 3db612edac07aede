"""values.json and values.bin: conversion, normalisation, label targets; and normalize.bin.

Bytes have the type `dtype` (u8, f16 or f32), little endian, in rows `[height, width, channel]`. Label targets are
stored in the case: timm's result for a label without a partner.
"""

import struct

import timm.data.mixup
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from .common import OUT, picture, singles, to_pixels, to_tensor, write_pair

RAMP, NOISE = ["ramp", 0, 8, 32], ["noise", 1, 9, 11]
DTYPES = {"u8": torch.uint8, "f16": torch.float16, "f32": torch.float32}
IMAGENET = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# mean, std
CONSTANTS = [
    IMAGENET,
    ([0.5], [0.5]),
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.201]),
]
LEVEL_CONSTANTS = [0.485 * 255, 0.456 * 255, 0.406 * 255], [0.229 * 255, 0.224 * 255, 0.225 * 255]
UNIT_FLOATS = [0.0, 0.001, 1 / 255, 0.0039, 0.25, 0.3, 0.5, 0.501, 0.75, 0.999, 1.0]
LEVEL_FLOATS = [0.0, 0.4, 0.99, 1.0, 1.5, 127.5, 128.0, 254.9, 255.0]
# label, classes, smoothing
LABELS = [(0, 3, 0.0), (2, 3, 0.1), (4, 10, 0.1), (9, 10, 0.2), (0, 2, 0.5), (1, 7, 1.0), (3, 5, 0.05)]


def with_bytes(case, tensor):
    data = to_pixels(tensor).tobytes()
    return {**case, "bytes": len(data)}, data


def conversions():
    for dtype in ["f32", "f16"]:
        for scale in [True, False]:
            case = {"op": "to_dtype", "picture": RAMP, "dtype": dtype, "scale": scale}
            yield with_bytes(case, F.to_dtype(to_tensor(picture(*RAMP)), DTYPES[dtype], scale=scale))


def back_to_bytes():
    for scale, values in [(True, UNIT_FLOATS), (False, LEVEL_FLOATS)]:
        values = singles(values)
        out = F.to_dtype(torch.tensor(values), torch.uint8, scale=scale).tolist()
        yield {"op": "to_dtype", "values": values, "dtype": "u8", "scale": scale, "expected": out}, b""


def normalization(spec, dtype, scale, mean, std):
    image = F.to_dtype(to_tensor(picture(*spec)), DTYPES[dtype], scale=scale)
    case = {"op": "normalize", "picture": spec, "dtype": dtype, "scale": scale, "mean": mean, "std": std}
    return with_bytes(case, F.normalize(image, mean, std))


def normalizations():
    for dtype in ["f32", "f16"]:
        for mean, std in CONSTANTS:
            yield normalization(NOISE, dtype, True, mean, std)
        yield normalization(NOISE, dtype, False, *LEVEL_CONSTANTS)
        yield normalization(RAMP, dtype, True, *IMAGENET)


def labels():
    for label, classes, smoothing in LABELS:
        target = timm.data.mixup.mixup_target(torch.tensor([label]), classes, smoothing=smoothing)
        case = {"op": "one_hot", "label": label, "num_classes": classes, "smoothing": smoothing}
        yield {**case, "target": target[0].tolist()}, b""


def imagenet():
    """Returns the results for all 256 values, in f32 [256, 3]."""
    ramp = torch.arange(256, dtype=torch.uint8).expand(3, 1, 256).contiguous()
    out = v2.Normalize(*IMAGENET)(v2.ToDtype(torch.float32, scale=True)(ramp))
    return struct.pack("<768f", *out[:, 0, :].T.flatten().tolist())


def write():
    (OUT / "normalize.bin").write_bytes(imagenet())
    write_pair("values", [*conversions(), *back_to_bytes(), *normalizations(), *labels()])
