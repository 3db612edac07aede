"""geometry.json: flips, turns, pads, crops and resizes. All are exact."""

import itertools

import torch

from .common import TEXTURE_PICTURE, exact, picture, sha256, to_pixels, to_tensor, write_json

WAVES, NOISE, SMALL, TALL = ["waves", 3, 24, 31], ["noise", 1, 33, 47], ["noise", 2, 5, 7], ["waves", 1, 31, 24]
EVEN, ONE = ["noise", 4, 8, 6], ["noise", 6, 1, 1]

# left, top, right, bottom; or one number for all; or one for left and right and one for top and bottom
PADDINGS = [0, 1, 4, [3, 2], [2, 0, 0, 0], [0, 3, 0, 0], [0, 0, 1, 0], [0, 0, 0, 4], [1, 2, 3, 4], [4, 3, 2, 1]]
FILLS = [0, 9, 255, [1, 20, 255]]
CENTRES = [(1, 1), (3, 4), (4, 3), (5, 7), (6, 6), (8, 8), (9, 11), (24, 31), (12, 60), (60, 12), (50, 52)]
# top, left, height, width
CROPS = [(0, 0, 24, 31), (3, 5, 7, 11), (-1, -1, 10, 12), (20, 25, 10, 12), (-3, 4, 30, 8), (4, -3, 8, 40),
         (-5, -6, 40, 50), (23, 30, 1, 1), (30, 0, 5, 5), (-9, -9, 10, 10)]  # fmt: skip

MODES = [("nearest", False), ("nearest-exact", False), ("bilinear", True), ("bilinear", False), ("bicubic", True),
         ("bicubic", False)]  # fmt: skip
# picture, output height and width; torch 2.15 can't resize to a single pixel
RESIZES = [
    (WAVES, (24, 31)), (WAVES, (12, 31)), (WAVES, (24, 15)), (WAVES, (48, 62)), (WAVES, (23, 30)), (WAVES, (25, 32)),
    (NOISE, (11, 16)), (NOISE, (13, 90)), (NOISE, (70, 9)), (NOISE, (1, 2)), (NOISE, (60, 80)), (NOISE, (33, 60)),
    (SMALL, (2, 2)), (SMALL, (8, 8)), (SMALL, (15, 21)), (SMALL, (32, 32)),
    (ONE, (3, 5)), (EVEN, (4, 3)), (EVEN, (16, 18)), (["waves", 6, 100, 100], (10, 33)),
    (TEXTURE_PICTURE, (32, 32)), (TEXTURE_PICTURE, (96, 120)),
    (["constant", 255, 13, 9], (20, 21)), (["constant", 255, 30, 40], (7, 11)),
]  # fmt: skip
# picture, size, longest side
SHORT_SIDES = [(WAVES, 16, None), (TALL, 16, None), (WAVES, 40, None), (["noise", 9, 50, 10], 20, 61),
               (["noise", 9, 10, 50], 20, 61), (WAVES, None, 20), (TALL, None, 50)]  # fmt: skip


def moved(spec, op, pixels, **params):
    """Returns the case of a permutation of pixels that torch itself has."""
    pixels = to_pixels(pixels)
    size = list(pixels.shape[:2])
    return {"picture": spec, "op": op, **params, "output_size": size, "sha256": sha256(pixels.tobytes())}


def flips_and_turns():
    for spec in [WAVES, NOISE, SMALL, ONE]:
        image = to_tensor(picture(*spec))
        yield exact(spec, "horizontal_flip")
        yield exact(spec, "vertical_flip")
        yield moved(spec, "transpose", image.transpose(1, 2))
        for k in range(4):
            yield moved(spec, "rot90", torch.rot90(image, k, dims=(1, 2)), k=k)


def pads():
    for padding in PADDINGS:
        for mode in ["edge", "reflect", "symmetric"]:
            yield exact(SMALL, "pad", padding=padding, padding_mode=mode)
        for fill in FILLS:
            yield exact(SMALL, "pad", padding=padding, padding_mode="constant", fill=fill)
    yield exact(SMALL, "pad", padding=[6, 4, 6, 4], padding_mode="reflect")
    yield exact(SMALL, "pad", padding=[7, 5, 7, 5], padding_mode="symmetric")
    yield exact(SMALL, "pad", padding=[20, 30, 9, 12], padding_mode="edge")
    yield exact(SMALL, "pad", padding=[20, 30, 9, 12], padding_mode="constant", fill=3)
    for mode in ["constant", "edge", "reflect", "symmetric"]:
        yield exact(NOISE, "pad", padding=[4, 4, 4, 4], padding_mode=mode)


def crops():
    for spec in [WAVES, EVEN, SMALL]:
        for size in CENTRES:
            yield exact(spec, "center_crop", output_size=list(size))
    for top, left, height, width in CROPS:
        yield exact(WAVES, "crop", top=top, left=left, height=height, width=width)


def resizes():
    for spec, size in RESIZES:
        for interpolation, antialias in MODES:
            yield exact(spec, "resize", size=list(size), interpolation=interpolation, antialias=antialias)
    for spec, size, longest in SHORT_SIDES:
        size = None if size is None else [size]
        yield exact(spec, "resize", size=size, max_size=longest, interpolation="bilinear", antialias=True)


def write():
    write_json("geometry.json", itertools.chain(flips_and_turns(), pads(), crops(), resizes()))
