"""Fields that follow an image: boxes, classes, keypoints and masks."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from conftest import png

import fuseloop as fl
from fuseloop import ops

SIZE = (40, 60)


class Scenes:
    """Images with a bright rectangle for each object, whose edges are its box."""

    def __init__(self, count: int = 12) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        pixels = np.zeros((*SIZE, 3), np.uint8)
        boxes = [(3 + 18 * k, 5 + index, 12 + 18 * k, 20 + index) for k in range(index % 4)]
        for k, (x1, y1, x2, y2) in enumerate(boxes):
            pixels[y1:y2, x1:x2] = 50 + 50 * k
        points = [((x1 + x2) // 2, (y1 + y2) // 2, 2) for x1, y1, x2, y2 in boxes]
        polygons = [[[x1, y1, x2, y1, x2, y2, x1, y2]] for x1, y1, x2, y2 in boxes]
        return (
            pixels,
            np.array(boxes, "<f4").tobytes(),
            np.arange(len(boxes), dtype="<i8").tobytes(),
            np.array(points, "<f4").tobytes(),
            polygons,
        )


FIELDS = {"image": "image", "bbox": "bytes", "label": "bytes", "points": "bytes", "masks": "json"}

TARGETS = {
    "bbox": fl.Target.boxes(),
    "label": fl.Target.column(np.int64),
    "points": fl.Target.keypoints(1),
    "masks": fl.Target.instance_masks(),
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("scenes") / "scenes.beton"
    fl.write.write(Scenes(), path, FIELDS, image=fl.write.Image("raw"), progress=None)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xyhw"}, 'format is \'xyhw\', expected one of "xyxy", "xywh", "cxcywh"'),
        ({"to": "ltrb"}, "to is 'ltrb', expected one of"),
        ({"clamping": "sotf"}, 'clamping is \'sotf\', expected one of "soft", "hard", "none"'),
        ({"format": 4}, "format is 4, expected one of"),
    ],
)
def test_a_format_of_boxes_that_does_not_exist_is_refused_at_once(options: Any, message: str) -> None:
    with pytest.raises(fl.ConfigError) as error:
        fl.Target.boxes(**options)
    assert message in str(error.value)
    assert fl.Target.boxes("XYWH", to="CXCYWH") == fl.Target.boxes("xywh", to="cxcywh")


def test_objects_that_a_mosaic_cuts_to_less_are_removed_and_ops_on_objects_may_follow(scenes: Any) -> None:
    def boxes(*last: Any) -> list[Any]:
        loader = fl.Loader(scenes, 6, image=[ops.CenterCrop((32, 48)), *last], targets={"image": TARGETS}, seed=3)
        batches = [(batch["bbox"], batch["label"], batch["masks"]) for batch in loader]
        return [[np.asarray(part.values) for part in batch] for batch in batches]

    def kept(batch: Any, size: float, area: float) -> Any:
        width, height = (batch[0][:, 2:] - batch[0][:, :2]).T
        return (width >= size) & (height >= size) & (width * height >= area)

    every = boxes(ops.Mosaic(min_size=0.01, min_area=0.001))
    mosaic = boxes(ops.Mosaic(min_size=6, min_area=90))
    after = boxes(ops.Mosaic(min_size=0.01, min_area=0.001), ops.SanitizeBoundingBoxes(min_size=6, min_area=90))
    removed = 0
    for whole, one, other in zip(every, mosaic, after, strict=True):
        keeps = kept(whole, 6, 90)
        removed += int((~keeps).sum())
        for expected, *found in zip(whole, one, other, strict=True):
            assert all(np.array_equal(expected[keeps], part) for part in found)
    assert removed > 3
    flipped = boxes(ops.Mosaic(min_size=0.01, min_area=0.001), ops.RandomHorizontalFlip(1.0))
    for (edges, labels, masks), (other, same, moved) in zip(every, flipped, strict=True):
        assert np.array_equal(np.stack([48 - edges[:, 2], edges[:, 1], 48 - edges[:, 0], edges[:, 3]], 1), other)
        assert np.array_equal(labels, same) and np.array_equal(masks[..., ::-1], moved)


def test_targets_follow_their_image(scenes: Any) -> None:
    image = [ops.RandomHorizontalFlip(0.5), ops.RandomCrop((32, 48))]
    loader = fl.Loader(scenes, 6, image=image, targets={"image": TARGETS}, seed=3)
    objects = 0
    for batch in loader:
        pixels = np.asarray(batch["image"])[..., 0]
        for row in range(len(pixels)):
            boxes, labels = batch["bbox"].row(row), batch["label"].row(row)
            masks = batch["masks"].row(row)
            assert boxes.shape == (len(labels), 4) and masks.shape == (len(labels), 32, 48)
            for (x1, y1, x2, y2), label, mask in zip(boxes.astype(int), labels, masks, strict=True):
                painted = pixels[row] == 50 + 50 * label
                expected = np.zeros_like(painted)
                expected[y1:y2, x1:x2] = True
                assert (painted == expected).all() and (painted == (mask == 1)).all()
                objects += 1
    assert objects == 18


def test_objects_are_removed_with_all_their_rows(scenes: Any) -> None:
    image = [ops.RandomIoUCrop(), ops.Resize((32, 48)), ops.SanitizeBoundingBoxes(min_size=4.0)]
    targets = {**TARGETS, "bbox": fl.Target.boxes("XYXY", to="CXCYWH", normalized=True)}
    padded = {"bbox": fl.Collate.pad(to=5, fill=-1.0)}
    loader = fl.Loader(scenes, 12, image=image, targets={"image": targets}, collate=padded)
    batch = next(iter(loader))
    boxes = np.asarray(batch["bbox"])
    assert boxes.shape == (12, 5, 4)
    lengths = [len(batch["label"].row(row)) for row in range(12)]
    assert [int(count) for count in np.asarray(batch["bbox.length"])] == lengths
    for row, count in enumerate(lengths):
        assert ((boxes[row, :count] >= 0) & (boxes[row, :count] <= 1)).all()
        assert (boxes[row, count:] == -1).all()


def test_objects_are_inspected_and_drawn(scenes: Any) -> None:
    image = [ops.RandomIoUCrop(), ops.Resize((32, 48)), ops.SanitizeBoundingBoxes(min_size=8.0)]
    targets = {**TARGETS, "bbox": fl.Target.boxes("XYXY", to="CXCYWH")}
    loader = fl.Loader(scenes, 4, image=image, targets={"image": targets}, seed=3)
    removed = 0
    for sample in range(12):
        found, batch = loader.inspect(sample), loader.get([sample])
        assert found.targets is not None
        before, after = found.targets["before"], found.targets["after"]
        assert (before["size"], after["size"]) == ([40, 60], [32, 48])
        boxes = np.array([each["box"] for each in after["objects"]], np.float32).reshape(-1, 4)
        np.testing.assert_array_equal(boxes, batch["bbox"].row(0))
        points = np.array([each["keypoints"] for each in after["objects"]], np.float32).reshape(-1, 1, 3)
        np.testing.assert_array_equal(points, batch["points"].row(0))
        rows = [each["before"] for each in after["objects"]]
        assert rows == [each["class"] for each in after["objects"]] == batch["label"].row(0).tolist()
        gone = [row for row, each in enumerate(before["objects"]) if "removed_by" in each]
        assert sorted(rows + gone) == list(range(sample % 4))
        assert found.objects[0] == f"objects: {sample % 4} stored, {len(rows)} after the ops"
        assert f"  {found.objects[0]}\n" in str(found)
        removed += len(gone)
    assert removed > 0
    sheet = loader.preview(4, each_op=True).array()[20:244, 20:]
    colored = (sheet.max(axis=-1).astype(int) - sheet.min(axis=-1)) > 100
    assert not colored[:, :224].any(), "the first sample has no objects"
    assert (loader.preview(4).array().max(axis=-1) == 255).any()


def test_declarations_that_do_not_fit_are_errors(scenes: Any) -> None:
    with pytest.raises(fl.errors.FuseloopError, match="format"):
        fl.Loader(scenes, 4, image=[ops.CenterCrop(20)], targets={"image": {"bbox": fl.Target.boxes("ltrb")}})
    with pytest.raises(fl.errors.FuseloopError, match="without bounding boxes"):
        fl.Loader(scenes, 4, image=[ops.RandomIoUCrop(), ops.CenterCrop(20)])
    with pytest.raises(fl.errors.ConfigError, match="targets: bbox is Target.*expected a dict of the fields"):
        fl.Loader(scenes, 4, image=[ops.CenterCrop(20)], targets={"bbox": fl.Target.boxes()})  # type: ignore[dict-item]
    with pytest.raises(fl.errors.ConfigError, match="targets: bbox of image is 'xyxy', expected a fuseloop.Target"):
        fl.Loader(scenes, 4, image=[ops.CenterCrop(20)], targets={"image": {"bbox": "xyxy"}})  # type: ignore[dict-item]
    with pytest.raises(fl.errors.ConfigError, match="collate: bbox is 'pad', expected a fuseloop.Collate"):
        fl.Loader(scenes, 4, image=[ops.CenterCrop(20)], collate={"bbox": "pad"})  # type: ignore[dict-item]


def test_lists_of_torchvisions_references(scenes: Any) -> None:
    detection = fl.detection
    names = ["ScaleJitter", "FixedSizeCrop", "RandomHorizontalFlip", "SanitizeBoundingBoxes"]
    assert [op.name for op in detection.lsj()] == names
    shortest = detection.multiscale()[0]
    assert repr(shortest) == "RandomShortestSize((480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800), max_size=1333)"
    targets = {name: TARGETS[name] for name in ("bbox", "label")}
    others = {"points": None, "masks": None}
    lists = [(detection.ssd((32, 48)), (32, 48)), (detection.ssd(40), (40, 40)), (detection.lsj(64), (64, 64))]
    for image, size in lists:
        loader = fl.Loader(scenes, 6, image=image, targets={"image": targets}, ops=others)
        for batch in loader:
            assert batch["image"].shape[1:] == (*size, 3)
            boxes = np.asarray(batch["bbox"].values)
            assert (boxes >= 0).all() and (boxes[:, 2:] <= size[::-1]).all()
    collate = {"image": fl.Collate.pad(to_multiple=32)}
    image = detection.multiscale()
    loader = fl.Loader(scenes, 2, image=image, targets={"image": targets}, collate=collate, ops=others)
    assert min(next(iter(loader))["image"].shape[1:3]) >= 480


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_images_that_are_not_stored_upright_need_a_setting(orientation: int, tmp_path: Any) -> None:
    image_module = pytest.importorskip("PIL.Image")
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    exif = image_module.Exif()
    exif[274] = orientation
    image_module.new("RGB", (40, 20)).save(tmp_path / "images" / "1.jpg", exif=exif)
    (tmp_path / "labels" / "1.txt").write_text("0 0.5 0.5 1 1")

    def boxes(**settings: Any) -> list[float]:
        targets = {"image": {"bbox": fl.Target.boxes("XYXY"), "category_id": fl.Target.column()}}
        image = [ops.Resize((80, 80))]
        loader = fl.Loader(tmp_path, 1, image=image, targets=targets, **settings)
        return [float(edge) for batch in loader for edge in batch["bbox"].row(0).ravel()]

    whole = [0.0, 0.0, 80.0, 80.0]
    assert boxes(exif_orientation=True) == whole
    if orientation == 1:
        assert boxes() == whole
        return
    with pytest.raises(fl.ConfigError, match=f"1.jpg.*orientation of the image is {orientation}"):
        boxes(on_damaged="skip")
    if orientation == 3:
        assert boxes(exif_orientation=False) == whole


def test_tensors_are_indexed_by_sample(scenes: Any) -> None:
    loader = fl.Loader(scenes, 6, targets={"image": TARGETS})
    batch = next(iter(loader))
    images, boxes = batch["image"], batch["bbox"]
    whole = images.numpy()
    assert np.array_equal(images[2], whole[2]) and np.shares_memory(images[2], whole)
    assert images[1, 3, 5].shape == (3,) and images[-1, ..., 0].shape == SIZE and images[:2].shape == (2, *SIZE, 3)
    assert len(list(images)) == 6 and np.array_equal(next(iter(images)), whole[0])
    for index in (6, -7):
        with pytest.raises(IndexError):
            images[index]
    counts = [k % 4 for k in range(6)]
    assert [len(boxes[k]) for k in range(6)] == [len(row) for row in boxes] == counts
    assert np.array_equal(boxes[3], boxes.row(3)) and boxes[3].shape == (3, 4)
    assert np.array_equal(boxes[-1], boxes[5])
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"no row {index} of 6"):
            boxes[index]
    # A row keeps the memory of its batch.
    row, kept = boxes[3], boxes[3].copy()
    loader_of_more = iter(loader)
    del batch, images, boxes, whole
    for _ in loader_of_more:
        pass
    loader.close()
    assert np.array_equal(row, kept)


def test_tensors_are_given_in_the_order_of_rows_alone(scenes: Any) -> None:
    ctypes = pytest.importorskip("ctypes")
    batch = next(iter(fl.Loader(scenes, 6, targets={"image": TARGETS})))

    class Buffer(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 256)]

    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    strides, release = 0x18, ctypes.pythonapi.PyBuffer_Release
    release.argtypes = [ctypes.c_void_p]
    for flags, fits in ((0x20 | strides, True), (0x80 | strides, True), (0x40 | strides, False)):
        buffer = Buffer()
        if fits:
            assert get(batch["image"], ctypes.addressof(buffer), flags) == 0
            release(ctypes.addressof(buffer))
        else:
            with pytest.raises(BufferError, match="order of rows"):
                get(batch["image"], ctypes.addressof(buffer), flags)


@pytest.mark.torch
def test_batches_of_detectors_are_lists_of_dicts(scenes: Any) -> None:
    torch = pytest.importorskip("torch")
    from fuseloop import detection

    plain = list(fl.Loader(scenes, 6, image=[ops.ToChannelsFirst()], targets={"image": TARGETS}))
    loader = fl.torch.Loader(
        scenes,
        6,
        image=[ops.ToChannelsFirst()],
        targets={"image": TARGETS},
        as_dict=True,
        after=detection.as_list(boxes="bbox", labels="label", keypoints="points", masks="masks"),
    )
    seen = 0
    for batch, (images, targets) in zip(plain, loader, strict=True):
        assert len(images) == len(targets) == 6
        for k, (image, target) in enumerate(zip(images, targets)):
            assert torch.equal(image, torch.from_numpy(batch["image"][k].copy()))
            assert list(target) == ["boxes", "labels", "keypoints", "masks"]
            assert np.array_equal(target["boxes"].numpy(), batch["bbox"][k])
            assert target["labels"].tolist() == list(range(seen % 4))
            assert target["boxes"].shape == (seen % 4, 4) and target["masks"].shape == (seen % 4, *SIZE)
            seen += 1
    with pytest.raises(fl.ConfigError, match="no output box, it has image, bbox"):
        next(iter(fl.torch.Loader(scenes, targets={"image": TARGETS}, as_dict=True, after=detection.as_list(boxes="box"))))
    with pytest.raises(fl.ConfigError, match="give fuseloop.torch.Loader as_dict=True"):
        next(iter(fl.torch.Loader(scenes, targets={"image": TARGETS}, after=detection.as_list(boxes="bbox"))))


@pytest.mark.torch
def test_labels_of_detectors_may_begin_with_1(scenes: Any) -> None:
    """Detectors of torchvision take label 0 as background."""
    pytest.importorskip("torch")
    from fuseloop import detection

    seen = 0
    after = detection.as_list(boxes="bbox", labels="label", first_label=1)
    for _, targets in fl.torch.Loader(scenes, 6, targets={"image": TARGETS}, as_dict=True, after=after):
        for target in targets:
            assert target["labels"].tolist() == list(range(1, 1 + seen % 4))
            assert str(target["labels"].dtype) == "torch.int64"
            seen += 1
    with pytest.raises(fl.ConfigError, match='first_label=1 without labels: name their output, labels="category_id"'):
        detection.as_list(boxes="bbox", first_label=1)
    with pytest.raises(fl.ConfigError, match="first_label is True, expected a whole number"):
        detection.as_list(labels="label", first_label=True)


def test_a_mask_is_led_to_the_targets(tmp_path: Any) -> None:
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
        for k in range(2):
            pixels = np.full((20 + k, 30, 3), 100, np.uint8)
            (tmp_path / folder / f"{k}.png").write_bytes(png(pixels))
    crop = ops.RandomResizedCrop(8)
    with pytest.raises(fl.PipelineError, match='as its target: targets="auto", or fuseloop.Target.mask\\(\\) in targets'):
        fl.Loader(tmp_path, 2, image=[crop])
    fl.Loader(tmp_path, 2, image=[crop], targets="auto")
    nearest = [ops.RandomResizedCrop(8, interpolation="nearest")]
    with pytest.warns(fl.FuseloopWarning, match="mask is moved by its own draws") as caught:
        fl.Loader(tmp_path, 2, image=[crop], mask=nearest)
    [warning] = caught
    assert 'let it follow image as its target (targets="auto", or ' in str(warning.message)
    assert "`share_draws`" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.Loader(tmp_path, 2, image=[crop], mask=nearest, share_draws={"mask": "image"})


def test_auto_targets_are_what_the_dataset_knows_of(tmp_path: Any) -> None:
    """Without them, boxes come as they are stored, with a warning."""
    (tmp_path / "images").mkdir()
    pixels = np.zeros((6, 8, 3), np.uint8)
    (tmp_path / "images" / "1.png").write_bytes(png(pixels))
    objects = {"id": 5, "image_id": 1, "category_id": 7, "bbox": [1, 1, 3, 3], "area": 9, "iscrowd": 0}
    coco = {
        "images": [{"id": 1, "file_name": "1.png", "width": 8, "height": 6}],
        "categories": [{"id": 7, "name": "cat"}],
        "annotations": [objects],
    }
    (tmp_path / "objects.json").write_text(json.dumps(coco))
    path = tmp_path / "objects.json"
    image = [ops.Resize((12, 16))]
    batch = next(iter(fl.Loader(path, 1, targets="auto", image=image)))
    np.testing.assert_array_equal(batch["bbox"].row(0), [[2, 2, 6, 6]])
    np.testing.assert_array_equal(batch["category_id"].row(0), [0])
    with pytest.warns(fl.FuseloopWarning, match="bbox comes as its stored bytes.*set `targets` to `auto`"):
        stored = next(iter(fl.Loader(path, 1, image=image)))
    assert stored["bbox"].dtype == "uint8"
    other = {"image": {"bbox": fl.Target.boxes("xyxy")}}
    with pytest.raises(fl.ConfigError, match="boxes of format xyxy are declared, and the dataset says: boxes, xywh"):
        fl.Loader(path, 1, targets=other, image=image)
    with pytest.raises(fl.ConfigError, match='targets is .all., expected "auto"'):
        fl.Loader(path, 1, targets="all", image=image)  # type: ignore[arg-type]
