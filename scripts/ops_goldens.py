#!/usr/bin/env python3
"""Write tests/golden/ops: what torchvision and Pillow make of a few pictures.

    pip install torch torchvision Pillow numpy scikit-image
    python scripts/ops_goldens.py

tests/ops_golden.rs compares the ops with these files, compiled and evaluated:

    colour.json    SHA-256 of brightness, contrast, saturation and all six orders of the three
    crop.json      SHA-256 of CenterCrop
    resize.json    the resizes, in the order of resize.bin
    resize.bin     for each: torchvision's bytes, then Pillow's; u8 [height, width, 3]
    normalize.bin  ToDtype(float32, scale=True) and Normalize of 0..=255: f32 [256, 3]
    texture.rgb    64 x 80 pixels of a photo, u8 [64, 80, 3]

Pictures are formulas, so that both languages make the same: see `picture`. The photo is part of
one that scikit-image ships, Eileen Collins by NASA, in the public domain. Results depend on
torchvision's fixed-point resize, which a CPU with AVX2 runs.
"""

import hashlib
import importlib.util
import itertools
import json
import pathlib
import struct

import numpy as np
import PIL.Image
import torch
import torchvision
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/ops"
TEXTURE, TEXTURE_AT = (64, 80), (350, 134)
FACTORS = [0.0, 0.25, 0.3, 0.6, 0.999, 1.0, 1.37, 1.4, 2.3]
TRIPLES = [(0.7, 1.3, 0.6), (1.4, 0.61, 1.39), (1.1, 2.3, 0.0)]
PICTURES = [["waves", 3, 40, 56], ["noise", 1, 33, 47], ["texture", 0, *TEXTURE]]

# picture, window (top, left, height, width) or none, output height and width
RESIZES = [
    (["texture", 0, *TEXTURE], None, (32, 32)),
    (["texture", 0, *TEXTURE], (10, 20, 41, 37), (36, 28)),
    (["texture", 0, *TEXTURE], (30, 7, 12, 30), (40, 22)),
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

CROPS = [(7, 4), (9, 9), (32, 32), (33, 47), (12, 60), (60, 12), (50, 52), (1, 1)]


def picture(kind, seed, height, width):
    """The picture of a kind, as u8 [height, width, 3]."""
    if kind == "texture":
        return texture()
    y, x, c = np.meshgrid(*(np.arange(n, dtype=np.uint32) for n in (height, width, 3)), indexing="ij")
    if kind == "waves":
        value = (3 * y + 5 * x * (c + 1) + 17 * seed) ^ ((y // 7) * (x // 5) * (c + 3))
    else:
        value = ((seed * 8191 + y) * 8191 + x) * 8191 + c
        value = (value ^ (value >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
        value = (value ^ (value >> np.uint32(12))) * np.uint32(0x297A2D39)
        value = value ^ (value >> np.uint32(15))
    return (value & 255).astype(np.uint8)


def texture():
    """Part of a photo, at its own scale: a badge on cloth."""
    (package,) = importlib.util.find_spec("skimage").submodule_search_locations
    photo = PIL.Image.open(pathlib.Path(package) / "data/astronaut.png")
    top, left = TEXTURE_AT
    photo = np.asarray(photo.convert("RGB"))
    return photo[top : top + TEXTURE[0], left : left + TEXTURE[1]].copy()


def to_tensor(pixels):
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def to_bytes(tensor):
    return tensor.permute(1, 2, 0).contiguous().numpy().tobytes()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def single(value):
    """A number that f32 can hold, as a draw is."""
    return float(np.float32(value))


COLOUR = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation]
NAMES = ["brightness", "contrast", "saturation"]


def colour_cases():
    for spec in PICTURES:
        image = to_tensor(picture(*spec))
        for name, adjust in zip(NAMES, COLOUR):
            for factor in map(single, FACTORS):
                result = sha256(to_bytes(adjust(image, factor)))
                yield {"picture": spec, "order": [name], "factors": [factor], "sha256": result}
        for order in itertools.permutations(range(3)):
            for factors in TRIPLES:
                factors = [single(f) for f in factors]
                out = image
                for part in order:
                    out = COLOUR[part](out, factors[part])
                order_names = [NAMES[part] for part in order]
                result = sha256(to_bytes(out))
                yield {"picture": spec, "order": order_names, "factors": factors, "sha256": result}


def crop_cases():
    spec = PICTURES[1]
    image = to_tensor(picture(*spec))
    for size in CROPS:
        out = v2.CenterCrop(size)(image)
        yield {"picture": spec, "size": size, "sha256": sha256(to_bytes(out))}


def resize(spec, window, size):
    """The case's manifest, and the two libraries' bytes."""
    pixels = picture(*spec)
    if window:
        top, left, height, width = window
        pixels = pixels[top : top + height, left : left + width].copy()
    ours = v2.Resize(size, v2.InterpolationMode.BILINEAR, antialias=True)(to_tensor(pixels))
    image = PIL.Image.fromarray(pixels)
    pillow = np.asarray(image.resize((size[1], size[0]), PIL.Image.Resampling.BILINEAR))
    return {"picture": spec, "window": window, "size": size}, to_bytes(ours) + pillow.tobytes()


def normalized():
    ramp = torch.arange(256, dtype=torch.uint8).expand(3, 1, 256).contiguous()
    scaled = v2.ToDtype(torch.float32, scale=True)(ramp)
    out = v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])(scaled)
    return struct.pack("<768f", *out[:, 0, :].T.flatten().tolist())


def write_json(name, cases):
    """One case a line, so that a diff shows the cases that changed."""
    versions = f"torchvision {torchvision.__version__}, torch {torch.__version__}, Pillow {PIL.__version__}"
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    (OUT / name).write_text(f'{{"made_by": {json.dumps(versions)}, "cases": [\n{lines}\n]}}\n')


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "texture.rgb").write_bytes(texture().tobytes())
    (OUT / "normalize.bin").write_bytes(normalized())
    write_json("colour.json", colour_cases())
    write_json("crop.json", crop_cases())
    made = [resize(*case) for case in RESIZES]
    write_json("resize.json", [case for case, _ in made])
    (OUT / "resize.bin").write_bytes(b"".join(data for _, data in made))


if __name__ == "__main__":
    main()
