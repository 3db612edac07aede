"""Files by other writers and odd layouts: tests/strangers/README.md says what a case is."""

from __future__ import annotations

import json
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import sources

ROOT = Path(__file__).resolve().parent.parent.parent / "tests" / "strangers"


def cases() -> list[Any]:
    found = []
    for table in sorted(ROOT.glob("*/cases.jsonl")):
        for line in filter(str.strip, table.read_text().splitlines()):
            case = json.loads(line)
            found.append(pytest.param(table.parent, case, id=f"{table.parent.name}: {case['case']}"))
    return found


def rgb(path: Path) -> np.ndarray:
    """Reads a PNG of 8-bit RGB without interlacing, as Pillow writes them."""
    data, at, stream = path.read_bytes(), 8, b""
    width = height = 0
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, colour, interlaced) == (8, 2, 0), path
        elif kind == b"IDAT":
            stream += body
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(stream), np.uint8).reshape(height, 1 + 3 * width)
    pixels = np.zeros((height + 1, 3 * width + 3), np.int32)  # one row above and one pixel to the left
    for y, line in enumerate(lines.astype(np.int32), start=1):
        for x in range(3, 3 * width + 3):
            left, up, corner = pixels[y, x - 3], pixels[y - 1, x], pixels[y - 1, x - 3]
            near = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
            predicted = [0, left, up, (left + up) // 2, near][line[0]]
            pixels[y, x] = (line[x - 2] + predicted) % 256
    return pixels[1:, 3:].reshape(height, width, 3).astype(np.uint8)


def load(path: Path, case: dict[str, Any]) -> tuple[list[str], list[int], np.ndarray | None]:
    settings = dict(case.get("settings", {}))
    outputs = settings.pop("fields", {})
    assert not outputs, "ops of a case are not written for Python yet"
    for field, how in settings.get("collate", {}).items():
        options = {key: value for key, value in how.items() if key != "as"}
        settings["collate"] = {**settings["collate"], field: getattr(fl.Collate, how["as"])(**options)}
    if "without" in settings:
        settings["ops"] = dict.fromkeys(settings.pop("without"))
    image = case.get("image", "image")
    if image is not None:
        settings.setdefault("collate", {}).setdefault(image, fl.Collate.list(to=(512, 512)))
    loader = fl.Loader(path, batch_size=1, **settings)
    labels, pixels = [], None
    for batch in loader:
        values = batch.numpy()
        if "label" in values:
            labels.extend(np.ravel(values["label"]).tolist())
        if pixels is None and image is not None and image in values:
            pixels = values[image][0]
    return list(sources.open(path).fields), labels, pixels


@pytest.mark.parametrize(("area", "case"), cases())
def test_every_case_has_its_outcome(area: Path, case: dict[str, Any]) -> None:
    path = area / case["open"]
    found, error = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = load(path, case)
        except fl.FuseloopError as raised:
            error = raised
    texts = list(dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, fl.FuseloopWarning)))
    if "warning" in case:
        assert len(texts) == 1 and case["warning"] in texts[0]
    else:
        assert texts == []
    if "error" in case:
        assert case["error"] in str(error)
        return
    if not case.get("damaged"):
        assert error is None and found is not None
        fields, labels, pixels = found
        assert fields == case.get("fields", fields)
        assert labels == case.get("labels", labels)
        if "pixels" in case:
            assert pixels is not None
            expected = rgb(area / case["pixels"])
            assert pixels.shape == expected.shape
            assert np.abs(pixels.astype(int) - expected).max() <= case.get("within", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.FuseloopWarning)
        report = sources.open(path).verify()
    lines = [str(one) for one in report.damaged]
    assert len(lines) == len(case.get("damaged", []))
    for line, words in zip(lines, case.get("damaged", []), strict=True):
        assert words in line
