"""fuseloop.ffcv: batches are FFCV's, and what hangs or leaks there does not here."""

from __future__ import annotations

import gc
import json
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fuseloop as fl  # noqa: E402
import fuseloop.ffcv as ffcv  # noqa: E402

ffcv.install()

from ffcv.fields.decoders import (  # noqa: E402
    BytesDecoder,
    CenterCropRGBImageDecoder,
    IntDecoder,
    NDArrayDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from ffcv.loader import Loader, OrderOption  # noqa: E402
from ffcv.pipeline import PipelineSpec  # noqa: E402
from ffcv.pipeline.allocation_query import AllocationQuery  # noqa: E402
from ffcv.pipeline.compiler import Compiler  # noqa: E402
from ffcv.pipeline.operation import Operation  # noqa: E402
from ffcv.transforms import *  # noqa: E402, F403
from ffcv.traversal_order.base import TraversalOrder  # noqa: E402

pytestmark = pytest.mark.torch

GOLDEN = Path(__file__).parent / "golden"
BETON = Path(__file__).parents[2] / "tests" / "golden" / "beton"
RAW = BETON / "images_raw_resized_p16k.beton"
SCALARS = BETON / "scalars.beton"
ALL = BETON / "all_fields_p16k.beton"

sys.path.insert(0, str(GOLDEN))
import ffcv_cases  # noqa: E402

RECORDED = json.loads((GOLDEN / "ffcv_batches.json").read_text())


def crop(size=(16, 16)):
    return CenterCropRGBImageDecoder(size, 1.0)


def loader_of(image=None, label=None, **options):
    pipelines = {"image": image, "label": label}
    return Loader(RAW, options.pop("batch_size", 2), pipelines=pipelines, **options)


# The same batches


@pytest.mark.parametrize("case", ffcv_cases.CASES)
def test_batches_are_those_of_ffcv(case):
    assert ffcv_cases.played(case) == RECORDED[case]


@pytest.mark.parametrize("order", OrderOption)
@pytest.mark.parametrize("indices", [None, [5, 3, 0, 1]])
@pytest.mark.parametrize("rank", [None, 0, 1, 2])
def test_orders_are_those_of_their_classes(order, indices, rank, monkeypatch):
    if rank is not None:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "3")
    loader = loader_of(None, None, order=order, indices=indices, distributed=rank is not None, seed=7, drop_last=False)
    for epoch in range(3):
        wanted = list(loader.next_traversal_order())
        assert loader.next_epoch == epoch
        batches = iter(loader)
        found = np.concatenate([batches.ids for _ in batches])
        assert found.tolist() == wanted
        assert set(wanted) <= set(range(6) if indices is None else indices)
        assert len(loader) == -(-len(wanted) // 2)


def test_distributed_orders_are_torchs(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    loader = loader_of(None, None, order=OrderOption.RANDOM, distributed=True, drop_last=False)
    assert loader.seed == 0
    sampler = torch.utils.data.DistributedSampler(range(6), num_replicas=4, rank=1, shuffle=True, seed=0)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        batches = iter(loader)
        assert np.concatenate([batches.ids for _ in batches]).tolist() == list(sampler)


def test_a_process_without_a_rank_is_told_so(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(fl.ConfigError, match="init_process_group"):
        loader_of(None, None, distributed=True)


class Backwards(TraversalOrder):
    def sample_order(self, epoch):
        return [epoch % 2, *self.indices[::-1].tolist()]


class Shrinking(TraversalOrder):
    def sample_order(self, epoch):
        return self.indices[epoch:]


def test_a_users_order_is_a_class_or_an_object():
    loader = loader_of(None, None, order=Backwards, drop_last=False)
    given = loader_of(None, None, order=Backwards(loader), drop_last=False)
    for one in (loader, given):
        assert len(one) == 4
        for epoch in range(2):
            batches = iter(one)
            assert np.concatenate([batches.ids for _ in batches]).tolist() == [epoch, 5, 4, 3, 2, 1, 0]


def test_an_order_that_gets_shorter_is_an_error():
    loader = loader_of(None, None, order=Shrinking)
    list(loader)
    with pytest.raises(fl.ConfigError, match="returned 5 samples, expected 6"):
        list(loader)


def test_other_orders_are_refused():
    with pytest.raises(fl.ConfigError, match="OrderOption"):
        loader_of(None, None, order="random")


def test_draws_follow_from_the_seed_alone():
    def played(seed, workers):
        image = [RandomResizedCropRGBImageDecoder((16, 16)), RandomHorizontalFlip(), Doubled(), Cutout(5), ToTensor()]
        loader = loader_of(image, order=OrderOption.RANDOM, seed=seed, num_workers=workers)
        return [images for _ in range(2) for (images,) in loader]

    first, again, other = played(3, 1), played(3, 2), played(4, 2)
    assert len(first) == 6
    assert all(torch.equal(a, b) for a, b in zip(first, again))
    assert not all(torch.equal(a, b) for a, b in zip(first, other))


def test_the_seed_is_numpys_if_none_is_given():
    np.random.seed(5)
    expected = np.random.randint(0, np.iinfo("int32").max)
    np.random.seed(5)
    assert loader_of(None, None).seed == expected


# Pipelines


class Doubled(Operation):
    """Halves and doubles each level, in NumPy or numba."""

    def generate_code(self):
        def doubled(images, memory):
            for k in range(images.shape[0]):
                memory[k] = images[k] // 2 * 2
            return memory

        return doubled

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class Same(Operation):
    """Returns its input: what follows it runs in Python."""

    def generate_code(self):
        return lambda batch, memory: batch

    def declare_state_and_memory(self, previous_state):
        return previous_state, None


def test_the_size_of_a_decoder_may_change_between_epochs():
    decoder = RandomResizedCropRGBImageDecoder((8, 8))
    loader = loader_of([decoder, ToTensor(), ToTorchImage()], [IntDecoder(), ToTensor(), Squeeze()])
    shapes = []
    for size in (8, 12, (6, 10), 8):
        decoder.output_size = size if isinstance(size, tuple) else (size, size)
        running = iter(loader)
        shapes.append(next(running)[0].shape[2:])
        decoder.output_size = (99, 99)
        assert {images.shape[2:] for images, _ in running} == {shapes[-1]}
    assert shapes == [(8, 8), (12, 12), (6, 10), (8, 8)]


def test_lists_and_specs_are_not_changed():
    decoder, flip = crop(), RandomHorizontalFlip()
    image, label = [decoder, flip, torch.nn.Identity()], [ToTensor()]
    image.insert(2, ToTensor())
    spec = PipelineSpec("label", transforms=label)
    pipelines = {"image": image, "label": spec}
    for _ in range(2):
        images, labels = next(iter(Loader(RAW, 2, pipelines=pipelines)))
        assert images.shape == (2, 16, 16, 3) and labels.shape == (2, 1)
        assert len(image) == 4 and image[0] is decoder and len(label) == 1 and spec.decoder is None


def test_one_operation_may_stand_in_two_pipelines():
    to_tensor, decode = ToTensor(), IntDecoder()
    image = [crop(), to_tensor, torch.nn.Identity()]
    images, labels = next(iter(loader_of(image, [decode, to_tensor])))
    assert images.shape == (2, 16, 16, 3) and labels.tolist() == [[0], [1]]


def test_fields_without_a_pipeline_have_the_default_one():
    with pytest.raises(TypeError, match="16 to 48 x 16 to 48"):
        Loader(RAW, 2)
    (labels,) = next(iter(Loader(RAW, 2, pipelines={"image": None})))
    assert labels.dtype == torch.int64 and labels.shape == (2, 1)


def test_outputs_come_in_the_order_of_fields_and_then_of_the_dict():
    pipelines = {"extra": PipelineSpec("label", transforms=[ToTensor()]), "label": [IntDecoder()], "image": [crop()]}
    images, labels, extra = next(iter(Loader(RAW, 2, pipelines=pipelines)))
    assert images.ndim == 4 and isinstance(labels, np.ndarray) and torch.equal(extra, torch.from_numpy(labels))


def test_views_of_a_field_draw_apart():
    def decode():
        return RandomResizedCropRGBImageDecoder((16, 16), scale=(0.1, 0.3))

    pipelines = {"image": [decode(), ToTensor()], "other": PipelineSpec("image", decode(), [ToTensor()]), "label": None}
    first, second = next(iter(Loader(RAW, 6, pipelines=pipelines)))
    assert not torch.equal(first, second)


def test_branches_of_branches_in_any_order():
    decoder, flip, back = crop(), RandomHorizontalFlip(1.0), RandomHorizontalFlip(1.0)
    pipelines = {
        "again": PipelineSpec(back, transforms=[RandomHorizontalFlip(1.0)]),
        "back": PipelineSpec(flip, transforms=[back, RandomTranslate(0)]),
        "same": PipelineSpec(back),
        "image": [decoder, flip, Cutout(2)],
        "first": PipelineSpec(decoder),
        "label": None,
    }
    image, again, back, same, first = next(iter(Loader(RAW, 6, pipelines=pipelines)))
    assert np.array_equal(first, back) and np.array_equal(first, same)
    assert np.array_equal(first[:, :, ::-1], again) and 0 < (image != again).sum() <= 6 * 12


def test_a_branch_may_begin_in_python():
    same, module = Same(), torch.nn.Identity()
    wrapped = ModuleWrapper(module)
    pipelines = {
        "image": [crop(), same, RandomHorizontalFlip(1.0), ToTensor()],
        "straight": PipelineSpec(same, transforms=[ToTensor(), wrapped, ToTorchImage()]),
        "planes": PipelineSpec(wrapped, transforms=[ToTorchImage(channels_last=False)]),
        "label": None,
    }
    flipped, straight, planes = next(iter(Loader(RAW, 6, pipelines=pipelines)))
    assert torch.equal(flipped.flip(2).permute(0, 3, 1, 2), straight)
    assert torch.equal(straight, planes) and planes.is_contiguous()


@pytest.mark.parametrize("source", [RandomHorizontalFlip(), "pictures"])
def test_a_source_that_is_not_there_is_an_error(source):
    with pytest.raises(fl.ConfigError, match="is in no pipeline|has no field pictures; the fields are image, label"):
        Loader(RAW, 2, pipelines={"image": [crop()], "other": PipelineSpec(source, transforms=[ToTensor()])})


WRONG = {
    "module before ToTensor": ([torch.nn.Identity()], "put ToTensor"),
    "flip after ToTensor": ([ToTensor(), RandomHorizontalFlip()], "before ToTensor"),
    "flip after a module": ([ToTensor(), torch.nn.Identity(), RandomHorizontalFlip()], "before ToTensor"),
    "cutout after ToTorchImage": ([ToTensor(), ToTorchImage(), Cutout(4)], "before ToTensor"),
    "ToTorchImage before ToTensor": ([ToTorchImage()], "put ToTensor"),
    "ToDevice before ToTensor": ([ToDevice(torch.device("cpu"))], "put ToTensor"),
    "Squeeze before ToTensor": ([Squeeze()], "put ToTensor"),
    "normalized twice": ([NormalizeImage(np.zeros(3), np.ones(3), np.float32)] * 2, "images of uint8"),
    "Cutout that is too large": ([Cutout(17)], "at least 17 pixels"),
    "a mask of another size": ([Poison(np.zeros((4, 4, 3)), np.zeros((4, 4)), [0])], "size of its mask"),
    "labels mixed as images": ([LabelMixup(0.5, True)], "labels of int64"),
    "no operation": (["ToTensor"], "is no operation"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_orders_are_errors_at_construction(wrong):
    transforms, words = WRONG[wrong]
    with pytest.raises(ValueError, match=words) as caught:
        loader_of([crop(), *transforms])
    assert "image" in str(caught.value)


def test_normalizing_after_to_tensor_is_right():
    normalize = NormalizeImage(np.array([9.0, 8, 7]), np.array([2.0, 3, 4]), np.float16)
    after = [crop(), ToTensor(), normalize, ToTorchImage()]
    before = [after[0], after[2], after[1], after[3]]
    last = [after[0], after[1], after[3], after[2]]
    python = [after[0], Same(), after[1], after[3], after[2]]
    wanted = next(iter(loader_of(before)))[0]
    assert wanted.dtype == torch.float16 and wanted.stride()[1] == 1
    for image in (after, last, python):
        found = next(iter(loader_of(image)))[0]
        assert torch.equal(found, wanted) and found.dtype == wanted.dtype


def test_what_runs_in_python_is_the_same_to_the_bit():
    weight = np.linspace(0, 1, 256).reshape(16, 16)
    mask = np.arange(768).reshape(16, 16, 3) % 256.0
    certain = [RandomHorizontalFlip(1.0), RandomTranslate(0), Poison(mask, weight, [1, 4]), Cutout(16, (3, 2, 1))]
    labels = [ReplaceLabel([0, 3], 9)]
    for ops in ([op] for op in certain[:3]), [certain]:
        for image in ops:
            fused = next(iter(loader_of([crop(), *image], [IntDecoder(), *labels], batch_size=6)))
            python = next(iter(loader_of([crop(), Same(), *image], [IntDecoder(), Same(), *labels], batch_size=6)))
            assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(fused, python))


COLORS = [RandomBrightness(0.7, 1.0), RandomContrast(0.7, 1.0), RandomSaturation(0.7, 1.0)]
RANDOM = [*COLORS, RandomTranslate(3), Cutout(4)]


@pytest.mark.parametrize("op", RANDOM, ids=lambda op: type(op).__name__)
def test_random_operations_change_images_in_the_loop_and_in_python(op):
    plain = next(iter(loader_of([crop()], batch_size=6)))[0].astype(float)
    fused = next(iter(loader_of([crop(), op], batch_size=6)))[0]
    python = next(iter(loader_of([crop(), Same(), op], batch_size=6)))[0]
    for found in (fused, python):
        assert found.dtype == np.uint8 and found.shape == plain.shape
        assert all((a != b).any() for a, b in zip(found, plain))
    assert abs(np.abs(fused - plain).mean() - np.abs(python - plain).mean()) < 25


@pytest.mark.parametrize("op", COLORS, ids=lambda op: type(op).__name__)
@pytest.mark.parametrize("place", ["loop", "Python"])
def test_colors_are_truncated_as_by_ffcv(op, place):
    """Each image is trunc(clip(f * image + (1 - f) * other)) for one factor f: bounds of f that all its values give."""
    plain = next(iter(loader_of([crop()], batch_size=6)))[0]
    changed = next(iter(loader_of([crop(), *([Same()] if place == "Python" else []), op], batch_size=6)))[0]
    for image, result in zip(plain.astype(np.float64), changed.astype(np.float64)):
        gray = np.floor(image @ [0.2989, 0.587, 0.114])
        others = {RandomBrightness: 0, RandomContrast: gray.mean(), RandomSaturation: gray[..., None]}
        other = others[type(op)]
        slope, offset = (image - other), np.broadcast_to(other, image.shape)
        use = (result > 0) & (result < 255) & (np.abs(slope) > 2)
        ends = np.sort([((result + k - offset)[use] / slope[use]) for k in (0, 1)], axis=0)
        low, high = ends[0].max(), ends[1].min()
        assert use.sum() > 100 and low <= high + 1e-4 and 0.3 <= (low + high) / 2 <= 1.7


def test_crops_in_python_are_those_of_the_loop():
    decoder = RandomResizedCrop((0.3, 0.3), (1.0, 1.0), 12)
    fused = next(iter(loader_of([crop((64, 64)), decoder], batch_size=6)))[0]
    python = next(iter(loader_of([crop((64, 64)), Same(), decoder], batch_size=6)))[0]
    assert fused.shape == python.shape == (6, 12, 12, 3)
    assert abs(fused.astype(float).mean() - python.astype(float).mean()) < 20


@pytest.mark.parametrize("same_lambda", [True, False])
@pytest.mark.parametrize("place", ["loop", "image in Python", "label in Python"])
def test_images_and_labels_are_mixed_alike(same_lambda, place):
    image = [crop(), *([Same()] if place.startswith("image") else []), ImageMixup(0.6, same_lambda), ToTensor()]
    label = [IntDecoder(), *([Same()] if place.startswith("label") else []), LabelMixup(0.6, same_lambda), ToTensor()]
    (plain,) = next(iter(loader_of([crop()], batch_size=6)))
    loader = loader_of(image, label, batch_size=6, seed=1)
    mixed, labels = next(iter(loader))
    assert labels.dtype == torch.float32 and labels[:, :2].tolist() == [[k, (k - 1) % 6] for k in range(6)]
    own = labels[:, 2].double().numpy()
    assert (len(set(own)) == 1) is same_lambda and ((0 <= own) & (own <= 1)).all()
    weight = own[:, None, None, None]
    wanted = weight * plain + (1 - weight) * np.roll(plain, 1, axis=0)
    assert np.abs(mixed.numpy() - np.floor(wanted)).max() <= 1
    again = next(iter(loader))[1][:, 2]
    assert place != "loop" or not np.allclose(again, own), "another epoch has other shares"


def test_mixing_may_change_between_epochs():
    image, label = ImageMixup(0.6, True), LabelMixup(0.6, True)
    loader = loader_of([crop(), image, ToTensor()], [IntDecoder(), label, ToTensor()], batch_size=6, seed=1)
    assert len({share for share in next(iter(loader))[1][:, 2].tolist()}) == 1
    image.same_lambda = label.same_lambda = False
    assert len({share for share in next(iter(loader))[1][:, 2].tolist()}) == 6


def test_one_hot_labels_of_one_class_sum_to_one():
    label = [IntDecoder(), ReplaceLabel([1, 2], 0), LabelMixup(1.0, False), ToTensor(), MixupToOneHot(7)]
    (labels,) = next(iter(loader_of(None, label, batch_size=6)))
    assert labels.shape == (6, 7) and torch.allclose(labels.sum(1), torch.ones(6))
    assert torch.allclose(labels[1:3, 0], torch.ones(2))


def test_modules_run_once_for_each_batch():
    calls = []

    class Module(torch.nn.Module):
        def forward(self, images):
            calls.append(images.shape)
            return images.float() / 255

    image = [crop(), ToTensor(), ToTorchImage(), Convert(torch.float16), Module(), ToDevice("cpu"), View(torch.int32)]
    batches = [images for (images,) in loader_of(image)]
    assert calls == [(2, 3, 16, 16)] * 3 and all(images.dtype == torch.int32 for images in batches)


def test_torchvisions_normalize_joins_the_loop_if_asked_to():
    class Normalize(torch.nn.Module):  # As torchvision's.
        mean, std = [120.0, 115.0, 105.0], [60.0, 61.0, 62.0]

        def forward(self, images):
            mean, std = (torch.tensor(v, dtype=images.dtype)[:, None, None] for v in (self.mean, self.std))
            return (images - mean) / std

    image = [crop(), ToTensor(), ToTorchImage(), Convert(torch.float16), Normalize()]
    (wanted,) = next(iter(loader_of(image)))
    loader = loader_of(image, fuse_modules=True)
    (found,) = next(iter(loader))
    assert found.dtype == torch.float16 and torch.allclose(found.float(), wanted.float(), atol=4e-3)
    assert "in Python" not in str(loader.explain()) and "in Python" in str(loader_of(image).explain())


def test_every_device_is_the_cpu_if_asked_to(monkeypatch):
    image = [crop(), ToTensor(), ToDevice(torch.device("cuda:0"), non_blocking=True), ToTorchImage()]
    label = [IntDecoder(), ToTensor(), ToDevice(0)]
    if not torch.cuda.is_available():
        with pytest.raises(fl.DeviceError) as caught:
            loader_of(image, label)
        assert "FUSELOOP_FFCV_DEVICE=cpu" in caught.value.__notes__[0]
    images, labels = next(iter(loader_of(image, label, device="cpu")))
    assert images.device.type == labels.device.type == "cpu"
    monkeypatch.setenv("FUSELOOP_FFCV_DEVICE", "cpu")
    images, labels = next(iter(loader_of(image, label)))
    assert images.device.type == "cpu" and images.is_contiguous(memory_format=torch.channels_last)


def test_torch_moves_what_the_loop_can_not(monkeypatch):
    """Where a GPU of torch is not one of ours."""
    from fuseloop.ffcv.loader import loader as module

    monkeypatch.setattr(module, "_has_gpu", lambda: True)
    normalize = NormalizeImage(np.zeros(3), np.ones(3), np.float32)
    loader = loader_of([crop(), ToTensor(), ToDevice("cuda:7"), ToTorchImage(), normalize])
    assert "in Python: ToDevice, ToTorchImage, NormalizeImage" in str(loader.explain())


def test_an_empty_list_is_the_default_pipeline():
    (labels,) = next(iter(loader_of(None, [])))
    assert isinstance(labels, torch.Tensor) and labels.shape == (2, 1)


# Other fields


def test_bytes_end_with_zeros():
    others = dict.fromkeys(["image_raw", "image_jpg", "i", "f", "nd", "tt"])
    pipelines = {**others, "bytes": [BytesDecoder()]}
    loader = Loader(ALL, 3, pipelines=pipelines)
    values, texts = next(iter(loader))
    dataset = fl.Dataset.open(ALL)
    for k in range(3):
        stored = dataset[k]["bytes"]
        assert values[k].tobytes() == stored + bytes(values.shape[1] - len(stored))
    from ffcv.fields import JSONField

    assert isinstance(texts, torch.Tensor)
    assert JSONField.unpack(texts) == [dataset[k]["json"] for k in range(3)]
    assert JSONField.unpack(texts[1]) == dataset[1]["json"]


def test_arrays_of_any_type_are_read():
    names = ["u8", "b", "f2", "f8", "c8", "be", "u64"]
    loader = Loader(BETON / "nd_dtypes_p4k.beton", 2, pipelines={name: [NDArrayDecoder()] for name in names})
    dataset = fl.Dataset.open(BETON / "nd_dtypes_p4k.beton")
    for name, values in zip(names, next(iter(loader))):
        for k in range(2):
            assert values[k].dtype == dataset[k][name].dtype and values[k].tobytes() == dataset[k][name].tobytes()
    with pytest.raises(fl.PipelineError, match="torch has no element type for NumPy's >i4"):
        Loader(BETON / "nd_dtypes_p4k.beton", 2, pipelines={"be": [NDArrayDecoder(), ToTensor()]})


# What hangs, leaks or is overwritten in FFCV


def threads():
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize("python", [False, True])
def test_batches_are_never_overwritten(python):
    image = [RandomResizedCropRGBImageDecoder((16, 16)), *([Doubled()] if python else []), ToTensor()]
    held = [batch for _ in range(10) for batch in loader_of(image, [IntDecoder(), ToTensor()], batches_ahead=1)]
    copies = [images.clone() for images, _ in held]
    assert [labels.flatten().tolist() for _, labels in held] == [[0, 1], [2, 3], [4, 5]] * 10
    assert len({images.data_ptr() for images, _ in held}) == 30
    gc.collect()
    assert all(torch.equal(images, copy) for (images, _), copy in zip(held, copies))


def test_breaking_early_leaves_no_threads():
    loader = loader_of([crop(), ToTensor()], batch_size=1)
    next(iter(loader))
    before, python = threads(), threading.active_count()
    for _ in range(50):
        for _ in loader:
            break
    gc.collect()
    assert threads() <= before + 1 and threading.active_count() == python


def test_an_iterator_can_be_closed_and_joined():
    running = iter(loader_of([crop()], batch_size=1))
    next(running)
    assert running.is_alive() and len(running) == 5
    running.close()
    running.join(timeout=1)
    assert not running.is_alive() and list(running) == []


class Broken(Operation):
    def generate_code(self):
        def broken(images, memory):
            raise KeyError("a mistake in the user's code")

        return broken

    def declare_state_and_memory(self, previous_state):
        return previous_state, None


@pytest.mark.filterwarnings("ignore:Broken")
def test_an_exception_in_an_operation_comes_out():
    loader = loader_of([crop(), Broken()])
    for _ in range(2):
        with pytest.raises(KeyError, match="a mistake") as caught:
            next(iter(loader))
        assert any("in Broken, batch 0 of epoch" in note for note in caught.value.__notes__)


def test_no_global_thread_counts_are_set():
    before = torch.get_num_threads()
    loader_of([crop()], num_workers=before + 3)
    assert torch.get_num_threads() == before


def test_wrong_arguments_are_errors_at_once(tmp_path):
    missing, text = tmp_path / "none.beton", tmp_path / "text.beton"
    text.write_text("these are not the bytes of a .beton file")
    with pytest.raises(FileNotFoundError, match="none.beton"):
        Loader(missing, 2)
    with pytest.raises(fl.DatasetError, match="is it a .beton file"):
        Loader(text, 2)
    with pytest.raises(fl.ConfigError, match="batch_size is 0"):
        loader_of(None, batch_size=0)
    with pytest.raises(ValueError, match="has no field images"):
        Loader(RAW, 2, pipelines={"images": [crop()]})
    with pytest.raises(ValueError, match="expected a list of operations"):
        loader_of(crop())
    with pytest.raises(ValueError, match="expected \\(height, width\\)"):
        loader_of([RandomResizedCropRGBImageDecoder(224)])
    with pytest.raises(TypeError, match="crop_size"):
        Cutout()
    with pytest.raises(AttributeError, match="has no graph: explain"):
        loader_of(None).graph  # noqa: B018


def test_files_that_end_early_are_errors(tmp_path):
    data = RAW.read_bytes()
    for size in (0, 10, 24, 1000, 2000, 2200, len(data) // 2, len(data) - 1):
        cut = tmp_path / f"{size}.beton"
        cut.write_bytes(data[:size])
        with pytest.raises((fl.FuseloopError, fl.DatasetError)):
            for _ in Loader(cut, 2, pipelines={"image": [crop(), Same()]}):
                pass


def test_damaged_samples_end_the_epoch_or_are_left_out(tmp_path):
    dataset, reader = fl.Dataset.open(ALL), ffcv.loader.loader.Reader(ALL)
    data = bytearray(ALL.read_bytes())
    at = int(reader.metadata["f1"]["data_ptr"][1])
    data[at : at + 200] = bytes(200)
    path = tmp_path / "damaged.beton"
    path.write_bytes(data)
    pipelines = {name: None for name in dataset.fields if name not in ("image_jpg", "i")}
    pipelines["image_jpg"] = [crop(), ToTensor(), torch.nn.Identity()]
    with pytest.raises(fl.DecodeError) as caught:
        list(Loader(path, 3, pipelines=pipelines))
    assert caught.value.sample == 1 and caught.value.field == "image_jpg"
    loader = Loader(path, 3, pipelines=pipelines, on_damaged="skip")
    batches = iter(loader)
    ((images, numbers),) = list(batches)
    assert images.shape == (2, 16, 16, 3)
    assert numbers.flatten().tolist() == [dataset[0]["i"], dataset[2]["i"]]


@pytest.mark.parametrize("name", ["nd_dtypes_p4k", "images_raw_resized_p16k", "all_fields_p16k"])
def test_damaged_heads_are_errors(name, tmp_path):
    data = bytearray((BETON / f"{name}.beton").read_bytes())
    rng = np.random.default_rng(0)
    path, found = tmp_path / "damaged.beton", 0
    head = 24 + 1041 * int.from_bytes(data[2:4], "little")
    of_fields = [24 + 1041 * k + at for k in range(2) for at in (0, 1, 17, 18, 270, 273, 281, 285, 290)]
    interesting = [*range(24), *of_fields]
    for _ in range(150):
        damaged = bytearray(data)
        for at in rng.choice([at for at in interesting if at < head], 2):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            for _ in Loader(path, 1, drop_last=False, pipelines={"image": [crop(), Same()]}):
                pass
        except (fl.FuseloopError, ValueError) as error:
            found += 1
            assert str(error)
    assert found > 50


# The rest of the loader


def test_a_filter_knows_subsets_and_all_pipelines():
    loader = loader_of([crop(), ToTensor()], None, indices=[5, 4, 2, 0], batch_size=2, order=OrderOption.RANDOM, seed=3)
    chosen = loader.filter("label", lambda label: label.item() % 2 == 0)
    assert sorted(chosen.indices.tolist()) == [0, 2, 4] and chosen.drop_last and len(chosen) == 1
    assert chosen.traversal_order.sample_order(0).tolist() != [] and chosen.seed == 3
    assert next(iter(chosen))[0].shape == (2, 16, 16, 3)
    images = loader.filter("image", lambda image: float(image.float().mean()) > 0)
    assert len(images.indices) == 4


def test_the_last_batch_is_dropped_unless_asked_for():
    assert [len(labels) for (labels,) in loader_of(None, [IntDecoder()], batch_size=4)] == [4]
    kept = loader_of(None, [IntDecoder()], batch_size=4, drop_last=False)
    assert len(kept) == 2 and [len(labels) for (labels,) in kept] == [4, 2]


SETTINGS = [{"os_cache": False}, {"batches_ahead": 1}, {"num_workers": 1}, {"recompile": True}]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_settings_change_no_batches(options):
    image = [RandomResizedCropRGBImageDecoder((16, 16)), RandomHorizontalFlip(), ToTensor()]
    wanted = [images for (images,) in loader_of(image, seed=2, order=OrderOption.RANDOM)]
    found = [images for (images,) in loader_of(image, seed=2, order=OrderOption.RANDOM, **options)]
    assert all(torch.equal(a, b) for a, b in zip(wanted, found))


def test_an_epoch_is_resumed_in_its_midst():
    def made():
        return loader_of([RandomResizedCropRGBImageDecoder((8, 8)), Cutout(2), ToTensor()], seed=4, batch_size=1)

    loader = made()
    list(loader)
    running = iter(loader)
    taken = [next(running)[0] for _ in range(2)]
    state = loader.state_dict()
    rest = [images for (images,) in running]
    resumed = made()
    resumed.load_state_dict(state)
    found = [images for (images,) in resumed]
    assert len(taken) + len(found) == 6 and all(torch.equal(a, b) for a, b in zip(rest, found))
    assert resumed.next_epoch == loader.next_epoch == 2


def test_any_samples_are_one_batch():
    loader = loader_of([crop(), ToTensor(), torch.nn.Identity()], [IntDecoder(), ToTensor()])
    images, labels = loader.get([5, 0, 5])
    assert labels.flatten().tolist() == [5, 0, 5] and torch.equal(images[0], images[2])


def test_next_epoch_may_be_set():
    loader = loader_of(None, [IntDecoder()], order=OrderOption.RANDOM, seed=9, batch_size=6)
    loader.next_epoch = 3
    assert next(iter(loader))[0].flatten().tolist() == np.random.default_rng(12).permutation(6).tolist()
    assert loader.next_epoch == 4


def test_a_reader_knows_the_file():
    loader = loader_of(None)
    reader = loader.reader
    assert (reader.num_samples, reader.page_size, reader.field_names) == (6, 16384, ["image", "label"])
    assert reader.metadata["f1"].tolist() == [0, 1, 2, 3, 4, 5] and len(reader.alloc_table) == 6
    assert loader.memory_manager.page_to_samples and loader.indices.tolist() == [0, 1, 2, 3, 4, 5]


# Operations and fields of users


class Tagged(Operation):
    """Writes the number of the sample into the corner; shares a counter of batches."""

    made = 0

    def generate_code(self):
        Tagged.made += 1

        def tagged(images, memory, indices, shared):
            memory[:] = images
            for k in range(images.shape[0]):
                memory[k, 0, 0, 0] = indices[k]
                memory[k, 0, 0, 1] = shared[0, 0]
            shared[0, 0] += 1
            return memory

        tagged.with_indices = True
        tagged.is_parallel = False
        return tagged

    def declare_shared_memory(self, previous_state):
        return AllocationQuery((1,), np.dtype("uint8"))

    def generate_code_for_shared_state(self):
        def begin(shared):
            shared[:] = 100

        return begin

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


@pytest.mark.filterwarnings("ignore:Tagged")
@pytest.mark.parametrize("recompile", [False, True])
def test_operations_of_users_get_samples_and_shared_memory(recompile):
    Tagged.made, tag = 0, Tagged()
    pipelines = {
        "image": [crop(), tag, ToTensor()],
        "other": PipelineSpec("image", crop(), [tag, Cutout(2), ToTensor()]),
        "label": None,
    }
    loader = Loader(RAW, 2, order=OrderOption.RANDOM, seed=0, pipelines=pipelines, recompile=recompile)
    for _ in range(2):
        running = iter(loader)
        for first, second in running:
            assert first[:, 0, 0, 0].tolist() == running.ids.tolist()
            assert set(first[:, 0, 0, 1].tolist()) == {100} and second.shape == first.shape  # filled once, then counted
    assert Tagged.made == (6 if recompile else 2)


class Halved(Operation):
    """Works on tensors, with two pieces of memory."""

    def generate_code(self):
        def halved(images, memory):
            destination, mean = memory
            destination.copy_(images)
            destination.div_(2)
            mean[:] = destination.mean(dim=(1, 2, 3))[:, None].numpy()
            destination[:, 0, 0, 0] = torch.from_numpy(mean)[:, 0]
            return destination

        return halved

    def declare_state_and_memory(self, previous_state):
        from dataclasses import replace

        assert not previous_state.jit_mode and previous_state.dtype == torch.uint8
        large = AllocationQuery(previous_state.shape, torch.float32, previous_state.device)
        return replace(previous_state, dtype=torch.float32), (large, AllocationQuery((1,), np.dtype("f4")))


def test_operations_of_users_may_work_on_tensors():
    plain = next(iter(loader_of([crop()])))[0]
    (found,) = next(iter(loader_of([crop(), ToTensor(), Halved(), ToTorchImage(), Convert(torch.float64)])))
    wanted = torch.from_numpy(plain).float() / 2
    wanted[:, 0, 0, 0] = wanted.mean(dim=(1, 2, 3))
    assert found.dtype == torch.float64 and torch.equal(found, wanted.permute(0, 3, 1, 2).double())


def test_operations_of_users_are_compiled_by_numba_if_it_is_there():
    pytest.importorskip("numba")
    from numba import prange

    Compiler.set_num_threads(2)
    assert Compiler.get_iterator() is prange
    plain = next(iter(loader_of([crop()], batch_size=6)))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = next(iter(loader_of([crop(), Doubled()], batch_size=6)))[0]
    assert np.array_equal(found, plain // 2 * 2)


def test_operations_that_numba_refuses_run_as_python():
    pytest.importorskip("numba")

    class Odd(Same):
        def generate_code(self):
            return lambda images, memory: np.stack([np.array(image.tolist(), "u1") for image in images])

    plain = next(iter(loader_of([crop()])))[0]
    with pytest.warns(UserWarning, match="Odd: numba can't compile it"):
        found = next(iter(loader_of([crop(), Odd()])))[0]
    assert np.array_equal(found, plain)


class Corner(RandomResizedCropRGBImageDecoder):
    """Cuts the upper left quarter."""

    @property
    def get_crop_generator(self):
        return lambda height, width, scale, ratio: (0, 0, height // 2, width // 2)


def test_a_decoder_with_a_crop_of_its_own():
    image = [Corner((8, 8)), RandomHorizontalFlip(1.0), ToTensor(), ToTorchImage()]
    (found,) = next(iter(loader_of(image, batch_size=6)))
    dataset = fl.Dataset.open(RAW)
    for k in range(6):
        image = dataset[k]["image"]
        height, width, _ = image.shape
        quarter = image[: height // 2, : width // 2].astype(float)
        assert abs(quarter.mean() - found[k].float().mean().item()) < 6


class Chosen(RandomResizedCropRGBImageDecoder):
    """Cuts a window that depends on the size, the scale and the ratio."""

    @property
    def get_crop_generator(self):
        def choose(height, width, scale, ratio):
            side = int(min(height, width) * scale[0])
            return height - side, int(ratio[0]), side, side - 1

        return choose


class InPython(Chosen):
    """The same by code of the user's own, which runs in Python."""

    def generate_code(self):
        return super().generate_code()


def test_a_crop_of_ones_own_has_the_pixels_of_python_in_the_compiled_loop():
    options = {"size": (12, 14), "scale": (0.7, 1.0), "ratio": (2.0, 3.0)}
    made = [kind(options["size"], options["scale"], options["ratio"]) for kind in (Chosen, InPython)]
    loaders = [loader_of([decoder, RandomHorizontalFlip(1.0)], batch_size=6) for decoder in made]
    assert "in Python" not in str(loaders[0].explain())
    assert "in Python: InPython" in str(loaders[1].explain())
    for _ in range(2):
        compiled, plain = (np.concatenate([images for images, in loader]) for loader in loaders)
        assert compiled.shape[1:] == (12, 14, 3)
        assert np.abs(compiled.astype(int) - plain).max() <= 1  # Python rounds halves to even
        assert (compiled == plain).mean() > 0.9


def test_a_crop_of_ones_own_is_resized_as_ffcvs():
    class Middle(RandomResizedCropRGBImageDecoder):
        @property
        def get_crop_generator(self):
            return middle

    def middle(height, width, scale, ratio):
        side = int(0.8 * min(height, width))
        return (height - side) // 2, (width - side) // 2, side, side

    pipelines = ([Middle((11, 9))], [CenterCropRGBImageDecoder((11, 9), 0.8)])
    own, ffcvs = (np.concatenate([images for images, in loader_of(image)]) for image in pipelines)
    assert np.array_equal(own, ffcvs)


def test_a_crop_of_ones_own_is_asked_once_for_a_sample():
    asked = []

    class Counted(RandomResizedCropRGBImageDecoder):
        @property
        def get_crop_generator(self):
            return counted

    def counted(height, width, scale, ratio):
        asked.append((height, width))
        return 0, 0, height, width

    loader = loader_of([Counted((8, 8)), RandomHorizontalFlip()], num_workers=1)
    list(loader)
    before = len(asked)  # one is of a sample that the plan was tried with
    samples = sum(len(images) for (images,) in loader)
    assert len(asked) - before == samples


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (lambda height, width, scale, ratio: 1 // 0, ZeroDivisionError, "zero"),
        (lambda height, width, scale, ratio: next(iter(())), RuntimeError, "raised StopIteration"),
        (lambda height, width, scale, ratio: (0, 0, height), fl.PipelineError, r"returned \(0, 0, \d+\) for an image of"),
        (lambda height, width, scale, ratio: (0, width, 2, 2), fl.PipelineError, "expected the top, the left"),
        (lambda height, width, scale, ratio: (-1, 0, 2, 2), fl.PipelineError, "window in it"),
        (lambda height, width, scale, ratio: (0.5, 0, 2, 2), AttributeError, "__index__"),
        (lambda height, width: None, TypeError, "positional"),
    ],
)
def test_what_a_crop_of_ones_own_raises_comes_out(function, error, said):
    class Fails(RandomResizedCropRGBImageDecoder):
        @property
        def get_crop_generator(self):
            return function

    loader = loader_of([Fails((8, 8))])
    for _ in range(2):
        with pytest.raises(error, match=said):
            list(loader)


def test_a_window_of_ones_own_ends_where_the_image_does():
    class Beyond(RandomResizedCropRGBImageDecoder):
        @property
        def get_crop_generator(self):
            return lambda height, width, scale, ratio: (np.int64(0), np.uint8(0), 10 * height, 10 * width)

    whole = CenterCropRGBImageDecoder((8, 8), 1.0)
    (found,) = next(iter(loader_of([Beyond((8, 8))])))
    assert found.shape == next(iter(loader_of([whole])))[0].shape and found.any()


class Subclassed(RandomHorizontalFlip):
    def __init__(self):
        super().__init__(flip_prob=1.0)


def test_a_subclass_without_code_of_its_own_stays_in_the_loop():
    loader = loader_of([crop(), Subclassed()])
    assert "in Python" not in str(loader.explain())
    assert np.array_equal(next(iter(loader))[0][:, :, ::-1], next(iter(loader_of([crop()])))[0])


# Installing


def test_install_refuses_if_ffcv_is_imported_already(tmp_path):
    from conftest import run_python

    (tmp_path / "ffcv.py").write_text("")
    done = run_python("import ffcv, fuseloop.ffcv\nfuseloop.ffcv.install()", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1 and "ffcv is imported already" in done.stderr


def test_torch_and_numba_are_imported_when_they_are_needed():
    from conftest import run_python

    code = f"""
import sys
sys.modules["torch"] = None  # An import of torch is an error.
import fuseloop.ffcv
fuseloop.ffcv.install()
from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder
from ffcv.loader import Loader
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor
import numpy as np
normalize = NormalizeImage([0, 0, 0], [1, 1, 1], "float32")
image = [CenterCropRGBImageDecoder((8, 8), 1.0), RandomHorizontalFlip(), normalize]
images, labels = next(iter(Loader({str(RAW)!r}, 2, pipelines={{"image": image, "label": [IntDecoder()]}})))
print(images.shape, images.dtype, labels.tolist(), "numba" in sys.modules)
try:
    Loader({str(RAW)!r}, 2, pipelines={{"image": None}})
except ImportError as error:
    print(error)
"""
    done = run_python(code)
    first, second = done.stdout.splitlines()
    assert first == "(2, 8, 8, 3) float32 [[0], [1]] False", done.stderr
    assert second == "ToTensor() needs torch, which is not installed: pip install torch"


def test_modules_are_the_same_by_both_names():
    import ffcv.transforms.ops
    import fuseloop.ffcv.transforms.ops as own

    assert ffcv.transforms.ops is own and ffcv.Loader is Loader
    with pytest.raises(ModuleNotFoundError):
        import ffcv.libffcv  # noqa: F401
