"""Fingerprints of batches, their logs, and skipped batches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fuseloop as fl
from fuseloop import ops


def made(dataset: Path | str, rank: int = 0, world: int = 1, **options: Any) -> fl.Loader:
    ranks = None if world == 1 else fl.Ranks(rank, world)
    settings: dict[str, Any] = {"order": "random", "seed": 11, "ranks": ranks, **options}
    return fl.Loader(dataset, 3, image=[ops.RandomResizedCrop(24), ops.RandomHorizontalFlip()], **settings)


def test_fingerprints_depend_on_what_decides_the_bits(photos: Path) -> None:
    prints = [batch.fingerprint for batch in made(photos, workers=1)]
    assert prints == [batch.fingerprint for batch in made(photos, workers=3, batches_ahead=5)]
    assert all(len(print_) == 16 and int(print_, 16) >= 0 for print_ in prints)
    others = [made(photos, seed=12), made(photos, 0, 2), made(photos, 1, 2), made(photos, order="sequential")]
    every = prints + [batch.fingerprint for loader in others for batch in loader]
    every += [batch.fingerprint for batch in made(photos).epoch(1)]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(("rank", "world"), [(0, 1), (1, 2)])
def test_skip_is_throwing_away(photos: Path, rank: int, world: int) -> None:
    whole = [batch.fingerprint for batch in made(photos, rank, world)]
    for taken in (0, 1):
        for skipped in (0, 1, 2, 40):
            thrown, stepped = made(photos, rank, world), made(photos, rank, world)
            epochs = iter(thrown), iter(stepped)
            for _ in range(taken):
                assert next(epochs[0]).fingerprint == next(epochs[1]).fingerprint
            for _ in range(skipped):
                next(epochs[0], None)
            # Through the loader of a loop, and through the epoch.
            (stepped.skip if taken else epochs[1].skip)(skipped)
            assert stepped.state_dict() == thrown.state_dict() == epochs[1].state_dict()
            assert [batch.fingerprint for batch in epochs[1]] == whole[taken + skipped :]


def test_skip_after_a_state(photos: Path) -> None:
    loader = made(photos)
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    rest = [batch.fingerprint for batch in epoch]
    resumed = made(photos)
    resumed.load_state_dict(state)
    resumed.skip(2)
    again = made(photos)
    again.load_state_dict(resumed.state_dict())
    for each in (resumed, again):
        assert [batch.fingerprint for batch in each] == rest[2:]
    assert resumed.next_epoch == 1
    with pytest.raises(fl.ConfigError, match="no epoch is played"):
        made(photos).skip(1)
    with pytest.raises(fl.ConfigError, match="batches is -1"):
        epoch.skip(-1)


def test_the_state_has_the_last_fingerprint(photos: Path) -> None:
    loader = made(photos, copy=True)
    assert loader.last_fingerprint is None
    epoch = iter(loader)
    batch = next(epoch)
    assert isinstance(batch, dict), "arrays, which have no fingerprint"
    assert json.loads(loader.state_dict()["cursor"])["fingerprint"] == loader.last_fingerprint
    assert loader.last_fingerprint == next(iter(made(photos))).fingerprint


def test_logs_and_their_difference(photos: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "c.jsonl"]
    for path, seed in zip(paths, (11, 11, 12), strict=True):
        loader = made(photos, seed=seed)
        loader.log_fingerprints(path, ids=True)
        batches = [(batch.fingerprint, batch.ids.tolist()) for batch in loader]
        header, *lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert header["fuseloop_log"] == 1 and header["seed"] == seed and header["batch_size"] == 3
        assert [(line["fingerprint"], line["ids"]) for line in lines] == batches
        assert [line["position"] for line in lines] == [3 * k for k in range(len(lines))]
        loader.log_fingerprints(None)
        next(iter(loader))
        assert len(path.read_text().splitlines()) == 1 + len(lines)

    def diff(*logs: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fuseloop", "diff", *map(str, logs)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert diff(paths[0], paths[1]).returncode == 0
    differ = diff(paths[0], paths[2])
    assert differ.returncode == 1
    assert "cause: the seed: 11 in the first log and 12 in the second" in differ.stdout
    with pytest.raises(fl.FuseloopError, match="not a log of fingerprints"):
        made(photos).log_fingerprints(__file__)
