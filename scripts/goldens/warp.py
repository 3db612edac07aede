"""warp.json and warp.bin: rotate, affine and perspective. Nearest is exact; the bytes of bilinear are stored.

No nearest case reads halfway between two pixels: rounding decides there, and the CPU decides how the
library rounds. For the same reason a bilinear value may be off by one level.

`matrix` is the inverse matrix that the library computes, row by row, and `coefficients` are the eight
numbers of a perspective: each number as the bits of its f32. A rotation by a multiple of 90 degrees that
only permutes pixels has no matrix.
"""

import contextlib
import itertools

from torchvision.transforms.functional import _get_perspective_coeffs
from torchvision.transforms.v2.functional import _geometry

from .common import Tie, approximate, bits, exact, single, write_pair

WAVES, NOISE, SQUARE, DOT = ["waves", 3, 24, 31], ["noise", 1, 17, 22], ["noise", 8, 20, 20], ["noise", 6, 1, 1]
WHITE = ["constant", 200, 9, 12]

ANGLES = [0.0, 30.0, 45.0, 90.0, 180.0, 270.0, -17.5, 359.0, 400.0, 135.0]
FILLS = [None, 0.0, [10.0, 200.0, 255.0]]
# picture, angle, expand, center (x, y), fill
ROTATIONS = [(NOISE, angle, False, None, None) for angle in ANGLES]
ROTATIONS += [(WAVES, angle, False, None, fill) for angle in [30.0, -17.5] for fill in FILLS]
ROTATIONS += [(SQUARE, 90.0, False, None, None), (SQUARE, 270.0, False, None, 0.0), (DOT, 30.0, False, None, None)]
ROTATIONS += [(WHITE, 45.0, False, None, fill) for fill in FILLS]
ROTATIONS += [(NOISE, 33.0, False, center, fill) for center in [[0.0, 0.0], [5.0, 3.5]] for fill in [None, 128.0]]
ROTATIONS += [(NOISE, 90.0, False, [11.0, 8.5], None), (NOISE, 0.0, False, [3.0, 4.0], None)]
ROTATIONS += [(NOISE, angle, True, None, None) for angle in [30.0, 45.0, 90.0, 180.0, -17.5, 1.0]]
ROTATIONS += [(SQUARE, 45.0, True, None, [10.0, 200.0, 255.0]), (WHITE, 60.0, True, None, 0.0)]

STILL = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
# picture, what is not STILL, center, fill
AFFINES = [
    (NOISE, {}, None, None),
    (NOISE, {"angle": 30.0}, None, None),
    (NOISE, {"angle": -45.0}, None, 0.0),
    (NOISE, {"angle": 90.0}, None, None),
    (NOISE, {"translate": [3, -2]}, None, None),
    (NOISE, {"translate": [-5, 4]}, None, [10.0, 200.0, 255.0]),
    (NOISE, {"translate": [40, 0]}, None, None),
    (WAVES, {"scale": 0.5}, None, None),
    (WAVES, {"scale": 1.73}, None, None),
    (WAVES, {"scale": 0.93}, None, 114.0),
    (NOISE, {"shear": [20.0, 0.0]}, None, None),
    (NOISE, {"shear": [0.0, -15.0]}, None, None),
    (NOISE, {"shear": [10.0, 5.0]}, [0.0, 0.0], None),
    (NOISE, {"angle": 20.0, "shear": [-12.0, 7.5]}, None, 0.0),
    (WAVES, {"angle": -25.0, "translate": [2, 3], "scale": 1.2, "shear": [8.0, 0.0]}, None, None),
    (WAVES, {"angle": 12.0, "translate": [-3, 1], "scale": 0.8, "shear": [5.0, -9.0]}, [4.0, 20.0], [1.0, 2.0, 3.0]),
    (SQUARE, {"angle": 135.0, "scale": 0.7}, None, None),
    (WHITE, {"angle": 10.0, "scale": 0.6}, None, 0.0),
    (DOT, {"angle": 10.0}, None, None),
]


def corners(spec):
    """Returns the start points of RandomPerspective: all four corners, clockwise from the top left, as x and y."""
    _, _, height, width = spec
    return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]


# picture, end points, fill
PERSPECTIVES = [
    (NOISE, corners(NOISE), None),
    (NOISE, [[2, 1], [19, 3], [20, 14], [1, 16]], None),
    (NOISE, [[5, 4], [16, 0], [21, 16], [3, 12]], 0.0),
    (WAVES, [[0, 5], [30, 0], [25, 20], [6, 23]], None),
    (WAVES, [[7, 5], [24, 4], [30, 23], [0, 22]], [10.0, 200.0, 255.0]),
    (SQUARE, [[4, 4], [15, 4], [15, 15], [4, 15]], 77.0),
    (SQUARE, [[0, 0], [19, 2], [17, 19], [3, 16]], None),
    (WHITE, [[2, 1], [10, 0], [9, 8], [1, 7]], 0.0),
]


def matrix(spec, angle, translate, scale, shear, center):
    """Returns the library's inverse matrix, for an affine's angle as the user passes it."""
    _, _, height, width = spec
    relative = [0.0, 0.0] if center is None else [center[0] - width * 0.5, center[1] - height * 0.5]
    return bits(_geometry._get_inverse_affine_matrix(relative, angle, translate, scale, shear))


def is_a_turn(spec, angle, expand, center):
    """Returns true if the library rotates the image without a matrix."""
    square = expand or spec[2] == spec[3]
    return center is None and (angle % 180 == 0 or square and angle % 90 == 0)


def rotations():
    for spec, angle, expand, center, fill in ROTATIONS:
        params = {"angle": angle, "expand": expand, "center": center, "fill": fill}
        if is_a_turn(spec, angle, expand, center):
            yield spec, "rotate", params, {}
        else:
            known = matrix(spec, -(angle % 360), [0.0, 0.0], 1.0, [0.0, 0.0], center)
            yield spec, "rotate", params, {"matrix": known}


def affines():
    for spec, change, center, fill in AFFINES:
        move = {**STILL, **change}
        move["scale"] = single(move["scale"])
        known = matrix(spec, **move, center=center)
        yield spec, "affine", {**move, "center": center, "fill": fill}, {"matrix": known}


def perspectives():
    for spec, ends, fill in PERSPECTIVES:
        points = {"startpoints": corners(spec), "endpoints": ends}
        known = bits(_get_perspective_coeffs(*points.values()))
        yield spec, "perspective", {**points, "fill": fill}, {"coefficients": known}


def both(spec, op, params, known):
    """Yields a warp by nearest, unless it has ties, and by bilinear."""
    with contextlib.suppress(Tie):
        case = exact(spec, op, interpolation="nearest", **params)
        yield {**case, **known}, b""
    case, data = approximate(spec, op, interpolation="bilinear", **params)
    yield {**case, **known}, data


def write():
    warps = itertools.chain(rotations(), affines(), perspectives())
    write_pair("warp", [made for warp in warps for made in both(*warp)])
