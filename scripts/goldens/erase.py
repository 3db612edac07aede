"""erase.json and erase.bin: erased boxes, and MixUp and CutMix of a batch.

`erase` is exact, on u8 or on the image scaled to f32; `values` has one number, or one per channel.
A mix has a batch of `pictures`. Its bytes are the mixed batch, `[sample, height, width, channel]`,
little endian; `target` is the result for the one-hot `labels`.
"""

import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from .common import picture, sha256, single, singles, to_pixels, to_tensor, write_pair

WAVES = ["waves", 3, 24, 31]
BATCH = [["waves", 1, 8, 10], ["noise", 2, 8, 10], ["narrow", 3, 8, 10], ["steps", 4, 8, 10]]
LABELS, CLASSES = [2, 0, 4, 2], 5

# i (top), j (left), h, w
BOXES = [(0, 0, 1, 1), (3, 5, 7, 11), (0, 0, 23, 30), (23, 30, 1, 1), (10, 0, 2, 30), (0, 12, 23, 3)]
BYTE_VALUES = [[0.0], [114.0], [255.0], [1.0, 20.0, 255.0], [0.9, 2.5, 254.75]]
FLOAT_VALUES = [[0.0], [0.25], [0.485, 0.456, 0.406], [-1.5, 0.0, 2.5]]

LAMBDAS = [0.0, 0.25, 0.3, 0.5, 0.9, 1.0]
# x1, y1, x2, y2
CUTS = [(0, 0, 2, 2), (3, 1, 9, 7), (0, 0, 10, 8), (4, 4, 4, 4), (9, 7, 10, 8), (0, 3, 10, 5)]


def image_of(spec, dtype):
    image = to_tensor(picture(*spec))
    return image if dtype == "u8" else F.to_dtype(image, torch.float32, scale=True)


def erase(dtype, box, values):
    i, j, h, w = box
    v = torch.tensor(values).reshape(-1, 1, 1)
    out = to_pixels(F.erase(image_of(WAVES, dtype), i, j, h, w, v)).tobytes()
    params = {"i": i, "j": j, "h": h, "w": w, "values": values}
    return {"picture": WAVES, "op": "erase", "dtype": dtype, **params, "sha256": sha256(out)}, b""


def erases():
    for box in BOXES:
        for values in BYTE_VALUES:
            yield erase("u8", box, values)
        for values in map(singles, FLOAT_VALUES):
            yield erase("f32", box, values)


def mixed(op, transform, dtype, params, named):
    batch = torch.stack([image_of(spec, dtype) for spec in BATCH])
    params = {**params, "labels": torch.tensor(LABELS), "batch_size": len(BATCH)}
    out = transform.transform(batch, params).permute(0, 2, 3, 1).contiguous().numpy().tobytes()
    target = transform.transform(params["labels"], params).tolist()
    case = {"op": op, "pictures": BATCH, "dtype": dtype, "labels": LABELS, "num_classes": CLASSES, **named}
    return {**case, "target": target, "bytes": len(out)}, out


def mixups():
    for lam in map(single, LAMBDAS):
        yield mixed("mixup", v2.MixUp(num_classes=CLASSES), "f32", {"lam": lam}, {"lam": lam})


def cutmixes():
    _, _, height, width = BATCH[0]
    for dtype, cuts in [("u8", CUTS), ("f32", CUTS[1:2])]:
        for x1, y1, x2, y2 in cuts:
            lam = float(1.0 - (x2 - x1) * (y2 - y1) / (width * height))
            params = {"box": (x1, y1, x2, y2), "lam_adjusted": lam}
            yield mixed("cutmix", v2.CutMix(num_classes=CLASSES), dtype, params, params)


def write():
    write_pair("erase", [*erases(), *mixups(), *cutmixes()])
