#!/usr/bin/env python3
"""Writes tests/golden/ops: the results of torchvision, Pillow, timm and OpenCV on a few images.

    pip install torch torchvision Pillow timm opencv-python-headless numpy scikit-image
    python scripts/ops_goldens.py

Tests compare the ops with these files, compiled and evaluated. One module of scripts/goldens writes each family and
describes its cases in its docstring; goldens/common.py describes what all cases have:

    colour.json          brightness, contrast, saturation and all six orders of the three
    crop.json            CenterCrop
    resize.json, .bin    the antialiased bilinear resize: for each case torchvision's bytes, then Pillow's
    point.json           invert, posterize, solarize, autocontrast, equalize, gamma, hue, grayscale, channels,
                         ColorJitter
    geometry.json        flips, turns, pads, crops, resizes in every mode
    warp.json, .bin      rotate, affine, perspective
    neighbour.json, .bin sharpness, Gaussian blur, box blur
    erase.json, .bin     erase, MixUp, CutMix
    policies.json, .bin  AutoAugment, RandAugment, TrivialAugmentWide, AugMix: tables and replays
    timm.json            timm's RandAugment: arguments of its ops, configuration strings
    values.json, .bin    to_dtype, normalize, one-hot targets
    normalize.bin        ToDtype(float32, scale=True) and Normalize of 0..=255: f32 [256, 3]
    texture.rgb          64 x 80 pixels of a photo, u8 [64, 80, 3]

Images are formulas, so that both languages compute the same pixels: see `picture`. The photo is a region of
one that scikit-image ships, Eileen Collins by NASA, in the public domain. Results depend on torchvision's
fixed-point resize, which runs on a CPU with AVX2.
"""

from goldens import colour, erase, geometry, neighbour, point, policies, resize, timm_strings, values, warp
from goldens.common import OUT, texture, without_ties


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "texture.rgb").write_bytes(texture().tobytes())
    with without_ties():
        for family in [colour, resize, point, geometry, warp, neighbour, erase, policies, timm_strings, values]:
            family.write()


if __name__ == "__main__":
    main()
