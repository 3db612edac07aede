"""Arrays in memory as datasets, and MDS shards."""

from __future__ import annotations

import gc
import io
import pickle
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "mds"


def images(count: int = 8) -> np.ndarray:
    return (np.arange(count * 6 * 5 * 3) * 7 % 251).astype(np.uint8).reshape(count, 6, 5, 3)


def jpegs(count: int = 6) -> list[bytes]:
    Image = pytest.importorskip("PIL.Image")
    files = []
    for n in range(count):
        out = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), n * 20, np.uint8)).save(out, "JPEG" if n % 2 else "PNG")
        files.append(out.getvalue())
    return files


def rows(loader: Any, name: str = "image") -> np.ndarray:
    return np.concatenate([np.asarray(batch[name]).copy() for batch in loader])


def test_a_tuple_a_dict_and_from_arrays_are_one_dataset() -> None:
    x, y = images(), np.arange(8, dtype=np.int32)
    same = [sources.from_arrays(image=x, label=y), (x, y), {"image": x, "label": y}]
    for given in same:
        loader = fl.Loader(given, 4, order="random", seed=3, image=[ops.CenterCrop(4)])
        order = rows(loader, "label")
        loader.next_epoch = 0
        assert np.array_equal(rows(loader), x[order, 1:5, 0:4]) or np.array_equal(rows(loader), x[order, 1:5, 1:5])
        assert sorted(order.tolist()) == list(range(8))
    assert rows(fl.Loader(x, 4)).shape == (8, 6, 5, 3)


def test_arrays_are_not_copied_and_live_as_long_as_the_loader() -> None:
    x = images()
    loader = fl.Loader((x, np.arange(8)), 8)
    x[3] = 9
    assert (rows(loader)[3] == 9).all()
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None
    loader.next_epoch = 0
    assert (rows(loader)[3] == 9).all()
    del loader
    gc.collect()
    assert alive() is None


def test_samples_apart_are_read_where_they_are(recwarn: pytest.WarningsRecorder) -> None:
    x = images(12)
    for part in [x[::2], x[::-1], x[3:9:3], x[5:]]:
        assert np.array_equal(rows(fl.Loader(part, 4)), part)
    assert not [w for w in recwarn if w.category is fl.errors.FuseloopWarning]
    read_only = x.copy()
    read_only.flags.writeable = False
    assert np.array_equal(rows(fl.Loader(read_only, 4)), x)
    repeated = np.broadcast_to(x[:1], x.shape)
    assert np.array_equal(rows(fl.Loader(repeated, 4)), repeated)


def test_other_layouts_are_copied_with_a_warning() -> None:
    x = images()
    for layout in [x[:, ::-1], x.transpose(0, 2, 1, 3), np.asfortranarray(x)]:
        with pytest.warns(fl.errors.FuseloopWarning, match="image is copied"):
            assert np.array_equal(rows(fl.Loader(layout, 4)), layout)


def test_tensors_of_torch_are_taken_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.from_numpy(images()), torch.arange(8)
    loader = fl.Loader((x, y), 4)
    assert np.array_equal(rows(loader), x.numpy()) and rows(loader, "label").tolist() == y.tolist()
    planes = torch.rand(8, 3, 7, 6, requires_grad=True)
    loader = fl.Loader({"image": planes}, 4, image=[ops.CenterCrop(4)])
    assert rows(loader).shape == (8, 3, 4, 4)
    with pytest.raises(fl.ConfigError, match=r"bfloat16.*image\.float\(\)"):
        fl.Loader(torch.zeros(2, 3, 4, 4, dtype=torch.bfloat16), 2)
    with pytest.raises(fl.ConfigError, match=r"on meta, expected a tensor on the CPU"):
        fl.Loader(torch.zeros(2, 3, 4, 4, device="meta"), 2)
    with pytest.raises(fl.ConfigError, match=r"x\.to\(torch\.uint8\)"):
        sources.from_arrays(x=torch.zeros(4, 3, 8, 8, dtype=torch.int64))
    with pytest.raises(fl.ConfigError, match=r"x\.float\(\)"):
        sources.from_arrays(x=torch.zeros(4, 3, 8, 8, dtype=torch.float64))


def test_lists_of_image_files_are_decoded() -> None:
    files = jpegs()
    loader = fl.Loader((files, list(range(6))), 3, image=[ops.Resize((8, 8))])
    assert [int(row[0, 0, 0]) for row in rows(loader)] == [0, 20, 40, 60, 80, 100]
    texts = ["a", "bc", "d\u00fc"] * 2
    dataset = sources.from_arrays(image=files, caption=texts, raw=[b"x"] * 6)
    assert dataset.fields == {"image": "image", "caption": "bytes", "raw": "bytes"}
    assert dataset[2]["caption"].decode() == "d\u00fc"
    damaged = [*files[:5], b"\xff\xd8\xff broken"]
    loader = fl.Loader(damaged, 3, on_damaged="skip", image=[ops.Resize((8, 8))])
    assert len(rows(loader)) == 5


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": np.zeros((4, 8, 8, 3), np.int64)}, r"int64 and shape \(4, 8, 8, 3\).*image\.astype\('uint8'\)"),
        ({"image": np.zeros((4, 8, 8))}, r"float64.*image\.astype\('float32'\)"),
        ({"image": images(4), "label": np.arange(5)}, "column label: 5 values, expected 4"),
        ({"image": [b"\xff\xd8\xff", 3]}, r"image\[1\] is of type int"),
        ({"x": [[1, 2], [3]]}, "NumPy makes no array"),
        ({"x": np.array(["a"])}, "axes of <U1"),
        ({"x": np.array([1 << 63], np.uint64)}, "over the largest int64"),
    ],
)
def test_what_is_no_dataset_is_refused_with_a_cure(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(fl.ConfigError, match=message):
        sources.from_arrays(**arrays)


def test_other_tuples_and_dicts_are_no_arrays() -> None:
    for given in [{"train": object()}, {}, 3, {"image": "x.beton"}]:
        with pytest.raises(fl.ConfigError, match="a dataset is a path"):
            fl.Loader(given, 2)  # type: ignore[arg-type]


def test_every_key_of_a_dict_is_a_field() -> None:
    loader = fl.Loader({"image": images(8), "classes": np.arange(8)}, 4)
    assert rows(loader, "classes").tolist() == list(range(8))


def test_bmp_files_are_images() -> None:
    Image = pytest.importorskip("PIL.Image")
    files = []
    for pixels in images(4):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "BMP")
        files.append(file.getvalue())
    for given in (files, {"picture": files}):
        name = "image" if given is files else "picture"
        assert np.array_equal(rows(fl.Loader(given, 4, **{name: [ops.CenterCrop((6, 5))]}), name), images(4))


def test_orders_resume_classes_and_pickles() -> None:
    x, y = images(8), np.arange(8) % 2
    dataset = sources.from_arrays(image=x, label=y, classes=["a", "b"])
    for source in (dataset, pickle.loads(pickle.dumps(dataset))):
        assert source.classes == {0: "a", 1: "b"} and source.fingerprint == dataset.fingerprint
    loader = fl.Loader(dataset, 2, order="random", seed=5)
    whole = rows(loader)
    loader.next_epoch = 0
    epoch = iter(loader)
    first = np.asarray(next(epoch)["image"]).copy()
    state = loader.state_dict()
    again = fl.Loader((x, y), 2, order="random", seed=5)
    again.load_state_dict(state)
    assert np.array_equal(np.concatenate([first, rows(again)]), whole)
    other = fl.Loader((x[::-1], y), 2, order="random", seed=5)
    with pytest.raises(fl.FuseloopError):
        other.load_state_dict(state)
        rows(other)


def test_mds_shards_are_a_dataset(tmp_path: Path) -> None:
    plain = sources.mds(GOLDEN, split="plain")
    assert len(plain) == 5 and plain.fields["jpg"] == "image" and plain.fields["frames_1"] == "image"
    assert [plain[n]["n"] for n in range(5)] == [0, -1, -2, -3, -4]
    assert plain[2]["caption"].decode() == "photo 2 \u00fc" and plain[1]["meta"] == {"n": 1, "list": [1, None, "\u00fc"]}
    for name in ("zstd", "gz"):
        packed = pickle.loads(pickle.dumps(sources.mds(GOLDEN / name, cache_bytes="1MiB")))
        for n in range(5):
            assert np.array_equal(packed[n]["typed"], plain[n]["typed"])
    keep = {"n", "png"}
    without = [name for name in plain.fields if name not in keep]
    loader = fl.Loader(str(GOLDEN / "zstd"), 2, order="quasi_random", png=[ops.CenterCrop(4)], without=without)
    assert sorted(rows(loader, "n").tolist()) == [-4, -3, -2, -1, 0]
    assert plain.verify().is_whole
    shutil.copytree(GOLDEN / "plain", tmp_path / "mds")
    (tmp_path / "mds" / "shard.00001.mds").unlink()
    with pytest.raises(fl.FuseloopError, match=r"shard\.00001\.mds"):
        fl.Loader(tmp_path / "mds", 2)


def test_a_masked_array_is_refused() -> None:
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    with pytest.raises(fl.ConfigError, match="masked array"):
        sources.from_arrays(a=masked)
