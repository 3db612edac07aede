"""fuseloop.ray.Loader on a cluster of three nodes on this machine: every batch is that of a loader without Ray, also when
actors are killed, a node is removed, and the number of actors changes."""

from __future__ import annotations

import doctest
import json
import os
import pickle
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

PACKAGE = Path(fl.__file__).resolve().parent.parent
NODE = {"include_dashboard": False, "object_store_memory": 80 << 20}
# Actors reserve little: the machine has fewer cores than the test has actors.
SMALL = {"num_cpus": 0.01, "workers": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        # Processes that Ray has started before they are needed have the environment of the cluster.
        paths = [str(PACKAGE), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 2})
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(autouse=True)
def _in_cluster(cluster: Any) -> None:
    """Every test has the cluster."""


def arrays(batch: Any) -> dict[str, Any]:
    found = batch.numpy()
    return {name: [*value] if isinstance(value, list | tuple) else [value] for name, value in found.items()}


def assert_same(local: Any, remote: Any) -> None:
    """Compares two batches: bits, types, and what is known of their samples."""
    known = [
        (batch.samples, batch.epoch, batch.index, batch.fingerprint, batch.keys(), len(batch)) for batch in (local, remote)
    ]
    assert known[0] == known[1]
    for name in ("ids", "mask", "skipped", "replaced"):
        np.testing.assert_array_equal(getattr(local, name), getattr(remote, name))
    left, right = arrays(local), arrays(remote)
    assert list(left) == list(right)
    for name, values in left.items():
        assert len(values) == len(right[name])
        for one, other in zip(values, right[name], strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert one.tobytes() == other.tobytes(), name


def assert_same_epochs(
    make: Callable[..., Any], dataset: Any, batch_size: int, options: dict[str, Any], epochs: int = 2, **actors: Any
) -> None:
    """Compares all batches, and the states after them, with those of a loader without Ray."""
    local = fl.Loader(dataset, batch_size, **options)
    with make(dataset, batch_size, **{"actors": 1, **SMALL, **options, **actors}) as remote:
        for _ in range(epochs):
            count = 0
            for one, other in zip(local, remote, strict=True):
                assert_same(one, other)
                assert local.state_dict() == remote.state_dict()
                assert local.last_fingerprint == remote.last_fingerprint
                count += 1
            assert count > 1
            assert local.state_dict() == remote.state_dict()
        assert local.quarantine() == remote.quarantine()


IMAGE = [ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(), ops.ColorJitter(0.4, 0.4), ops.ToChannelsFirst()]
OPTIONS: dict[str, Any] = {"order": "random", "seed": 5, "image": IMAGE}


def test_the_batches_are_those_without_ray(photos: Path) -> None:
    assert_same_epochs(fl.ray.Loader, photos, 3, OPTIONS, actors=2)


def test_mixed_samples_of_a_rank(photos: Path) -> None:
    """MixUp draws by the batch and the rank; the last batches of ranks are padded and masked."""
    mixed = {
        "image": [ops.RandomResizedCrop(24), ops.Convert("float32"), ops.MixUp(0.4)],
        "label": [ops.OneHot(2), ops.MixUp(0.4)],
    }
    for rank in range(2):
        options = {"order": "permuted", "seed": 9, "ops": mixed, "ranks": fl.Ranks(rank, 2, "exact")}
        assert_same_epochs(fl.ray.Loader, photos, 5, options, epochs=1, actors=1 + rank, batches_ahead=3)


def test_damaged_samples(photos: Path, tmp_path: Path) -> None:
    """Samples that are left out or replaced are the same, and a batch that loses all of its samples does not come."""
    folder = tmp_path / "damaged"
    shutil.copytree(photos, folder)
    for name in ("bee/002.png", "bee/004.png", "bee/005.png", "cow/000.png"):
        (folder / name).write_bytes(b"\x89PNG\r\n\x1a\n")
    image = [ops.CenterCrop(16)]
    for policy in ("skip", "substitute"):
        assert_same_epochs(fl.ray.Loader, folder, 2, {"image": image, "on_damaged": policy}, epochs=1)
    local = fl.Loader(folder, 2, image=image)
    with fl.ray.Loader(folder, 2, image=image, actors=1, **SMALL) as remote:
        errors = []
        for loader in (local, remote):
            with pytest.raises(fl.DecodeError) as caught:
                list(loader)
            error = caught.value
            errors.append((str(error), error.path, error.sample, error.epoch, error.batch, loader.state_dict()))
            notes = getattr(error, "__notes__", [])
        assert errors[0] == errors[1]
        assert any("batch 1 of epoch 0, made by actor 0" in note for note in notes)


class Shuffled:
    """A sampler that gives another order whenever it is asked: only one process may ask it."""

    def __init__(self) -> None:
        self.random = np.random.default_rng()
        self.given: list[list[int]] = []

    def __iter__(self) -> Iterator[int]:
        self.given.append(self.random.permutation(24).tolist())
        return iter(self.given[-1])

    def __len__(self) -> int:
        return 24

    def __repr__(self) -> str:
        return "Shuffled"


def test_a_sampler_is_asked_here(photos: Path) -> None:
    sampler = Shuffled()
    with fl.ray.Loader(photos, 4, order=sampler, image=IMAGE, actors=1, **SMALL) as loader:
        for _ in range(2):
            batches = [batch.ids.tolist() for batch in loader]
            assert [one for batch in batches for one in batch] == sampler.given[-1]
    assert sampler.given[0] != sampler.given[-1]


def is_kept(sample: dict[str, Any]) -> bool:
    return len(sample["image"]) % 4 != 0


def test_a_stream_of_unknown_length(photos: Path) -> None:
    stream = fl.sources.Stream(photos).shuffle(8).filter(is_kept)
    options: dict[str, Any] = {"image": IMAGE, "seed": 2}
    assert_same_epochs(fl.ray.Loader, stream, 4, options, epochs=1, actors=2)
    local = fl.Loader(stream, 4, **options)
    with fl.ray.Loader(stream, 4, actors=1, **options, **SMALL) as remote:
        with pytest.raises(TypeError, match="not known"):
            len(remote)
        rest = []
        for loader in (local, remote):
            epoch = iter(loader)
            next(epoch)
            loader.load_state_dict(epoch.state_dict())
            loader.skip(1)
            rest.append([batch.fingerprint for batch in loader])
        assert rest[0] == rest[1] and len(rest[0]) > 1


def test_ragged_and_listed_outputs(tmp_path: Path) -> None:
    samples = [
        (np.full((20 + k, 30, 3), 9 * k, np.uint8), np.arange(4 * (k % 4), dtype="<f4").tobytes(), k) for k in range(10)
    ]
    path = tmp_path / "boxes.beton"
    fields = {"image": "image", "bbox": "bytes", "label": "int"}
    fl.write.write(samples, path, fields, image=fl.write.Image("raw"), progress=None)
    collate = {"bbox": fl.Collate.ragged("f32", (4,)), "image": fl.Collate.list()}
    options = {"collate": collate, "order": "random", "filter": lambda column: column["label"] != 3}
    assert_same_epochs(fl.ray.Loader, path, 4, options, epochs=1, actors=1)
    local = next(iter(fl.Loader(path, 4, **options)))
    with fl.ray.Loader(path, 4, **options, actors=1, **SMALL) as loader:
        batch = next(iter(loader))
        assert len(batch["bbox"]) == 4 and isinstance(batch["image"], list)
        for k in (0, 3, -1):
            np.testing.assert_array_equal(batch["bbox"][k], local["bbox"][k])
        np.testing.assert_array_equal(batch["bbox"].frame(1, 0), local["bbox"].frame(1, 0))
        with pytest.raises(IndexError):
            batch["bbox"][4]
        with pytest.raises(KeyError, match="no tensor 'boxes' in this batch, which has image, bbox"):
            batch["boxes"]


def test_arrays_are_views_that_are_only_read(photos: Path) -> None:
    # Large enough for the object store.
    image = [ops.Resize((224, 224))]
    local = next(iter(fl.Loader(photos, 8, image=image)))
    with fl.ray.Loader(photos, 8, image=image, actors=1, **SMALL) as loader:
        batch = next(iter(loader))
        images, labels = batch
        assert batch["image"] is images and images.shape == (8, 224, 224, 3) and labels.dtype == "int64"
        view = images.numpy()
        assert not view.flags.writeable and not view.flags.owndata
        assert images.numpy(copy=True).flags.writeable
        assert np.shares_memory(view, np.asarray(images))
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 0
        assert_same(local, batch)
        batch.release()
        np.testing.assert_array_equal(view, local["image"].numpy())
        with pytest.raises(RuntimeError, match="released"):
            batch.keys()
    copies = fl.ray.Loader(photos, 8, image=image, actors=1, copy=True, **SMALL)
    found = next(iter(copies))
    assert found["image"].flags.writeable and list(found) == ["image", "label"]
    copies.close()


def test_positions_are_those_of_a_loader_without_ray(photos: Path) -> None:
    """A state of either loads into the other; skip, set_epoch, len and epoch are the same."""
    whole = [batch.fingerprint for batch in fl.Loader(photos, 3, **OPTIONS).epoch(1)]
    local = fl.Loader(photos, 3, **OPTIONS)
    with fl.ray.Loader(photos, 3, actors=1, **OPTIONS, **SMALL) as remote:
        assert len(remote) == len(local) == len(remote.sampler) // 3 == 8
        for loader in (local, remote):
            loader.set_epoch(1)
            epoch = iter(loader)
            assert [next(epoch).fingerprint for _ in range(3)] == whole[:3]
            assert len(epoch) == 5
            loader.skip(2)
            assert json.loads(loader.state_dict()["cursor"])["fingerprint"] == whole[4] == loader.last_fingerprint
            assert next(epoch).fingerprint == whole[5]
            del epoch
        state = remote.state_dict()
        assert state == local.state_dict() and state["batches"] == 6
        for loader in (local, remote):
            loader.load_state_dict(json.loads(json.dumps(state)))
            assert loader.state_dict() == state
            assert [batch.fingerprint for batch in loader] == whole[6:]
            loader.load_state_dict(state)
            loader.skip(1)
            assert [batch.fingerprint for batch in loader] == whole[7:]
            assert loader.state_dict()["next_epoch"] == 2
            # Beyond the end, and before the first batch.
            epoch = loader.epoch(1)
            assert epoch.state_dict()["batches"] == 0
            epoch.skip(99)
            assert list(epoch) == []
        assert local.state_dict() == remote.state_dict()
        # Another number of ranks with the same global batch.
        ranks = [fl.Loader(photos, 1, **OPTIONS, ranks=fl.Ranks(rank, 3)) for rank in range(3)]
        epochs = [iter(rank) for rank in ranks]
        for epoch in epochs:
            next(epoch), next(epoch)
        with fl.ray.Loader(photos, 1, actors=1, **OPTIONS, **SMALL, ranks=fl.Ranks(2, 3)) as third:
            third.load_state_dict(ranks[0].state_dict())
            rest = [batch.fingerprint for batch in third]
            assert rest == [batch.fingerprint for batch in epochs[2]]
        with pytest.raises(fl.StateError):
            remote.load_state_dict(fl.Loader(photos, 3, **{**OPTIONS, "seed": 6}).epoch(0).state_dict())


def test_ops_that_are_set_between_and_in_epochs(photos: Path) -> None:
    other = [ops.Resize((24, 24)), ops.ToChannelsFirst()]
    local = fl.Loader(photos, 3, **OPTIONS)
    with fl.ray.Loader(photos, 3, actors=1, **OPTIONS, **SMALL) as remote:
        epochs = iter(local), iter(remote)
        for _ in range(2):
            assert_same(*map(next, epochs))
        for loader in (local, remote):
            loader.set_ops("image", other)
        # The running epoch has the old ops, until it is renewed.
        assert_same(*map(next, epochs))
        epochs = tuple(loader.renew(epoch) for loader, epoch in zip((local, remote), epochs, strict=True))
        assert epochs[0].state_dict() == epochs[1].state_dict()
        for one, other_ in zip(*epochs, strict=True):
            assert_same(one, other_)
        for one, other_ in zip(local, remote, strict=True):
            assert_same(one, other_)
        copy = pickle.loads(pickle.dumps(remote))
        assert copy.state_dict() == local.state_dict()
        with copy:
            assert_same(next(iter(local)), next(iter(copy)))


def test_logs_are_those_without_ray(photos: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "local.jsonl", tmp_path / "remote.jsonl"]
    local = fl.Loader(photos, 3, **OPTIONS)
    with fl.ray.Loader(photos, 3, actors=1, **OPTIONS, **SMALL) as remote:
        for loader, path in zip((local, remote), paths, strict=True):
            loader.log_fingerprints(path, ids=True)
            list(loader)
            loader.log_fingerprints(path)
            next(iter(loader))
            loader.log_fingerprints(None)
            next(iter(loader))
        stats = remote.stats()
        assert stats.samples == 24 + 6 and stats.batches == 10 and stats.workers == 1
        assert 0 < stats.consumer_waited <= stats.wall and sum(stats.phases.values()) > 0
        with pytest.raises(fl.FuseloopError, match="not a log of fingerprints"):
            remote.log_fingerprints(__file__)
    assert paths[0].read_text() == paths[1].read_text()


def actors_of(loader: Any) -> list[Any]:
    return [actor for actor in loader._pool._actors if actor.starting is None]


def process_of(actor: Any) -> int:
    return int(actor.where.split()[1])


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.05)


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def fatal(images: np.ndarray) -> np.ndarray:
    """Kills the process if an image is that of class 1."""
    if (images[..., 2] > 200).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return images


def test_a_batch_that_kills_its_actors_is_an_error(tmp_path: Path) -> None:
    pixels = np.zeros((6, 8, 8, 3), np.uint8)
    pixels[4] = 255
    data = fl.sources.from_arrays(image=pixels)
    lists = {"image": [ops.Lambda(fatal)]}
    with fl.ray.Loader(data, 1, ops=lists, actors=1, batches_ahead=1, retries=1, **SMALL) as loader:
        epoch = iter(loader)
        for k in range(3):
            assert next(epoch).index == k
        # Batch 4 is begun while batch 3 is sent.
        with pytest.raises(fl.FuseloopError, match=r"batch [34] of epoch 0 was asked for 2 times and did not") as caught:
            list(epoch)
        assert re.search(r"actor \d \(process \d+ on .*ActorDiedError", str(caught.value))
        assert caught.value.batch in (3, 4) and caught.value.epoch == 0 and caught.value.__cause__ is not None
        assert next(epoch, None) is None
        # The loader goes on with what does not kill.
        loader.set_epoch(1)
        assert next(iter(loader)).index == 0


def test_an_actor_that_hangs_is_replaced(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuseloop.ray._loader.GRACE", 1.0)
    local = fl.Loader(photos, 3, **OPTIONS)
    with fl.ray.Loader(photos, 3, actors=1, batches_ahead=1, timeout=1, **OPTIONS, **SMALL) as remote:
        epochs = iter(local), iter(remote)
        assert_same(*map(next, epochs))
        os.kill(process_of(actors_of(remote)[0]), signal.SIGSTOP)
        for one, other in zip(*epochs, strict=True):
            assert_same(one, other)
        assert actors_of(remote)[0].number == 1


def test_actors_that_do_not_start(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuseloop.ray._pool.START_TIMEOUT", 1.0)
    nowhere = {"resources": {"absent": 1}}
    with fl.ray.Loader(photos, 3, actors=2, ray_remote_args=nowhere, **OPTIONS, **SMALL) as loader:
        with pytest.raises(fl.StalledError, match="none of 2 actors has started in 1 s: each needs .*absent"):
            next(iter(loader))
    monkeypatch.undo()
    # A machine without the files, and one with others.
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    with fl.ray.Loader(folder, 3, actors=1, **OPTIONS, **SMALL) as loader:
        shutil.rmtree(folder)
        with pytest.raises(fl.DatasetNotFoundError) as caught:
            next(iter(loader))
        assert caught.value.__notes__ == ["fuseloop.ray: when actor 0 built its loader"]
        shutil.copytree(photos, folder)
        (folder / "bee" / "000.png").rename(folder / "bee" / "other.png")
    with fl.ray.Loader(photos, 3, actors=1, **OPTIONS, **SMALL) as loader:
        loader._dataset = fl.Dataset.open(folder)
        with pytest.raises(fl.ConfigError, match="all machines must have the same files"):
            next(iter(loader))


def test_torch_tensors(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    image = [ops.RandomResizedCrop(24), ops.Normalize.imagenet()]
    options = {"order": "random", "image": image, "channels_last": True, "ranks": fl.Ranks(1, 2, "exact")}
    local = fl.torch.Loader(photos, 5, **options)
    remote = fl.ray.TorchLoader(photos, 5, actors=1, **options, **SMALL)
    with remote:
        count = 0
        for one, other in zip(local, remote, strict=True):
            assert len(one) == len(other) == 3
            for left, right in zip(one, other, strict=True):
                assert left.dtype == right.dtype and torch.equal(left, right)
            assert other[0].is_contiguous(memory_format=torch.channels_last)
            other[0].add_(1)
            count += 1
        assert count == len(local) == 3 and local.state_dict() == remote.state_dict()
    convert = {"image": [ops.CenterCrop(24), ops.Convert("bfloat16")]}
    local = fl.torch.Loader(photos, 5, ops=convert, as_dict=True)
    with fl.ray.TorchLoader(photos, 5, ops=convert, actors=1, as_dict=True, pin_memory=True, **SMALL) as remote:
        one, other = next(iter(local)), next(iter(remote))
        assert list(one) == list(other) and other["image"].dtype == torch.bfloat16
        assert torch.equal(one["image"], other["image"])
        # Where there is no GPU, the copies are in other memory.
        batch = remote._start_epoch(0).next()
        empty = torch.empty
        monkeypatch.setattr(torch, "empty", lambda *size, pin_memory, **options: empty(*size, **options))
        pinned = batch.torch(pin_memory=True)
        assert list(pinned) == list(one) and all(torch.equal(pinned[name], one[name]) for name in one)


def test_in_a_task_of_ray(photos: Path) -> None:
    """The actors of a loader in a task end with the loader of that task; the rank is found in the environment."""

    @ray.remote(num_cpus=0.01, max_retries=0)
    def rank(number: int) -> list[str]:
        os.environ.update(RANK=str(number), WORLD_SIZE="2")
        with fl.ray.Loader(photos, 3, actors=1, ranks="env", **OPTIONS, **SMALL) as loader:
            return [batch.fingerprint for batch in loader]

    found = ray.get([rank.remote(number) for number in range(2)], timeout=120)
    for number in range(2):
        loader = fl.Loader(photos, 3, ranks=fl.Ranks(number, 2), **OPTIONS)
        assert found[number] == [batch.fingerprint for batch in loader]


def test_a_pipeline_file(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "train.toml"
    path.write_text(
        'batch_size = 4\norder = "random"\n[fields]\nimage = [{ op = "RandomResizedCrop", size = 24 }]\n', encoding="utf-8"
    )
    local = fl.Loader.from_spec(path, photos, seed=3)
    with fl.ray.Loader.from_spec(path, photos, seed=3, actors=1, num_cpus=0.01) as remote:
        for one, other in zip(local, remote, strict=True):
            assert_same(one, other)
            assert local.state_dict() == remote.state_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actors": 0}, "actors is 0"),
        ({"num_cpus": "all"}, "num_cpus is 'all'"),
        ({"retries": -1}, "retries is -1"),
        ({"batches_ahead": 0}, "batches_ahead is 0"),
        ({"ray_remote_args": [1]}, "expected a dict of arguments of ray.remote"),
        ({"ray_remote_args": {"max_restarts": 2}}, "max_restarts: the loader sets it"),
        ({"ray_remote_args": {"num_cpu": 2}}, "num_cpus or ray_remote_args: .*num_cpu"),
        ({"num_cpus": 1.5}, "or a fraction of one"),
        ({"unordered": True}, "come in their order"),
        ({"pin_memory": True}, "TorchLoader copies"),
        ({"device": "cuda:0"}, "actors have no GPU"),
        ({"actor": 3}, "did you mean actors"),
    ],
)
def test_arguments_that_are_refused(photos: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(fl.ConfigError, match=message):
        fl.ray.Loader(photos, 3, **{**OPTIONS, **options})


def test_the_examples_run(photos: Path) -> None:
    from fuseloop.ray import _loader

    modules = [_loader]
    try:
        from fuseloop.ray import _torch

        modules.append(_torch)
    except ImportError:
        pass
    for module in modules:
        done = doctest.testmod(module, extraglobs={"example_dataset": lambda: photos}, optionflags=doctest.ELLIPSIS)
        assert done.attempted and not done.failed


def test_killed_actors_a_lost_node_and_other_numbers(cluster: Any, photos: Path) -> None:
    """All batches are the same while actors die, a node goes, and actors come and go."""
    nodes = [cluster.add_node(**NODE, num_cpus=4, resources={"loader": 10}) for _ in range(2)]
    cluster.wait_for_nodes()
    local = fl.Loader(photos, 1, **OPTIONS)
    remote = fl.ray.Loader(
        photos, 1, actors=3, batches_ahead=5, ray_remote_args={"resources": {"loader": 1}}, **OPTIONS, **SMALL
    )
    epochs = iter(local), iter(remote)

    def compare(batches: int) -> None:
        for _ in range(batches):
            assert_same(*map(next, epochs))
            assert local.state_dict() == remote.state_dict()

    compare(3)
    wait_until(lambda: (remote._pool.update(), len(actors_of(remote)) == 3)[1])
    assert len({actor.where.split(" on ")[1] for actor in actors_of(remote)}) == 2, "spread over both nodes"
    # The one that makes what comes next, without notice.
    os.kill(process_of(epochs[1]._core._requests[remote._last_position.index].actor), signal.SIGKILL)
    compare(4)
    # Another one, by Ray.
    ray.kill(actors_of(remote)[0].handle)
    compare(2)
    remote.scale(5)
    compare(3)
    cluster.remove_node(nodes[0], allow_graceful=False)
    compare(5)
    remote.scale(1)
    compare(3)
    wait_until(lambda: (remote._pool.update(), len(remote._pool._actors) == 1)[1])
    compare(4)
    assert [*map(next, epochs, (None, None))] == [None, None]
    # The next epoch, and the end of what is asked for when a loop is left.
    for one, other in zip(local, remote, strict=False):
        assert_same(one, other)
        break
    processes = [process_of(actor) for actor in actors_of(remote)]
    assert processes
    remote.close()
    wait_until(lambda: all(map(is_gone, processes)))
    with pytest.raises(fl.ConfigError, match="closed"):
        next(iter(remote))
    cluster.remove_node(nodes[1])
