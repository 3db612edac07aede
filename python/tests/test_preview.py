"""Sheets of pictures, and what is drawn for a sample."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from conftest import picture, run_python

import fuseloop as fl
from fuseloop import ops
from fuseloop.write import Image, write

CELL, STEP, MARGIN = 224, 236, 20


def cell(sheet: fl.Sheet, column: int) -> np.ndarray:
    """Returns the picture in the first row and this column."""
    left = MARGIN + column * STEP
    return sheet.array()[MARGIN : MARGIN + CELL, left : left + CELL]


def images(loader: fl.Loader, sample: int, epoch: int) -> np.ndarray:
    return loader.get([sample], epoch)["image"].numpy()[0]


def test_the_pictures_are_those_of_the_batches(photos: Path) -> None:
    loader = fl.Loader(photos, image=[ops.RandomResizedCrop(CELL), ops.RandomHorizontalFlip()], indices=[5, 2])
    sheet = loader.preview(1, epochs=3, epoch=1)
    for column, epoch in enumerate([1, 2, 3], 1):
        np.testing.assert_array_equal(cell(sheet, column), images(loader, 5, epoch))
    each = loader.preview(1, each_op=True, epoch=1)
    np.testing.assert_array_equal(cell(each, 2), cell(sheet, 1))
    np.testing.assert_array_equal(cell(each, 0), cell(sheet, 0))


def test_lists_by_epoch_are_those_of_their_epochs(photos: Path) -> None:
    def by_epoch(epoch: int) -> list[ops.Op]:
        flip = [ops.RandomHorizontalFlip(p=1)] if epoch % 2 else []
        return [ops.Resize((CELL, CELL)), *flip]

    loader = fl.Loader(photos, batch_size=4, image=by_epoch)
    running = iter(loader)
    first = next(running)["image"].numpy().copy()
    sheet = loader.preview(1, epochs=3)
    for epoch in range(3):
        np.testing.assert_array_equal(cell(sheet, epoch + 1), images(loader, 0, epoch))
    np.testing.assert_array_equal(cell(sheet, 2), cell(sheet, 1)[:, ::-1])
    assert loader.next_epoch == 1
    assert len(list(running)) == len(loader) - 1
    np.testing.assert_array_equal(first[0], cell(sheet, 1))


def test_a_sheet_is_shown_saved_and_converted(photos: Path, tmp_path: Path) -> None:
    sheet = fl.Loader(photos, image=[ops.Resize((32, 32))]).preview(2)
    array = sheet.array()
    assert array.shape == (sheet.height, sheet.width, 3)
    assert array.flags.writeable
    png = sheet._repr_png_()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    sheet.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == png
    sheet.save(str(tmp_path / "a.JPG"))
    assert (tmp_path / "a.JPG").read_bytes().startswith(b"\xff\xd8\xff")
    with pytest.raises(fl.ConfigError, match=r"a\.gif: sheets are saved as \.png, \.jpg or \.jpeg"):
        sheet.save(tmp_path / "a.gif")
    assert repr(sheet) == f"Sheet(width={sheet.width}, height={sheet.height})"
    # What the file holds, without another library: the size, and lines of pixels behind their filters.
    assert (int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")) == (sheet.width, sheet.height)
    at, data = 8, b""
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    assert len(zlib.decompress(data)) == sheet.height * (1 + 3 * sheet.width)


def test_pillow_gets_the_same_pixels(photos: Path) -> None:
    pytest.importorskip("PIL")
    sheet = fl.Loader(photos, image=[ops.Resize((32, 32))]).preview(1)
    np.testing.assert_array_equal(np.asarray(sheet.pil()), sheet.array())


def test_views_and_functions_are_shown(photos: Path) -> None:
    def darken(image: np.ndarray, sample: int) -> np.ndarray:
        return image // 2

    loader = fl.Loader(
        photos,
        image=[ops.Resize((CELL, CELL)), ops.Lambda(darken, per_sample=True)],
        views={"small": fl.View("image", [ops.Resize((24, 24))])},
    )
    np.testing.assert_array_equal(cell(loader.preview(1), 1), images(loader, 0, 0))
    assert loader.preview(1, field="small").array().sum() > 0
    assert loader.inspect(0, field="small").output == "a u8 image [24, 24, 3]"


def test_an_exception_of_a_function_comes_out(photos: Path) -> None:
    def broken(image: np.ndarray, sample: int) -> np.ndarray:
        raise LookupError("no such thing")

    loader = fl.Loader(photos, image=[ops.Resize((24, 24)), ops.Lambda(broken, per_sample=True)])
    with pytest.raises(LookupError, match="no such thing"):
        loader.preview(1)
    with pytest.raises(LookupError, match="no such thing"):
        loader.inspect(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is 0, expected 1 or more"),
        ({"epochs": 0}, "epochs is 0, expected 1 or more"),
        ({"n": 1000, "epochs": 9}, "a sheet of 10000 images, the limit is 2000"),
        ({"epochs": 10**12}, "the limit is 2000|out of range|too large"),
        ({"epochs": 2, "each_op": True}, "drop one of the two options"),
        ({"field": "picture"}, "no output named picture; available: image"),
        ({"field": "label"}, "output label has no images; available: image"),
    ],
)
def test_mistakes_say_what_to_do(photos: Path, arguments: dict, message: str) -> None:
    loader = fl.Loader(photos, image=[ops.Resize((24, 24))])
    with pytest.raises((fl.ConfigError, OverflowError), match=message):
        loader.preview(**arguments)


def test_inspect_says_what_was_drawn(photos: Path) -> None:
    loader = fl.Loader(
        photos,
        seed=3,
        image=[ops.RandomResizedCrop(32), ops.RandomHorizontalFlip(p=1), ops.Normalize.imagenet()],
    )
    found = loader.inspect(7, epoch=4)
    assert (found.sample, found.epoch, found.field) == (7, 4, "image")
    assert [op.name for op in found.ops] == ["RandomResizedCrop", "RandomHorizontalFlip", "Normalize"]
    assert all(op.outcome == "runs" for op in found.ops)
    assert found.ops[0].words.endswith("to 32x32")
    assert found.size == (48, 68) == found.image.shape[:2]
    top, left, height, width = found.window
    assert top + height <= 48
    assert left + width <= 68
    assert found.agrees
    assert found.targets is None
    assert found.objects == ()
    assert found.labels == ("label 0",)
    assert found.output == "a f32 image [32, 32, 3]"
    assert f"decoded rows {top}..{top + height}, columns {left}..{left + width}" in str(found)
    assert loader.inspect(7, epoch=4).ops == found.ops
    assert loader.inspect(7, epoch=5).ops != found.ops
    with pytest.raises(fl.FuseloopError) as error:
        loader.inspect(24)
    assert error.value.sample == 24
    assert "24" in str(error.value)


def test_inspect_has_the_stored_size_of_an_image_decoded_smaller(tmp_path: Path) -> None:
    write([picture(5, 96, 120)], tmp_path / "one.beton", image=Image(write_mode="jpg"), progress=None)
    loader = fl.Loader(tmp_path / "one.beton", scaled_decode=True, batch_size=1, image=[ops.Resize((20, 24))])
    found = loader.inspect(0)
    assert found.size == (96, 120)
    assert found.image.shape == (48, 60, 3)
    assert found.window == (0, 0, 48, 60)
    assert "stored 120x96, decoded at 60x48, rows 0..48, columns 0..60" in str(found)


def test_the_error_of_a_damaged_sample_is_in_its_place(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for k in range(3):
        whole = sorted((photos / "bee").iterdir())[k].read_bytes()
        (tmp_path / "a" / f"{k}.png").write_bytes(whole if k != 1 else whole[: len(whole) // 2])
    loader = fl.Loader(tmp_path, image=[ops.Resize((24, 24))])
    assert loader.preview(3).damaged == [1]
    for name in ("0.png", "2.png"):
        (tmp_path / "a" / name).unlink()
    with pytest.raises(fl.FuseloopError, match=r"sample 0: .*1\.png") as error:
        fl.Loader(tmp_path, image=[ops.Resize((24, 24))]).preview(3)
    assert error.value.sample == 0


def test_ctrl_c_ends_a_long_preview(photos: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("signals are POSIX's")
    code = f"""
import os, signal, threading, time
import fuseloop as fl
from fuseloop import ops
loader = fl.Loader({str(photos)!r}, image=[ops.Resize((600, 600)), ops.GaussianBlur(9)])
threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    loader.preview(24, epochs=40)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin)
print(loader.preview(1) is not None)
"""
    ran = run_python(code)
    assert ran.returncode == 0, ran.stderr
    word, seconds = ran.stdout.split("\n")[0].split()
    assert word == "interrupted"
    assert float(seconds) < 1.5
    assert ran.stdout.split("\n")[1] == "True"
