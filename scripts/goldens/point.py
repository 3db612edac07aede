"""point.json: ops that read only one pixel, or an image's histogram. All are exact."""

import itertools

import numpy as np
import PIL.Image
from timm.data import auto_augment

from .common import TEXTURE_PICTURE, exact, picture, run, sha256, single, singles, write_json

RAMP = ["ramp", 0, 8, 32]
WAVES, NOISE, SMALL = ["waves", 3, 24, 31], ["noise", 1, 33, 47], ["noise", 5, 9, 11]
NARROW, GREY, STEPS = ["narrow", 2, 33, 47], ["grey", 3, 24, 31], ["steps", 7, 24, 31]
CONSTANT, BLACK, WHITE = ["constant", 77, 24, 31], ["constant", 0, 8, 8], ["constant", 255, 8, 8]
# 255 pixels of which one has the highest value: one pixel short of a step.
ALMOST = ["ramp", 0, 15, 17]

THRESHOLDS = [0.0, 0.5, 1.0, 77.0, 77.25, 127.5, 128.0, 254.5, 255.0]
GAMMAS = [(0.0, 1.0), (0.4, 1.0), (0.45, 1.0), (0.5, 1.0), (1.0, 1.0), (1.5, 1.0), (2.0, 1.0), (2.2, 1.0),
          (3.0, 1.0), (0.8, 1.2), (2.2, 0.7), (1.0, 2.0), (1.0, 0.0)]  # fmt: skip
HUES = [-0.5, -0.3, -0.1, 0.0, 0.02, 0.1, 0.25, 0.5]
JITTER = ["brightness", "contrast", "saturation", "hue"]
# brightness, contrast, saturation, hue
FACTORS = [(0.7, 1.3, 0.6, 0.1), (1.4, 0.61, 1.39, -0.3)]


def without_parameters():
    for op in ["invert", "autocontrast", "equalize"]:
        for spec in [RAMP, WAVES, NOISE, SMALL, NARROW, GREY, STEPS, CONSTANT, BLACK, WHITE, ALMOST, TEXTURE_PICTURE]:
            yield exact(spec, op)
    for spec in [RAMP, WAVES, NOISE, GREY, WHITE, TEXTURE_PICTURE]:
        for channels in [1, 3]:
            yield exact(spec, "rgb_to_grayscale", num_output_channels=channels)


def with_a_number():
    for bits in range(9):
        yield exact(RAMP, "posterize", bits=bits)
        yield exact(NOISE, "posterize", bits=bits)
    for threshold in THRESHOLDS:
        yield exact(RAMP, "solarize", threshold=threshold)
        yield exact(NOISE, "solarize", threshold=threshold)
    for gamma, gain in GAMMAS:
        yield exact(RAMP, "adjust_gamma", gamma=single(gamma), gain=single(gain))
        yield exact(NOISE, "adjust_gamma", gamma=single(gamma), gain=single(gain))


def channels():
    for order in itertools.permutations(range(3)):
        yield exact(WAVES, "permute_channels", permutation=list(order))


def hues():
    for spec in [WAVES, NOISE, GREY, NARROW, TEXTURE_PICTURE]:
        for hue in HUES:
            yield exact(spec, "adjust_hue", hue_factor=single(hue))


def jitter(spec, order, factors):
    """Returns the case of the four ops in sequence, with u8 between them."""
    pixels = picture(*spec)
    for part in order:
        pixels = run(pixels, f"adjust_{JITTER[part]}", **{f"{JITTER[part]}_factor": factors[part]})
    case = {"picture": spec, "op": "color_jitter", "order": [JITTER[part] for part in order], "factors": factors}
    return {**case, "sha256": sha256(pixels.tobytes())}


def jitters():
    for index, order in enumerate(itertools.permutations(range(4))):
        factors = singles(FACTORS[index % 2])
        yield jitter(NOISE, order, factors)
        yield jitter(WAVES, order, factors)
    for order in [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)]:
        yield jitter(TEXTURE_PICTURE, order, singles(FACTORS[0]))


def solarize_add(spec, add):
    """Returns a case of timm's op, which exists for Pillow images only."""
    out = np.asarray(auto_augment.solarize_add(PIL.Image.fromarray(picture(*spec)), add, thresh=128))
    return {"picture": spec, "op": "solarize_add", "add": add, "thresh": 128, "sha256": sha256(out.tobytes())}


def solarize_adds():
    for add in [0, 1, 33, 99, 110, 128]:
        yield solarize_add(RAMP, add)
        yield solarize_add(NOISE, add)


def write():
    families = [without_parameters(), with_a_number(), channels(), hues(), jitters(), solarize_adds()]
    write_json("point.json", itertools.chain(*families))
