"""fuseloop.ffcv.DatasetWriter, and fields of users."""

from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fuseloop as fl  # noqa: E402
import fuseloop.ffcv as ffcv  # noqa: E402

ffcv.install()

from ffcv.fields import BytesField, Field, FloatField, IntField, JSONField, NDArrayField, RGBImageField  # noqa: E402
from ffcv.fields import TorchTensorField  # noqa: E402
from ffcv.fields.base import ARG_TYPE  # noqa: E402
from ffcv.fields.basics import IntDecoder  # noqa: E402
from ffcv.loader import Loader, OrderOption  # noqa: E402
from ffcv.pipeline.allocation_query import AllocationQuery  # noqa: E402
from ffcv.pipeline.operation import Operation  # noqa: E402
from ffcv.transforms import ToTensor  # noqa: E402
from ffcv.types import get_metadata_type  # noqa: E402
from ffcv.writer import DatasetWriter  # noqa: E402

pytestmark = pytest.mark.torch

BETON = Path(__file__).parents[2] / "tests" / "golden" / "beton"


class PointsDecoder(Operation):
    """Decodes the sum and the first two points of a sample."""

    def declare_state_and_memory(self, previous_state):
        from dataclasses import replace

        state = replace(previous_state, jit_mode=True, shape=(2, self.field.width), dtype=np.dtype("f4"))
        return state, AllocationQuery((2, self.field.width), np.dtype("f4"))

    def generate_code(self):
        read, width = self.memory_read, self.field.width

        def decode(indices, destination, metadata, storage_state):
            for row in range(len(indices)):
                sample = indices[row]
                data = read(metadata[sample]["ptr"], storage_state)
                points = data.view(np.float32).reshape(-1, width)
                destination[row] = points[:2]
            return destination

        return decode


class PointsField(Field):
    """Points of any number: a pointer and a count in each row."""

    def __init__(self, width):
        self.width = width

    @property
    def metadata_type(self):
        return np.dtype([("ptr", "<u8"), ("count", "<u4")])

    @staticmethod
    def from_binary(binary):
        return PointsField(int(binary[0]))

    def to_binary(self):
        result = np.zeros(1, dtype=ARG_TYPE)[0]
        result[0][0] = self.width
        return result

    def encode(self, destination, field, malloc):
        destination["ptr"], memory = malloc(field.nbytes)
        destination["count"] = len(field)
        memory[:] = field.astype("f4").reshape(-1).view("u1")

    def get_decoder_class(self):
        return PointsDecoder


def points(count=30):
    rng = np.random.default_rng(0)
    return [(rng.random((2 + k % 5, 3), dtype=np.float32), k, b"x" * (k % 3)) for k in range(count)]


@pytest.mark.filterwarnings("ignore:PointsDecoder")
def test_a_field_of_a_user_is_written_and_read(tmp_path):
    path, samples = tmp_path / "points.beton", points()
    samples = [(p, k, np.frombuffer(b, "u1")) for p, k, b in samples]
    fields = {"points": PointsField(3), "label": IntField(), "text": BytesField()}
    DatasetWriter(path, fields, page_size=1 << 21).from_indexed_dataset(samples)
    with pytest.raises(fl.ConfigError, match="custom_fields={'points': MyField}"):
        Loader(path, 4)
    pipelines = {"points": [PointsDecoder(), ToTensor()], "label": [IntDecoder(), ToTensor()]}
    loader = Loader(path, 5, order=OrderOption.RANDOM, pipelines=pipelines, custom_fields={"points": PointsField})
    seen = []
    for found, labels, texts in loader:
        for one, label, text in zip(found, labels.flatten().tolist(), texts):
            assert np.array_equal(one.numpy(), samples[label][0][:2])
            assert bytes(text.numpy()).rstrip(b"\0") == samples[label][2].tobytes()
            seen.append(label)
    assert sorted(seen) == list(range(30))
    dataset = pickle.loads(pickle.dumps(fl.sources.beton(path, {"points": (12, 1)})))
    assert dataset[7]["label"] == 7 and int.from_bytes(dataset[7]["points"][8:], "little") == 2 + 7 % 5
    alone = Loader(path, 5, custom_fields={"points": PointsField}, pipelines={"label": None, "text": None})
    assert next(iter(alone))[0].shape == (5, 2, 3)


def test_a_file_that_ffcv_wrote_with_a_custom_field_is_read():
    import json

    described = json.loads((BETON / "custom_field_p4k.json").read_text())
    names = [field["name"] for field in described["fields"]]
    assert len(names) > 1
    custom = next(field["name"] for field in described["fields"] if field["type_id"] == 255)
    with pytest.raises(fl.ConfigError, match=f"field {custom} is of a kind"):
        Loader(BETON / "custom_field_p4k.beton", 1)


class Wide(Field):
    """Values of a number of bytes."""

    metadata_type = np.dtype("<u8")

    @staticmethod
    def from_binary(binary):
        return Wide()

    def to_binary(self):
        return np.zeros(1, dtype=ARG_TYPE)[0]

    def encode(self, destination, field, malloc):
        destination[0], memory = malloc(field)
        memory[:] = field % 251

    def get_decoder_class(self):
        return IntDecoder


def test_a_sample_is_in_one_page(tmp_path):
    size = 1 << 21
    for sizes in ([(5, 7), (size - 20, 10), (size - 10, 10), (0, size - 1), (1, size - 1)], [(0, 0)] * 3):
        path = tmp_path / "wide.beton"
        DatasetWriter(path, {"a": Wide(), "b": Wide()}, page_size=size).from_indexed_dataset(sizes)
        reader = ffcv.loader.loader.Reader(path, {"a": Wide, "b": Wide})
        table = np.sort(reader.alloc_table, order="ptr")
        assert len(table) == 2 * len(sizes) and len(set(table["ptr"].tolist())) == len(table)
        data = np.fromfile(path, np.uint8)
        for name, column in (("f0", 0), ("f1", 1)):
            for row, sample in zip(reader.metadata[name].tolist(), sizes):
                assert (data[row : row + sample[column]] == sample[column] % 251).all()
        first = reader.metadata["f0"] // size, (reader.metadata["f1"] + [max(b, 1) - 1 for _, b in sizes]) // size
        assert first[0].tolist() == first[1].tolist()
    with pytest.raises(fl.ConfigError, match="sample 1 is larger than a page of 2097152 bytes"):
        DatasetWriter(path, {"a": Wide(), "b": Wide()}, page_size=size).from_indexed_dataset([(1, 1), (size, 1)])
    assert len(ffcv.loader.loader.Reader(path, {"a": Wide, "b": Wide}).metadata) == 3, "the file from before is whole"
    assert [file.name for file in tmp_path.iterdir()] == ["wide.beton"]


def test_fields_in_python_write_what_the_rows_say(tmp_path):
    """The fields' own code, for all kinds."""

    class Mine(IntField):
        pass

    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (9, 11, 3), dtype=np.uint8)
    sample = {
        "mine": 5,
        "image": image,
        "number": 2.5,
        "text": np.frombuffer(b"bytes", "u1"),
        "json": {"a": [1, "\u00e9"]},
        "array": np.arange(6, dtype="<i4").reshape(2, 3),
        "tensor": torch.arange(4, dtype=torch.int16),
    }
    fields = {
        "mine": Mine(),
        "image": RGBImageField(),
        "number": FloatField(),
        "text": BytesField(),
        "json": JSONField(),
        "array": NDArrayField(np.dtype("<i4"), (2, 3)),
        "tensor": TorchTensorField(torch.int16, (4,)),
    }
    path = tmp_path / "all.beton"
    DatasetWriter(path, fields).from_indexed_dataset([sample])
    loader = Loader(path, 1, custom_fields={"mine": Mine})
    mine, pixels, number, text, packed, array, tensor = next(iter(loader))
    assert mine.tolist() == [[5]] and np.array_equal(pixels[0], image) and number.tolist() == [[2.5]]
    assert bytes(text[0].numpy()) == b"bytes" and JSONField.unpack(packed) == [sample["json"]]
    assert np.array_equal(array[0], sample["array"]) and torch.equal(tensor[0], sample["tensor"])
    assert loader.reader.metadata.dtype == get_metadata_type(list(fields.values()))
    wrong = {**sample, "array": np.zeros((2, 3))}
    with pytest.raises(ValueError, match="float64 and shape \\(2, 3\\) was given for a field of int32") as caught:
        DatasetWriter(path, fields).from_indexed_dataset([wrong])
    assert "sample 0, field array" in caught.value.__notes__[0]
    with pytest.raises(fl.ConfigError, match="sample 0 has 2 values, expected 7"):
        DatasetWriter(path, fields).from_indexed_dataset([(1, 2)])


def test_wrong_pages_and_fields_are_refused(tmp_path):
    for size in (1 << 20, (1 << 21) + 1, 1 << 32):
        with pytest.raises(ValueError, match="power of two"):
            DatasetWriter(tmp_path / "a.beton", {"label": IntField()}, page_size=size)
    with pytest.raises(fl.ConfigError, match="IntField\\(\\)"):
        DatasetWriter(tmp_path / "a.beton", {"label": IntField})


# Through fuseloop.write


class Pictures(torch.utils.data.Dataset):
    """Pictures, numbers and arrays."""

    def __init__(self, count, broken=None):
        self.count, self.broken = count, broken

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.broken:
            raise LookupError(f"no picture {index}")
        if index >= self.count:
            raise IndexError(index)
        rng = np.random.default_rng(index)
        picture = rng.integers(0, 256, (16 + index % 3, 20, 3), dtype=np.uint8)
        return picture, index, index / 2, {"index": index}, np.full((2, 2), index, "<f4"), torch.tensor([index])


FIELDS = {
    "image": RGBImageField(),
    "label": IntField(),
    "half": FloatField(),
    "about": JSONField(),
    "array": NDArrayField(np.dtype("<f4"), (2, 2)),
    "tensor": TorchTensorField(torch.int64, (1,)),
}


def test_the_same_bytes_for_any_number_of_processes(tmp_path):
    files = []
    for workers in (1, 3):
        path = tmp_path / f"{workers}.beton"
        DatasetWriter(str(path), FIELDS, num_workers=workers).from_indexed_dataset(Pictures(150), chunksize=7)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    dataset = fl.Dataset.open(path)
    assert len(dataset) == 150
    for index in (0, 77, 149):
        picture, label, half, about, array, tensor = Pictures(150)[index]
        found = dataset[index]
        assert np.array_equal(found["image"], picture) and (found["label"], found["half"]) == (label, half)
        assert found["about"] == about and np.array_equal(found["array"], array) and found["tensor"] == [index]


def test_subsets_and_shuffles_of_a_dataset(tmp_path):
    path = tmp_path / "some.beton"
    writer = DatasetWriter(path, {"label": IntField()}, num_workers=1)
    numbers = [(k * 10,) for k in range(20)]
    writer.from_indexed_dataset(numbers, indices=[4, 0, 4])
    assert fl.Dataset.open(path).column("label").tolist() == [40, 0, 40]
    np.random.seed(1)
    writer.from_indexed_dataset(numbers, shuffle_indices=True)
    order = np.arange(20)
    np.random.seed(1)
    np.random.shuffle(order)
    assert fl.Dataset.open(path).column("label").tolist() == (order * 10).tolist()


def test_an_exception_of_the_dataset_ends_the_writing(tmp_path):
    with pytest.raises(LookupError, match="no picture 33"):
        DatasetWriter(tmp_path / "a.beton", FIELDS, num_workers=2).from_indexed_dataset(Pictures(100, broken=33))
    with pytest.raises(fl.ConfigError, match="2 values, expected 1"):
        DatasetWriter(tmp_path / "a.beton", {"label": IntField()}, num_workers=1).from_indexed_dataset([(1, 2)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "modes"),
    [
        (RGBImageField(), {1}),
        (RGBImageField("jpg", jpeg_quality=80), {0}),
        (RGBImageField("smart"), {1}),
        (RGBImageField("smart", smart_threshold=1000), {0, 1}),
        (RGBImageField("proportion", compress_probability=0.5), {0, 1}),
        (RGBImageField("proportion", compress_probability=None), {1}),
    ],
)
def test_images_are_stored_as_their_field_says(field, modes, tmp_path):
    rng = np.random.default_rng(0)
    samples = [(rng.integers(0, 256, (10 + 2 * (k % 8), 25, 3), dtype=np.uint8),) for k in range(40)]
    path = tmp_path / "images.beton"
    DatasetWriter(path, {"image": field}, num_workers=1).from_indexed_dataset(samples)
    rows = ffcv.loader.loader.Reader(path).metadata["f0"]
    assert set(rows["mode"].tolist()) == modes
    if field.smart_threshold:
        large = [sample[0].nbytes > 1000 for sample in samples]
        assert (rows["mode"] == 0).tolist() == large
    small = RGBImageField(max_resolution=20)
    DatasetWriter(path, {"image": small}, num_workers=1).from_indexed_dataset(samples)
    rows = ffcv.loader.loader.Reader(path).metadata["f0"]
    assert set(rows["width"].tolist()) == {20} and rows["height"].max() < 24
    with pytest.raises(fl.ConfigError, match="expected 'raw'"):
        DatasetWriter(path, {"image": RGBImageField("png")}).from_indexed_dataset(samples)


def test_shards_of_webdataset_are_read_once(tmp_path, monkeypatch):
    opened = []

    class WebDataset(list):
        def __init__(self, shard):
            opened.append(shard)
            super().__init__({"cls": shard * 10 + k} for k in range(3))

    monkeypatch.setitem(sys.modules, "webdataset", types.SimpleNamespace(WebDataset=WebDataset))
    path = tmp_path / "web.beton"
    DatasetWriter(path, {"label": IntField()}).from_webdataset([1, 2], lambda dataset: ((s["cls"],) for s in dataset))
    assert opened == [1, 2]
    assert fl.Dataset.open(path).column("label").tolist() == [10, 11, 12, 20, 21, 22]

    class Mine(IntField):
        pass

    DatasetWriter(path, {"mine": Mine()}).from_webdataset([3], lambda dataset: ((s["cls"],) for s in dataset))
    assert next(iter(Loader(path, 3, custom_fields={"mine": Mine})))[0].flatten().tolist() == [30, 31, 32]
