"""Writes elastic.json and elastic.bin: torchvision's elastic transform of displacements that it makes of our noise.

The noise is that of `ops/src/rows/displacement.rs`: xoshiro256++ with a seed. torchvision blurs it, multiplies it and moves
the pixels of a picture, which is that of `waves` in `scripts/goldens/common.py`. A case has `bytes`, so many of elastic.bin
in the order of the cases, and `points`: pairs of a point of the output and where torchvision reads it, in pixels.

    pip install torch torchvision
    python elastic.py
"""

import json
from pathlib import Path

import numpy as np
import torch
import torchvision
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

HERE = Path(__file__).parent
MASK = (1 << 64) - 1


def units(seed, count):
    """Returns numbers in 0..1: the upper 24 bits of the words of xoshiro256++, seeded by splitmix64."""
    state = []
    for _ in range(4):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        state.append(z ^ (z >> 31))

    def turned(value, by):
        return ((value << by) | (value >> (64 - by))) & MASK

    for _ in range(count):
        word = (turned((state[0] + state[3]) & MASK, 23) + state[0]) & MASK
        t = (state[1] << 17) & MASK
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= t
        state[3] = turned(state[3], 45)
        yield (word >> 40) * 2.0**-24


def waves(seed, height, width):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    values = (3 * y + 5 * x * (c + 1) + 17 * seed) ^ ((y // 7) * (x // 5) * (c + 3))
    return (values & 255).astype(np.uint8)


def displacement(seed, alpha, sigma, height, width):
    """What `ElasticTransform.make_params` does, with this noise."""
    noise = np.fromiter(units(seed, 2 * height * width), np.float32)
    planes = []
    for axis, plane in enumerate(torch.from_numpy(noise).reshape(2, 1, 1, height, width)):
        plane = plane * 2 - 1
        if sigma[axis] > 0.0:
            side = int(8 * sigma[axis] + 1)
            side += side % 2 == 0
            plane = F.gaussian_blur(plane, [side, side], list(sigma))
        planes.append(plane * alpha[axis] / (width, height)[axis])
    return torch.concat(planes, 1).permute([0, 2, 3, 1])


CASES = [
    (7, (50.0, 50.0), (2.0, 2.0), None),
    (8, (50.0, 50.0), (2.0, 2.0), [0, 0, 0]),
    (9, (120.0, 60.0), (2.5, 2.5), [200, 10, 90]),
    (10, (9.0, 4.0), (0.5, 1.5), [200, 10, 90]),
    (11, (6.0, 6.0), (0.0, 0.0), [1, 2, 3]),
]
HEIGHT, WIDTH = 40, 53

cases, stored = [], b""
for seed, alpha, sigma, fill in CASES:
    moved = displacement(seed, alpha, sigma, HEIGHT, WIDTH)
    picture = torch.from_numpy(waves(seed, HEIGHT, WIDTH)).permute(2, 0, 1)
    for name in ("nearest", "bilinear"):
        out = F.elastic(picture, moved, InterpolationMode(name), fill=fill)
        values = out.permute(1, 2, 0).numpy().tobytes()
        stored += values
        cases.append({
            "picture": ["waves", seed, HEIGHT, WIDTH], "op": "elastic", "interpolation": name, "seed": seed,
            "alpha": alpha, "sigma": sigma, "fill": fill, "bytes": len(values),
            "points": [
                [[x + 0.5, y + 0.5], [x + 0.5 + float(moved[0, y, x, 0]) * WIDTH / 2, y + 0.5 + float(moved[0, y, x, 1]) * HEIGHT / 2]]
                for y, x in ((0, 0), (3, 50), (20, 25), (39, 52))
            ],
        })  # fmt: skip

made_by = f"torchvision {torchvision.__version__}, torch {torch.__version__}"
lines = ",\n".join("  " + json.dumps(case) for case in cases)
(HERE / "elastic.json").write_text(f'{{"made_by": {json.dumps(made_by)}, "cases": [\n{lines}\n]}}\n')
(HERE / "elastic.bin").write_bytes(stored)
