"""Lists of images: several images of a sample, in the words of Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import picture, png

import fuseloop as fl
from fuseloop import ops

COUNTS = [2, 0, 3, 1]
IMAGES = [[png(picture(10 * sample + image, 40, 56)) for image in range(count)] for sample, count in enumerate(COUNTS)]
LIST = [ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(0.5), ops.ToChannelsFirst()]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four samples of a list of images and a label."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path_factory.mktemp("lists") / "train.parquet"
    columns = {"images": pa.array(IMAGES, pa.list_(pa.binary())), "label": pa.array(range(4), pa.int64())}
    parquet.write_table(pa.table(columns), path)
    return path


def batch_of(table: Path, images: fl.ImageList | int, **settings) -> dict:
    return next(iter(fl.Loader(table, batch_size=4, images=LIST, image_lists={"images": images}, **settings)))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_batch_has_images_and_their_numbers(table: Path, workers: int) -> None:
    batch = batch_of(table, fl.ImageList(max=4), seed=3, workers=workers)
    images = batch["images"].numpy()
    assert images.shape == (4, 4, 3, 24, 24)
    assert batch["images.length"].numpy().tolist() == COUNTS
    assert batch["label"].numpy().tolist() == [0, 1, 2, 3]
    for row, count in zip(images, COUNTS, strict=True):
        assert [bool(image.any()) for image in row] == [index < count for index in range(4)]


def test_a_number_is_the_maximum_and_longer_lists_are_refused_or_truncated(table: Path) -> None:
    whole = batch_of(table, 3)["images"].numpy()
    with pytest.raises(fl.errors.FuseloopError, match="a list of 3 images, rows have room for 2"):
        batch_of(table, 2)
    truncated = batch_of(table, fl.ImageList(2, truncate=True))
    assert truncated["images.length"].numpy().tolist() == [2, 0, 2, 1]
    np.testing.assert_array_equal(truncated["images"].numpy(), whole[:, :2])


def test_images_draw_by_themselves_if_asked(table: Path) -> None:
    one, each = (batch_of(table, fl.ImageList(3, per_image=flag))["images"].numpy() for flag in (False, True))
    np.testing.assert_array_equal(one[:, 0], each[:, 0])
    assert (one[2, 1:] != each[2, 1:]).any()


def test_lists_of_datasets_in_memory_are_those_of_parquet(table: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"images": [{"bytes": file, "path": None} for file in files], "label": i} for i, files in enumerate(IMAGES)]
    features = datasets.Features({"images": datasets.List(datasets.Image()), "label": datasets.Value("int64")})
    found = batch_of(datasets.Dataset.from_list(rows, features=features), 3)
    np.testing.assert_array_equal(found["images"].numpy(), batch_of(table, 3)["images"].numpy())


@pytest.mark.parametrize("given", ["images", {"images": "many"}, {"images": True}])
def test_other_values_are_refused(table: Path, given: object) -> None:
    with pytest.raises(fl.errors.ConfigError, match="ImageList"):
        fl.Loader(table, images=LIST, image_lists=given)  # type: ignore[arg-type]
