"""Writes the datasets of tests/golden/mds by mosaicml-streaming 0.13, which needs numpy and pillow.

    python3 scripts/mds_goldens.py tests/golden/mds

plain/ has every encoding but pkl, in two shards; zstd/ and gz/ are the same, packed. expected.json has the values as
StreamingDataset returns them: numbers, texts, lists of elements, and the SHA-256 of files of images. written/ has the
encodings that convert writes, and is compared with its output byte for byte.
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
    "jpg": "jpeg",
    "meta": "json",
    "png": "png",
    "points": "ndarray:float32:4",
    "raw": "bytes",
    "ratio": "float64",
    "table": "ndarray:int16:2,3",
}
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
    names = {"count": "n", "points": "typed", "raw": "b", "ratio": "f64", "table": "fixed"}
    row = {name: values[names.get(name, name)] for name in WRITTEN}
    row["points"] = row["points"].reshape(4)
    return row | {"raw": bytes([255, n])}


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
