"""Parquet files that pyarrow writes, and folders of the Hugging Face Hub."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")

# No file says what the sizes of its images are, and images of several sizes are no batch.
WHOLE = [ops.CenterCrop((12, 16))]

FEATURES = {
    "image": {"_type": "Image"},
    "label": {"names": ["bird", "cat", "dog"], "_type": "ClassLabel"},
    "objects": {
        "feature": {
            "bbox": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 4, "_type": "List"},
            "category": {"names": ["bird", "cat", "dog"], "_type": "ClassLabel"},
        },
        "_type": "List",
    },
}


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 12), (shade, shade, shade)).save(file, "PNG")
    return file.getvalue()


def write_hub(folder: Path, splits: dict[str, range], **options: object) -> Path:
    """Writes what `push_to_hub` writes, of rows of these numbers."""
    (folder / "data").mkdir(parents=True)
    for split, rows in splits.items():
        table = pa.table(
            {
                "image": [{"bytes": png(row), "path": f"{row}.png"} for row in rows],
                "label": [row % 3 for row in rows],
                "caption": [f"row {row}" for row in rows],
                "objects": [
                    [{"bbox": [1.0, 2.0, 3.0, float(n)], "category": n} for n in range(row % 3)] for row in rows
                ],
            }
        )
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})})
        pq.write_table(table, folder / "data" / f"{split}-00000-of-00001.parquet", **options)
    return folder


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    uncompressed = {"compression": "none", "use_dictionary": False, "row_group_size": 8}
    return write_hub(tmp_path / "hub", {"train": range(40), "test": range(40, 50)}, **uncompressed)


def shades(loader: fl.Loader) -> list[int]:
    return [int(shade) for batch in loader for shade in batch["image"].numpy()[:, 0, 0, 0]]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_split_is_read(tmp_path: Path, compression: str, dictionary: bool) -> None:
    options = {"compression": compression, "use_dictionary": dictionary, "row_group_size": 8}
    hub = write_hub(tmp_path / "hub", {"train": range(40), "test": range(40, 50)}, **options)
    loader = fl.Loader(hub, 8, split="test", image=WHOLE, without=["caption"])
    assert shades(loader) == list(range(40, 50))
    assert loader.classes == {0: "bird", 1: "cat", 2: "dog"}


def test_a_split_must_be_named(hub: Path) -> None:
    with pytest.raises(fl.FuseloopError, match=r"several splits \(test, train\): name one, such as by split='train'"):
        fl.Loader(hub, 8)
    with pytest.raises(fl.FuseloopError, match=r'no split named "dev"; available: test, train'):
        fl.Loader(hub, 8, split="dev")
    assert len(sources.open(hub, split="train")) == 40
    assert len(sources.open(hub / "data" / "test-*.parquet")) == 10


@pytest.mark.parametrize("split", [5, "", b"train"])
def test_a_split_is_a_name(hub: Path, split: Any) -> None:
    for open_it in (fl.sources.open, fl.sources.mds):
        with pytest.raises(fl.ConfigError, match=f"^split is {split!r}, expected a name such as 'train'$"):
            open_it(hub, split=split)


def test_orders_and_resume(hub: Path) -> None:
    for order in ["random", "quasi_random"]:
        loader = fl.Loader(hub, 8, split="train", image=WHOLE, order=order, seed=3)
        whole = shades(loader)
        assert sorted(whole) == list(range(40)) and whole != sorted(whole)
        loader = pickle.loads(pickle.dumps(fl.Loader(hub, 8, split="train", image=WHOLE, order=order, seed=3)))
        epoch = iter(loader)
        first = [int(shade) for shade in next(epoch)["image"].numpy()[:, 0, 0, 0]]
        resumed = fl.Loader(hub, 8, split="train", image=WHOLE, order=order, seed=3)
        resumed.load_state_dict(loader.state_dict())
        assert first + shades(resumed) == whole


def test_boxes_are_targets(hub: Path) -> None:
    longest = {"bbox": fl.Collate.ragged(to=2), "category": fl.Collate.ragged(to=2)}  # which no file says
    image = [*WHOLE, ops.RandomHorizontalFlip(1.0)]
    loader = fl.Loader(hub, 4, split="train", image=image, targets="auto", collate=longest, without=["caption"])
    batch = next(iter(loader))
    assert batch["category"].values.numpy().tolist() == [0, 0, 1]  # of the rows 0 to 3: none, one, two, none
    assert batch["bbox"].values.numpy().tolist() == [[12, 2, 3, 0], [12, 2, 3, 0], [12, 2, 3, 1]]


def test_a_null_is_damage_of_its_sample(tmp_path: Path) -> None:
    rows = [None if row == 3 else png(row) for row in range(10)]
    pq.write_table(pa.table({"jpg": pa.array(rows, pa.binary())}), tmp_path / "x.parquet")
    loader = fl.Loader(tmp_path / "x.parquet", 5, image=WHOLE)
    with pytest.raises(fl.FuseloopError, match="it is null"):
        list(loader)
    skipping = fl.Loader(tmp_path / "x.parquet", 5, image=WHOLE, on_damaged="skip")
    assert shades(skipping) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_arrays_are_those_of_pyarrow(tmp_path: Path) -> None:
    values = np.arange(40, dtype=np.float32).reshape(10, 4)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 4), "y": list(range(10))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=3)
    batch = next(iter(fl.Loader(tmp_path / "x.parquet", 10)))
    assert (batch["x"].numpy() == values).all()
    assert batch["y"].numpy().tolist() == list(range(10))


def test_it_becomes_a_beton(hub: Path, tmp_path: Path) -> None:
    fl.write.convert(sources.open(hub, split="train"), tmp_path / "x.beton", progress=None)
    loader = fl.Loader(tmp_path / "x.beton", 8, image=[], without=["caption"])
    assert shades(loader) == list(range(40))
    assert loader.classes == {0: "bird", 1: "cat", 2: "dog"}


def test_columns_of_several_files_mean_the_same(tmp_path: Path) -> None:
    def write(folder: str, one: object, other: object, features: tuple[object, object] = (None, None)) -> str:
        (tmp_path / folder).mkdir()
        for number, (column, names) in enumerate([(one, features[0]), (other, features[1])]):
            table = pa.table({"a": column})
            if names is not None:
                info = {"info": {"features": {"a": {"names": names, "_type": "ClassLabel"}}}}
                table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
            pq.write_table(table, tmp_path / folder / f"{number}.parquet")
        return str(tmp_path / folder / "*.parquet")

    sizes = write("sizes", pa.array([1, 2], pa.int32()), pa.array([3, 1 << 40], pa.int64()))
    assert [sample["a"] for sample in sources.open(sizes)] == [1, 2, 3, 1 << 40]
    classes = write("classes", [0, 1], [0, 1], (["cat", "dog"], ["dog", "cat"]))
    units = write("units", pa.array([1], pa.timestamp("ms")), pa.array([1], pa.timestamp("us")))
    lists = write("lists", pa.array([[1], [1, 2]], pa.list_(pa.int64())), pa.array(["x", "y"]))
    for name, why in ((classes, "names other classes"), (units, "times of another unit"), (lists, "values of another type")):
        with pytest.raises(fl.FuseloopError, match=why):
            sources.open(name)
