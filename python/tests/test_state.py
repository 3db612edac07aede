"""States: epochs that are stopped and go on elsewhere give the same bits."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import run_python

import fuseloop as fl
from fuseloop import ops

RANKS = [(0, 1), (0, 2), (1, 2), (3, 4)]


def made(dataset: Path | str, rank: int, world: int) -> fl.Loader:
    """Returns the loader of the tests. The other process has the source of this function."""
    return fl.Loader(
        dataset,
        3,
        order="random",
        seed=11,
        ranks=None if world == 1 else fl.Ranks(rank, world),
        image=[ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(), ops.Convert("float32")],
    )


def digest(batch: Any) -> str:
    """Returns a hash of all bits of a batch, and of its samples."""
    parts = [tensor.numpy().tobytes() for tensor in batch] + [batch.ids.tobytes(), batch.mask.tobytes()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


# Reads states from stdin, and prints the digests of all batches up to the end of epoch 1 after each.
RESUMED = """
import hashlib, json, sys
from pathlib import Path
from typing import Any
import fuseloop as fl
from fuseloop import ops
{sources}
for rank, world, state in json.loads(Path({states!r}).read_text()):
    loader = made({dataset!r}, rank, world)
    loader.load_state_dict(state)
    found = []
    while loader.next_epoch < 2 or loader._armed is not None:
        found += [digest(batch) for batch in loader]
    print(json.dumps(found))
"""


def test_state_dict_bitwise(photos: Path, tmp_path: Path) -> None:
    """Stops at every batch of two epochs, for several ranks, and goes on in a new process."""
    import inspect

    states, expected = [], []
    for rank, world in RANKS:
        loader = made(photos, rank, world)
        whole = [digest(batch) for _ in range(2) for batch in loader]
        assert len(set(whole)) == len(whole) == 2 * len(loader)
        stopped = made(photos, rank, world)
        taken = 0
        for _ in range(2):
            states.append((rank, world, stopped.state_dict()))
            expected.append(whole[taken:])
            for _ in stopped:
                taken += 1
                states.append((rank, world, stopped.state_dict()))
                expected.append(whole[taken:])
    path = tmp_path / "states.json"
    path.write_text(json.dumps(states), encoding="utf-8")
    sources = inspect.getsource(made) + inspect.getsource(digest)
    done = run_python(RESUMED.format(sources=sources, states=str(path), dataset=str(photos)))
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(expected) > 40
    for (rank, world, state), after, wanted in zip(states, found, expected, strict=True):
        assert after == wanted, (rank, world, state)


def between(state: dict[str, Any]) -> int:
    """Returns the epoch that begins at a state between two epochs."""
    cursor = json.loads(state["cursor"])
    assert (state["next_epoch"], state["batches"], cursor["position"]) == (cursor["epoch"], 0, 0)
    return cursor["epoch"]


def test_a_state_between_epochs_is_of_its_dataset_order_and_seed(photos: Path) -> None:
    loader = made(photos, 0, 1)
    list(loader)
    state = loader.state_dict()
    for order, seed in (("random", 7), ("sequential", 11)):
        other = fl.Loader(photos, 3, order=order, seed=seed, image=[ops.CenterCrop(8)])
        with pytest.raises(fl.StateError, match="the cursor belongs to another (seed|order).*or start the epoch again"):
            other.load_state_dict(state)
        other.next_epoch = 1
        assert between(other.state_dict()) == 1
    # Ops and the batch size may change between epochs.
    other = fl.Loader(photos, 4, order="random", seed=11, image=[ops.CenterCrop(8)])
    other.load_state_dict(state)
    assert other.next_epoch == 1
    # A state without a cursor is that of an earlier release.
    other.load_state_dict({"fuseloop": 1, "cursor": "", "next_epoch": 5, "batches": 0})
    assert other.next_epoch == 5


def test_state_at_epoch_ends(photos: Path) -> None:
    loader = made(photos, 0, 1)
    assert between(loader.state_dict()) == 0
    epoch = iter(loader)
    for _ in range(len(loader)):
        next(epoch)
    # After the last batch it is the beginning of the next epoch, whether the loop has seen the end or not.
    ended = epoch.state_dict()
    assert between(ended) == 1 and loader.state_dict() == ended
    assert next(epoch, None) is None
    assert loader.state_dict() == epoch.state_dict() == ended
    resumed = made(photos, 0, 1)
    resumed.load_state_dict(ended)
    assert [digest(batch) for batch in resumed] == [digest(batch) for batch in made(photos, 0, 1).epoch(1)]
    assert resumed.state_dict()["next_epoch"] == 2


def test_set_epoch_keeps_an_armed_position(photos: Path) -> None:
    loader = made(photos, 0, 1)
    for _ in loader:
        pass
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    rest = [digest(batch) for batch in epoch]

    resumed = made(photos, 0, 1)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resumed.set_epoch(1)
    assert len(resumed) == len(rest) + 1, "the length stays that of the whole epoch"
    assert [digest(batch) for batch in resumed] == rest
    assert resumed.next_epoch == 2

    resumed.load_state_dict(state)
    with pytest.warns(UserWarning, match="its position is dropped"):
        resumed.set_epoch(0)
    assert [digest(batch) for batch in resumed] == [digest(batch) for batch in made(photos, 0, 1)]


@pytest.mark.parametrize("how", ["break", "close", "with"])
def test_state_after_a_loop_that_was_left(photos: Path, how: str) -> None:
    loader = made(photos, 0, 1)
    if how == "break":
        for k, _ in enumerate(loader):
            if k == 2:
                break
    elif how == "close":
        epoch = iter(loader)
        next(epoch), next(epoch), next(epoch)
        epoch.close()
        assert next(epoch, None) is None
    else:
        with iter(loader) as epoch:
            next(epoch), next(epoch), next(epoch)
    state = loader.state_dict()
    assert state["batches"] == 3
    whole = [digest(batch) for batch in made(photos, 0, 1)]
    resumed = made(photos, 0, 1)
    resumed.load_state_dict(state)
    assert [digest(batch) for batch in resumed] == whole[3:]
    # The loader itself goes on with the next epoch.
    loader.set_epoch(1)
    assert between(loader.state_dict()) == 1


def test_a_state_that_does_not_fit_stays_until_another_is_set(photos: Path) -> None:
    loader = made(photos, 0, 1)
    next(iter(loader))
    # A function of the epoch is called when the epoch begins.
    other = fl.Loader(photos, 3, order="random", seed=11, image=lambda epoch: [ops.Resize((24, 24))])
    other.load_state_dict(loader.state_dict())
    for _ in range(2):
        with pytest.raises(fl.StateError):
            next(iter(other))


def test_an_iterator_that_is_not_used_begins_nothing(photos: Path) -> None:
    """Lightning makes one to see whether it can, and another before it sets the epoch."""
    loader = made(photos, 0, 1)
    iter(loader)
    epoch = iter(loader)
    assert repr(epoch) == "Epoch(not begun)" and loader.next_epoch == 0
    loader.set_epoch(3)
    assert [digest(batch) for batch in epoch] == [digest(batch) for batch in made(photos, 0, 1).epoch(3)]
    assert epoch.number == 3 and loader.next_epoch == 4
    next(iter(loader))
    resumed = made(photos, 0, 1)
    resumed.load_state_dict(loader.state_dict())
    iter(resumed)
    assert resumed.state_dict() == loader.state_dict() and resumed.state_dict()["batches"] == 1
    assert len(list(resumed)) == len(resumed) - 1
    closed = iter(loader)
    closed.close()
    assert next(closed, None) is None and loader.next_epoch == 5


def test_another_number_of_ranks_goes_on(photos: Path) -> None:
    """Two ranks with batches of 3 go on as one with batches of 6."""
    loader = made(photos, 0, 2)
    epoch = iter(loader)
    next(epoch)
    one = fl.Loader(
        photos,
        6,
        order="random",
        seed=11,
        ranks=fl.Ranks(0, 1),
        image=[ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(), ops.Convert("float32")],
    )
    one.load_state_dict(loader.state_dict())
    left = sorted(int(sample) for batch in one for sample in batch.ids)
    whole = {int(sample) for batch in made(photos, 0, 1) for sample in batch.ids}
    first = {int(sample) for rank in range(2) for sample in next(iter(made(photos, rank, 2))).ids}
    assert left == sorted(whole - first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fuseloop": 2}, "no state of a loader"),
        ({"cursor": None}, "no state of a loader"),
        ({"next_epoch": "1"}, "no state of a loader"),
        ({"cursor": "{"}, "cursor"),
        ({"cursor": "x" * 10_000}, "cursor"),
    ],
)
def test_damaged_states_are_refused(photos: Path, change: dict[str, Any], message: str) -> None:
    loader = made(photos, 0, 1)
    next(iter(loader))
    with pytest.raises(fl.StateError, match=message):
        made(photos, 0, 1).load_state_dict({**loader.state_dict(), **change})


@pytest.mark.parametrize(
    "state",
    [
        None,
        7,
        "state",
        b"state",
        [],
        [("fuseloop", 1)],
        {},
        object(),
        {"fuseloop": True},
        {"batches": "many"},
        {"batches": None},
        {"batches": -1},
        {"batches": 1.5},
        {"next_epoch": -1},
        {"next_epoch": True},
        {"next_epoch": 2**70},
        {"cursor": "", "next_epoch": 2**32},
        {"next_epoch": float("nan")},
        {"cursor": b"{}"},
        {"cursor": "[]"},
        {"cursor": "null"},
        {"cursor": '{"epoch": 99999999999999999999}'},
        {"cursor": "\ud800"},
        {"cursor": "{}\0"},
    ],
)
def test_garbage_is_a_state_error_and_changes_nothing(photos: Path, state: Any) -> None:
    loader = made(photos, 0, 1)
    next(iter(loader))
    before = loader.state_dict()
    given = {**before, **state} if isinstance(state, dict) and state else state
    for call in (loader.load_state_dict, loader.resume):
        with pytest.raises(fl.StateError):
            call(given)
        assert loader.state_dict() == before


def test_states_of_other_loaders_are_refused(photos: Path, same_size: Path) -> None:
    loader = made(photos, 0, 1)
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    crop = [ops.RandomResizedCrop(24)]
    for other in (
        fl.Loader(photos, 3, order="random", seed=12, image=crop),
        fl.Loader(photos, 3, order="sequential", seed=11, image=crop),
        fl.Loader(same_size, 3, order="random", seed=11, image=crop),
    ):
        before = other.state_dict()
        for call in (other.resume, other.load_state_dict):
            with pytest.raises(fl.StateError, match="the cursor belongs to another (seed|order|dataset)"):
                call(state)
            assert other.state_dict() == before


def test_other_ops_and_batches_are_refused_at_once(photos: Path) -> None:
    def loader(size: int, side: int) -> fl.Loader:
        return fl.Loader(photos, size, order="random", seed=11, image=[ops.RandomResizedCrop(side)])

    running = loader(3, 24)
    batches = iter(running)
    next(batches)
    state = running.state_dict()
    with pytest.raises(fl.StateError, match="RandomResizedCrop was another, or had other parameters"):
        loader(3, 32).load_state_dict(state)
    with pytest.raises(fl.StateError, match="between two batches of 4 rows"):
        loader(4, 24).load_state_dict(state)
    other = loader(3, 24)
    other.load_state_dict(state)
    assert [digest(batch) for batch in other] == [digest(batch) for batch in batches]


def test_there_is_no_epoch_of_more_than_32_bits(photos: Path) -> None:
    loader = made(photos, 0, 1)
    calls = (loader.epoch, loader.set_epoch, lambda epoch: loader.get([0], epoch), lambda epoch: loader.inspect(0, epoch))
    for call in calls:
        with pytest.raises(fl.ConfigError, match="expected at most 4294967295"):
            call(2**32)
    loader.load_state_dict({"fuseloop": 1, "cursor": "", "next_epoch": 2**32 - 1, "batches": 0})
    assert len(list(loader)) == 8
    with pytest.raises(fl.ConfigError, match="expected at most 4294967295"):
        next(iter(loader))
