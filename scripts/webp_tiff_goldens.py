#!/usr/bin/env python3
"""Writes small WebPs and TIFFs, and their pixels as Pillow's convert("RGB"), convert("L") and convert("RGBA") return
them. Levels of 16-bit gray are written as Pillow's mode I;16 has them, and arrays of TIFFs as tifffile reads them.

    python scripts/webp_tiff_goldens.py tests/golden

Needs pillow==13.0.0 (with libwebp 1.6.0), numpy==2.4.6, tifffile==2026.3.3, imagecodecs==2026.3.6 and
opencv-python-headless==5.0.0.93. It prints where OpenCV's pixels are not Pillow's.
"""

import io
import pathlib
import sys

import cv2
import numpy as np
import tifffile
from PIL import Image


def picture(height, width, channels, seed):
    """Returns a smooth picture with edges, as lossy formats store it well."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [
        127 + 90 * np.sin(x / (5 + c) + c) + 30 * np.cos(y / (3 + c)) + (x + y > width) * 20 for c in range(channels)
    ]
    noise = rng.normal(0, 3, (height, width, channels))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def webp(image, **options):
    out = io.BytesIO()
    image.save(out, "WEBP", **options)
    return out.getvalue()


def tiff(array, **options):
    out = io.BytesIO()
    tifffile.imwrite(out, array, metadata=None, software=False, datetime=None, **options)
    return out.getvalue()


def webps():
    rgb = Image.fromarray(picture(33, 47, 3, 1))
    alpha = Image.fromarray(picture(21, 30, 4, 2))
    tiny = Image.fromarray(picture(1, 1, 3, 3))
    still = [Image.fromarray(picture(17, 19, 3, seed)) for seed in (4, 5)]
    clear = [Image.fromarray(picture(17, 19, 4, seed)) for seed in (4, 5)]
    return {
        "lossy": webp(rgb, quality=80, method=6),
        "lossy_even": webp(Image.fromarray(picture(32, 48, 3, 6)), quality=30, method=4),
        "lossy_alpha": webp(alpha, quality=75, method=6),
        "lossless": webp(rgb, lossless=True, method=6),
        "lossless_alpha": webp(alpha, lossless=True, method=6, exact=True),
        "lossless_gray": webp(Image.fromarray(picture(9, 13, 1, 7)[..., 0]).convert("RGB"), lossless=True),
        "tiny": webp(tiny, quality=90),
        "animated": webp(still[0], save_all=True, append_images=still[1:], duration=40, quality=60),
        "animated_alpha": webp(clear[0], save_all=True, append_images=clear[1:], duration=40, lossless=True),
    }


def tiffs():
    rgb, gray = picture(13, 21, 3, 11), picture(13, 21, 1, 12)[..., 0]
    rgba, big = picture(13, 21, 4, 13), np.arange(13 * 21, dtype=np.uint16).reshape(13, 21) * 93
    big[0, :4] = (0, 200, 255, 256)
    cmyk = dict(photometric="separated")
    palette = np.random.default_rng(14).integers(0, 256, (3, 256)).astype(np.uint16) * 257
    large = picture(34, 41, 3, 15)
    bits = (gray > 127).astype(np.uint8)
    multiplied = rgba.copy()
    multiplied[..., :3] = multiplied[..., :3].astype(int) * multiplied[..., 3:] // 255
    multiplied[0, :3] = ((0, 0, 0, 0), (200, 100, 50, 100), (9, 9, 9, 0))
    files = {
        "rgb_strips": tiff(rgb, photometric="rgb", rowsperstrip=5),
        "rgb_tiles_deflate": tiff(large, photometric="rgb", tile=(16, 32), compression="zlib"),
        "rgb_lzw_predictor": tiff(rgb, photometric="rgb", compression="lzw", predictor=2, rowsperstrip=8),
        "rgb_packbits": tiff(rgb, photometric="rgb", compression="packbits"),
        "rgb_planar": tiff(rgb.transpose(2, 0, 1), photometric="rgb", planarconfig="separate", rowsperstrip=7),
        "rgb_planar_tiles": tiff(
            large.transpose(2, 0, 1), photometric="rgb", planarconfig="separate", tile=(16, 16), compression="zlib"
        ),
        "rgb_big_endian": tiff(rgb, photometric="rgb", byteorder=">", compression="lzw"),
        "rgb_bigtiff": tiff(rgb, photometric="rgb", bigtiff=True, rowsperstrip=4),
        "rgb_bigtiff_big_endian": tiff(rgb, photometric="rgb", bigtiff=True, byteorder=">"),
        "rgb16": tiff(rgb.astype(np.uint16) * 255 + 77, photometric="rgb", compression="zlib", predictor=2),
        "rgb16_big_endian": tiff(rgb.astype(np.uint16) * 255 + 77, photometric="rgb", byteorder=">"),
        "rgba": tiff(rgba, photometric="rgb", extrasamples=["unassalpha"], compression="zlib"),
        "rgba_multiplied": tiff(multiplied, photometric="rgb", extrasamples=["assocalpha"]),
        "rgbx": tiff(rgba, photometric="rgb", extrasamples=["unspecified"], compression="lzw", predictor=2),
        "gray": tiff(gray, photometric="minisblack", rowsperstrip=6),
        "gray_inverted": tiff(gray, photometric="miniswhite"),
        "gray_alpha": tiff(rgba[..., :2], photometric="minisblack", extrasamples=["unassalpha"]),
        "gray1": tiff(bits, photometric="minisblack", bitspersample=1),
        "gray16": tiff(big, photometric="minisblack", compression="lzw", predictor=2),
        "gray16_big_endian": tiff(big, photometric="minisblack", byteorder=">", tile=(16, 16)),
        "palette": tiff(gray, photometric="palette", colormap=palette, compression="packbits"),
        "cmyk": tiff(rgba, compression="zlib", **cmyk),
    }
    pages = io.BytesIO()
    Image.fromarray(rgb).save(pages, "TIFF", save_all=True, append_images=[Image.fromarray(rgb[::-1].copy())])
    files["pages"] = pages.getvalue()
    four = io.BytesIO()
    Image.fromarray(gray // 16 * 17).quantize(16).save(four, "TIFF", compression="tiff_lzw")
    files["palette_of_pillow"] = four.getvalue()
    arrays = {
        "float32": tiff(np.float32(gray) / 7 - 9, compression="zlib", predictor=3, rowsperstrip=4),
        "float32_big_endian": tiff(np.float32(gray) / 7 - 9, byteorder=">", tile=(16, 16)),
        "bands": tiff(picture(12, 17, 6, 16), photometric="minisblack", planarconfig="contig", tile=(16, 16)),
        "bands_planar": tiff(
            picture(12, 17, 5, 17).transpose(2, 0, 1), photometric="minisblack", planarconfig="separate", rowsperstrip=5
        ),
        "int16": tiff(np.int16(gray) * 3 - 300, compression="lzw"),
        "int16_lzw_big_endian": tiff(np.int16(gray) * 3 - 300, compression="lzw", predictor=2, byteorder=">", tile=(16, 16)),
        "float32_lzw": tiff(np.float32(gray) / 7 - 9, compression="lzw", predictor=3, rowsperstrip=4),
        "bands_lzw": tiff(
            picture(12, 17, 5, 17).transpose(2, 0, 1),
            photometric="minisblack",
            planarconfig="separate",
            rowsperstrip=5,
            compression="lzw",
            predictor=2,
        ),
    }
    return files, arrays


def opencv(name, data, rgb):
    read = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if read is None:
        print(f"{name}: OpenCV does not read it")
    elif not np.array_equal(read[..., ::-1], rgb):
        difference = np.abs(read[..., ::-1].astype(int) - rgb)
        print(f"{name}: OpenCV differs from Pillow by at most {difference.max()}, mean {difference.mean():.3f}")


def main():
    out = pathlib.Path(sys.argv[1])
    (out / "webp").mkdir(parents=True, exist_ok=True)
    (out / "tiff").mkdir(parents=True, exist_ok=True)
    files, arrays = tiffs()
    for folder, ending, all_files in (("webp", "webp", webps()), ("tiff", "tif", files)):
        for name, data in all_files.items():
            (out / folder / f"{name}.{ending}").write_bytes(data)
            pixels = {}
            for mode in ("RGB", "L", "RGBA"):
                if name == "rgb_bigtiff_big_endian":  # Pillow does not read it
                    image = Image.fromarray(tifffile.imread(io.BytesIO(data)))
                else:
                    image = Image.open(io.BytesIO(data))
                if name.startswith("gray16"):  # the upper 8 bits, as OpenCV reads them
                    image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
                pixels[mode] = image.convert(mode)
            opencv(f"{folder}/{name}", data, np.asarray(pixels["RGB"]))
            # One file for all: the height and the width, then RGBA and L. RGB is RGBA without alpha.
            rgba = np.asarray(pixels["RGBA"])
            assert np.array_equal(rgba[..., :3], np.asarray(pixels["RGB"])), name
            size = np.array(rgba.shape[:2], "<u4").tobytes()
            joined = size + b"".join(pixels[mode].tobytes() for mode in ("RGBA", "L"))
            (out / folder / f"{name}.pixels").write_bytes(joined)
            if name.startswith("gray16"):
                (out / folder / f"{name}.i16").write_bytes(np.asarray(Image.open(io.BytesIO(data))).astype("<u2").tobytes())
            if name.startswith("palette"):
                (out / folder / f"{name}.index").write_bytes(np.asarray(Image.open(io.BytesIO(data))).tobytes())
    for name, data in arrays.items():
        (out / "tiff" / f"{name}.tif").write_bytes(data)
        array = tifffile.imread(io.BytesIO(data))
        array = array.astype(array.dtype.newbyteorder("<"))
        (out / "tiff" / f"{name}.array").write_bytes(f"{array.dtype.str} {list(array.shape)}\n".encode() + array.tobytes())


if __name__ == "__main__":
    main()
