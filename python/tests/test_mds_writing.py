"""MDS shards that `convert` writes, read by Fuseloop, and by mosaicml-streaming if it is installed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources, write

Image = pytest.importorskip("PIL.Image")

ROWS = 40
FIELDS = {
    "image": "image",
    "label": "int",
    "score": "float",
    "caption": "bytes",
    "raw": "bytes",
    "meta": "json",
    "grid": write.Array("f4", (2, 3)),
}


def jpeg(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 12), (shade, shade, shade)).save(file, "JPEG")
    return file.getvalue()


def written(tmp_path: Path) -> Path:
    """Returns a folder of three shards."""
    samples = []
    for n in range(ROWS):
        image, grid = Image.open(io.BytesIO(jpeg(n))), np.full((2, 3), n, np.float32)
        samples.append((image, n % 3, n / 7, f"row {n}".encode(), bytes([255, n]), {"n": n}, grid))
    write.write(samples, tmp_path / "x.beton", FIELDS, progress=None)
    report = write.convert(tmp_path / "x.beton", tmp_path / "out" / "index.json", shards=3, progress=None)
    assert (report.samples, report.files) == (ROWS, 4)
    return tmp_path / "out"


def test_an_index_and_its_shards_are_written_and_read(tmp_path: Path) -> None:
    out = written(tmp_path)
    names = [f"shard.{k:05}.mds" for k in range(3)]
    assert sorted(file.name for file in out.iterdir()) == ["index.json", *names]
    index = json.loads((out / "index.json").read_text())
    assert [shard["raw_data"]["basename"] for shard in index["shards"]] == names
    first = index["shards"][0]
    assert dict(zip(first["column_names"], first["column_encodings"])) == {
        "image": "jpeg",
        "label": "int",
        "score": "float64",
        "caption": "str",
        "raw": "bytes",
        "meta": "json",
        "grid": "ndarray:float32:2,3",
    }
    for dataset in (sources.mds(out), fl.Dataset.open(out / "index.json")):
        assert len(dataset) == ROWS
        loader = fl.Loader(dataset, 8, image=[ops.CenterCrop(8)], without=["caption", "raw", "meta"])
        assert np.concatenate([batch["score"].numpy(copy=True) for batch in loader]).tolist() == [n / 7 for n in range(ROWS)]


def test_an_unfinished_or_misnamed_dataset_is_refused(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(fl.ConfigError, match="use a name such as out/index.json"):
        write.convert(photos, tmp_path / "out.mds", progress=None)
    with pytest.raises(fl.ConfigError, match="several ranks can't write MDS shards"):
        write.convert(photos, tmp_path / "index.json", shards=2, ranks=fl.Ranks(0, 2), progress=None)
    write.convert(photos, tmp_path / "index.json", progress=None)
    with pytest.raises(fl.OutputExistsError):
        write.convert(photos, tmp_path / "index.json", progress=None)
    assert sources.mds(tmp_path).classes == {0: "bee", 1: "cow"}


def test_streaming_reads_equal_samples(tmp_path: Path) -> None:
    local = pytest.importorskip("streaming.base.local")
    dataset = local.LocalDataset(str(written(tmp_path)))
    assert len(dataset) == ROWS
    for n in range(ROWS):
        sample = dataset[n]
        assert (sample["label"], sample["score"], sample["caption"]) == (n % 3, n / 7, f"row {n}")
        assert (sample["raw"], sample["meta"]) == (bytes([255, n]), {"n": n})
        assert (sample["image"].format, sample["image"].size) == ("JPEG", (16, 12))
        np.testing.assert_array_equal(np.asarray(sample["image"]), np.asarray(Image.open(io.BytesIO(jpeg(n)))))
        np.testing.assert_array_equal(sample["grid"], np.full((2, 3), n, np.float32))
