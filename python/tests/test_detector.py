"""The example of a detector: it learns as much with Fuseloop as with torchvision, from the same objects."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import example

import fuseloop as fl
from fuseloop import ops

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytestmark = [pytest.mark.torch, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def train_detector() -> ModuleType:
    return example("train_detector")


@pytest.fixture(scope="module")
def drawn(train_detector: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], Path]:
    pictures = train_detector.draw(300, seed=1)
    path = tmp_path_factory.mktemp("drawn") / "train.beton"
    train_detector.write(pictures, path)
    return pictures, path


A, B, FAR = [0, 0, 10, 10], [40, 40, 60, 60], [80, 0, 90, 10]


@pytest.mark.parametrize(
    ("found", "objects", "expected"),
    [
        pytest.param([(0.9, A, 0), (0.8, B, 1)], [(A, 0), (B, 1)], 1, id="all are found"),
        pytest.param([], [(A, 0)], 0, id="none is found"),
        pytest.param([(0.9, A, 0), (0.8, FAR, 0), (0.7, B, 0)], [(A, 0), (B, 0)], 5 / 6, id="a miss between"),
        pytest.param([(0.9, A, 0), (0.8, A, 0), (0.7, B, 0)], [(A, 0), (B, 0)], 5 / 6, id="one is found twice"),
        pytest.param([(0.7, B, 0), (0.9, FAR, 0), (0.8, A, 0)], [(A, 0), (B, 0)], 2 / 3, id="precision rises later"),
        pytest.param([(0.9, A, 0), (0.8, B, 0)], [(A, 0), (B, 1)], 1 / 2, id="the class is another"),
        pytest.param([(0.9, A, 0), (0.8, B, 2)], [(A, 0)], 1, id="a class without objects does not count"),
        pytest.param([(0.9, [0, 0, 10, 5], 0)], [(A, 0)], 1, id="an IoU of exactly 0.5"),
        pytest.param([(0.9, [0, 0, 10, 4.9], 0)], [(A, 0)], 0, id="an IoU below 0.5"),
        pytest.param(
            [(0.9, [0, 1, 10, 11], 0), (0.8, [0, 4, 10, 14], 0)], [([0, 3, 10, 13], 0), (A, 0)], 1,
            id="the object that overlaps most is taken",
        ),
        pytest.param(
            [(0.9, A, 0), (0.8, [0, 1, 10, 11], 0)], [([0, 3, 10, 13], 0), (A, 0)], 1,
            id="the object that overlaps most was taken before",
        ),
    ],
)  # fmt: skip
def test_map50_of_one_image(train_detector: ModuleType, found: Any, objects: Any, expected: float) -> None:
    assert train_detector.mean_average_precision(
        [(np.array([box for _, box, _ in found]).reshape(-1, 4), *columns(found, 0, 2))],
        [(np.array([box for box, _ in objects]), *columns(objects, 1))],
    ) == pytest.approx(expected)


def columns(rows: Any, *which: int) -> list[np.ndarray]:
    return [np.array([row[k] for row in rows]) for k in which]


def test_map50_of_several_images(train_detector: ModuleType) -> None:
    """The list of all images is one; a box counts in its own image."""
    one, none = np.array([A]), np.zeros((0, 4))
    label, empty = np.array([0]), np.zeros(0, int)
    objects = [(one, label), (one, label), (none, empty)]

    def found(*scores: float | None) -> float:
        boxes = [
            (none, np.zeros(0), empty) if score is None else (one, np.array([score]), label) for score in scores
        ]
        return float(train_detector.mean_average_precision(boxes, objects))

    assert found(0.9, 0.8, None) == found(0.9, 0.8, 0.7) == 1
    assert found(0.9, None, 0.8) == 1 / 2
    assert found(0.9, 0.7, 0.8) == pytest.approx(5 / 6)


def test_without_augmentation_the_batches_are_those_of_torchvision(train_detector: ModuleType, drawn: Any) -> None:
    pictures, path = drawn
    theirs = train_detector.Drawn(pictures, augment=False)
    objects = 0
    for number, (images, boxes, classes) in enumerate(train_detector.in_order(path)):
        first = number * train_detector.BATCH
        expected = train_detector.collate([theirs[first + k] for k in range(len(images))])
        torch.testing.assert_close(images, expected[0])
        assert torch.equal(boxes, expected[1]) and torch.equal(classes, expected[2])
        objects += int((classes >= 0).sum())
    assert objects == sum(len(picture.classes) for picture in pictures) > 300


def test_an_object_at_the_edge_stays_after_a_resize(tmp_path: Path) -> None:
    """torchvision's Resize multiplies by a rounded ratio: the box of a whole image of 21 pixels ends beyond the edge of
    96, and is removed."""
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    whole = tv_tensors.BoundingBoxes(torch.tensor([[0.0, 0, 21, 21]]), format="XYXY", canvas_size=(21, 21))
    theirs = v2.Compose([v2.Resize((96, 96)), v2.SanitizeBoundingBoxes(labels_getter=None)])({"boxes": whole})
    assert len(theirs["boxes"]) == 0
    sizes = range(2, 200)
    rows = [(np.zeros((n, n, 3), np.uint8), np.array([0, 0, n, n], "<f4").tobytes()) for n in sizes]
    fields = {"image": "image", "bbox": "bytes"}
    fl.write.write(rows, tmp_path / "edges.beton", fields, image=fl.write.Image("raw"), progress=None)
    for side in (96, 100, 224):
        image = [ops.Resize((side, side)), ops.SanitizeBoundingBoxes()]
        targets = {"image": {"bbox": fl.Target.boxes()}}
        boxes = next(iter(fl.Loader(tmp_path / "edges.beton", len(sizes), image=image, targets=targets)))["bbox"]
        assert [boxes.row(k).tolist() for k in range(len(sizes))] == [[[0, 0, side, side]]] * len(sizes)


def test_augmented_objects_are_distributed_as_with_torchvision(train_detector: ModuleType, drawn: Any) -> None:
    """The means of an epoch, over all pictures: of how many objects an image has, where they are, how large they are,
    and of the values of the image. They differ by no more than four standard errors."""
    pictures, path = drawn
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dataset = train_detector.Drawn(pictures)
    theirs = [train_detector.collate([dataset[k] for k in range(len(dataset))])]

    def measures(batches: Any) -> Any:
        rows = []
        for images, boxes, classes in batches:
            present = (classes >= 0).float()
            count = present.sum(1)
            x, y = ((boxes[..., k] + boxes[..., k + 2]) / 2 for k in (0, 1))
            width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
            sums = [(value * present).sum(1) for value in (x, y, width, height, width * height)]
            rows.append(torch.stack([count, *sums, images.mean((1, 2, 3)), images.std((1, 2, 3))], 1))
        return torch.cat(rows)

    ours = measures(train_detector.with_fuseloop(path, seed=3))
    expected = measures(theirs)
    errors = (ours.var(0) / len(ours) + expected.var(0) / len(expected)).sqrt()
    assert len(ours) == len(expected) == len(pictures)
    assert ((ours.mean(0) - expected.mean(0)).abs() < 4 * errors).all(), (ours.mean(0), expected.mean(0), errors)


def test_detector_trains_as_with_torchvision(train_detector: ModuleType) -> None:
    """One short training each: the whole ones of the proof are in docs/python_frameworks.md."""
    torch.set_num_threads(1)
    lines: list[str] = []
    results = train_detector.compare(seeds=[0], steps=200, say=lines.append)
    ours, theirs = (results[name]["map50"][0] for name in ("fuseloop", "torchvision"))
    assert min(ours, theirs) > 0.6, lines
    assert abs(ours - theirs) < 0.2, lines
