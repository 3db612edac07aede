"""Datasets with options, streams, and datasets of Python's samples, through ``Dataset[i]`` and through loaders."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import picture, png, run_python

import fuseloop as fl
from fuseloop import ops, sources
from fuseloop.sources import Stream
from fuseloop.write import convert, index, write


class Pictures:
    """A map-style dataset that pickles by its number of samples."""

    classes = ["even", "odd"]

    def __init__(self, count: int = 40) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return picture(index, 24, 32), index % 2


def make(epoch: int, sample: int) -> dict:
    return {"n": 1000 * epoch + sample, "x": np.full((2, 2), sample, np.float32)}


def is_odd(values: dict) -> bool:
    return values["n"] % 2 == 1


def tripled(values: dict) -> dict:
    return {"n": 3 * values["n"], "text": str(values["n"])}


def numbers(count: int, folder: Path, name: str = "n") -> fl.Dataset:
    """A dataset of 0, 1, ... in a file."""
    path = folder / f"{name}{count}.beton"
    write([{name: k} for k in range(count)], path, overwrite=True, progress=None)
    return sources.open(path)


def played(dataset: fl.Dataset, epoch: int = 0) -> list[int]:
    left_out = {field: None for field in ("text", "x") if field in dataset.fields}
    loader = fl.Loader(dataset, batch_size=7, **left_out)
    return [int(n) for batch in loader.epoch(epoch) for n in batch["n"].numpy()]


# Datasets by name


def test_each_format_opens(photos: Path, tmp_path: Path) -> None:
    folder = sources.folder(photos, links="refuse")
    assert len(folder) == 24 and folder.classes == {0: "bee", 1: "cow"}
    convert(photos, tmp_path / "x.beton", progress=None)
    assert len(sources.beton(tmp_path / "x.beton")) == 24
    convert(photos, tmp_path / "x-{0}.tar", shards=2, progress=None)
    tar = sources.tar(f"{tmp_path}/x-{{0..1}}.tar", {"picture": ("jpg;png", "image"), "label": ("cls", "int")})
    assert tar.fields == {"picture": "image", "label": "int"} and len(tar) == 24
    convert(photos, tmp_path / "x.tfrecord", progress=None)
    records = sources.tfrecord(f"{tmp_path}/x.tfrecord", {"label": "int"})
    assert records.fields == {"label": "int"}
    assert records.column("label").tolist() == folder.column("label").tolist()
    index(photos.parent / photos.name, progress=None)
    both = sources.concat([folder, photos])
    assert len(both) == 48
    loader = fl.Loader(both, 48, image=[ops.Resize((8, 8))])
    images = next(iter(loader))["image"].numpy()
    assert np.array_equal(images[:24], images[24:])
    for dataset in (folder, tar, records, both, sources.beton(tmp_path / "x.beton")):
        again = pickle.loads(pickle.dumps(dataset))
        assert type(again) is type(dataset) and again.fingerprint == dataset.fingerprint


def test_a_line_behind_a_link_that_is_not_followed_is_damaged(photos: Path, tmp_path: Path) -> None:
    images = sorted(path for path in photos.rglob("*") if path.is_file())[:2]
    for name, image in zip(("a.jpg", "b.jpg"), images):
        (tmp_path / name).write_bytes(image.read_bytes())
    (tmp_path / "c.jpg").symlink_to("a.jpg")
    frame = {"path": ["a.jpg", "c.jpg", "b.jpg"], "x": [1, 2, 3]}
    for links, good in (("follow", [0, 1, 2]), ("within", [0, 1, 2]), ("refuse", [0, 2])):
        table = sources.table(frame, root=tmp_path, links=links)
        assert table.verify(progress=None).good.tolist() == good, links
        (tmp_path / "t.csv").write_text("path,x\na.jpg,1\nc.jpg,2\nb.jpg,3\n")
        assert sources.folder(tmp_path / "t.csv", links=links).verify(progress=None).good.tolist() == good, links


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda photos: sources.folder(photos, links="some"), "'follow', 'within' or 'refuse'"),
        (lambda photos: sources.tar("x.tar", {"a": "jpg"}), "expected extensions and a kind"),
        (lambda photos: sources.tar("x.tar", {"a": ("jpg", "picture")}), "no kind 'picture'"),
        (lambda photos: sources.tfrecord("x", {"a": "picture"}), "no kind 'picture'"),
        (lambda photos: sources.concat(photos), "expected a list"),
        (lambda photos: sources.concat([]), "concat"),
        (lambda photos: sources.concat([7]), "not int"),
        (lambda photos: sources.zip(photos, photos), "image"),
        (lambda photos: Stream(photos).take(-1), "items is -1"),
        (lambda photos: Stream(photos).filter(3), "expected a function"),
        (lambda photos: Stream.mix([photos], [1, 2]), "2 weights for 1 streams"),
        (lambda photos: Stream.mix([photos], [-1]), "weight"),
        (lambda photos: Stream.mix([photos], end="middle"), "'first' or 'last'"),
        (lambda photos: sources.from_python({1: 2}), "no dataset"),
        (lambda photos: sources.from_python(iter([1])), "no dataset"),
        (lambda photos: sources.from_python([]), "no samples"),
        (lambda photos: sources.from_generator(3, None, 5), "expected a function"),
        (lambda photos: fl.Loader(sources.concat([Stream(photos)])), "Stream.concat"),
    ],
)
def test_bad_arguments_are_refused(photos: Path, call: object, message: str) -> None:
    with pytest.raises(fl.errors.ConfigError, match=message):
        call(photos)


# Streams


def test_streams_follow_their_definition(tmp_path: Path) -> None:
    ten = numbers(10, tmp_path)
    stream = Stream(ten)
    assert played(stream) == list(range(10))
    assert played(stream.skip(2).take(5)) == [2, 3, 4, 5, 6]
    assert played(stream.repeat(2)) == [*range(10), *range(10)]
    assert played(stream.repeat().take(25)) == [k % 10 for k in range(25)]
    assert played(stream.with_epoch(12)) == [*range(10), 0, 1]
    assert played(stream.filter(is_odd)) == [1, 3, 5, 7, 9]
    assert played(stream.prefetch(4)) == list(range(10))
    assert played(stream.concat(ten)) == [*range(10), *range(10)]
    assert played(Stream.interleave([ten, stream], cycle_length=2)) == [k // 2 for k in range(20)]
    assert sorted(played(Stream.mix([ten, ten], end="last"))) == sorted([*range(10), *range(10)])
    shuffled = stream.shuffle(10)
    assert played(shuffled) != played(shuffled, 1) and sorted(played(shuffled)) == list(range(10))
    mapped = stream.map(tripled, {"n": "int", "text": "bytes"})
    assert played(mapped) == [3 * k for k in range(10)]
    zipped = sources.zip(ten, numbers(4, tmp_path, "m"))
    batch = next(iter(fl.Loader(zipped, 4)))
    assert batch["n"].numpy().tolist() == batch["m"].numpy().tolist() == [0, 1, 2, 3]
    assert isinstance(mapped, Stream) and mapped.is_stream and repr(mapped).startswith("Stream('")
    with pytest.raises(fl.errors.ConfigError, match="iterate over a loader"):
        mapped[0]


def test_caches_of_streams(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(values: dict) -> dict:
        calls.append(values["n"])
        return values

    ten = Stream(numbers(10, tmp_path)).map(counted)
    cached = ten.cache_in_memory("1MiB")
    loader = fl.Loader(cached, batch_size=5)
    for _ in range(3):
        assert [int(n) for batch in loader for n in batch["n"].numpy()] == list(range(10))
    assert sorted(calls) == list(range(10))
    kept = ten.cache_file(tmp_path / "kept.cache", "1MiB")
    assert played(kept) == played(kept) == list(range(10))
    assert (tmp_path / "kept.cache").exists()


def test_streams_pickle(tmp_path: Path) -> None:
    ten = numbers(10, tmp_path)
    stream = Stream(ten).map(tripled, {"n": "int", "text": "bytes"}).shuffle(5).with_epoch(20)
    again = pickle.loads(pickle.dumps(stream))
    assert played(again) == played(stream) and isinstance(again, Stream)
    loader = pickle.loads(pickle.dumps(fl.Loader(stream, 4, text=None)))
    assert len(list(loader)) == 5
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(Stream(ten).filter(lambda values: True))


@pytest.mark.parametrize("op", ["map", "filter"])
def test_exceptions_of_functions_come_out_as_themselves(tmp_path: Path, op: str) -> None:
    class Own(Exception):
        pass

    def fails(values: dict) -> dict:
        if values["n"] == 8:
            raise Own("of mine")
        return values

    stream = getattr(Stream(numbers(10, tmp_path)), op)(fails)
    with pytest.raises(Own, match="of mine") as caught:
        played(stream)
    assert "fails" in [frame.name for frame in caught.traceback]
    assert any("fuseloop" in note for note in caught.value.__notes__)
    wrong = Stream(numbers(10, tmp_path)).map(lambda values: {"n": 0.5})
    with pytest.raises(fl.errors.ConfigError, match="field n: expected an int, found float 0.5"):
        played(wrong)


# Samples from Python


def test_a_dataset_of_python_gives_the_same_batches_as_a_file(tmp_path: Path) -> None:
    write(Pictures(), tmp_path / "x.beton", progress=None)
    image = [ops.RandomResizedCrop(16), ops.RandomHorizontalFlip(0.5)]
    loaders = [
        fl.Loader(dataset, batch_size=8, order="random", seed=3, image=image)
        for dataset in (tmp_path / "x.beton", sources.from_python(Pictures()))
    ]
    for _ in range(2):
        for one, other in zip(*loaders, strict=True):
            assert np.array_equal(one["image"].numpy(), other["image"].numpy())
            assert one["label"].numpy().tolist() == other["label"].numpy().tolist()
    assert loaders[1].classes == {0: "even", 1: "odd"}
    dataset = sources.from_python(Pictures())
    assert dataset.name == "Pictures" and dataset.fields == {"image": "image", "label": "int"}
    assert np.array_equal(dataset[7]["image"], picture(7, 24, 32))
    assert len(pickle.loads(pickle.dumps(dataset))) == 40


def test_exceptions_of_a_dataset_come_out_as_themselves() -> None:
    class Fails(Pictures):
        def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
            if index == 17:
                raise FileExistsError("of mine")
            return super().__getitem__(index)

    loader = fl.Loader(sources.from_python(Fails()), batch_size=8, image=[ops.Resize((8, 8))])
    with pytest.raises(FileExistsError, match="of mine") as caught:
        list(loader)
    assert "sample 17" in "\n".join(caught.value.__notes__)
    assert "__getitem__" in [frame.name for frame in caught.traceback]
    skipping = fl.Loader(sources.from_python(Fails()), batch_size=8, image=[ops.Resize((8, 8))], on_damaged="skip")
    assert sum(batch.samples for batch in skipping) == 39
    assert [sample for sample, _, _ in skipping.quarantine().samples] == [17]


def test_errors_of_a_dataset_that_is_read_by_number(tmp_path: Path) -> None:
    class Own(Exception):
        pass

    class Fails:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> dict[str, int]:
            if index == 17:
                raise Own("of mine")
            return {"n": index}

    dataset = sources.from_python(Fails())
    for read, note in [
        (lambda: dataset[17], "sample 17: Fails"),
        (lambda: dataset.column("n"), "sample 17: Fails (n)"),
        (lambda: fl.Loader(dataset, filter=lambda column: column["n"] < 9), "sample 17: Fails (n)"),
    ]:
        with pytest.raises(Own, match="of mine") as caught:
            read()
        assert note in "\n".join(caught.value.__notes__)
        assert "__getitem__" in [frame.name for frame in caught.traceback]

    photos = tmp_path / "photos" / "cat"
    photos.mkdir(parents=True)
    (photos / "0.png").write_bytes(b"")
    folder = fl.Dataset.open(tmp_path / "photos")
    (photos / "0.png").unlink()
    with pytest.raises(fl.ReadError, match=f"sample 0: {photos / '0.png'}: No such file") as missing:
        folder[0]
    assert isinstance(missing.value, OSError)
    assert (missing.value.path, missing.value.sample) == (str(photos / "0.png"), 0)
    with pytest.raises(fl.ReadError, match="No such file") as missing:
        list(fl.Loader(folder, image=[ops.Resize((8, 8))]))
    found = missing.value
    assert (found.path, found.sample, found.field) == (str(photos / "0.png"), 0, "image")

    index = tmp_path / "n.beton"
    write([{"n": k} for k in range(9)], index, progress=None)
    convert(index, f"{tmp_path}/n-{{0}}.tar", progress=None)
    (shard,) = tmp_path.glob("n-*.tar")
    tar = sources.open(shard)
    os.truncate(shard, 2000)
    with pytest.raises(fl.DecodeError) as damaged:
        tar.column("cls")
    found = damaged.value
    assert (found.path, found.field) == (str(shard), "cls") and found.sample > 0 and found.offset >= 2000
    assert str(found).startswith(f"sample {found.sample} (cls): {shard}: ")

    names = tmp_path / "n.beton.classes.json"
    names.write_text('{"fuseloop":"classes","version":9}', encoding="utf-8")
    with pytest.raises(fl.DatasetError, match="class names of version 9.*repair it") as damaged:
        _ = sources.open(index).classes
    assert damaged.value.path == str(names)


def test_values_that_do_not_fit_name_their_sample() -> None:
    mixed = [np.zeros(3, np.float32)] * 5 + [np.zeros(4, np.float32)]
    with pytest.raises(fl.errors.ConfigError, match=r"sample 5, field array: .*\(3,\), found ndarray.*\(4,\)"):
        list(fl.Loader(sources.from_python(mixed), batch_size=2))


def test_a_generator_depends_on_the_epoch_alone() -> None:
    wanted = [1000 + k for k in range(50)]
    for producers in (1, 5):
        dataset = sources.from_generator(make, None, 50, producers=producers, capacity=8)
        assert dataset.fields == {"n": "int", "x": "<f4 [2, 2]"}
        assert played(dataset, 1) == wanted
    again = pickle.loads(pickle.dumps(dataset))
    assert played(again, 1) == wanted
    loader = fl.Loader(again, batch_size=10, order="random", seed=1)
    found = [int(n) for batch in loader.epoch(2) for n in batch["n"].numpy()]
    assert sorted(found) == [2000 + k for k in range(50)] and found != sorted(found)

    def fails(epoch: int, sample: int) -> dict:
        if sample == 30:
            raise KeyError("of mine")
        return make(epoch, sample)

    with pytest.raises(KeyError, match="of mine"):
        played(sources.from_generator(fails, None, 50))


class Slow(Pictures):
    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        time.sleep(0.02)
        return super().__getitem__(index)


@pytest.mark.parametrize("end", ["close", "drop", "break", "collect"])
def test_ending_while_workers_wait_for_the_interpreter(end: str) -> None:
    for make_dataset in (
        lambda: sources.from_python(Slow(4000)),
        lambda: sources.from_generator(lambda epoch, k: (time.sleep(0.02), make(epoch, k))[1], None, 4000, producers=3),
        lambda: Stream(sources.from_python(Slow(4000))).map(lambda values: (time.sleep(0.02), values)[1]).shuffle(8),
    ):
        started = time.monotonic()
        dataset = make_dataset()
        lists = {"image": [ops.Resize((8, 8))]} if "image" in dataset.fields else {}
        loader = fl.Loader(dataset, batch_size=4, workers=4, **lists)
        epoch = iter(loader)
        next(epoch)
        if end == "close":
            loader.close()
        elif end == "break":
            epoch.close()
        elif end == "collect":
            cycle: list[object] = [epoch, loader, dataset]
            cycle.append(cycle)
            del cycle
        del epoch, loader, dataset
        gc.collect()
        assert time.monotonic() - started < 4


def test_the_interpreter_may_end_while_python_sources_run() -> None:
    code = """
        import time, sys
        import numpy as np
        import fuseloop as fl
        class Slow:
            def __len__(self): return 1000
            def __getitem__(self, k):
                time.sleep(0.001)
                return np.zeros((8, 8, 3), np.uint8), k
        image = [fl.ops.Resize((8, 8))]
        loader = fl.Loader(fl.sources.from_python(Slow()), batch_size=4, workers=4, image=image)
        for k, batch in enumerate(loader):
            if k == 3:
                print("played", flush=True)
                {end}
    """
    import textwrap

    for end, status in [("break", 0), ("sys.exit(3)", 3), ("raise LookupError", 1)]:
        done = run_python(textwrap.dedent(code).replace("{end}", end), timeout=60)
        assert (done.returncode, done.stdout) == (status, "played\n"), done.stderr


def test_other_threads_run_while_samples_are_read() -> None:
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    list(fl.Loader(sources.from_python(Slow(30)), batch_size=10, workers=2, image=[ops.Resize((8, 8))]))
    stop.set()
    thread.join()
    assert counted[0] > 20


def test_jpegs_that_pil_opened_are_decoded_by_the_loader() -> None:
    pil = pytest.importorskip("PIL.Image")
    files = []
    for k in range(6):
        file = io.BytesIO()
        pil.fromarray(picture(k)).save(file, "JPEG")
        files.append(file.getvalue())

    class Opened:
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, index: int) -> object:
            return pil.open(io.BytesIO(files[index]))

    dataset = sources.from_python(Opened())
    assert dataset[3]["image"] == files[3]
    assert next(iter(fl.Loader(dataset, 6, image=[ops.Resize((8, 8))])))["image"].shape == (6, 8, 8, 3)


def test_a_dataset_of_torchvision() -> None:
    torch = pytest.importorskip("torch")
    labels = torch.arange(10)
    data = torch.utils.data.TensorDataset(torch.arange(20.0).reshape(10, 2), labels)
    loader = fl.Loader(sources.from_python(data), batch_size=5)
    batch = next(iter(loader))
    assert batch["tensor"].numpy().tolist() == data.tensors[0][:5].tolist()
    assert batch["label"].numpy().tolist() == [0, 1, 2, 3, 4]


def write_coco(folder: Path) -> None:
    """Writes two images, of which one has a crowd, and their annotations in another folder."""
    (folder / "pictures").mkdir()
    (folder / "labels").mkdir()
    for k in (1, 2):
        (folder / "pictures" / f"{k}.png").write_bytes(png(picture(k)))
    box = {"bbox": [1, 2, 30, 20], "area": 600}
    coco = {
        "images": [{"id": k, "file_name": f"{k}.png"} for k in (1, 2)],
        "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "cat"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 18, "iscrowd": 0, **box},
            {"id": 2, "image_id": 2, "category_id": 3, "iscrowd": 1, **box},
        ],
    }
    (folder / "labels" / "objects.json").write_text(json.dumps(coco))


def classes_of(dataset: fl.Dataset) -> list[list[int]]:
    return [np.frombuffer(dataset[k]["category_id"], np.int64).tolist() for k in range(len(dataset))]


def test_coco_has_a_folder_of_images_and_options(tmp_path: Path) -> None:
    write_coco(tmp_path)
    images, annotations = tmp_path / "pictures", tmp_path / "labels" / "objects.json"
    with pytest.raises(fl.ConfigError, match=r"the images are not found.*fuseloop\.sources\.coco\(images, annotations\)"):
        sources.open(annotations)
    coco = sources.coco(images, annotations)
    assert coco.classes == {0: "cat", 1: "dog"} and classes_of(coco) == [[1], [0]]
    ids = sources.coco(images, annotations, keep_category_ids=True)
    assert ids.classes == {3: "cat", 18: "dog"} and classes_of(ids) == [[18], [3]]
    assert classes_of(sources.coco(images, annotations, skip_crowds=True)) == [[1], []]
    few = sources.coco(str(images), str(annotations), skip_crowds=True, without_empty=True)
    assert classes_of(few) == classes_of(pickle.loads(pickle.dumps(few))) == [[1]]
    assert sources.coco(images, annotations).fingerprint == coco.fingerprint
    batch = next(iter(fl.Loader(few, 1, targets="auto", image=[ops.Resize((24, 32))])))
    np.testing.assert_allclose(batch["bbox"].row(0), [[0.5, 1, 15, 10]])
    with pytest.raises(fl.ConfigError, match="annotations is 3, expected a path"):
        sources.coco(images, 3)  # type: ignore[arg-type]


def test_masks_are_in_a_folder_of_their_own(tmp_path: Path) -> None:
    for name, pixels in {"low/b/1.png": 8, "high/a/1.png": 16, "low_masks/b/1.png": 8, "high_masks/a/1.png": 16}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(png(picture(1, pixels, pixels)[:, :, 0] if "masks" in name else picture(1, pixels, pixels)))
    dataset = sources.masks(tmp_path / "high", tmp_path / "high_masks")
    assert dataset.fields == {"image": "image", "mask": "image"} and len(dataset) == 1
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint != sources.masks(tmp_path / "low", tmp_path / "low_masks").fingerprint
    with pytest.raises(fl.ConfigError, match="masks is 3, expected a path"):
        sources.masks(tmp_path / "high", 3)  # type: ignore[arg-type]


def test_voc_has_options(tmp_path: Path) -> None:
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (tmp_path / folder).mkdir(parents=True)
    box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>20</xmax><ymax>30</ymax></bndbox>"
    for k, name in enumerate(("dog", "cat")):
        (tmp_path / "JPEGImages" / f"{k}.png").write_bytes(png(picture(k)))
        xml = f"<annotation><object><name>{name}</name>{box}</object></annotation>"
        (tmp_path / "Annotations" / f"{k}.xml").write_text(xml)
    (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("0\n")
    voc = sources.voc(tmp_path)
    assert voc.classes == {0: "cat", 1: "dog"} and classes_of(voc) == [[1], [0]]
    train = sources.voc(tmp_path, image_set="train", classes=["dog", "cat"], keep_coordinates=True)
    assert train.classes == {0: "dog", 1: "cat"} and classes_of(train) == [[0]]
    assert np.frombuffer(train[0]["bbox"], np.float32).tolist() == [2, 3, 20, 30]
    assert np.frombuffer(voc[0]["bbox"], np.float32).tolist() == [1, 2, 20, 30]
    assert pickle.loads(pickle.dumps(train)).classes == train.classes
    with pytest.raises(fl.ConfigError, match="classes is 'dog', expected names in the order of their numbers"):
        sources.voc(tmp_path, classes="dog")


def test_yolo_has_options(tmp_path: Path) -> None:
    for folder in ("images", "labels"):
        (tmp_path / folder).mkdir()
    (tmp_path / "images" / "1.png").write_bytes(png(picture(1, 10, 20)))
    (tmp_path / "labels" / "1.txt").write_text("1 0.5 0.5 0.5 0.8 0.25 0.5 2\n")
    yolo = sources.yolo(tmp_path, classes=["cat", "dog"], keypoints=(1, 3), exif_orientation=False)
    assert yolo.classes == {0: "cat", 1: "dog"} and classes_of(yolo) == [[1]]
    assert np.frombuffer(yolo[0]["keypoints"], np.float32).tolist() == [5, 5, 2]
    assert pickle.loads(pickle.dumps(yolo)).fields == yolo.fields
    with pytest.raises(fl.ConfigError, match=r"keypoints is 17, expected their number .* \(17, 3\)"):
        sources.yolo(tmp_path, keypoints=17)  # type: ignore[arg-type]


def test_errors_of_folders_name_the_function_with_the_option(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for name in ("bee", "cow"):
            (tmp_path / "set" / split / name).mkdir(parents=True)
            (tmp_path / "set" / split / name / "1.png").write_bytes(png(picture(1)))
    with pytest.raises(fl.FuseloopError, match=r"call fuseloop\.sources\.folder\(path, split='train'\), or open one") as caught:
        fl.Loader(tmp_path / "set")
    assert "or call fuseloop.sources.folder(path, label='folder') to take the folders for classes" in str(caught.value)
    assert len(sources.folder(tmp_path / "set", split="train")) == 2
    flat = tmp_path / "set" / "train" / "bee"
    with pytest.raises(fl.FuseloopError, match=r"call fuseloop\.sources\.folder\(path, label=None\) to open the images"):
        fl.Loader(flat, label=None)
    (tmp_path / "t.csv").write_text("a|b;label\n1|2;3\n")
    with pytest.raises(fl.FuseloopError, match=r"call fuseloop\.sources\.table\(path, delimiter=\.\.\.\)"):
        sources.open(tmp_path / "t.csv")


def test_arrays_are_a_dataset_without_calls() -> None:
    images = np.arange(6 * 4 * 5 * 3, dtype=np.uint8).reshape(6, 4, 5, 3)
    waves = np.arange(12, dtype=">f4").reshape(6, 2)
    arrays = {"image": images, "label": np.arange(6, dtype=np.int16), "x": np.arange(6) / 4, "wave": waves}
    dataset = sources.from_arrays(**arrays, classes=["a", "b"])
    for source in (dataset, pickle.loads(pickle.dumps(dataset))):
        assert len(source) == 6 and source.classes == {0: "a", 1: "b"}
        values = source[3]
        assert np.array_equal(values["image"], images[3])
        assert (values["label"], values["x"], list(values["wave"])) == (3, 0.75, [6.0, 7.0])
    loader = fl.Loader(dataset, batch_size=6, image=[ops.CenterCrop(4)])
    batch = next(iter(loader))
    assert batch["image"].shape == (6, 4, 4, 3)
    assert batch["label"].numpy().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(fl.ConfigError, match="has 0 axes"):
        sources.from_arrays(n=3)
    with pytest.raises(fl.ConfigError, match="column b: 2 values, expected 1"):
        sources.from_arrays(a=[1], b=[1, 2])
