"""crop.json, resize.json and resize.bin: centre crops, and the antialiased bilinear resize by both libraries."""

import numpy as np
import PIL.Image
from torchvision.transforms import v2

from .common import TEXTURE_PICTURE, picture, sha256, to_pixels, to_tensor, write_json, write_pair

CROPPED = ["noise", 1, 33, 47]
CROPS = [(7, 4), (9, 9), (32, 32), (33, 47), (12, 60), (60, 12), (50, 52), (1, 1)]

# picture, window (top, left, height, width) or none, output height and width
RESIZES = [
    (TEXTURE_PICTURE, None, (32, 32)),
    (TEXTURE_PICTURE, (10, 20, 41, 37), (36, 28)),
    (TEXTURE_PICTURE, (30, 7, 12, 30), (40, 22)),
    (["waves", 0, 64, 64], None, (32, 32)),
    (["waves", 4, 33, 47], None, (24, 31)),
    (["waves", 5, 13, 17], None, (30, 36)),
    (["waves", 6, 100, 100], None, (10, 33)),
    (["noise", 2, 40, 12], None, (15, 30)),
    (["noise", 3, 12, 40], None, (30, 15)),
    (["noise", 4, 7, 9], None, (8, 40)),
    (["noise", 5, 50, 61], None, (13, 11)),
    (["noise", 6, 20, 24], None, (20, 12)),
    (["noise", 7, 20, 24], None, (31, 24)),
]


def crops():
    image = to_tensor(picture(*CROPPED))
    for size in CROPS:
        out = to_pixels(v2.CenterCrop(size)(image))
        yield {"picture": CROPPED, "size": size, "sha256": sha256(out.tobytes())}


def resize(spec, window, size):
    """Returns the case, and the two libraries' bytes."""
    pixels = picture(*spec)
    if window:
        top, left, height, width = window
        pixels = pixels[top : top + height, left : left + width].copy()
    ours = v2.Resize(size, v2.InterpolationMode.BILINEAR, antialias=True)(to_tensor(pixels))
    image = PIL.Image.fromarray(pixels)
    pillow = np.asarray(image.resize((size[1], size[0]), PIL.Image.Resampling.BILINEAR))
    return {"picture": spec, "window": window, "size": size}, to_pixels(ours).tobytes() + pillow.tobytes()


def write():
    write_json("crop.json", crops())
    write_pair("resize", [resize(*case) for case in RESIZES])
