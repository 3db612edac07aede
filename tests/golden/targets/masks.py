"""Hashes of masks that pycocotools 2.0.11 makes of random polygons and runs, one for each 100 cases.

    pip install pycocotools==2.0.11
    python masks.py > masks.json

The cases are drawn by the generator below, which src/decode/object_mask/tests.rs has, too.
"""

import json

import numpy as np
from pycocotools import mask as coco

CASES, IN_HASH = 10_000, 100
WORD = (1 << 64) - 1


class Draws:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return (z ^ (z >> 31)) % bound


def hashed(state, data):
    """FNV-1a."""
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & WORD
    return state


def polygons(draws):
    height, width = 1 + draws.below(40), 1 + draws.below(40)
    # Few polygons are far larger than their image: pycocotools takes memory for all of them.
    kind = draws.below(400)
    around = 1 << 20 if kind == 0 else 1 << 13 if kind < 20 else 60
    parts = [1, 2, 5, 10, 100, 1000][draws.below(6)]
    if around > 1 << 13:
        parts = 1
    coordinate = lambda: (draws.below(2 * around * parts + 1) - around * parts) / parts
    near = lambda side: (draws.below(2 * side * parts + 1) - side * parts // 2) / parts
    found = []
    for _ in range(1 + draws.below(3)):
        points = 3 + draws.below(3 if kind == 0 else 10)
        polygon = []
        for _ in range(points):
            # Most points are in the image or around it.
            far = draws.below(4) == 0
            polygon += [coordinate(), coordinate()] if far else [near(width), near(height)]
        found.append(polygon)
    return height, width, found


def runs(draws):
    height, width = 1 + draws.below(40), 1 + draws.below(40)
    left, longest, counts = height * width, 1 + draws.below(200), []
    while left > 0:
        counts.append(min(left, draws.below(longest + 1)))
        left -= counts[-1]
    return height, width, counts


def facts(rle):
    """The mask in rows, its area, its compressed runs, its box."""
    mask = coco.decode(rle)
    again = coco.encode(np.asfortranarray(mask))
    box = [int(side) for side in coco.toBbox(again)]
    text = f"{int(coco.area(rle))} {again['counts'].decode()} {box[0]} {box[1]} {box[2]} {box[3]}"
    return mask.tobytes("C") + text.encode()


def hashes(seed, make):
    draws, found = Draws(seed), []
    for _ in range(CASES // IN_HASH):
        state = 0xCBF29CE484222325
        for _ in range(IN_HASH):
            state = hashed(state, facts(make(draws)))
        found.append(f"{state:016x}")
    return found


def of_polygons(draws):
    height, width, found = polygons(draws)
    return coco.merge(coco.frPyObjects(found, height, width))


def of_runs(draws):
    height, width, counts = runs(draws)
    return coco.frPyObjects({"size": [height, width], "counts": counts}, height, width)


golden = {"cases": CASES, "in_hash": IN_HASH, "polygons": hashes(1, of_polygons), "runs": hashes(2, of_runs)}
print(json.dumps(golden, indent=0))
