"""Aspect ratio buckets: batches of images of one size."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops

SIZES = [(24, 24), (18, 30), (30, 18)]


def batches(photos: Path, **settings) -> list[tuple[tuple[int, ...], list[int]]]:
    """Returns the shape and the samples of each batch."""
    image = [ops.ResizeToBucket(SIZES, random_crop=True), ops.ToChannelsFirst()]
    loader = fl.Loader(photos, 5, order="bucketed", image=image, **settings)
    found = [(batch["image"].numpy().shape, batch.ids.tolist()) for batch in loader]
    assert len(found) == len(loader)
    return found


def test_each_batch_has_the_size_of_one_bucket(photos: Path) -> None:
    found = batches(photos, seed=3)
    assert sorted(sample for _, ids in found for sample in ids) == list(range(24))
    for shape, ids in found:
        assert shape[0] == len(ids) and shape[1] == 3 and shape[2:] in SIZES
    assert found == batches(photos, seed=3, workers=1)
    assert found != batches(photos, seed=4)


def test_what_is_left_is_dropped_with_drop_last(photos: Path) -> None:
    sizes = Counter(shape[2:] for shape, ids in batches(photos) for _ in ids)
    found = batches(photos, drop_last=True)
    assert Counter(shape[2:] for shape, _ in found) == {size: n // 5 for size, n in sizes.items() if n >= 5}


def test_a_loader_resumes(photos: Path) -> None:
    def make() -> fl.Loader:
        return fl.Loader(photos, 5, order="bucketed", image=[ops.ResizeToBucket(SIZES)])

    loader = make()
    whole = [batch["image"].numpy().copy() for batch in loader]
    loader = make()
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    other = make()
    other.load_state_dict(state)
    rest = [batch["image"].numpy().copy() for batch in other]
    assert len(rest) == len(whole) - 1
    assert all(np.array_equal(own, theirs) for own, theirs in zip(rest, whole[1:]))


def test_the_sizes_of_an_area_are_kohyas() -> None:
    op = ops.ResizeToBucket.of_area(1024)
    assert len(op.sizes) == 33
    assert (1024, 1024) in op.sizes and (832, 1216) in op.sizes and (512, 2048) in op.sizes
    with pytest.raises(fl.ParamError, match="step"):
        ops.ResizeToBucket.of_area(32)


def test_the_arguments_of_an_area_are_those_of_any_op() -> None:
    of_area = ops.ResizeToBucket.of_area
    expected = of_area(1024)
    assert of_area(np.int64(1024), np.array([512, 2048]), np.int32(64)) == expected
    assert of_area([1024, 1024], range(512, 2560, 1536)) == expected
    op = of_area(1024, random_crop=True, interpolation="bicubic", antialias=False)
    assert op == ops.ResizeToBucket(expected.sizes, random_crop=True, interpolation="bicubic", antialias=False)
    for wrong, name in [
        ({"size": -1}, "size"),
        ({"size": True}, "size"),
        ({"size": "1024"}, "size"),
        ({"size": (1, 2, 3)}, "size"),
        ({"size": 1 << 40}, "size"),
        ({"size": 1024, "sides": (1, 2, 3)}, "sides"),
        ({"size": 1024, "sides": 512}, "sides"),
        ({"size": 1024, "sides": (2048, 512)}, "sides"),
        ({"size": 1024, "step": 64.5}, "step"),
        ({"size": 1024, "step": 0}, "step"),
    ]:
        with pytest.raises(fl.ParamError, match=name):
            of_area(**wrong)
