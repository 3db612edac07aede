#!/usr/bin/env python3
"""Writes lossless WebPs of all settings of Pillow to webp/tests/golden/lossless, and the SHA-256 of their pixels.

    python scripts/webp_lossless_goldens.py

Pixels are RGBA by the WebPDecodeRGBA of the libwebp inside Pillow's wheel (Linux), with an alpha of 255 where the image
says that it has none.

Needs numpy and pillow.
"""

import ctypes
import hashlib
import io
import random

import numpy as np
from PIL import Image

from webp_frame_goldens import GOLDEN, INT, POINTER, WEBP, Config, Picture, WRITER, ABI, picture


def decode(file):
    """Returns the RGBA pixels."""
    width, height = INT(), INT()
    WEBP.WebPDecodeRGBA.restype = POINTER
    pixels = WEBP.WebPDecodeRGBA(file, ctypes.c_size_t(len(file)), ctypes.byref(width), ctypes.byref(height))
    assert pixels, "libwebp reads what it wrote"
    pixels = np.frombuffer(ctypes.string_at(pixels, 4 * width.value * height.value), np.uint8).reshape(-1, 4).copy()
    if not file[24] & 0x10:
        pixels[:, 3] = 255
    return pixels.tobytes()


def near_lossless(pixels, level):
    """Encodes RGB with levels that are nearly right, which Pillow can't."""
    config, image, file = Config(), Picture(), bytearray()
    assert WEBP.WebPConfigInitInternal(ctypes.byref(config), 0, ctypes.c_float(75), ABI)
    config.lossless, config.near_lossless = 1, level
    assert WEBP.WebPPictureInitInternal(ctypes.byref(image), ABI)
    image.use_argb = 1
    image.height, image.width = pixels.shape[:2]

    def write(data, size, _):
        file.extend(ctypes.string_at(data, size))
        return 1

    image.writer = WRITER(write)
    pixels = np.ascontiguousarray(pixels)
    assert WEBP.WebPPictureImportRGB(ctypes.byref(image), pixels.ctypes.data_as(POINTER), pixels.strides[0])
    assert WEBP.WebPEncode(ctypes.byref(config), ctypes.byref(image)), image.error_code
    WEBP.WebPPictureFree(ctypes.byref(image))
    return bytes(file)


def palette(rng, height, width, count, has_alpha):
    """Returns a picture of a few colours: squares or noise."""
    noise = np.random.default_rng(rng.getrandbits(32))
    colors = noise.integers(0, 256, (count, 4 if has_alpha else 3), np.uint8)
    y, x = np.mgrid[0:height, 0:width]
    index = (x // 3 + y // 2) % count if rng.random() < 0.5 else noise.integers(0, count, (height, width))
    return colors[index]


def pictures(rng):
    """Yields pixels and settings of Pillow, or a level of near_lossless."""
    # The largest has several groups of prefix codes.
    yield picture(rng, 150, 140), {"method": 6, "quality": 100}
    for method in range(7):
        yield picture(rng, rng.randint(1, 30), rng.randint(1, 30)), {"method": method, "quality": 20 * (method % 6)}
    for number, count in enumerate((1, 2, 3, 4, 5, 16, 17, 256)):
        pixels = palette(rng, rng.randint(1, 24), rng.randint(1, 24), count, number % 2 == 0)
        yield pixels, {"method": rng.randint(0, 6), "quality": 75, "exact": True}
    for exact in (False, True):
        colors, alpha = picture(rng, 23, 31), picture(rng, 23, 31)[..., :1]
        yield np.dstack([colors, alpha]), {"method": 4, "exact": exact}
    for level in (0, 40, 80):
        yield picture(rng, 33, 27), level


def main():
    folder = GOLDEN / "lossless"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (pixels, settings) in enumerate(pictures(random.Random(1))):
        if isinstance(settings, int):
            file = near_lossless(pixels, settings)
        else:
            out = io.BytesIO()
            Image.fromarray(pixels).save(out, "WEBP", lossless=True, **settings)
            file = out.getvalue()
        assert file[12:16] == b"VP8L"
        name = f"{number:02}.webp"
        (folder / name).write_bytes(file)
        lines.append(f"{name} {hashlib.sha256(decode(file)).hexdigest()}\n")
    (folder / "pixels.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
