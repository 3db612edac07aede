#!/usr/bin/env python3
"""Writes small PNGs of every colour type, and their pixels: as Pillow's convert("RGB"), convert("L") and
convert("RGBA") return them (of 16-bit gray the upper 8 bits, as OpenCV returns them), the levels of 16-bit gray as Pillow's mode I;16 has them, and the numbers of indices and
gray levels as they are stored.

    python scripts/png_goldens.py tests/golden/png        (needs pillow)
"""

import io
import pathlib
import random
import struct
import sys
import zlib

from PIL import Image

WIDTH, HEIGHT = 11, 7
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def row(levels, depth):
    """Returns levels packed as in a PNG row, without a filter."""
    bits = "".join(format(level, f"0{depth}b") for level in levels)
    bits += "0" * (-len(bits) % 8)
    return b"\0" + bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def pixels_of(depth, color, seed, palette):
    rng = random.Random(seed)
    most = len(palette) // 3 - 1 if palette else 2**depth - 1
    pixels = [[[rng.randint(0, most) for _ in range(CHANNELS[color])] for _ in range(WIDTH)] for _ in range(HEIGHT)]
    if depth == 16:  # includes levels that fit into one byte
        pixels[0][:4] = [[level] * CHANNELS[color] for level in (0, 200, 255, 256)]
    return pixels


def png(depth, color, seed, interlaced=False, palette=b"", transparent=b""):
    pixels = pixels_of(depth, color, seed, palette)
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    data = b""
    for left, top, right, down in passes:
        for y in range(top, HEIGHT, down):
            data += row([level for x in range(left, WIDTH, right) for level in pixels[y][x]], depth)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, color, 0, 0, int(interlaced))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
        + (chunk(b"PLTE", palette) if palette else b"")
        + (chunk(b"tRNS", transparent) if transparent else b"")
        + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    )


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    palette = bytes(random.Random(0).randrange(256) for _ in range(10 * 3))
    files = {
        "gray1": png(1, 0, 1), "gray2": png(2, 0, 2), "gray4": png(4, 0, 3), "gray8": png(8, 0, 4),
        "gray16": png(16, 0, 5), "gray_alpha8": png(8, 4, 6), "gray_alpha16": png(16, 4, 7),
        "rgb8": png(8, 2, 8), "rgb16": png(16, 2, 9), "rgba8": png(8, 6, 10), "rgba16": png(16, 6, 11),
        "palette4": png(4, 3, 12, palette=palette, transparent=bytes([0, 128, 255])),
        "rgb8_interlaced": png(8, 2, 13, interlaced=True), "gray16_interlaced": png(16, 0, 14, interlaced=True),
        "gray16_transparent": png(16, 0, 15, transparent=bytes([0, 200])),
        "gray2_interlaced": png(2, 0, 16, interlaced=True),
        "palette4_interlaced": png(4, 3, 17, interlaced=True, palette=palette),
    }
    for name, data in files.items():
        (out / f"{name}.png").write_bytes(data)
        for mode in ("RGB", "L", "RGBA"):
            (out / f"{name}.{mode.lower()}").write_bytes(Image.open(io.BytesIO(data)).convert(mode).tobytes())
    for name in (name for name in files if name.startswith("gray16")):
        image = Image.open(io.BytesIO(files[name]))
        assert image.mode == "I;16", image.mode
        levels = image.tobytes()
        (out / f"{name}.i16").write_bytes(levels)
        gray = Image.frombytes("L", image.size, levels[1::2])
        for mode in ("RGB", "L", "RGBA"):
            pixels = bytearray(gray.convert(mode).tobytes())
            if mode == "RGBA":
                pixels[3::4] = image.convert(mode).tobytes()[3::4]
            (out / f"{name}.{mode.lower()}").write_bytes(pixels)
    indices = {"gray1": (1, 0, 1), "gray2": (2, 0, 2), "gray4": (4, 0, 3), "gray8": (8, 0, 4), "palette4": (4, 3, 12)}
    indices |= {"gray2_interlaced": (2, 0, 16), "palette4_interlaced": (4, 3, 17)}
    for name, (depth, color, seed) in indices.items():
        numbers = pixels_of(depth, color, seed, palette if color == 3 else b"")
        (out / f"{name}.index").write_bytes(bytes(pixel[0] for row in numbers for pixel in row))


main()
