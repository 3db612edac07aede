#!/usr/bin/env python3
"""Writes lossy WebPs of all settings of libwebp's encoder to webp/tests/golden, and the SHA-256 of their pixels.

    python scripts/webp_frame_goldens.py

Pillow and OpenCV set the quality alone. This calls the libwebp inside Pillow's wheel (Linux), which also sets the number
of segments and of partitions, and the kind, strength and sharpness of the loop filter. Pixels are those of WebPDecodeRGB.

Needs numpy and pillow.
"""

import ctypes
import hashlib
import pathlib
import random

import numpy as np
import PIL

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "webp" / "tests" / "golden"
LIBRARIES = pathlib.Path(PIL.__file__).parent.parent / "pillow.libs"
# The version of the structures below.
ABI = 0x0210
INT, UINT, POINTER = ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p


class Config(ctypes.Structure):
    """WebPConfig of webp/encode.h."""

    _fields_ = [
        ("lossless", INT),
        ("quality", ctypes.c_float),
        *[(name, INT) for name in ("method", "image_hint", "target_size")],
        ("target_PSNR", ctypes.c_float),
        *[
            (name, INT)
            for name in (
                "segments sns_strength filter_strength filter_sharpness filter_type autofilter alpha_compression "
                "alpha_filtering alpha_quality passes show_compressed preprocessing partitions partition_limit "
                "emulate_jpeg_size thread_level low_memory near_lossless exact use_delta_palette use_sharp_yuv qmin qmax"
            ).split()
        ],
    ]


WRITER = ctypes.CFUNCTYPE(INT, POINTER, ctypes.c_size_t, POINTER)


class Picture(ctypes.Structure):
    """WebPPicture of webp/encode.h."""

    _fields_ = [
        *[(name, INT) for name in ("use_argb", "colorspace", "width", "height")],
        *[(name, POINTER) for name in ("y", "u", "v")],
        *[(name, INT) for name in ("y_stride", "uv_stride")],
        ("a", POINTER),
        ("a_stride", INT),
        ("pad1", UINT * 2),
        ("argb", POINTER),
        ("argb_stride", INT),
        ("pad2", UINT * 3),
        ("writer", WRITER),
        ("custom_ptr", POINTER),
        ("extra_info_type", INT),
        *[(name, POINTER) for name in ("extra_info", "stats")],
        ("error_code", INT),
        *[(name, POINTER) for name in ("progress_hook", "user_data")],
        # Private fields, and more room than they need.
        ("private", ctypes.c_uint8 * 512),
    ]


def library():
    """Loads libwebp, and before it the library that it needs."""
    ctypes.CDLL(next(LIBRARIES.glob("libsharpyuv*")), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(next(LIBRARIES.glob("libwebp-*")))


WEBP = library()


def encode(pixels, quality, **settings):
    config, picture = Config(), Picture()
    assert WEBP.WebPConfigInitInternal(ctypes.byref(config), 0, ctypes.c_float(quality), ABI)
    for name, value in settings.items():
        setattr(config, name, value)
    assert WEBP.WebPValidateConfig(ctypes.byref(config)), settings
    assert WEBP.WebPPictureInitInternal(ctypes.byref(picture), ABI)
    picture.height, picture.width = pixels.shape[:2]
    file = bytearray()

    def write(data, size, _):
        file.extend(ctypes.string_at(data, size))
        return 1

    picture.writer = WRITER(write)
    pixels = np.ascontiguousarray(pixels)
    assert WEBP.WebPPictureImportRGB(ctypes.byref(picture), pixels.ctypes.data_as(POINTER), pixels.strides[0])
    assert WEBP.WebPEncode(ctypes.byref(config), ctypes.byref(picture)), picture.error_code
    WEBP.WebPPictureFree(ctypes.byref(picture))
    return bytes(file)


def decode(file):
    """Returns the width, the height and the RGB pixels."""
    width, height = INT(), INT()
    WEBP.WebPDecodeRGB.restype = POINTER
    pixels = WEBP.WebPDecodeRGB(file, ctypes.c_size_t(len(file)), ctypes.byref(width), ctypes.byref(height))
    assert pixels, "libwebp reads what it wrote"
    return width.value, height.value, ctypes.string_at(pixels, 3 * width.value * height.value)


def picture(rng, height, width):
    """Returns waves, edges and a little noise, so that blocks of all kinds occur."""
    noise = np.random.default_rng(rng.getrandbits(32))
    y, x = np.mgrid[0:height, 0:width].astype(float)
    channels = []
    for _ in range(3):
        a, b, c = (rng.uniform(0.02, 0.5) for _ in range(3))
        wave = 90 * np.sin(a * x + b * y) + 60 * np.sign(np.sin(c * (x - y)))
        channels.append(128 + wave + noise.normal(0, rng.choice([0, 2, 20]), (height, width)))
    return np.clip(np.dstack(channels), 0, 255).astype(np.uint8)


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    lines = []
    for number in range(32):
        # The largest has several rows of macroblocks for each partition.
        height, width = (rng.randint(1, 48), rng.randint(1, 48)) if number else (150, 71)
        settings = {
            "method": rng.randint(0, 6),
            "segments": rng.randint(1, 4),
            "sns_strength": rng.choice([0, 50, 100]),
            "filter_strength": rng.choice([0, 10, 60, 100]),
            "filter_sharpness": rng.randint(0, 7),
            "filter_type": number % 2,
            "partitions": number // 2 % 4,
        }
        quality = rng.choice([0, 10, 40, 75, 90, 100])
        file = encode(picture(rng, height, width), quality, **settings)
        name = f"{number:02}.webp"
        (GOLDEN / name).write_bytes(file)
        assert decode(file)[:2] == (width, height)
        digest = hashlib.sha256(decode(file)[2]).hexdigest()
        lines.append(f"{name} {width} {height} {digest}\n")
    (GOLDEN / "pixels.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
