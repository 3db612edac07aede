"""Every class of torchvision's transforms has a row, and the rows say the truth about images."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import alike, conversions, image_of, picture

import fuseloop as fl
from fuseloop import _conversion, _torchvision, ops

ROOT = Path(__file__).resolve().parents[2]


def test_every_class_has_a_row() -> None:
    modules = conversions("torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms._presets")
    found = {
        name
        for module in modules
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and not name.startswith("_") and kind.__module__.startswith("torchvision.transforms")
    }
    found -= {"AutoAugmentPolicy", "InterpolationMode"}
    assert found <= set(_torchvision.TABLE), found - set(_torchvision.TABLE)
    assert set(_torchvision.TABLE) - found == {"Sequential", "ModuleList"}  # of torch.nn


@pytest.mark.parametrize("library", ["torchvision", "albumentations", "timm"])
def test_the_page_has_the_rows(library: str) -> None:
    page = ROOT / "docs" / "migration.md"
    if not page.exists():
        pytest.skip("no sources beside the tests")
    table = importlib.import_module(f"fuseloop._{library}").TABLE
    text = page.read_text(encoding="utf-8")
    table_of = rf"<!-- python/tools/generate.py: {library} -->\n.*?\|---\|---\|---\|\n(.*?)<!-- end -->"
    lines = re.search(table_of, text, re.S)
    assert lines is not None
    expected = "".join(table[name].printed(name) for name in sorted(table, key=str.lower))
    assert lines[1] == expected, "run python tools/generate.py"


@pytest.mark.parametrize("library", ["torchvision", "albumentations", "timm"])
def test_rows_name_ops_that_exist(library: str) -> None:
    for name, row in importlib.import_module(f"fuseloop._{library}").TABLE.items():
        assert (row.made is None) == (row.same == _conversion.ABSENT), name
        assert row.made is not None or row.note, name
        for text in (row.ours, row.note):
            for op in re.findall(r"(?:ops\.|^`)([A-Z]\w+)", text):
                assert hasattr(ops, op), (name, op)


CASES = {
    "CenterCrop": (30,), "Pad": ((1, 2, 3, 4), 7), "RandomHorizontalFlip": (1.0,), "RandomVerticalFlip": (1.0,),
    "RandomInvert": (1.0,), "RandomPosterize": (3, 1.0), "RandomSolarize": (99, 1.0), "RandomEqualize": (1.0,),
    "RandomAutocontrast": (1.0,), "RandomAdjustSharpness": (1.7, 1.0), "Grayscale": (3,), "Resize": ((24, 30),),
    "GaussianBlur": (5, (1.2, 1.2)), "RandomRotation": ((20, 20),), "RandomAffine": ((20, 20), None, (1.2, 1.2)),
    "Identity": (), "ToImage": (), "RandomGrayscale": (1.0,), "JPEG": (40,),
}


@pytest.mark.parametrize("name", CASES)
def test_images_are_as_the_row_says(name: str) -> None:
    (v2,) = conversions("torchvision.transforms.v2")
    import torch

    transform = getattr(v2, name)(*CASES[name])
    row = _torchvision.TABLE[name]
    for seed in range(3):
        pixels = picture(seed, 61, 83)
        theirs = transform(torch.from_numpy(pixels).permute(2, 0, 1)).permute(1, 2, 0).numpy()
        made = [op for op in ops.from_torchvision(transform) if op.name != "ToChannelsFirst"]
        alike(row.same, theirs, image_of(pixels, made))
        if "number_rule" in row.note:
            assert np.array_equal(theirs, image_of(pixels, made, number_rule="exact"))


def test_all_errors_come_at_once_with_their_places() -> None:
    (v2,) = conversions("torchvision.transforms.v2")
    transform = v2.Compose([
        v2.FiveCrop(8), v2.RandomHorizontalFlip(), v2.RandomApply([v2.TenCrop(8), v2.Resize(8, interpolation=4)]),
        v2.Pad(2, fill={"others": 0}), v2.RandomErasing(),
    ])
    with pytest.raises(fl.ConfigError) as caught:
        ops.from_torchvision(transform)
    first, *lines = str(caught.value).splitlines()
    assert first == "from_torchvision: 4 transforms can't be converted:"
    starts = [
        "  [0] FiveCrop has no op", "  [2][0] TenCrop has no op", "  [2][1] Resize: there is no interpolation box",
        "  [3] Pad: one fill",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


def test_a_class_of_that_name_elsewhere_is_no_transform_of_torchvision() -> None:
    class Resize:
        size = 3

    with pytest.raises(fl.ConfigError, match=r"test_from_torchvision\.Resize has no op.*ops\.Lambda"):
        ops.from_torchvision(Resize())
    (v2,) = conversions("torchvision.transforms.v2")
    with pytest.raises(fl.ConfigError, match=r"Resize has no op in Fuseloop: ops\.from_torchvision\(transform\) converts"):
        ops.from_albumentations(v2.Resize(8))
    with pytest.raises(fl.ConfigError, match=r"fuseloop\.ops\.RandomInvert has no op"):
        ops.from_torchvision([ops.RandomInvert()])


def test_numbers_of_pillow_are_interpolations() -> None:
    (v2,) = conversions("torchvision.transforms.v2")
    assert ops.from_torchvision(v2.Resize(8, interpolation=3)) == [ops.Resize(8, interpolation="bicubic")]
    assert ops.from_torchvision(v2.RandomRotation(8, interpolation=2))[0].interpolation == "bilinear"


def test_parameters_that_are_not_read_are_refused() -> None:
    (v2,) = conversions("torchvision.transforms.v2")
    with pytest.raises(fl.ConfigError, match="ClampBoundingBoxes: clamping_mode='hard' has no counterpart"):
        ops.from_torchvision(v2.ClampBoundingBoxes(clamping_mode="hard"))
    ops.from_torchvision(v2.SanitizeBoundingBoxes(labels_getter=None))


def test_report_has_a_line_for_each() -> None:
    (v2,) = conversions("torchvision.transforms.v2")
    lines: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = ops.from_torchvision([v2.RandomInvert(), v2.RandomOrder([v2.RandomVerticalFlip(1.0)])], report=lines.append)
        assert ops.from_torchvision([v2.RandomInvert(), v2.RandomOrder([v2.RandomVerticalFlip(1.0)])]) == made
    assert lines == [
        "[0] RandomInvert -> RandomInvert(): same bits, other draws",
        "[1][0] RandomVerticalFlip -> RandomVerticalFlip(p=1.0): same bits, other draws",
    ]
