"""Writes channels.json: what NumPy's indexing makes of the channels of an image.

A case has the SHA-256 of `image[..., channels]`, rows of pixels in little-endian order. Element number k of an image,
in rows of pixels, is a formula of k for each type: see `image`. Needs NumPy:

    python channels.py
"""

import hashlib
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
HEIGHT, WIDTH = 9, 21
SELECTIONS = {
    1: [[0], [0, 0], [0, 0, 0]],
    2: [[1, 0], [1], [0, 1, 1, 0]],
    3: [[2, 1, 0], [1], [0, 0, 2, 2], [2, 0], [2, 2, 1]],
    4: [[0, 1, 2], [3], [3, 2, 1, 0], [1, 1]],
    13: [[3, 2, 1], [12], [0, 12, 5, 5], [7, 3], list(range(12, -1, -1)), [1, 0, 2, 5, 4, 9, 9]],
}


def image(channels, dtype):
    k = np.arange(HEIGHT * WIDTH * channels).reshape(HEIGHT, WIDTH, channels)
    values = {"u8": k * 7 % 251, "u16": k * 701 % 65521, "f32": (k * 7 % 251 - 100) / 4}[dtype]
    return values.astype({"u8": "<u1", "u16": "<u2", "f32": "<f4"}[dtype])


def main():
    cases = []
    for dtype in ["u8", "u16", "f32"]:
        for count, selections in SELECTIONS.items():
            for channels in selections:
                out = np.ascontiguousarray(image(count, dtype)[..., channels])
                sha256 = hashlib.sha256(out.tobytes()).hexdigest()
                cases.append({"dtype": dtype, "of": count, "channels": channels, "sha256": sha256})
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    made_by = json.dumps(f"numpy {np.__version__}")
    (HERE / "channels.json").write_text(f'{{"made_by": {made_by}, "cases": [\n{lines}\n]}}\n')


main()
