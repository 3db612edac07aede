"""Several files as one dataset."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources, write


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"s-{k:03}.beton" for k in range(4)]
    for k, path in enumerate(paths):
        write.write([{"label": 3 * k + i} for i in range(3)], path, progress=None)
    return paths


def labels(loader: fl.Loader) -> list[int]:
    return [int(label) for batch in loader for label in batch["label"].numpy()]


def test_braces_patterns_and_lists(shards: list[Path], tmp_path: Path) -> None:
    for name in [tmp_path / "s-{000..003}.beton", str(tmp_path / "s-*.beton"), shards, [str(path) for path in shards]]:
        assert labels(fl.Loader(name, 5)) == list(range(12))
    assert labels(fl.Loader((shards[2], shards[0]), 5)) == [6, 7, 8, 0, 1, 2]
    mixed = [sources.open(shards[1]), tmp_path / "s-{002..003}.beton"]
    assert labels(fl.Loader(mixed, 5)) == list(range(3, 12))
    assert len(sources.open(shards)) == 12
    assert sources.open([shards[1]])[0] == {"label": 3}


def test_a_loader_of_several_files_is_pickled_and_resumed(shards: list[Path]) -> None:
    loader = fl.Loader(shards, 2, order="random", seed=7)
    epoch = iter(loader)
    first = [next(epoch)["label"].numpy().tolist() for _ in range(2)]
    again = pickle.loads(pickle.dumps(loader))
    rest = labels(again)
    assert sorted([label for batch in first for label in batch] + rest) == list(range(12))


def test_a_list_of_addresses_of_one_dataset_is_checked(shards: list[Path], tmp_path: Path) -> None:
    write.write([{"other": 1}], tmp_path / "other.beton", progress=None)
    with pytest.raises(fl.FuseloopError, match=r"other\.beton"):
        fl.Loader([shards[0], tmp_path / "other.beton"])
    with pytest.raises(fl.DatasetNotFoundError, match=r"s-004\.beton"):
        fl.Loader(tmp_path / "s-{000..009}.beton")
    with pytest.raises(fl.ConfigError, match="a dataset is a path or a fuseloop.Dataset, not int"):
        fl.Loader([shards[0], 3])
    with pytest.raises(fl.FuseloopError):
        fl.Loader([])
    with pytest.raises(fl.FuseloopError, match="join several by `fuseloop convert`"):
        fl.Loader(shards, process_cache=True)


def test_one_number_must_mean_one_class_in_all_files(tmp_path: Path) -> None:
    for name, classes in [("a", ["cat", "dog"]), ("b", ["dog", "cat"]), ("c", ["cat", "dog", "emu"])]:
        write.write([{"label": 0}, {"label": 1}], tmp_path / f"{name}.beton", progress=None)
        listed = [{"number": number, "name": name} for number, name in enumerate(classes)]
        text = f'{{"fuseloop":"classes","version":1,"classes":{json.dumps(listed)}}}'
        (tmp_path / f"{name}.beton.classes.json").write_text(text)
    a, b, c = (tmp_path / f"{name}.beton" for name in "abc")
    words = r'class 0 is "cat" in .*a\.beton and "dog" in .*b\.beton \("dog" is class 1 in '
    for dataset in ([a, b], tmp_path / "{a,b}.beton", f"{a}::{b}", [sources.open(a), sources.open(b)]):
        with pytest.raises(fl.DatasetError, match=words):
            fl.Loader(dataset)
    streams = [sources.Stream(a), sources.Stream(b)]
    with pytest.raises(fl.DatasetError, match=words):
        sources.Stream.mix(streams, [0.5, 0.5])
    assert fl.Loader([a, c]).classes == {0: "cat", 1: "dog", 2: "emu"}


def test_a_list_of_shards_is_what_colons_between_them_are(tmp_path: Path) -> None:
    def shard(name: str, members: dict[str, bytes], mode: str) -> Path:
        with tarfile.open(tmp_path / name, mode) as tar:  # type: ignore[call-overload]
            for member, data in members.items():
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return tmp_path / name

    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((4, 4, 3), np.uint8)
    picture = {end: io.BytesIO() for end in ("jpeg", "png")}
    for end, out in picture.items():
        image.fromarray(pixels).save(out, format=end)
    one = {"1.jpg": picture["jpeg"].getvalue(), "1.cls": b"0"}
    two = {"2.png": picture["png"].getvalue(), "2.cls": b"1"}
    for end, mode in ((".tar", "w"), (".tar.gz", "w:gz")):
        paths = [shard(f"a {{0}}{end}", one, mode), shard(f"b{end}", two, mode)]
        for names in (paths, tuple(map(str, paths))):
            dataset = sources.open(names)
            assert dataset.is_stream == (end == ".tar.gz")
            for again in (dataset, pickle.loads(pickle.dumps(dataset))):
                assert labels(fl.Loader(again, 2, image=[ops.Resize((4, 4))])) == [0, 1]
        assert labels(fl.Loader(paths, 2, image=[ops.Resize((4, 4))])) == [0, 1]


def test_info_and_verify_of_several_files(shards: list[Path]) -> None:
    dataset = sources.open(shards)
    assert dataset.info().samples == 12
    report = dataset.verify(progress=None)
    assert report.is_whole
    assert report.samples == 12


def test_damage_is_found_in_its_file(tmp_path: Path) -> None:
    for k in range(2):
        write.write([{"data": {"k": i}} for i in range(3)], tmp_path / f"s-{k}.beton", progress=None)
    broken = (tmp_path / "s-1.beton").read_bytes().replace(b'{"k": 2}', b'{"k": 2]').replace(b'{"k":2}', b'{"k":2]')
    (tmp_path / "s-1.beton").write_bytes(broken)
    report = sources.open(tmp_path / "s-{0..1}.beton").verify(progress=None)
    (value,) = report.damaged
    assert (value.sample, value.kind) == (5, "json")
    assert value.path is not None
    assert value.path.endswith("s-1.beton")
