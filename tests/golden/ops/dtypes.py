"""Writes dtypes.json and dtypes.bin: geometry, resizes, warps and blurs of u16, i16, f16 and f32, by torchvision and
NumPy.

The picture is `[13, 14, 17]`: noise, as `tests/ops/golden/support.rs` computes it, mapped to values of the type. Each
channel is treated alike, so the first C channels of a result are the result of the first C channels. A case has
`bytes`, so many of dtypes.bin in the order of the cases: the channels 0, 2 and 12, planes one after the other.

torchvision computes in f32 here, and integers are rounded half to even and clamped to their type afterwards: its own
results on u16 are truncated, and wrap around beside peaks. `opencv_max` is the largest difference of OpenCV's result
on the type itself, as a share of the range of the values; cases without it have no counterpart there.

    pip install torch torchvision opencv-python-headless
    python dtypes.py
"""

import json
from pathlib import Path

import cv2
import numpy as np
import torch
import torchvision
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

HERE = Path(__file__).parent
CHANNELS, HEIGHT, WIDTH = 13, 14, 17
KEPT = [0, 2, 12]
# The factor and the offset of the values of a type, whose whole numbers are in 0..=top.
TYPES = {"u16": (np.uint16, 65535, 0, 1), "i16": (np.int16, 65535, 32768, 1), "f16": (np.float16, 2047, 1024, 8),
         "f32": (np.float32, (1 << 24) - 1, 1 << 23, 256)}  # fmt: skip


def noise(seed):
    """Returns `[height, width, channel]` words."""
    y, x, c = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), np.arange(CHANNELS), indexing="ij")
    v = np.full(y.shape, seed, np.uint32)
    with np.errstate(over="ignore"):
        for following in (y, x, c):
            v = v * np.uint32(8191) + following.astype(np.uint32)
        v = (v ^ (v >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
        v = (v ^ (v >> np.uint32(12))) * np.uint32(0x297A2D39)
    return v ^ (v >> np.uint32(15))


def picture(name):
    dtype, top, offset, divisor = TYPES[name]
    return ((noise(5).astype(np.int64) & top).astype(np.float64) - offset) / divisor


def stored(values, name):
    """Rounds f32 to the type."""
    dtype = TYPES[name][0]
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        values = np.clip(np.rint(values.astype(np.float64)), limits.min, limits.max)
    return values.astype(dtype)


def resized(mode, antialias):
    return lambda size: lambda image: F.resize(image, size, interpolation=mode, antialias=antialias)


def cv_resized(flag):
    return lambda size: lambda image: cv2.resize(image, size[::-1], interpolation=flag)


M = InterpolationMode
DOWN, UP = [8, 11], [15, 19]
OPS = [
    ("hflip", {}, F.horizontal_flip, lambda image: cv2.flip(image, 1)),
    ("vflip", {}, F.vertical_flip, lambda image: cv2.flip(image, 0)),
    ("center_crop", {"size": [9, 11]}, lambda image: F.center_crop(image, [9, 11]), None),
    ("pad", {"mode": "constant"}, lambda image: F.pad(image, [2, 1, 3, 2]), None),
    ("pad", {"mode": "reflect"}, lambda image: F.pad(image, [2, 1, 3, 2], padding_mode="reflect"),
     lambda image: cv2.copyMakeBorder(image, 1, 2, 2, 3, cv2.BORDER_REFLECT_101)),
    ("rot90", {"k": 1}, lambda image: torch.rot90(image, 1, (-2, -1)), lambda image: np.rot90(image, 1).copy()),
    ("transpose", {}, lambda image: image.mT, cv2.transpose),
    ("gaussian_blur", {"kernel_size": 5, "sigma": 1.3}, lambda image: F.gaussian_blur(image, [5, 5], [1.3, 1.3]),
     lambda image: cv2.GaussianBlur(image, (5, 5), 1.3, borderType=cv2.BORDER_REFLECT_101)),
    ("rotate", {"interpolation": "bilinear"}, lambda image: F.rotate(image, 30.0, M.BILINEAR, fill=0.0), None),
    ("rotate", {"interpolation": "nearest"}, lambda image: F.rotate(image, 30.0, M.NEAREST, fill=0.0), None),
]  # fmt: skip
for name, theirs, cv in [
    ("nearest", resized(M.NEAREST, False), cv_resized(cv2.INTER_NEAREST)),
    ("nearest-exact", resized(M.NEAREST_EXACT, False), None),  # OpenCV decides ties otherwise
    ("bilinear", resized(M.BILINEAR, False), cv_resized(cv2.INTER_LINEAR)),
    ("bilinear-antialias", resized(M.BILINEAR, True), None),
    ("bicubic", resized(M.BICUBIC, False), cv_resized(cv2.INTER_CUBIC)),
    ("bicubic-antialias", resized(M.BICUBIC, True), None),
]:
    for size in (DOWN, UP):
        OPS.append(("resize", {"interpolation": name, "size": size}, theirs(size), cv and cv(size)))


def opencv_difference(theirs, image, expected, name):
    """Returns the largest difference as a share of the range; None if OpenCV has no such op for the type."""
    if theirs is None or name == "f16":
        return None
    dtype, top, _, divisor = TYPES[name]
    found = np.stack([theirs(image[..., c].astype(dtype)) for c in KEPT])
    assert found.dtype == dtype
    return float(np.abs(found.astype(np.float64) - expected).max() * divisor / top)


def main():
    cases, values = [], b""
    for name in TYPES:
        image = picture(name)
        planes = torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32))
        for op, params, theirs, cv in OPS:
            result = stored(theirs(planes).numpy()[KEPT], name)
            case = {"op": op, "dtype": name, **params, "bytes": result.nbytes}
            difference = opencv_difference(cv, image, result.astype(np.float64), name)
            if difference is not None:
                case["opencv_max"] = float(f"{difference:.2g}")
            cases.append(case)
            values += result.tobytes()
    made_by = f"torchvision {torchvision.__version__}, torch {torch.__version__}, OpenCV {cv2.__version__}"
    lines = ",\n  ".join(map(json.dumps, cases))
    (HERE / "dtypes.json").write_text(f'{{"made_by": {json.dumps(made_by)}, "cases": [\n  {lines}\n]}}\n')
    (HERE / "dtypes.bin").write_bytes(values)
    print(len(cases), "cases,", len(values), "bytes")


if __name__ == "__main__":
    main()
