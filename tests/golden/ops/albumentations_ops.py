"""Writes albumentations.json and albumentations.bin: what Albumentations and OpenCV make of a few pictures.

A case has `bytes` of albumentations.bin, in the order of the cases: the result in rows `[height, width, channel]`.

    shift_hsv, float_hsv   hue, saturation and value shifted: Albumentations' images of u8, and OpenCV's floats
    scale_hsv              the same for ultralytics' RandomHSV: a turn and two factors, in OpenCV's floats
    rgb_shift, multiply    numbers added to channels, or multiplied with them
    move_tone_curve        the points of one curve, or of three
    sharpen, emboss        two numbers
    motion_blur            side, angle, the two ends along the line, and the shift in pixels along x and y
    median_blur            side
    grid_distortion        the lengths of the steps along x and y, as fractions of those of a regular grid
    optical_distortion     the mode and k; the map of the camera is moved by half a pixel, so that k = 0 changes nothing
    clahe                  clip limit, and the numbers of rows and columns of tiles; also of the first channel alone
    downscale              scale
    brightness_contrast    a factor, and what is added
    jpeg                   quality; also of the first channel alone
    perspective            the corners of the part that becomes the image, in pixels, clockwise from the top left

    pip install albumentations torchvision timm opencv-python-headless numpy
    python albumentations_ops.py
"""

import importlib.metadata
import json
import math
import os
import sys
from pathlib import Path

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
HERE = Path(__file__).parent
sys.path[0] = str(HERE.parent.parent.parent / "scripts")

import albucore
import albumentations as A
import albumentations.augmentations.blur.functional as blur
import albumentations.augmentations.geometric.functional as geometric
import albumentations.augmentations.pixel.functional as pixel
import cv2
import numpy as np
from goldens.common import picture, singles

LIBRARIES = ["albumentations", "albucore", "opencv-python-headless", "numpy"]
WAVES, NOISE, GREY, NARROW = ["waves", 3, 24, 31], ["noise", 1, 17, 22], ["grey", 3, 24, 31], ["narrow", 2, 33, 47]

# hue, saturation, value
SHIFTS = [(0, 0, 0), (20, 30, -20), (-20, -30, 20), (90, 0, 0), (3.5, 120, 0), (0, -255, 0), (-77.25, 15.5, 60)]
# turn, factor of the saturation, factor of the value
SCALES = [(0.015, 1.7, 1.4), (-0.015, 0.3, 0.6), (0.25, 1.0, 1.0), (0.0, 1.35, 0.8)]
COLOURS = [(0, 0, 0), (10.7, -20.7, 90), (-255, 255, 0.5), (20, 20, 20)]
FACTORS = [(1.07, 0.93, 1.0), (0.9, 1.1, 3.0), (0.0, 0.5, 1.5)]
CURVES = [([0.25], [0.75]), ([0.1], [0.6]), ([1.0], [0.0]), ([0.3, 0.2, 0.45], [0.8, 0.65, 0.9])]
# alpha, and lightness or strength
EFFECTS = [(0.2, 0.5), (0.5, 1.0), (0.35, 0.7), (1.0, 0.0), (0.0, 0.3)]
# side, angle in degrees, direction, shift along x and y
MOTIONS = [(3, 0, 0, (0, 0)), (3, 33, 0, (0.25, -0.4)), (5, 45, 0, (0, 0)), (7, 90, 0.5, (0, 0)), (7, 120, -0.3, (0.6, 1.2)),
           (9, 200, 1.0, (-1.1, 0.7)), (15, 77, -1.0, (0, 0)), (21, 301, 0.2, (3.3, -4.4))]  # fmt: skip
# lengths along x, lengths along y
GRIDS = [([1.0] * 6, [1.0] * 6), ([0.7, 1.3, 1.1, 0.8, 1.2, 0.9], [1.2, 0.75, 1.0, 1.3, 0.7, 1.1]),
         ([1.3, 0.7, 1.2], [0.8, 1.25, 1.0])]  # fmt: skip
DISTORTIONS = [0.0, 0.05, -0.05, 0.5, -0.4, 1.0]
CLAHES = [(4.0, (8, 8)), (1.0, (8, 8)), (2.5, (3, 5)), (40.0, (2, 2))]
DOWNSCALES = [0.25, 0.5, 0.37, 0.9]
QUALITIES = [1, 10, 49, 50, 75, 95, 100]
CONTRASTS = [(1.0, 0.0), (1.2, 13.7), (0.8, -30.3), (-0.5, 200.0)]
# Shares of the width and of the height.
CORNERS = [[(0.1, 0.05), (0.9, 0.1), (0.95, 0.8), (0.2, 0.9)], [(0.02, 0.3), (0.99, 0.01), (0.7, 0.98), (0.05, 0.7)]]


class Draws:
    """What `create_motion_kernel` draws: a number of -1..1 for the shift along x, then one along y."""

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def uniform(self, low, high):
        return self.numbers.pop(0)


def float_hsv(image, turn, saturation, value):
    hsv = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    hue, sat, val = cv2.split(hsv)
    hue = np.mod(hue + turn * 360, 360).astype(np.float32)
    sat = np.where(sat == 0, 0, np.clip(saturation(sat * 255), 0, 255) / 255).astype(np.float32)
    val = (np.clip(value(val * 255), 0, 255) / 255).astype(np.float32)
    return np.rint(cv2.cvtColor(cv2.merge((hue, sat, val)), cv2.COLOR_HSV2RGB) * 255).clip(0, 255).astype(np.uint8)


def colours():
    for spec in [NOISE, WAVES, GREY]:
        image = picture(*spec)
        for shift in map(singles, SHIFTS):
            hue, sat, val = shift
            yield {"picture": spec, "op": "shift_hsv", "shift": shift}, pixel.shift_hsv(image, *shift)
            floats = float_hsv(image, hue / 180, lambda s, by=sat: s + by, lambda v, by=val: v + by)
            yield {"picture": spec, "op": "float_hsv", "shift": shift}, floats
        for scale in map(singles, SCALES):
            turn, sat, val = scale
            floats = float_hsv(image, turn, lambda s, by=sat: s * by, lambda v, by=val: v * by)
            yield {"picture": spec, "op": "scale_hsv", "scale": scale}, floats
    image = picture(*NOISE)
    for shift in map(singles, COLOURS):
        yield {"picture": NOISE, "op": "rgb_shift", "shift": shift}, pixel.add_noise(image, np.array(shift, np.float32))
    for factors in map(singles, FACTORS):
        out = albucore.multiply(image, np.array(factors, np.float32))
        yield {"picture": NOISE, "op": "multiply", "factors": factors}, out
    for low, high in CURVES:
        low, high = singles(low), singles(high)
        points = (low[0], high[0]) if len(low) == 1 else (np.array(low), np.array(high))
        yield {"picture": NOISE, "op": "move_tone_curve", "low": low, "high": high}, pixel.move_tone_curve(image, *points)


def neighbours():
    for spec in [NOISE, WAVES]:
        image = picture(*spec)
        for effect in map(singles, EFFECTS):
            sharpen = A.Sharpen._Sharpen__generate_sharpening_matrix(*effect)
            yield {"picture": spec, "op": "sharpen", "effect": effect}, pixel.convolve(image, sharpen)
            emboss = A.Emboss._Emboss__generate_emboss_matrix(*effect)
            yield {"picture": spec, "op": "emboss", "effect": effect}, pixel.convolve(image, emboss)
        for side, angle, direction, shift in MOTIONS:
            half = side // 2
            kernel = blur.create_motion_kernel(side, angle, direction, True, Draws(2 * s / half for s in shift))
            ends = [-half * min(1 - direction, 1), half * min(1 + direction, 1)]
            case = {"picture": spec, "op": "motion_blur", "side": side, "angle": angle, "ends": ends, "shift": list(shift)}
            yield case, pixel.convolve(image, kernel.astype(np.float32) / np.sum(kernel))
        for side in [3, 5, 7, 9, 15]:
            yield {"picture": spec, "op": "median_blur", "side": side}, blur.median_blur(image, side)


def camera(shape, k):
    height, width = shape
    matrix = np.array([[width, 0, width / 2], [0, height, height / 2], [0, 0, 1]], np.float32)
    maps = cv2.initUndistortRectifyMap(
        matrix, np.array([k, k, 0, 0, 0], np.float32), None, None, (width, height), cv2.CV_32FC1)  # fmt: skip
    return [map - np.float32(0.5) for map in maps]


def fisheye(shape, k):
    """Albumentations' map, with the middle of the image between its pixels."""
    height, width = shape
    y, x = np.mgrid[:height, :width].astype(np.float32)
    x, y = x - (width - 1) / 2, y - (height - 1) / 2
    r = np.sqrt(x * x + y * y)
    scale = 1 + k * (r / math.hypot(width / 2, height / 2)) ** 2
    return (x * scale + (width - 1) / 2).astype(np.float32), (y * scale + (height - 1) / 2).astype(np.float32)


def remap(image, maps, interpolation):
    return geometric.remap(image, *maps, interpolation, cv2.BORDER_CONSTANT, 0)


def warps():
    for spec in [WAVES, NARROW]:
        image = picture(*spec)
        shape = image.shape[:2]
        for x, y in GRIDS:
            steps = len(x) - 1
            even = geometric.normalize_grid_distortion_steps(shape, steps, list(x), list(y))
            maps = geometric.generate_grid(shape, even["steps_x"], even["steps_y"], steps)
            case = {"picture": spec, "op": "grid_distortion", "x": x, "y": y}
            yield {**case, "map": [[float(v) for v in maps[0][0]], [float(v) for v in maps[1][:, 0]]]}, remap(
                image, maps, cv2.INTER_LINEAR)  # fmt: skip
        for k in singles(DISTORTIONS):
            for mode, maps in [("camera", camera(shape, k)), ("fisheye", fisheye(shape, k))]:
                out = remap(image, maps, cv2.INTER_LINEAR)
                yield {"picture": spec, "op": "optical_distortion", "mode": mode, "k": k}, out


def contrasts():
    for spec in [WAVES, NARROW]:
        image = picture(*spec)
        for limit, tiles in CLAHES:
            case = {"picture": spec, "limit": limit, "tiles": list(tiles)}
            # OpenCV's grid is columns, then rows.
            yield {**case, "op": "clahe"}, pixel.clahe(image, limit, tiles[::-1])
            yield {**case, "op": "clahe_gray"}, pixel.clahe(np.ascontiguousarray(image[..., :1]), limit, tiles[::-1])


def scales():
    for spec in [WAVES, NARROW]:
        for scale in singles(DOWNSCALES):
            out = pixel.downscale(picture(*spec), scale, cv2.INTER_NEAREST, cv2.INTER_NEAREST)
            yield {"picture": spec, "op": "downscale", "scale": scale}, out


def levels():
    for factor, plus in map(singles, CONTRASTS):
        out = albucore.multiply_add(picture(*NOISE), factor, plus, inplace=False)
        yield {"picture": NOISE, "op": "brightness_contrast", "factor": factor, "plus": plus}, out
    for spec in [WAVES, NARROW, ["noise", 1, 3, 4], ["waves", 2, 1, 9]]:
        for quality in QUALITIES:
            image, case = picture(*spec), {"picture": spec, "quality": quality}
            # Albumentations leaves out the exchange of red and blue, which OpenCV's codec takes in this order.
            swapped = np.ascontiguousarray(image[..., ::-1])
            yield {**case, "op": "jpeg"}, pixel.image_compression(swapped, quality, ".jpg")[..., ::-1]
            gray = pixel.image_compression(np.ascontiguousarray(image[..., :1]), quality, ".jpg")
            yield {**case, "op": "jpeg_gray"}, gray.reshape(*image.shape[:2], 1)


def perspectives():
    for spec in [WAVES, NARROW]:
        image = picture(*spec)
        height, width = image.shape[:2]
        for shares in CORNERS:
            corners = np.float32([[x * width, y * height] for x, y in shares])
            to = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
            matrix = cv2.getPerspectiveTransform(corners, to)
            out = geometric.perspective(image, matrix, width, height, 0, cv2.BORDER_CONSTANT, True, cv2.INTER_LINEAR)
            yield {"picture": spec, "op": "perspective", "corners": corners.tolist()}, out


def main():
    cases, data = [], []
    for family in [colours, neighbours, warps, contrasts, scales, levels, perspectives]:
        for case, out in family():
            assert out.dtype == np.uint8
            cases.append({**case, "bytes": out.nbytes})
            data.append(out.tobytes())
    made_by = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    lines = ",\n".join("  " + json.dumps(case, allow_nan=False) for case in cases)
    (HERE / "albumentations.json").write_text(f'{{"made_by": {json.dumps(made_by)}, "cases": [\n{lines}\n]}}\n')
    (HERE / "albumentations.bin").write_bytes(b"".join(data))


main()
