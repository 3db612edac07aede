"""What a dataset holds, and whether it is whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import picture, png, run_python

import fuseloop as fl
from fuseloop import sources, write


@pytest.fixture
def beton(photos: Path, tmp_path: Path) -> Path:
    write.convert(photos, tmp_path / "photos.beton", progress=None)
    return tmp_path / "photos.beton"


def test_info_of_a_beton_file(beton: Path) -> None:
    info = sources.open(beton).info()
    assert (info.name, info.samples, info.bytes) == (str(beton), 24, beton.stat().st_size)
    image, label = info.fields
    assert (image.name, image.kind, label.name, label.kind) == ("image", "image", "label", "int")
    assert label.stats == {"min": 0, "max": 1}
    assert image.stats is not None
    assert image.stats["min_size"] == (40, 50)
    assert image.stats["max_size"] == (56, 68)
    assert image.stats["jpeg"] + image.stats["raw"] == 24
    assert [(one.number, one.name, one.samples) for one in info.classes] == [(0, "bee", 12), (1, "cow", 12)]
    text = str(info)
    assert f"{beton}: 24 samples, " in text
    assert "50 to 68 wide, 40 to 56 high" in text
    assert "0    bee                      12 samples" in text


def test_info_of_other_datasets(photos: Path) -> None:
    folder = sources.open(photos)
    assert [one.samples for one in folder.info().classes] == [12, 12]
    assert folder.info().fields[0].stats is None
    stream = sources.Stream(photos).filter(lambda sample: True)
    assert stream.info().samples is None
    assert "number of samples unknown" in str(stream.info())
    numbers = sources.from_python([{"n": 1}, {"n": 2}])
    assert (numbers.info().samples, numbers.info().classes, numbers.info().bytes) == (2, (), None)


def test_a_whole_dataset(beton: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    report = sources.open(beton).verify(progress=lambda done, total: seen.append((done, total)), threads=2)
    assert report.is_whole
    assert (report.samples, report.values, report.images, report.damaged) == (24, 48, 24, ())
    np.testing.assert_array_equal(report.good, np.arange(24))
    assert seen[-1] == (24, 24)
    assert "no damage found" in str(report)
    part = sources.open(beton).verify(limit=5, progress=None)
    assert (part.samples, len(part.good)) == (5, 5)
    assert "5 samples checked of 24" in str(part)


def test_damage_is_listed_and_the_rest_is_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for k in range(6):
        whole = png(picture(k, 32, 32))
        (tmp_path / "a" / f"{k}.png").write_bytes(whole if k not in (1, 4) else whole[:200])
    dataset = sources.open(tmp_path)
    report = dataset.verify(progress=None)
    assert not report.is_whole
    assert (report.damaged_samples, report.damaged_values) == (2, 2)
    assert [value.sample for value in report.damaged] == [1, 4]
    first = report.damaged[0]
    assert (first.field, first.kind) == ("image", "picture_damaged")
    assert first.path is not None
    assert first.path.endswith("1.png")
    assert report.kinds == {"picture_damaged": 2}
    assert str(first) in str(report)
    assert "images that can't be decoded: 2" in str(report)
    loader = fl.Loader(dataset, batch_size=4, indices=report.good, image=[fl.ops.Resize((8, 8))])
    assert [list(batch.ids) for batch in loader] == [[0, 2, 3, 5]]


_FINDINGS = ["overlapping", "outside", "no_sample", "across_pages", "several_pages", "shared", "unreferenced"]


def test_tables_that_contradict_each_other(tmp_path: Path) -> None:
    samples = [{"text": bytes([k]) * 100} for k in range(3)]
    write.write(samples, tmp_path / "x.beton", progress=None)
    report = sources.open(tmp_path / "x.beton").verify(progress=None)
    assert report.tables is not None
    found = {name: one["count"] for name, one in report.tables.items() if isinstance(one, dict)}
    assert found == dict.fromkeys(_FINDINGS, 0)
    data = (tmp_path / "x.beton").read_bytes()
    table = int.from_bytes(data[16:24], "little")
    # A record of the allocation table is the sample, the pointer and the size, 8 bytes each: the second begins inside
    # of the first.
    broken = bytearray(data)
    broken[table + 32] = data[table + 8] + 50
    (tmp_path / "x.beton").write_bytes(broken)
    report = sources.open(tmp_path / "x.beton").verify(progress=None)
    assert not report.is_whole
    assert report.tables is not None
    assert report.tables["overlapping"]["count"] == 1
    assert "damaged: overlapping records of the allocation table: 1, " in str(report)


def test_mistakes_say_what_to_do(photos: Path) -> None:
    dataset = sources.open(photos)
    with pytest.raises(fl.ConfigError, match="threads is 0, expected 1 or more"):
        dataset.verify(threads=0)
    with pytest.raises(fl.FuseloopError, match="1024"):
        dataset.verify(threads=5000, progress=None)
    with pytest.raises(fl.ConfigError, match="it can only be read in sequence: unpack it first"):
        sources.Stream(photos).verify(progress=None)
    with pytest.raises(TypeError, match="workers"):
        dataset.verify(workers=2)

    def broken(done: int, total: int | None) -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        dataset.verify(progress=broken)


def test_ctrl_c_within_100_ms() -> None:
    code = """
import os, signal, threading, time
from fuseloop import sources

class Slow:
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        time.sleep(0.01)
        return {"n": index}

dataset = sources.from_python(Slow())
begin = []
def interrupt():
    begin.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.5, interrupt).start()
try:
    dataset.verify(progress=None)
except KeyboardInterrupt:
    print(time.monotonic() - begin[0])
print(dataset[3]["n"], dataset.verify(limit=4, progress=None).is_whole)
"""
    ran = run_python(code)
    assert ran.returncode == 0, ran.stderr
    seconds, rest = ran.stdout.strip().split("\n")
    assert float(seconds) < 0.3, "100 ms, and some for a machine that is busy"
    assert rest == "3 True"


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """One image with two objects, in COCO's format."""
    (tmp_path / "a.png").write_bytes(png(picture(0, 30, 20)))
    annotations = [
        {"id": 7, "image_id": 1, "category_id": 1, "bbox": [1, 2, 0, 5]},
        {"id": 8, "image_id": 1, "category_id": 1, "bbox": [1, 2, 5, 5]},
    ]
    content = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 1, "name": "bee"}],
        "annotations": annotations,
    }
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    return tmp_path / "annotations.json"


def test_info_of_objects(objects: Path, tmp_path: Path) -> None:
    write.convert(objects, tmp_path / "objects.beton", progress=None)
    for path in (objects, tmp_path / "objects.beton"):
        info = sources.open(path).info()
        assert info.objects["bbox"] == "boxes, xywh, in pixels"
        assert [(one.name, one.samples, one.objects) for one in info.classes] == [("bee", None, 2)]
        assert "objects\n  image_id: the number of the image\n" in str(info)
        assert "1 class, 2 objects\n  0    bee                      2 objects" in str(info)


def test_degenerate_objects_are_listed(objects: Path) -> None:
    report = sources.open(objects).verify(progress=None)
    assert report.is_whole
    assert report.degenerate_kinds == {"empty_box": 1}
    (found,) = report.degenerate
    assert (found.sample, found.field, found.object, found.annotation) == (0, "bbox", 0, 7)
    assert "note: boxes without an area: 1" in str(report)
    assert str(found) in str(report)


def test_a_report_has_a_short_repr(beton: Path) -> None:
    assert repr(sources.open(beton).verify()) == "VerifyReport(24 samples checked, whole)"
