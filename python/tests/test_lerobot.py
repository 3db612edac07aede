"""Datasets of LeRobot: the frames and rows that `LeRobotDataset` selects, in the words of Python.

The dataset is that of `scripts/lerobot_goldens.py`: the frame of row n is gray of the level 30 + 10 n.
"""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import LEROBOT

import fuseloop as fl
from fuseloop import ops
from fuseloop.errors import ConfigError

TOP = "observation.images.top"
EXPECTED = json.loads((LEROBOT / "expected.json").read_text())
DELTAS = {key: EXPECTED["deltas"][key] for key in (TOP, "action", "reward")}


def loader(dataset: fl.Dataset, **settings) -> fl.Loader:
    return fl.Loader(dataset, batch_size=18, without=["observation.still"], **settings)


def rows(frames: np.ndarray) -> list[list[int]]:
    """Returns the rows that frames are of, by their levels."""
    return ((frames.mean(axis=(2, 3, 4)) - 30) / 10).round().astype(int).tolist()


@pytest.mark.filterwarnings("error")
def test_a_batch_has_what_lerobot_selects() -> None:
    dataset = pickle.loads(pickle.dumps(fl.sources.lerobot(LEROBOT, delta_timestamps=DELTAS)))
    batch = next(iter(loader(dataset)))
    samples = EXPECTED["samples"]
    assert rows(batch[TOP].numpy()) == [sample["frames"][TOP] for sample in samples]
    for key in DELTAS:
        name = f"{key}_is_pad"
        assert batch[name].numpy().astype(bool).tolist() == [sample["is_pad"][name] for sample in samples]
    actions = batch["action"].numpy()
    assert actions.dtype == np.float32 and actions.tolist() == [sample["action"] for sample in samples]
    assert batch["reward"].numpy().tolist() == [sample["reward"] for sample in samples]
    texts = [bytes(text).rstrip(b"\0").decode() for text in batch["task"].numpy()]
    assert texts == [sample["task"] for sample in samples]


def test_keys_name_the_ops_of_a_camera() -> None:
    dataset = fl.sources.lerobot(str(LEROBOT), delta_timestamps={TOP: (0.0,)}, episodes=[2, 0])
    by_name = loader(dataset, **{TOP: [ops.CenterCrop(8), ops.ToChannelsFirst()]})
    by_ops = loader(dataset, ops={TOP: [ops.CenterCrop(8), ops.ToChannelsFirst()]})
    first, second = next(iter(by_name)), next(iter(by_ops))
    assert first[TOP].numpy().shape == (13, 1, 3, 8, 8)
    assert first["episode_index"].numpy().tolist() == [0] * 7 + [2] * 6
    np.testing.assert_array_equal(first[TOP].numpy(), second[TOP].numpy())


def test_the_name_of_the_folder_opens_it() -> None:
    batch = next(iter(loader(fl.Dataset.open(LEROBOT))))
    assert batch[TOP].numpy().shape == (18, 32, 48, 3)
    assert batch["action"].numpy().shape == (18, 2)


def test_what_does_not_fit_is_refused() -> None:
    for deltas in ({"action": 0.1}, {"action": "0.1"}, {"action": ["x"]}):
        with pytest.raises(ConfigError, match="expected a list of seconds"):
            fl.sources.lerobot(LEROBOT, delta_timestamps=deltas)
    with pytest.raises(ConfigError, match="no multiple of 1/10"):
        fl.sources.lerobot(LEROBOT, delta_timestamps={"action": [0.15]})
    with pytest.raises(ConfigError, match="no episode 3"):
        fl.sources.lerobot(LEROBOT, episodes=[3])
    with pytest.raises(ConfigError, match="expected 0 or more"):
        fl.sources.lerobot(LEROBOT, episodes=[-1])


def test_a_single_camera_keeps_its_key(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "robot"
    shutil.copytree(LEROBOT, folder)
    info = json.loads((folder / "meta/info.json").read_text())
    features = info["features"].items()
    info["features"] = {key: one for key, one in features if key == TOP or one["dtype"] not in ("video", "image")}
    (folder / "meta/info.json").write_text(json.dumps(info))
    for file in folder.glob("data/**/*.parquet"):
        parquet.write_table(parquet.read_table(file).drop_columns(["observation.still"]), file)
    dataset = fl.sources.lerobot(folder)
    single = fl.Loader(dataset, batch_size=2, image=[ops.CenterCrop(8)])
    names = [spec.name for spec in single.tensors]
    assert TOP in names and "image" not in names and set(names) <= set(dataset.fields)
    assert next(iter(single))[TOP].numpy().shape == (2, 8, 8, 3)
