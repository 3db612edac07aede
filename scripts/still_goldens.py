#!/usr/bin/env python3
"""Writes small BMPs, GIFs, PNMs, JPEG XLs and HEICs, and their pixels as Pillow's convert("RGBA") and convert("L") return
them; those of PAMs as OpenCV reads them. RGB is RGBA without alpha.

    python scripts/still_goldens.py tests/golden

Needs pillow==13.0.0, pillow-jxl-plugin==1.3.8 (libjxl), pillow-heif==1.8.1 (libheif, libde265), numpy==2.4.6 and
opencv-python-headless==5.0.0.93.
"""

import io
import pathlib
import struct
import sys

import cv2
import numpy as np
import pillow_heif
import pillow_jxl  # noqa: F401
from PIL import Image, ImageOps

pillow_heif.register_heif_opener()


def picture(height, width, channels, seed):
    """Returns a smooth picture with edges, as lossy formats store it well."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (5 + c) + c) + 30 * np.cos(y / (3 + c)) + (x + y > width) * 20 for c in range(channels)]
    noise = rng.normal(0, 3, (height, width, channels))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def bmp(width, height, bits, pixels, palette=b"", compression=0, colours=0, masks=b"", header=40):
    if header == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(pixels), 0, 0, colours, 0)
        head += masks if header > 40 else b""
        head += bytes(header - len(head))
        masks = b"" if header > 40 else masks
    offset = 14 + len(head) + len(masks) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(pixels), 0, 0, offset) + head + masks + palette + pixels


def rows(array, bits):
    """Packs rows of indices or pixels, padded to four bytes, the last row first."""
    out = b""
    for row in array[::-1]:
        if bits < 8:
            flat = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits :].ravel()
            data = np.packbits(flat).tobytes()
        else:
            data = np.ascontiguousarray(row).tobytes()
        out += data + bytes(-len(data) % 4)
    return out


def bmps():
    rgb, rng = picture(7, 11, 3, 1), np.random.default_rng(2)
    alpha = picture(7, 11, 4, 3)
    palette = rng.integers(0, 256, (256, 4)).astype(np.uint8)
    index = rng.integers(0, 256, (7, 11)).astype(np.uint8)
    word = rng.integers(0, 65536, (7, 11)).astype("<u2")
    rle8 = bytes([3, 7, 0, 4, 9, 8, 7, 6, 2, 5, 0, 0, 0, 2, 2, 1, 4, 200, 0, 0, 0, 3, 1, 2, 3, 0, 20, 9, 0, 0, *[11, 1, 0, 0] * 3, 0, 1])
    rle4 = bytes([5, 0x3A, 0, 5, 0x12, 0x34, 0x50, 0, 0, 0, 0, 2, 1, 1, 6, 0xF1, 0, 0, *[11, 0x5C, 0, 0] * 4, 0, 1])
    le = lambda *numbers: struct.pack(f"<{len(numbers)}I", *numbers)
    files = {
        "rgb24": saved(Image.fromarray(rgb), "BMP"),
        "gray8": saved(Image.fromarray(rgb[..., 0]), "BMP"),
        "gray1": saved(Image.fromarray(rgb[..., 0]).convert("1"), "BMP"),
        "palette8": bmp(11, 7, 8, rows(index, 8), palette.tobytes()),
        "palette8_short": bmp(11, 7, 8, rows(index % 9, 8), palette[:5].tobytes(), colours=5),
        "palette4": bmp(11, 7, 4, rows(index & 15, 4), palette[:16].tobytes()),
        "palette1": bmp(11, 7, 1, rows(index & 1, 1), palette[:2].tobytes()),
        "os2": bmp(11, 7, 4, rows(index & 15, 4), palette[:16, :3].tobytes(), header=12),
        "top_down": bmp(11, -7, 24, rows(rgb[::-1], 24)),
        "rgb555": bmp(11, 7, 16, rows(word & 0x7FFF, 16)),
        "rgb565": bmp(11, 7, 16, rows(word, 16), compression=3, masks=le(0xF800, 0x7E0, 0x1F)),
        "rgbx32": bmp(11, 7, 32, rows(alpha, 32)),
        "rgba32": bmp(11, 7, 32, rows(alpha, 32), compression=3, header=124, masks=le(0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
        "abgr32": bmp(11, 7, 32, rows(alpha, 32), compression=3, header=108, masks=le(0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
        "rle8": bmp(11, 7, 8, rle8, palette.tobytes(), compression=1),
        "rle4": bmp(11, 7, 4, rle4, palette[:16].tobytes(), compression=2),
    }
    return {name: (data, "bmp") for name, data in files.items()}


def gifs():
    indices = Image.fromarray(picture(13, 21, 3, 4)).quantize(32)
    gray = Image.fromarray(picture(9, 14, 1, 5)[..., 0])
    frames = [Image.fromarray(picture(8, 10, 3, seed)).quantize(8) for seed in (6, 7, 8)]
    whole = saved(indices, "GIF")
    # The screen becomes larger than the image, and smaller.
    larger, smaller = bytearray(whole), bytearray(whole)
    larger[6:10] = struct.pack("<HH", 25, 15)
    smaller[6:10] = struct.pack("<HH", 5, 6)
    inset = bytearray(saved(indices, "GIF", transparency=3))
    inset[6:10] = struct.pack("<HH", 25, 19)
    at = inset.index(b",", 13 + 3 * 32)
    inset[at + 1 : at + 5] = struct.pack("<HH", 2, 3)
    files = {
        "palette": whole,
        "palette_plain": saved(indices, "GIF", interlace=0),
        "transparent": saved(indices, "GIF", transparency=5),
        "gray": saved(gray, "GIF"),
        "animated": saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=40, loop=0),
        "larger_screen": bytes(larger),
        "smaller_screen": bytes(smaller),
        "inset": bytes(inset),
    }
    return {name: (data, "gif") for name, data in files.items()}


def pnms():
    rgb, rng = picture(7, 11, 3, 9), np.random.default_rng(10)
    gray, bits = rgb[..., 0], (rgb[..., 0] > 127).astype(np.uint8)
    deep = rng.integers(0, 65536, (7, 11, 3)).astype(">u2")
    deep[0, :4, 0] = (0, 257, 32767, 65535)
    text = lambda numbers: b"\n".join(b" ".join(b"%d" % n for n in row.ravel()) for row in numbers) + b"\n"
    alpha = picture(7, 11, 4, 11)
    pam = lambda depth, largest, kind: f"P7\n# made here\nWIDTH 11\nHEIGHT 7\nDEPTH {depth}\nMAXVAL {largest}\nTUPLTYPE {kind}\nENDHDR\n".encode()
    return {
        "p1": (b"P1\n# a comment\n11 7\n" + b"\n".join(b"".join(b"%d" % n for n in row) for row in bits), "pbm"),
        "p2": (b"P2 11 7 200\n" + text(gray.astype(int) * 200 // 255), "pgm"),
        "p3": (b"P3\n11\t7\n# 6\n255\n" + text(rgb), "ppm"),
        "p3_deep": (b"P3\n11 7\n1000\n" + text(deep.astype(int) % 1001), "ppm"),
        "p4": (saved(Image.fromarray(bits * 255).convert("1"), "PPM"), "pbm"),
        "p5": (saved(Image.fromarray(gray), "PPM"), "pgm"),
        "p5_15": (b"P5 11 7 15\n" + (gray // 16).tobytes(), "pgm"),
        "p5_gray16": (b"P5\n11 7\n65535\n" + deep[..., 0].tobytes(), "pgm"),
        "p6": (saved(Image.fromarray(rgb), "PPM"), "ppm"),
        "p6_100": (b"P6 11 7 100\n" + (rgb // 3).tobytes(), "ppm"),
        "p6_deep": (b"P6 11 7 65535\n" + deep.tobytes(), "ppm"),
        "p6_two": (saved(Image.fromarray(rgb), "PPM") * 2, "ppm"),
        "p7_rgb": (pam(3, 255, "RGB") + rgb.tobytes(), "pam"),
        "p7_gray": (pam(1, 255, "GRAYSCALE") + gray.tobytes(), "pam"),
        "p7_rgba": (pam(4, 255, "RGB_ALPHA") + alpha.tobytes(), "pam"),
    }


def jxls():
    rgb, alpha = Image.fromarray(picture(33, 47, 3, 12)), Image.fromarray(picture(21, 30, 4, 13))
    gray = Image.fromarray(picture(18, 25, 1, 14)[..., 0])
    jpeg = Image.open(io.BytesIO(saved(rgb, "JPEG", quality=85)))
    files = {
        "lossy": saved(rgb, "JXL", quality=80),
        "lossless": saved(rgb, "JXL", lossless=True),
        "lossless_alpha": saved(alpha, "JXL", lossless=True),
        "lossy_alpha": saved(alpha, "JXL", quality=75),
        "gray": saved(gray, "JXL", quality=90),
        "gray_lossless": saved(gray, "JXL", lossless=True),
        "of_jpeg": saved(jpeg, "JXL", lossless_jpeg=True),
    }
    return {name: (data, "jxl") for name, data in files.items()}


def heics():
    rgb, alpha = Image.fromarray(picture(64, 80, 3, 15)), Image.fromarray(picture(64, 72, 4, 16))
    odd, gray = Image.fromarray(picture(35, 51, 3, 17)), Image.fromarray(picture(64, 64, 1, 18)[..., 0])
    turned = rgb.copy()
    turned.getexif()[274] = 6
    files = {
        "lossy": saved(rgb, "HEIF", quality=60),
        "fine": saved(rgb, "HEIF", quality=95, chroma=444),
        "odd": saved(odd, "HEIF", quality=80),
        "alpha": saved(alpha, "HEIF", quality=80),
        "gray": saved(gray, "HEIF", quality=80),
        "turned": saved(turned, "HEIF", quality=70, exif=turned.getexif()),
    }
    return {name: (data, "heic") for name, data in files.items()}


def pixels_of(name, data):
    if name.startswith("p7"):
        read = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        if name == "p7_rgba":
            return Image.fromarray(cv2.cvtColor(read, cv2.COLOR_BGRA2RGBA))
        return Image.fromarray(read if read.ndim == 2 else read[..., ::-1])
    image = Image.open(io.BytesIO(data))
    if "gray16" in name:
        # Pillow clips these to 255: scaled as it scales colours of as many bits.
        levels = np.asarray(image).astype(float) / 65535 * 255
        return Image.fromarray(np.rint(levels).astype(np.uint8))
    return image


def main():
    out = pathlib.Path(sys.argv[1])
    for folder, files in (("bmp", bmps()), ("gif", gifs()), ("pnm", pnms()), ("jxl", jxls()), ("heic", heics())):
        (out / folder).mkdir(parents=True, exist_ok=True)
        for name, (data, ending) in files.items():
            image = pixels_of(name, data)
            (out / folder / f"{name}.{ending}").write_bytes(data)
            rgba, gray = image.convert("RGBA"), image.convert("L")
            assert np.array_equal(np.asarray(rgba)[..., :3], np.asarray(image.convert("RGB"))), name
            size = np.array(np.asarray(rgba).shape[:2], "<u4").tobytes()
            (out / folder / f"{name}.pixels").write_bytes(size + rgba.tobytes() + gray.tobytes())
            if image.mode == "P":
                (out / folder / f"{name}.index").write_bytes(np.asarray(image).tobytes())
            if "gray16" in name:
                levels = np.asarray(Image.open(io.BytesIO(data))).astype("<u2")
                (out / folder / f"{name}.i16").write_bytes(levels.tobytes())


if __name__ == "__main__":
    main()
