"""fuseloop.ray on a local cluster: shards written by tasks, one of which is killed, a manifest, training."""

from __future__ import annotations

import json
import os
import pickle
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

PACKAGE = Path(fl.__file__).resolve().parent.parent


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    paths = os.pathsep.join([str(PACKAGE), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def picture(number: int) -> np.ndarray:
    """Draws a picture from which its number can be read."""
    pixels = np.random.default_rng(number).integers(0, 255, (8, 10, 3)).astype(np.uint8)
    pixels[0, 0] = number % 256, number // 256, 7
    return pixels


def rows(table: dict[str, Any]) -> dict[str, Any]:
    numbers = table["id"]
    return {"image": np.stack([picture(number) for number in numbers]), "label": numbers, "other": numbers}


def dataset(count: int, blocks: int) -> Any:
    return ray.data.range(count, override_num_blocks=blocks).map_batches(rows)


def numbers_of(pixels: np.ndarray) -> list[int]:
    return [int(one[0, 0, 0]) + 256 * int(one[0, 0, 1]) for one in pixels]


RAW = fl.write.Image("raw")
FIELDS = {"image": "image", "label": "int"}


class KilledOnce(fl.ray.FuseloopDatasink):
    """Kills the process of the first task that has written its shard."""

    def write(self, blocks: Any, ctx: Any) -> Any:
        shard = super().write(blocks, ctx)
        killed = self._folder.parent / "killed"
        try:
            killed.touch(exist_ok=False)
        except FileExistsError:
            return shard
        # What a task leaves that is killed while it writes.
        (self._unfinished / ".fuseloop-part-half").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def test_ray_convert_and_train(tmp_path: Path) -> None:
    """Tasks write shards, of which one is killed; ranks train with the manifest."""
    sink = KilledOnce(tmp_path / "train", FIELDS, rows_per_shard=40, image=RAW)
    dataset(240, 12).write_datasink(sink)
    assert (tmp_path / "killed").exists()
    manifest = tmp_path / "train" / "manifest.json"
    listed = json.loads(manifest.read_text(encoding="utf-8"))
    assert listed["fuseloop_manifest"] == 1 and listed["fields"] == {"image": "image", "label": "int"}
    names = [shard["name"] for shard in listed["shards"]]
    assert names == sorted(names) and sum(shard["samples"] for shard in listed["shards"]) == 240
    assert all(shard["samples"] >= 40 for shard in listed["shards"])
    # Neither the shard of the killed task is there, nor half a file.
    assert sorted(path.name for path in manifest.parent.iterdir()) == sorted([*names, "manifest.json"])

    seen: Counter[int] = Counter()
    for rank in range(2):
        loader = fl.Loader(manifest, 16, order="random", ranks=fl.Ranks(rank, 2), image=[ops.ToChannelsLast()])
        for batch in loader:
            labels = batch["label"].numpy().tolist()
            assert numbers_of(batch["image"].numpy()) == labels
            seen.update(labels)
    assert seen == Counter(range(240))


def test_training_in_ray_tasks(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    manifest = fl.ray.write_dataset(dataset(64, 4), tmp_path / "train", FIELDS, image=RAW)

    @ray.remote
    def train(rank: int, state: dict[str, Any] | None, batches: int) -> tuple[list[int], dict[str, Any], float]:
        import torch

        loader = fl.torch.Loader(
            manifest, 8, order="random", seed=4, ranks=fl.Ranks(rank, 2), workers=1,
            image=[ops.RandomHorizontalFlip(), ops.Convert("float32"), ops.ToChannelsFirst()],
        )
        if state is not None:
            loader.load_state_dict(state)
        seen: list[int] = []
        weight = torch.zeros(3, requires_grad=True)
        for k, (images, labels) in enumerate(loader):
            (images.mean(dim=(2, 3)) @ weight - labels).square().mean().backward()
            seen += labels.tolist()
            if k + 1 == batches:
                break
        return seen, loader.state_dict(), float(weight.grad.abs().sum())

    first = ray.get([train.remote(rank, None, 2) for rank in range(2)])
    rest = ray.get([train.remote(rank, first[rank][1], 100) for rank in range(2)])
    assert sorted(number for seen, _, _ in first + rest for number in seen) == list(range(64))
    assert all(gradient > 0 for _, _, gradient in first + rest)


def test_read_gives_decoded_rows(tmp_path: Path) -> None:
    manifest = fl.ray.write_dataset(dataset(50, 5), tmp_path / "train", FIELDS, image=RAW)
    for name in (manifest, manifest.parent):
        found = fl.ray.read(name).take_all()
        assert sorted(row["label"] for row in found) == list(range(50))
        for row in found:
            np.testing.assert_array_equal(row["image"], picture(row["label"]))
    shard = next(manifest.parent.glob("*.beton"))
    assert fl.ray.read(shard).count() == 10


def test_read_decodes_files(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "photos.beton"
    fl.write.write(photos, out, progress=None)
    found = fl.ray.read(out).take_all()
    sizes = Counter(row["image"].shape for row in found)
    plain = fl.Dataset.open(out)
    assert sum(sizes.values()) == 24 and len(sizes) > 4
    expected = Counter(plain[k]["image"].shape for k in range(24))
    assert sizes == expected


def test_overwrite(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    fl.ray.write_dataset(dataset(40, 4), folder, FIELDS, image=RAW)
    before = set(folder.iterdir())
    with pytest.raises(fl.OutputExistsError, match="overwrite=True"):
        fl.ray.write_dataset(dataset(20, 2), folder, FIELDS, image=RAW)
    assert set(folder.iterdir()) == before
    manifest = fl.ray.write_dataset(dataset(20, 2), folder, FIELDS, image=RAW, overwrite=True)
    assert len(fl.sources.open(manifest)) == 20
    assert len(list(folder.iterdir())) == 3


def test_a_task_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def bad(table: dict[str, Any]) -> dict[str, Any]:
        return {**rows(table), "label": np.where(table["id"] == 17, np.nan, table["id"].astype(float))}

    folder = tmp_path / "train"
    ds = ray.data.range(40, override_num_blocks=4).map_batches(bad)
    with pytest.raises(Exception, match="label|int"):
        fl.ray.write_dataset(ds, folder, FIELDS, image=RAW)
    assert not folder.exists() or list(folder.iterdir()) == []


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="did you mean label") as caught:
        fl.ray.write_dataset(dataset(8, 1), tmp_path / "a", {"image": "image", "labels": "int"})
    del caught
    with pytest.raises(fl.ConfigError, match="machines share"):
        fl.ray.FuseloopDatasink("s3://bucket/train")
    with pytest.raises(fl.ConfigError, match="no argument of FuseloopDatasink"):
        fl.ray.FuseloopDatasink(tmp_path, quality=3)
    with pytest.raises(fl.ConfigError, match="rows_per_shard"):
        fl.ray.FuseloopDatasink(tmp_path, rows_per_shard=0)


def test_convert(photos: Path, tmp_path: Path) -> None:
    manifest = fl.ray.convert(photos, tmp_path / "out", 5)
    names = [shard["name"] for shard in json.loads(manifest.read_text(encoding="utf-8"))["shards"]]
    assert names == [f"part-{k:06}-of-000005.beton" for k in range(5)]
    found, plain = fl.sources.open(manifest), fl.Dataset.open(photos)
    assert len(found) == len(plain) == 24 and found.fields == plain.fields
    image = [ops.Resize((16, 16))]
    for left, right in zip(fl.Loader(manifest, 24, image=image), fl.Loader(photos, 24, image=image), strict=True):
        np.testing.assert_array_equal(left["image"].numpy(), right["image"].numpy())
        np.testing.assert_array_equal(left["label"].numpy(), right["label"].numpy())
    with pytest.raises(fl.OutputExistsError):
        fl.ray.convert(photos, tmp_path / "out", 5)
    fl.ray.convert(photos, tmp_path / "out", 3, overwrite=True)
    assert len([path for path in manifest.parent.iterdir() if path.suffix == ".beton"]) == 3
    with pytest.raises(fl.ConfigError, match="25 shards of 24 samples"):
        fl.ray.convert(photos, tmp_path / "more", 25)


def test_convert_goes_on(photos: Path, tmp_path: Path) -> None:
    """A conversion that was interrupted keeps the shards that are whole."""
    from fuseloop.ray import _datasets as module

    out = tmp_path / "out"
    whole = fl.ray.convert(photos, tmp_path / "whole", 4)
    fl.ray.convert(photos, out, 4)
    plan_before = [(out / name).read_bytes() for name in sorted(p.name for p in out.glob("*.beton"))]
    # As an interrupted one leaves it: some shards, and the journal.
    dataset = fl.Dataset.open(photos)
    options = {"threads": 1, "image": fl.write.Image()}
    (out / "manifest.json").unlink()
    (out / "part-000002-of-000004.beton").unlink()
    plan = f"{dataset.fingerprint} 24 4 {sorted(options.items())!r}\n"
    (out / module._JOURNAL).write_text(plan, encoding="utf-8")
    kept = out / "part-000001-of-000004.beton"
    when = kept.stat().st_mtime_ns
    with pytest.raises(fl.OutputExistsError, match="unfinished conversion"):
        fl.ray.convert(photos, out, 3)
    manifest = fl.ray.convert(photos, out, 4)
    assert kept.stat().st_mtime_ns == when
    assert [(out / name).read_bytes() for name in sorted(p.name for p in out.glob("*.beton"))] == plan_before
    assert json.loads(manifest.read_text())["shards"] == json.loads(whole.read_text())["shards"]
    assert not (out / module._JOURNAL).exists()


# Manifests


@pytest.fixture
def manifest(tmp_path: Path, photos: Path) -> Path:
    from fuseloop import _manifest

    for k in range(2):
        fl.write.write(photos, tmp_path / f"part-{k}.beton", progress=None)
    return _manifest.write_manifest(tmp_path, [_manifest.entry(tmp_path / f"part-{k}.beton") for k in (1, 0)])


def test_a_manifest_is_a_dataset(manifest: Path) -> None:
    image = [ops.Resize((16, 16))]
    loader = fl.Loader(str(manifest), 48, image=image)
    other = pickle.loads(pickle.dumps(loader))
    pixels = next(iter(loader))["image"].numpy()
    np.testing.assert_array_equal(pixels[:24], pixels[24:])
    np.testing.assert_array_equal(next(iter(other))["image"].numpy(), pixels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: [], "expected"),
        (lambda found: {**found, "fuseloop_manifest": 2}, "expected"),
        (lambda found: {**found, "shards": []}, "lists no shards"),
        (lambda found: {**found, "shards": {}}, "lists no shards"),
        (lambda found: {**found, "shards": [3]}, "not the name of a file"),
        (lambda found: {**found, "shards": [{"name": "../part-0.beton"}]}, "not the name of a file"),
        (lambda found: {**found, "shards": [{"name": "/etc/passwd"}]}, "not the name of a file"),
        (lambda found: {**found, "shards": [{"name": ".."}]}, "not the name of a file"),
        (lambda found: {**found, "shards": [{"name": "absent.beton"}]}, "is missing"),
        (lambda found: {**found, "shards": [{**found["shards"][0], "samples": 23}]}, "was replaced"),
        (lambda found: {**found, "shards": [{**found["shards"][0], "fingerprint": "0"}]}, "was replaced"),
    ],
)
def test_damaged_manifests_are_refused(manifest: Path, change: Any, message: str) -> None:
    found = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(change(found)), encoding="utf-8")
    with pytest.raises(fl.DatasetError, match=message) as caught:
        fl.Loader(manifest, image=[ops.Resize((8, 8))])
    assert caught.value.path is not None


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"3"])
def test_what_is_no_json_is_refused(manifest: Path, text: bytes) -> None:
    manifest.write_bytes(text)
    with pytest.raises(fl.DatasetError, match="no manifest of Fuseloop"):
        fl.Loader(manifest)
    with pytest.raises(fl.DatasetNotFoundError):
        fl.Loader(manifest.parent / "absent.json")
