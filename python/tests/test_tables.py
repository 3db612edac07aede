"""Folders and tables: their columns, their classes, and what is damage."""

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import sources

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def photos(tmp_path):
    for name in ("cat/a.jpg", "dog/b.jpg"):
        path = tmp_path / name
        path.parent.mkdir()
        Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(path)
    return tmp_path


def test_a_data_frame_is_a_table(photos):
    frame = {"breed": ["dog", "cat"], "id": ["dog/b", "cat/a"], "age": np.array([3, 4])}
    table = sources.table(frame, image="id", label="breed", root=photos, suffix=".jpg")
    assert table.fields == {"image": "image", "label": "int", "age": "int"}
    assert table.classes == {0: "cat", 1: "dog"}
    assert [table[i]["label"] for i in range(2)] == [1, 0]
    with pytest.raises(fl.FuseloopError, match="no column `name` for `image`"):
        sources.table(frame, image="name")


def test_a_table_of_files_that_do_not_exist_names_the_root(photos):
    frame = {"path": ["a.jpg", "b.jpg"], "label": [0, 1]}
    with pytest.raises(fl.DatasetNotFoundError, match=r"a\.jpg.*set as `root`"):
        sources.table(frame, root=photos)
    with pytest.raises(fl.DatasetNotFoundError, match="current folder: set `root`"):
        sources.table(frame)


def test_a_label_by_its_values_alone_is_warned_of(photos):
    frame = {"path": ["cat/a.jpg", "dog/b.jpg"], "age": [3, 4]}
    with pytest.warns(fl.FuseloopWarning, match="label='age'\\) if it is the label") as warned:
        sources.table(frame, root=photos)
    assert len(warned) == 1
    assert sources.table(frame, root=photos, label="age").fields == {"image": "image", "label": "int"}


def test_classes_number_a_validation_set(photos):
    val = sources.folder(photos, classes=["ape", "cat", "cow", "dog"])
    assert [val[i]["label"] for i in range(2)] == [1, 3]
    loader = fl.Loader(val, 2, image=[fl.ops.Resize((8, 8))], expect_classes=["ape", "cat", "cow", "dog"])
    assert loader.classes[3] == "dog"
    with pytest.raises(fl.FuseloopError, match="dog is 1, expected 0|is missing"):
        fl.Loader(photos, 2, image=[fl.ops.Resize((8, 8))], expect_classes=["dog", "cat"])


def test_ignored_pictures_are_counted_and_warned_of(photos):
    (photos / "cat" / "1.jp2").write_bytes(b"x")
    with pytest.warns(fl.FuseloopWarning, match="1 .jp2"):
        dataset = sources.folder(photos)
    assert dataset.info().ignored == {"jp2": 1}


def test_images_open_without_labels(photos):
    assert sources.folder(photos, label=None).fields == {"image": "image"}
    with pytest.raises(fl.ConfigError, match="see sources.table"):
        sources.folder(photos, label="breed")
