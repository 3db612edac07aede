"""Parquet files that `convert` writes, read by pyarrow and by Hugging Face's `datasets`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources, write

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")

ROWS = 230


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 12), (shade, shade, shade)).save(file, "PNG")
    return file.getvalue()


def test_pyarrow_reads_types_features_and_row_groups(tmp_path: Path) -> None:
    samples = [
        (np.full((12, 16, 3), n, np.uint8), n % 3, n / 7, f"row {n}".encode(), {"n": n}, np.full((2, 3), n, np.float32), np.arange(n, n + 4))
        for n in range(ROWS)
    ]
    fields = {
        "image": "image",
        "label": "int",
        "score": "float",
        "caption": "bytes",
        "meta": "json",
        "grid": write.Array("f4", (2, 3)),
        "vector": write.Array("i8", (4,)),
    }
    write.write(samples, tmp_path / "x.beton", fields)
    report = write.convert(tmp_path / "x.beton", tmp_path / "out" / "train-{00000}-of-{N}.parquet", shards=2)
    assert (report.samples, report.files) == (ROWS, 2)
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    file = pq.ParquetFile(files[0])
    assert [file.metadata.row_group(k).num_rows for k in range(2)] == [100, 15]
    image = file.metadata.row_group(0).column(0)
    assert (image.compression, set(image.encodings) - {"RLE"}) == ("UNCOMPRESSED", {"PLAIN"})
    schema = file.schema_arrow
    assert schema.field("image").type == pa.struct({"bytes": pa.binary(), "path": pa.string()})
    assert schema.field("caption").type == pa.string()
    assert schema.field("vector").type == pa.list_(pa.int64(), 4)
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert features["grid"] == {"shape": [2, 3], "dtype": "float32", "_type": "Array2D"}
    assert features["meta"] == {"_type": "Json"}
    for column, values in (("label", [n % 3 for n in range(115)]), ("score", [n / 7 for n in range(115)])):
        assert file.read([column])[column].to_pylist() == values
    read = fl.Loader(tmp_path / "out", 5, image=[ops.CenterCrop((12, 16))], without=["caption", "meta"])
    assert [int(label) for batch in read for label in batch["label"].numpy()] == [n % 3 for n in range(ROWS)]


def hub(folder: Path):
    """Writes a dataset as `push_to_hub` does, and returns it."""
    datasets = pytest.importorskip("datasets")
    names = ["bird", "cat", "dog"]
    category = datasets.ClassLabel(names=["wing", "paw"])
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=names),
            "caption": datasets.Value("string"),
            "score": datasets.Value("float64"),
            "embedding": datasets.List(datasets.Value("float32"), length=4),
            "grid": datasets.Array2D((2, 3), "int16"),
            "meta": datasets.Json(),
            "objects": datasets.List(
                {"bbox": datasets.List(datasets.Value("float32"), length=4), "category": category}
            ),
        }
    )
    rows = [
        {
            "image": {"bytes": png(n % 250), "path": None},
            "label": n % 3,
            "caption": f"rów {n}",
            "score": n / 7,
            "embedding": [n, 0.5, -1, 2],
            "grid": [[n, 1, 2], [3, 4, 5]],
            "meta": {"n": n, "of": ["a", None]},
            "objects": [{"bbox": [1.0, 2.0, 3.0, k + 0.25], "category": k % 2} for k in range(n % 4)],
        }
        for n in range(ROWS)
    ]
    dataset = datasets.Dataset.from_list(rows, features=features)
    (folder / "data").mkdir(parents=True)
    dataset.to_parquet(folder / "data" / "train-00000-of-00001.parquet")
    return dataset


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("by_folder", [True, False])
def test_load_dataset_reads_back_what_it_wrote(tmp_path: Path, by_folder: bool) -> None:
    datasets = pytest.importorskip("datasets")
    expected = hub(tmp_path / "hub")
    out = tmp_path / "out"
    write.convert(tmp_path / "hub", out / "train-{00000}-of-{N}.parquet", shards=3)
    cache = str(tmp_path / "cache")
    named = {"path": str(out)} if by_folder else {"path": "parquet", "data_dir": str(out)}
    found = datasets.load_dataset(**named, split="train", cache_dir=cache)
    assert found.features == expected.features
    stored = datasets.Image(decode=False)
    found, expected = (one.cast_column("image", stored) for one in (found, expected))
    assert found.num_rows == expected.num_rows
    for one, other in zip(found, expected, strict=True):
        assert one == other


def test_a_second_conversion_writes_the_same_bytes(tmp_path: Path) -> None:
    hub(tmp_path / "hub")
    first, second = tmp_path / "a" / "train.parquet", tmp_path / "b" / "train.parquet"
    write.convert(tmp_path / "hub", first)
    write.convert(first, second)
    assert first.read_bytes() == second.read_bytes()
    names = sources.open(second).classes
    assert names == {0: "bird", 1: "cat", 2: "dog"}


def test_datasets_reads_a_folder_of_audio_back(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    goldens = Path(__file__).parents[2] / "tests/golden/audio"
    files = {"yes/1.wav": "i16.wav", "no/1.flac": "i24.flac", "no/2.ogg": "mono.ogg"}
    for path, golden in files.items():
        (tmp_path / "words" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "words" / path).write_bytes((goldens / golden).read_bytes())
    write.convert(tmp_path / "words", tmp_path / "out" / "train-{00000}.parquet", progress=None)
    read = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert read.features == {"audio": datasets.Audio(), "label": datasets.ClassLabel(names=["no", "yes"])}
    rows = list(read.cast_column("audio", datasets.Audio(decode=False)))
    assert [row["label"] for row in rows] == [0, 0, 1]
    stored = [row["audio"]["bytes"] for row in rows]
    assert stored == [(goldens / name).read_bytes() for name in ("i24.flac", "mono.ogg", "i16.wav")]
    assert sources.open(tmp_path / "out").verify(progress=None).audio_files == 3
