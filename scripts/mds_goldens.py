"""Writes the datasets of tests/golden/mds by mosaicml-streaming 0.13, which needs numpy and pillow.

    python3 scripts/mds_goldens.py tests/golden/mds

plain/ has every encoding but pkl, in two shards; zstd/ and gz/ are the same, packed. expected.json has the values as
StreamingDataset returns them: numbers, texts, lists of elements, and the SHA-256 of files of images. written/ and rows/ have
the encodings that convert writes, and are compared with its output byte for byte; rows/ has a row for each object.
"""

import hashlib
import io
import json
import shutil
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
from PIL import Image
from streaming import MDSWriter

COLUMNS = {
    "b": "bytes",
    "caption": "str",
    "n": "int",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "digits": "str_int",
    "real": "str_float",
    "exact": "str_decimal",
    "jpg": "jpeg",
    "png": "png",
    "pil": "pil",
    "gray": "pil",
    "meta": "json",
    "fixed": "ndarray:int16:2,3",
    "typed": "ndarray:float32",
    "any": "ndarray",
    "ragged": "ndarray:uint16",
    "frames": "jpegarray",
    "pair": "list[png]",
}
WRITTEN = {
    "caption": "str",
    "count": "int",
    "gr\u00f6\u00dfe": "int",
    "jpg": "jpeg",
    "meta": "json",
    "png": "png",
    "points": "ndarray:float32:4",
    "raw": "bytes",
    "ratio": "float64",
    "table": "ndarray:int16:2,3",
}
ROWS = {"boxes": "ndarray:float32", "classes": "ndarray:int64", "keypoints": "ndarray:float32"}
# The lengths of axes take one byte, or two. (MDSWriter refuses an array without elements.)
OBJECTS = [1, 2, 3, 256]
SAMPLES = 5


def picture(number: int, mode: str = "RGB") -> Image.Image:
    y, x = np.mgrid[:6, :8]
    pixels = np.stack([x * 30, y * 40, np.full_like(x, number * 50)], -1).astype(np.uint8)
    return Image.fromarray(pixels).convert(mode)


def file(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def sample(n: int) -> dict:
    return {
        "b": bytes(range(n)),
        "caption": f"photo {n} \u00fc",
        "n": -n,
        "u8": 250 + n,
        "u16": 65000 + n,
        "u32": (1 << 32) - 1 - n,
        "u64": (1 << 40) + n,
        "i8": -100 - n,
        "i16": -30000 - n,
        "i32": -(1 << 31) + n,
        "i64": -(1 << 62) - n,
        "f16": n / 4,
        "f32": n / 3,
        "f64": n / 7,
        "digits": 10**17 + n,
        "real": n * 1e-7,
        "exact": Decimal(n) / 8,
        "jpg": file(picture(n), "JPEG"),
        "png": picture(n),
        "pil": picture(n),
        "gray": picture(n, "L"),
        "meta": {"n": n, "list": [1, None, "\u00fc"]},
        "fixed": np.arange(6, dtype=np.int16).reshape(2, 3) - n,
        "typed": np.arange(4, dtype=np.float32).reshape(2, 2) + n,
        "any": np.arange(3, dtype=np.uint8) + n,
        "ragged": np.arange(2 * (n + 1), dtype=np.uint16).reshape(n + 1, 2),
        "frames": [file(picture(n + k), "JPEG") for k in range(2)],
        "pair": [picture(n), picture(n + 1)],
    }


def written(n: int) -> dict:
    values = sample(n)
    names = {"count": "n", "gr\u00f6\u00dfe": "n", "points": "typed", "raw": "b", "ratio": "f64", "table": "fixed"}
    row = {name: values[names.get(name, name)] for name in WRITTEN}
    row["points"] = row["points"].reshape(4)
    return row | {"raw": bytes([255, n])}


def rows(objects: int) -> dict:
    return {
        "boxes": np.arange(objects * 4, dtype=np.float32).reshape(objects, 4) / 3,
        "classes": np.arange(objects, dtype=np.int64) - 2,
        "keypoints": np.arange(objects * 6, dtype=np.float32).reshape(objects, 2, 3) / 7,
    }


def main(root: Path) -> None:
    for name, compression in [("plain", None), ("zstd", "zstd:3"), ("gz", "gz:6")]:
        shutil.rmtree(root / name, ignore_errors=True)
        # Small shards, so that there are several.
        options = {"compression": compression, "hashes": ["sha1", "xxh64"], "size_limit": 9000}
        with MDSWriter(out=str(root / name), columns=COLUMNS, **options) as writer:
            for n in range(SAMPLES):
                writer.write(sample(n))
    shutil.rmtree(root / "written", ignore_errors=True)
    with MDSWriter(out=str(root / "written"), columns=WRITTEN, size_limit=4000) as writer:
        for n in range(SAMPLES):
            writer.write(written(n))
    shutil.rmtree(root / "rows", ignore_errors=True)
    with MDSWriter(out=str(root / "rows"), columns=ROWS, size_limit=1 << 20) as writer:
        for objects in OBJECTS:
            writer.write(rows(objects))
    expected = []
    for n in range(SAMPLES):
        row = {}
        for name, value in sample(n).items():
            if isinstance(value, np.ndarray):
                value = value.reshape(-1).tolist()
            elif isinstance(value, Decimal):
                value = float(value)
            elif name == "f32":
                value = float(np.float32(value))
            elif isinstance(value, Image.Image):
                value = hashlib.sha256(value.convert("RGB").tobytes()).hexdigest()
            elif isinstance(value, bytes):
                value = hashlib.sha256(value).hexdigest()
            elif name == "frames":
                value = [hashlib.sha256(each).hexdigest() for each in value]
            elif name == "pair":
                value = [hashlib.sha256(each.tobytes()).hexdigest() for each in value]
            row[name] = value
        expected.append(row)
    (root / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main(Path(sys.argv[1]))
