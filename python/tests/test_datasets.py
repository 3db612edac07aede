"""Datasets of Hugging Face in memory: what `datasets` reads, and what the same rows in Parquet are."""

from __future__ import annotations

import gc
import io
import multiprocessing
import pickle
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources

pa = pytest.importorskip("pyarrow")
datasets = pytest.importorskip("datasets")
Image = pytest.importorskip("PIL.Image")

NAMES = ["bird", "cat", "dog"]
WHOLE = [ops.CenterCrop((12, 16))]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    yield


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 12), (shade, shade, shade)).save(file, "PNG")
    return file.getvalue()


def hub(rows: int = 40) -> Any:
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=NAMES),
            "caption": datasets.Value("string"),
            "objects": datasets.List(
                {
                    "bbox": datasets.List(datasets.Value("float32"), length=4),
                    "category": datasets.ClassLabel(names=NAMES),
                }
            ),
        }
    )
    columns = {
        "image": [{"bytes": png(row), "path": f"{row}.png"} for row in range(rows)],
        "label": [row % 3 for row in range(rows)],
        "caption": [f"row {row}" for row in range(rows)],
        "objects": [[{"bbox": [1.0, 2.0, 3.0, n], "category": n} for n in range(row % 3)] for row in range(rows)],
    }
    return datasets.Dataset.from_dict(columns, features)


def mapped(ds: Any, folder: Path, **options: Any) -> Any:
    """Returns the dataset as `datasets` maps it from files."""
    ds.save_to_disk(folder, **options)
    return datasets.load_from_disk(folder)


def shades(loader: Any) -> list[int]:
    return [int(shade) for batch in loader for shade in batch["image"].numpy()[:, 0, 0, 0]]


def loaded(given: Any, **options: Any) -> fl.Loader:
    return fl.Loader(given, 8, image=WHOLE, without=["caption", "bbox", "category"], **options)


def same_value(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


def assert_same(one: fl.Dataset, other: fl.Dataset) -> None:
    assert (one.fields, len(one), one.classes) == (other.fields, len(other), other.classes)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        assert all(same_value(a[name], b[name]) for name in a), (a, b)


WIDE = {
    "u8": ("uint8", [1, 255]),
    "i16": ("int16", [-5, 5]),
    "u64": ("uint64", [1, 2**63 - 1]),
    "flag": ("bool", [True, False]),
    "half": ("float16", [0.5, -2.0]),
    "single": ("float32", [0.1, 3.0]),
    "double": ("float64", [0.1, -3.0]),
    "day": ("date32", [1, 20_000]),
    "day64": ("date64", [86_400_000, 0]),
    "second": ("timestamp[s]", [7, -1]),
    "micro": ("timestamp[us, tz=UTC]", [7, -1]),
    "clock": ("time32[s]", [7, 8]),
    "span": ("duration[s]", [7, -8]),
    "text": ("string", ["a", "bcd"]),
    "long": ("large_string", ["", "bcd"]),
    "view": ("string_view", ["short", "a text of more than twelve bytes"]),
    "raw": ("binary", [b"\0x", b""]),
    "fixed": ("fixed_size_binary[2]", [b"ab", b"cd"]),
}


def wide(times: int) -> Any:
    """A column of each type."""
    types: dict[str, Any] = {name: datasets.Value(kind) for name, (kind, _) in WIDE.items() if name != "fixed"}
    types |= {
        "grid": datasets.Array2D((2, 3), "float32"),
        "four": datasets.List(datasets.Value("int32"), length=4),
        "even": datasets.List(datasets.Value("int64")),
        "ragged": datasets.List(datasets.Value("float64")),
        "flags": datasets.List(datasets.Value("bool")),
        "tags": datasets.List(datasets.Value("string")),
        "nested": datasets.List(datasets.List(datasets.Value("int16"))),
        "meta": {"a": datasets.Value("int64"), "b": {"c": datasets.Value("string")}},
        "talk": datasets.Translation(languages=["de", "en"]),
    }
    values: dict[str, list[Any]] = {name: list(values) for name, (_, values) in WIDE.items() if name != "fixed"}
    values["day"] = [pa.scalar(n, pa.int32()).cast(pa.date32()).as_py() for n in values["day"]]
    for name in ("day64", "second", "micro", "clock", "span"):
        kind = {"day64": pa.date64(), "second": pa.timestamp("s"), "micro": pa.timestamp("us", "UTC")}
        kind |= {"clock": pa.time32("s"), "span": pa.duration("s")}
        base = pa.int32() if name == "clock" else pa.int64()
        values[name] = [pa.scalar(n, base).cast(kind[name]).as_py() for n in values[name]]
    values |= {
        "grid": [np.arange(6, dtype="f4").reshape(2, 3), np.ones((2, 3), "f4")],
        "four": [[1, 2, 3, 4], [5, 6, 7, 8]],
        "even": [[1, 2], [3, 4]],
        "ragged": [[0.5], [1.5, 2.5]],
        "flags": [[True], [False, True]],
        "tags": [["a", "b"], []],
        "nested": [[[1], [2, 3]], [[4]]],
        "meta": [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": "y"}}],
        "talk": [{"de": "Hund", "en": "dog"}, {"de": "Katze", "en": "cat"}],
    }
    return datasets.Dataset.from_dict(
        {name: column * times for name, column in values.items()}, datasets.Features(types)
    )


def test_rows_are_those_of_parquet(tmp_path: Path) -> None:
    for name, ds in [("hub", hub()), ("wide", wide(5))]:
        ds.to_parquet(tmp_path / f"{name}.parquet", batch_size=7)
        parquet = sources.open(tmp_path / f"{name}.parquet")
        assert_same(sources.from_datasets(ds), parquet)
        assert_same(sources.from_datasets(mapped(ds, tmp_path / name, num_shards=3)), parquet)


def test_a_loader_takes_a_dataset(tmp_path: Path) -> None:
    ds = hub()
    for given in (ds, mapped(ds, tmp_path / "ds"), sources.from_datasets(ds)):
        loader = loaded(given)
        assert shades(loader) == list(range(40))
        assert loader.classes == dict(enumerate(NAMES))
    boxes = {"bbox": fl.Collate.ragged(to=9), "category": fl.Collate.ragged(to=9)}
    loader = fl.Loader(ds, 40, image=WHOLE, without=["caption"], collate=boxes, targets="auto")
    batch = next(iter(loader))
    assert [len(rows) for rows in batch["bbox"]] == [row % 3 for row in range(40)]


def test_indices_are_followed(tmp_path: Path) -> None:
    ds = mapped(hub(), tmp_path / "ds", num_shards=4)
    halves = ds.train_test_split(0.5, seed=3)
    for some in (
        ds.select([7, 3, 3]),
        ds.select(range(5, 30)),
        ds.shuffle(seed=1),
        ds.filter(lambda row: row["label"] == 2),
        ds.shuffle(seed=2).select(range(10)).sort("label"),
        halves["test"],
        datasets.concatenate_datasets([ds.select([1, 2]), hub(3)]),
        ds.map(lambda row: {"more": row["label"] + 1}),
    ):
        expected = [Image.open(io.BytesIO(image["bytes"])).getpixel((0, 0))[0] for image in some.cast_column("image", datasets.Image(decode=False))["image"]]
        assert shades(loaded(some)) == expected
        assert [row["label"] for row in sources.from_datasets(some)] == some["label"][:]


def test_orders_ranks_and_resume(tmp_path: Path) -> None:
    ds = mapped(hub(), tmp_path / "ds").shuffle(seed=5)
    (tmp_path / "rows").mkdir()
    ds.to_parquet(tmp_path / "rows" / "ds.parquet")
    for order in ("sequential", "random", "quasi_random", fl.ClassBalanced()):
        options: dict[str, Any] = {"order": order, "seed": 3}
        whole = shades(loaded(ds, **options))
        if order != "quasi_random":
            assert whole == shades(loaded(tmp_path / "rows" / "ds.parquet", **options))
        for workers in (1, 4):
            assert shades(loaded(ds, workers=workers, **options)) == whole
        ranks = [shades(loaded(ds, ranks=fl.Ranks(rank, 2), **options)) for rank in range(2)]
        assert sorted(sum(ranks, [])) == sorted(whole)
        first = loaded(ds, **options)
        epoch = iter(first)
        head = [int(shade) for _ in range(2) for shade in next(epoch)["image"].numpy()[:, 0, 0, 0]]
        second = loaded(pickle.loads(pickle.dumps(ds)), **options)
        second.load_state_dict(epoch.state_dict())
        assert head + shades(second) == whole


def test_other_rows_have_another_fingerprint(tmp_path: Path) -> None:
    ds = hub()
    same = [ds, mapped(ds, tmp_path / "ds"), mapped(ds, tmp_path / "two", num_shards=2), ds.select(range(40))]
    prints = {sources.from_datasets(one).fingerprint for one in same[:3]}
    assert len(prints) == 1
    others = [ds.shuffle(seed=1), ds.select(range(39)), ds.map(lambda row: {"label": 0}), ds.remove_columns("caption")]
    assert len({sources.from_datasets(one).fingerprint for one in others} | prints) == 5
    epoch = iter(loaded(ds))
    next(epoch)
    other = loaded(ds.shuffle(seed=1))
    with pytest.raises(fl.StateError):
        other.load_state_dict(epoch.state_dict())
        next(iter(other))


def test_images_without_bytes_are_read_from_their_paths(tmp_path: Path) -> None:
    for row in range(6):
        folder = tmp_path / "photos" / NAMES[row % 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{row}.png").write_bytes(png(row))
    ds = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "photos"), split="train")
    assert ds.data.table.column("image").chunk(0).field("bytes").null_count == 6
    loader = fl.Loader(ds, 3, image=WHOLE)
    assert sorted(shades(loader)) == list(range(6)) and loader.classes == dict(enumerate(NAMES))
    (tmp_path / "photos" / "cat" / "4.png").unlink()
    assert sorted(shades(fl.Loader(ds, 3, image=WHOLE, on_damaged="skip"))) == [0, 1, 2, 3, 5]
    with pytest.raises(fl.SampleError, match=r"4\.png"):
        shades(fl.Loader(ds, 3, image=WHOLE))
    packed = datasets.Dataset.from_dict(
        {"image": [{"bytes": None, "path": "zip://1.png::/x.zip"}]}, datasets.Features({"image": datasets.Image()})
    )
    with pytest.raises(fl.SampleError, match="embed_table_storage"):
        shades(fl.Loader(packed, 1, image=WHOLE))


def test_nulls_are_damage_of_their_sample() -> None:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    images: list[Any] = [{"bytes": png(n), "path": None} for n in range(6)]
    images[1] = images[4] = None
    ds = datasets.Dataset.from_dict({"image": images, "label": [0, 1, 2, None, 1, 2]}, features)
    assert shades(fl.Loader(ds, 6, image=WHOLE, on_damaged="skip")) == [0, 2, 5]
    assert set(shades(fl.Loader(ds, 6, image=WHOLE, on_damaged="substitute"))) == {0, 2, 5}
    with pytest.raises(fl.SampleError, match="null") as raised:
        shades(fl.Loader(ds, 6, image=WHOLE))
    assert raised.value.sample == 1
    report = sources.from_datasets(ds).verify(progress=None)
    assert [damaged.sample for damaged in report.damaged] == [1, 3, 4]


def test_formats_and_transforms() -> None:
    ds = hub()
    for given in (ds.with_format("torch"), ds.with_format("numpy"), ds.cast_column("image", datasets.Image(decode=False))):
        assert shades(loaded(given)) == list(range(40))
    some = sources.from_datasets(ds.with_format("numpy", columns=["label", "image"]))
    assert list(some.fields) == ["image", "label"]
    every = ds.with_format("numpy", columns=["label"], output_all_columns=True)
    assert list(sources.from_datasets(every).fields) == ["image", "label", "caption", "bbox", "category"]
    with pytest.raises(fl.ConfigError, match=r"from_python\(ds\)"):
        loaded(ds.with_transform(lambda rows: rows))


def test_splits_and_streams_are_named() -> None:
    both = datasets.DatasetDict({"train": hub(8), "test": hub(3)})
    with pytest.raises(fl.ConfigError, match="several splits; available: train, test"):
        loaded(both)
    with pytest.raises(fl.ConfigError, match="no split 'val'"):
        loaded(both, split="val")
    assert shades(loaded(both, split="test")) == [0, 1, 2]
    assert shades(loaded(datasets.DatasetDict({"only": hub(3)}))) == [0, 1, 2]
    for split in (None, "train"):
        with pytest.raises(fl.ConfigError, match="the DatasetDict has no splits: give it one, such as"):
            loaded(datasets.DatasetDict(), split=split)
    with pytest.raises(fl.ConfigError, match="leave it out"):
        loaded(hub(3), split="train")
    with pytest.raises(fl.ConfigError, match="without streaming=True"):
        loaded(hub(3).to_iterable_dataset())
    with pytest.raises(fl.ConfigError, match=r"no datasets\.Dataset"):
        sources.from_datasets([1])
    with pytest.raises(fl.DatasetError, match="no rows"):
        loaded(hub(3).select([]))


def test_columns_that_are_not_read_are_named() -> None:
    features = datasets.Features(
        {
            "label": datasets.Value("int64"),
            "price": datasets.Value("decimal128(10, 2)"),
            "nothing": datasets.Value("null"),
            "frames": datasets.List(datasets.Image()),
        }
    )
    frames = [[{"bytes": png(1), "path": None}]] * 2
    ds = datasets.Dataset.from_dict({"label": [1, 2], "price": [Decimal("1.50")] * 2, "nothing": [None, None], "frames": frames}, features)
    with pytest.warns(UserWarning, match="price"):
        some = sources.from_datasets(ds)
    assert list(some.fields) == ["label", "frames"]


def test_it_is_joined_streamed_and_converted(tmp_path: Path) -> None:
    ds = hub(10)
    fl.write.convert(ds, tmp_path / "ds.beton", progress=None)
    assert shades(loaded(tmp_path / "ds.beton")) == list(range(10))
    joined = sources.concat([ds, sources.from_datasets(ds.select([4, 8]))])
    assert shades(loaded(joined)) == [*range(10), 4, 8]
    assert shades(loaded(sources.Stream(ds).take(3))) == [0, 1, 2]


def _shades_of(given: Any, queue: Any) -> None:
    queue.put(shades(given if isinstance(given, fl.Loader) else loaded(given)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(tmp_path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    for ds in (hub(6), mapped(hub(6), tmp_path / "ds").select([5, 1])):
        queue = context.Queue()
        expected = shades(loaded(ds))
        child = context.Process(target=_shades_of, args=(loaded(ds), queue))
        child.start()
        assert queue.get(timeout=120) == expected
        child.join()


def test_memory_is_held_and_given_back(tmp_path: Path) -> None:
    ds = mapped(hub(), tmp_path / "ds")
    loader = loaded(ds)
    del ds
    assert shades(loader) == list(range(40))
    del loader
    maps = Path("/proc/self/maps")
    for _ in range(100 if maps.exists() else 0):
        gc.collect()
        if str(tmp_path / "ds") not in maps.read_text():
            return
        time.sleep(0.1)  # the threads of the loader end
    assert not maps.exists(), "the files are still mapped"


def test_torch_and_jax_take_it() -> None:
    pytest.importorskip("torch")
    images, labels = next(iter(fl.torch.Loader(hub(8), 8, image=[*WHOLE, ops.ToChannelsFirst()], without=["caption", "bbox", "category"])))
    assert images.shape == (8, 3, 12, 16) and labels.tolist() == [row % 3 for row in range(8)]
    pytest.importorskip("jax")
    batch = next(iter(fl.jax.Loader(hub(8), 8, image=WHOLE, without=["caption", "bbox", "category"])))
    assert batch["image"].shape == (8, 12, 16, 3)
