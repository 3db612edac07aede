"""Code shared by all families: images, a case of a torchvision functional, and the files.

A case is one JSON object on one line: the image, the op by its functional's name, the functional's
parameters by their names, and the result, as bytes in rows `[height, width, channel]`:

    "sha256": "..."      the SHA-256 of all bytes
    "bytes": n           or: the next n bytes of the family's .bin, in the order of the cases

If Pillow has the op too, `pillow_max` is the largest difference between its result and torchvision's,
in levels, and `pillow_share` is the share of values that differ.
"""

import contextlib
import hashlib
import importlib.util
import json
import pathlib
from unittest import mock

import cv2
import numpy as np
import PIL.Image
import timm
import torch
import torchvision
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2.functional import _geometry

OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden/ops"
TEXTURE, TEXTURE_AT = (64, 80), (350, 134)
TEXTURE_PICTURE = ["texture", 0, *TEXTURE]


def texture():
    """Returns a region of a photo in full resolution: a badge on cloth."""
    (package,) = importlib.util.find_spec("skimage").submodule_search_locations
    photo = PIL.Image.open(pathlib.Path(package) / "data/astronaut.png")
    top, left = TEXTURE_AT
    photo = np.asarray(photo.convert("RGB"))
    return photo[top : top + TEXTURE[0], left : left + TEXTURE[1]].copy()


def waves(seed, width, y, x, c):
    """Slopes and edges in every direction."""
    return (3 * y + 5 * x * (c + 1) + 17 * seed) ^ ((y // 7) * (x // 5) * (c + 3))


def noise(seed, width, y, x, c):
    """Noise: every value has the same probability, and neighbours differ."""
    value = ((seed * 8191 + y) * 8191 + x) * 8191 + c
    value = (value ^ (value >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
    value = (value ^ (value >> np.uint32(12))) * np.uint32(0x297A2D39)
    return value ^ (value >> np.uint32(15))


def ramp(seed, width, y, x, c):
    """All 256 values in order, in each channel."""
    return width * y + x


def constant(seed, width, y, x, c):
    """The seed in every pixel."""
    return seed + 0 * (y + x + c)


def steps(seed, width, y, x, c):
    """Five values in all."""
    return seed + 40 * ((y + 2 * x + c) % 5)


def narrow(seed, width, y, x, c):
    """Noise within 20 values of red, 60 of green and 100 of blue, none of them 0 or 255."""
    return 20 + 40 * c + (noise(seed, width, y, x, c) & 255) % (20 + 40 * c)


def grey(seed, width, y, x, c):
    """Noise whose channels are equal, except in every fourth column."""
    return noise(seed, width, y, x, np.where(x % 4 == 3, c, 0).astype(np.uint32))


FORMULAS = {f.__name__: f for f in [waves, noise, ramp, constant, steps, narrow, grey]}


def picture(kind, seed, height, width):
    """Returns the image of a kind, as u8 [height, width, 3]: the low byte of its formula in u32."""
    if kind == "texture":
        return texture()
    axes = (np.arange(n, dtype=np.uint32) for n in (height, width, 3))
    y, x, c = np.meshgrid(*axes, indexing="ij")
    value = FORMULAS[kind](np.uint32(seed), np.uint32(width), y, x, c)
    return (value & 255).astype(np.uint8)


def to_tensor(pixels):
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def to_pixels(tensor):
    return tensor.permute(1, 2, 0).contiguous().numpy()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def single(value):
    """Rounds to a number that f32 can represent, as draws are."""
    return float(np.float32(value))


def singles(values):
    return [single(value) for value in values]


def bits(values):
    """Returns the bits of the f32 nearest to each value."""
    return [int(word) for word in np.array(values, np.float64).astype(np.float32).view(np.uint32)]


# Ops that torchvision passes on to Pillow for a Pillow image, so that both receive the same request.
PILLOW_HAS = {
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "adjust_sharpness", "affine", "autocontrast", "center_crop", "crop", "equalize",
    "horizontal_flip", "invert", "pad", "perspective", "posterize", "resize", "rgb_to_grayscale",
    "rotate", "solarize", "vertical_flip",
}  # fmt: skip


def run(pixels, op, **params):
    """Returns torchvision's result on a u8 tensor."""
    return to_pixels(getattr(F, op)(to_tensor(pixels), **params))


def difference(ours, theirs):
    """Returns the difference between Pillow's image and torchvision's; nothing if their sizes differ."""
    theirs = np.asarray(theirs)
    theirs = theirs.reshape(*theirs.shape[:2], -1)
    if theirs.shape != ours.shape:
        return {}
    levels = np.abs(theirs.astype(int) - ours)
    return {"pillow_max": int(levels.max()), "pillow_share": round(float((levels > 0).mean()), 5)}


def pillow_difference(pixels, ours, op, **params):
    """Returns the difference between Pillow's result and torchvision's; nothing if Pillow lacks the op."""
    # Pillow has no resize without antialiasing, and refuses to posterize to zero bits.
    blurs = params.get("interpolation") in ["bilinear", "bicubic"]
    if op not in PILLOW_HAS or (blurs and params.get("antialias") is False) or params.get("bits") == 0:
        return {}
    params = {name: value for name, value in params.items() if name != "antialias"}
    return difference(ours, getattr(F, op)(PIL.Image.fromarray(pixels), **params))


class Tie(Exception):
    """A nearest warp reads halfway between two pixels, where the last bit of the grid decides."""


def is_a_tie(grid, height, width):
    """Returns true if rounding could move a source position within the image to another pixel."""
    size = torch.tensor([width, height], dtype=torch.float64)
    source = ((grid.to(torch.float64) + 1) * size - 1) / 2
    near = ((source - source.floor()) - 0.5).abs() < 1e-5
    inside = ((source > -0.6) & (source < size - 0.4)).all(dim=-1)
    return bool((near.any(dim=-1) & inside).any())


@contextlib.contextmanager
def without_ties():
    """Refuses nearest warps with ties: the CPU decides whether the grid's sums are fused."""
    sample = _geometry._apply_grid_transform

    def checked(image, grid, mode, fill):
        if mode == "nearest" and is_a_tie(grid, *image.shape[-2:]):
            raise Tie
        return sample(image, grid, mode, fill)

    with mock.patch.object(_geometry, "_apply_grid_transform", checked):
        yield


def outcome(spec, op, **params):
    """Returns the case of a functional without its result, and the result."""
    pixels = picture(*spec)
    ours = run(pixels, op, **params)
    size = {} if ours.shape[:2] == pixels.shape[:2] else {"output_size": list(ours.shape[:2])}
    pillow = pillow_difference(pixels, ours, op, **params)
    return {"picture": spec, "op": op, **params, **size, **pillow}, ours


def exact(spec, op, **params):
    """Returns a case whose result must be equal in every bit."""
    case, ours = outcome(spec, op, **params)
    return {**case, "sha256": sha256(ours.tobytes())}


def approximate(spec, op, **params):
    """Returns a case whose result may differ within a tolerance, and its bytes."""
    case, ours = outcome(spec, op, **params)
    return {**case, "bytes": ours.nbytes}, ours.tobytes()


def made_by():
    libraries = {"torchvision": torchvision, "torch": torch, "Pillow": PIL, "timm": timm, "OpenCV": cv2}
    return ", ".join(f"{name} {library.__version__}" for name, library in libraries.items())


def write_json(name, cases):
    """Writes one case per line, so that a diff shows the cases that changed."""
    lines = ",\n".join("  " + json.dumps(case, allow_nan=False) for case in cases)
    (OUT / name).write_text(f'{{"made_by": {json.dumps(made_by())}, "cases": [\n{lines}\n]}}\n')


def write_pair(name, made):
    """Writes the cases, and the bytes of those that have bytes, one after the other."""
    write_json(f"{name}.json", [case for case, _ in made])
    (OUT / f"{name}.bin").write_bytes(b"".join(data for _, data in made))
