"""neighbour.json and neighbour.bin: sharpness, which is exact, and blurs, whose bytes are stored.

`blur` is OpenCV's `cv2.blur` with its default border, a reflection that does not repeat the edge.
"""

import cv2

from .common import TEXTURE_PICTURE, approximate, exact, picture, single, singles, write_pair

WAVES, NOISE, STEPS = ["waves", 3, 24, 31], ["noise", 1, 17, 22], ["steps", 7, 24, 31]
THIN, FLAT, THREE = ["noise", 2, 12, 2], ["noise", 3, 2, 12], ["noise", 4, 3, 3]

SHARPNESS = [0.0, 0.3, 0.5, 1.0, 1.37, 1.9, 2.0, 5.0]
# picture, kernel (x, y), sigma (x, y) or none for the default
GAUSSIANS = [
    (NOISE, [3, 3], [0.1, 0.1]), (NOISE, [3, 3], [1.0, 1.0]), (NOISE, [3, 3], [2.0, 2.0]), (NOISE, [3, 3], None),
    (NOISE, [5, 5], [0.5, 0.5]), (NOISE, [5, 5], [1.3, 1.3]), (NOISE, [7, 7], [0.8, 0.8]), (WAVES, [7, 7], [2.0, 2.0]),
    (WAVES, [23, 23], [0.1, 0.1]), (WAVES, [23, 23], [1.1, 1.1]), (WAVES, [23, 23], [2.0, 2.0]),
    (WAVES, [3, 7], [0.7, 1.9]), (WAVES, [5, 1], [1.0, 1.0]), (STEPS, [1, 5], [1.5, 1.5]), (STEPS, [5, 5], None),
    (THREE, [3, 3], [1.0, 1.0]),
]  # fmt: skip
# picture, kernel (x, y)
BOXES = [(NOISE, [3, 3]), (NOISE, [5, 5]), (WAVES, [3, 3]), (WAVES, [5, 5]), (STEPS, [3, 3]), (NOISE, [3, 5]),
         (THREE, [3, 3]), (NOISE, [1, 1]), (NOISE, [7, 7])]  # fmt: skip


def sharpness():
    for spec in [WAVES, NOISE, STEPS, TEXTURE_PICTURE]:
        for factor in map(single, SHARPNESS):
            yield exact(spec, "adjust_sharpness", sharpness_factor=factor), b""
    for spec in [THIN, FLAT, THREE]:
        yield exact(spec, "adjust_sharpness", sharpness_factor=2.0), b""


def gaussians():
    for spec, kernel_size, sigma in GAUSSIANS:
        sigma = None if sigma is None else singles(sigma)
        yield approximate(spec, "gaussian_blur", kernel_size=kernel_size, sigma=sigma)


def boxes():
    for spec, ksize in BOXES:
        out = cv2.blur(picture(*spec), tuple(ksize), borderType=cv2.BORDER_REFLECT_101)
        yield {"picture": spec, "op": "blur", "ksize": ksize, "bytes": out.nbytes}, out.tobytes()


def write():
    write_pair("neighbour", [*sharpness(), *gaussians(), *boxes()])
