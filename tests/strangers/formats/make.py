#!/usr/bin/env python3
"""Writes pictures of 16 bits by Pillow and tifffile, with the pixels that OpenCV reads, and shards whose arrays NumPy
saved in other types and orders.

    python make.py        (needs numpy, pillow, tifffile, opencv-python)
"""

import io
import pathlib
import tarfile

import cv2
import numpy as np
import tifffile
from PIL import Image

HERE = pathlib.Path(__file__).parent
DEPTH = (np.arange(12 * 16, dtype=np.uint32) * 341 % 65536).astype(np.uint16).reshape(12, 16)


def sixteen():
    for name in ("gray16-png", "gray16-tiff", "inverted16-tiff", "alpha16-tiff"):
        (HERE / name / "a").mkdir(parents=True, exist_ok=True)
    Image.fromarray(DEPTH).save(HERE / "gray16-png/a/depth.png")
    tifffile.imwrite(HERE / "gray16-tiff/a/depth.tif", DEPTH, photometric="minisblack")
    tifffile.imwrite(HERE / "inverted16-tiff/a/xray.tif", DEPTH, photometric="miniswhite")
    both = np.dstack([DEPTH, DEPTH[::-1]])
    tifffile.imwrite(HERE / "alpha16-tiff/a/both.tif", both, photometric="minisblack", extrasamples=["unassalpha"])
    for name, file in {
        "gray16": "gray16-png/a/depth.png", "inverted16": "inverted16-tiff/a/xray.tif", "alpha16": "alpha16-tiff/a/both.tif",
    }.items():
        cv2.imwrite(str(HERE / f"{name}.expected.png"), cv2.imread(str(HERE / file), cv2.IMREAD_COLOR))
    (HERE / "float-tiff/a").mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(HERE / "float-tiff/a/depth.tif", DEPTH.astype(np.float32))


def shard(name, array):
    picture = io.BytesIO()
    Image.fromarray((DEPTH >> 8).astype(np.uint8)).convert("RGB").save(picture, "PNG")
    with tarfile.open(HERE / name, "w", format=tarfile.USTAR_FORMAT) as out:
        for key in range(2):
            saved = io.BytesIO()
            np.save(saved, array)
            for ending, data in (("png", picture.getvalue()), ("emb.npy", saved.getvalue())):
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))


def main():
    sixteen()
    values = np.array([[1, -2, 3], [4, 5, -6]])
    shard("npy-big-endian.tar", values.astype(">f4"))
    shard("npy-fortran.tar", np.asfortranarray(values.astype("<i2")))
    shard("npy-int8.tar", values.astype("i1"))
    shard("npy-uint32.tar", np.array([7, 2**32 - 1], "<u4"))
    shard("npy-complex.tar", np.array([1 - 2j], "<c8"))
    shard("npy-uint64.tar", np.array([2**64 - 1], "<u8"))


main()
