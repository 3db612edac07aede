"""fuseloop.torch: tensors without copies, DataLoaders, processes."""

from __future__ import annotations

import gc
import pickle
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

RESIZED = [ops.Resize((32, 40)), ops.ToChannelsFirst()]
WHOLE = [ops.CenterCrop(32)]  # of pictures of 32 x 32
FLIPPED = [*WHOLE, ops.RandomHorizontalFlip()]


def rows_of(loader: Any) -> Counter[bytes]:
    """Returns the pixels of all samples of the next epoch."""
    return Counter(row.numpy().tobytes() for images, *_ in loader for row in images)


# Batches


def test_batches_are_tuples_of_tensors(photos: Path) -> None:
    loader = fl.torch.Loader(photos, 5, image=RESIZED)
    plain = fl.Loader(photos, 5, image=RESIZED)
    for (images, labels), batch in zip(loader, plain, strict=True):
        assert isinstance(images, torch.Tensor) and images.dtype == torch.uint8
        assert labels.dtype == torch.int64 and labels.shape == images.shape[:1]
        np.testing.assert_array_equal(images.numpy(), batch["image"].numpy())
        np.testing.assert_array_equal(labels.numpy(), batch["label"].numpy())


def test_headroom_replays_tensors(photos: Path) -> None:
    loader = fl.torch.Loader(photos, 5, image=RESIZED)
    images, labels = next(iter(loader))
    replay = loader.headroom(batches=3)
    for again, same in replay:
        assert torch.equal(again, images) and torch.equal(same, labels)
    assert replay.report().headroom > 0


def test_as_dict(photos: Path) -> None:
    batch = next(iter(fl.torch.Loader(photos, 5, image=RESIZED, as_dict=True)))
    assert list(batch) == ["image", "label"] and batch["image"].shape == (5, 3, 32, 40)


def test_channels_last_is_a_view(photos: Path) -> None:
    images, _ = next(iter(fl.torch.Loader(photos, 5, image=[ops.Resize((32, 40))], channels_last=True)))
    assert images.shape == (5, 3, 32, 40) and images.is_contiguous(memory_format=torch.channels_last)
    first, _ = next(iter(fl.torch.Loader(photos, 5, image=RESIZED)))
    assert torch.equal(images, first)
    view = fl.View("image", [ops.Resize((8, 8))])
    loader = fl.torch.Loader(photos, 5, image=[ops.CenterCrop(16)], views={"small": view}, channels_last=True)
    both = next(iter(loader))
    assert [tuple(tensor.shape) for tensor in both] == [(5, 3, 16, 16), (5,), (5, 3, 8, 8)]


def test_channels_last_refuses_channels_first(photos: Path) -> None:
    with pytest.raises(fl.ConfigError, match="leave ToChannelsFirst out"):
        fl.torch.Loader(photos, 5, image=RESIZED, channels_last=True)


def test_after_runs_on_the_thread_that_iterates(photos: Path) -> None:
    import threading

    threads = []

    def scaled(images: Any, labels: Any) -> tuple[Any, Any]:
        threads.append(threading.current_thread())
        return images / 255, labels

    loader = fl.torch.Loader(photos, 5, image=RESIZED, after=scaled)
    images, _ = next(iter(loader))
    assert images.dtype == torch.float32 and images.max() <= 1
    assert threads == [threading.current_thread()]
    as_dict = fl.torch.Loader(photos, 5, image=RESIZED, as_dict=True, after=lambda batch: batch["label"])
    assert next(iter(as_dict)).tolist() == [0] * 5
    with pytest.raises(fl.ConfigError, match="expected a function"):
        fl.torch.Loader(photos, 5, image=RESIZED, after=3)


def test_wrong_arguments_are_answered_with_the_nearest(photos: Path) -> None:
    for wrong, right in (("as_dicts", "as_dict"), ("chanels_last", "channels_last"), ("batchsize", "batch_size")):
        with pytest.raises(fl.ConfigError, match=f"did you mean {right}") as caught:
            fl.torch.Loader(photos, image=RESIZED, **{wrong: True})
        assert caught.value.hint == right


def test_what_after_raises_comes_out(photos: Path) -> None:
    def bad(*_: Any) -> None:
        raise LookupError("in after")

    with pytest.raises(LookupError, match="in after"):
        next(iter(fl.torch.Loader(photos, 5, image=RESIZED, after=bad)))


def test_from_spec_has_the_same_form(photos: Path, tmp_path: Path) -> None:
    spec = tmp_path / "pipeline.toml"
    spec.write_text('[fields]\nimage = [{ op = "Resize", size = [16, 16] }]\n', encoding="utf-8")
    loader = fl.torch.Loader.from_spec(spec, photos, batch_size=4, as_dict=True, channels_last=True)
    for one in (loader, pickle.loads(pickle.dumps(loader))):
        assert next(iter(one))["image"].shape == (4, 3, 16, 16)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "int32", "float16", "bfloat16", "float32"])
def test_dtypes_by_dlpack(photos: Path, dtype: str) -> None:
    loader = fl.torch.Loader(photos, 4, image=[ops.Resize((8, 8)), ops.Convert(dtype)])
    images, labels = next(iter(loader))
    assert images.dtype == getattr(torch, dtype) and labels.dtype == torch.int64
    expected = next(iter(fl.Loader(photos, 4, image=[ops.Resize((8, 8))])))["image"].numpy()
    assert torch.equal(images, torch.from_numpy(expected).to(images.dtype))


def test_dtypes_of_torch_name_those_of_ops() -> None:
    assert ops.Convert(torch.bfloat16) == ops.Convert("bf16")


def test_collated_outputs(photos: Path) -> None:
    padded, listed = (
        next(iter(fl.torch.Loader(photos, 3, as_dict=True, collate={"image": how})))["image"]
        for how in (fl.Collate.pad(to=(64, 96)), fl.Collate.list(to=(64, 96)))
    )
    assert padded.shape == (3, 64, 96, 3)
    assert [tuple(row.shape) for row in listed] == [(40, 50, 3), (44, 56, 3), (48, 62, 3)]
    for row, whole in zip(listed, padded, strict=True):
        assert torch.equal(whole[: row.shape[0], : row.shape[1]], row)


# Memory


def test_tensors_share_memory_and_can_be_written(photos: Path) -> None:
    batch = next(iter(fl.Loader(photos, 4, image=RESIZED)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        images = batch["image"].torch()
    assert images.data_ptr() == batch["image"].ptr
    images.fill_(7)
    assert (batch["image"].numpy() == 7).all()
    copies = next(iter(fl.torch.Loader(photos, 4, image=RESIZED, copy=True)))
    assert copies[0].data_ptr() % 64 == 0 and copies[0].shape == images.shape


def test_tensors_outlive_their_loader(photos: Path) -> None:
    def batches() -> list[Any]:
        return [images for images, _ in fl.torch.Loader(photos, 4, image=RESIZED)]

    held = batches()
    gc.collect()
    expected = [batch["image"].numpy() for batch in fl.Loader(photos, 4, image=RESIZED)]
    assert len({images.data_ptr() for images in held}) == len(held)
    for images, array in zip(held, expected, strict=True):
        np.testing.assert_array_equal(images.numpy(), array)


def test_autograd_saves_a_batch(same_size: Path) -> None:
    """What backward needs is not overwritten by later batches."""
    image = [*WHOLE, ops.Convert("float32"), ops.ToChannelsFirst()]
    loader = fl.torch.Loader(same_size, 4, order="random", image=image)
    weight = torch.full((3, 1, 1), 0.5, requires_grad=True)
    losses, sums = [], []
    for images, _ in loader:
        losses.append((images * weight).sum())  # saves images
        sums.append(images.sum(dim=(0, 2, 3)).reshape(3, 1, 1).clone())
        del images
    for _ in loader:
        pass
    for loss, expected in zip(losses, sums, strict=True):
        (found,) = torch.autograd.grad(loss, weight)
        torch.testing.assert_close(found, expected)


def test_memory_is_used_again_when_autograd_is_done(same_size: Path) -> None:
    loader = fl.torch.Loader(same_size, 4, memory_limit=8 * 4 * 32 * 32 * 3 * 4, image=[*WHOLE, ops.Convert("float32")])
    weight = torch.ones(1, requires_grad=True)
    for _ in range(20):
        for images, _ in loader:
            (images * weight).sum().backward()
    assert weight.grad is not None and weight.grad.item() > 0


def test_tensors_go_to_another_process_by_copy(photos: Path) -> None:
    images, labels = next(iter(fl.torch.Loader(photos, 4, image=RESIZED)))
    copied = pickle.loads(pickle.dumps((images, labels)))
    assert torch.equal(copied[0], images) and torch.equal(copied[1], labels)


def test_nested_tensors_of_ragged_outputs(tmp_path: Path, photos: Path) -> None:
    source = sorted((photos / "bee").iterdir())[:3]
    lines = [f"{path},{'b' * (4 * (k + 1))}" for k, path in enumerate(source)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["image,words", *lines]) + "\n", encoding="utf-8")
    loader = fl.torch.Loader(table, 3, as_dict=True, image=None, collate={"words": fl.Collate.ragged("u8")})
    words = next(iter(loader))["words"]
    assert words.is_nested and [len(row) for row in words.unbind()] == [4, 8, 12]


# What configures


def test_pickled_loaders_go_on_where_they_were(same_size: Path) -> None:
    loader = fl.torch.Loader(
        same_size, 8, order="random", image=FLIPPED, channels_last=True, as_dict=True
    )
    epoch = iter(loader)
    next(epoch)
    other = pickle.loads(pickle.dumps(loader))
    assert isinstance(other, fl.torch.Loader)
    for left, right in zip(epoch, other, strict=True):
        assert torch.equal(left["image"], right["image"])
        assert right["image"].is_contiguous(memory_format=torch.channels_last)


def test_a_loader_has_what_frameworks_look_for(photos: Path) -> None:
    loader = fl.torch.Loader(photos, 5, image=RESIZED)
    with pytest.raises(fl.ConfigError, match="load_state_dict"):
        iter(loader.batch_sampler)
    assert len(loader.sampler) == 24 and len(loader) == 5 and len(loader.dataset) == 24
    loader.sampler.set_epoch(3)
    assert loader.next_epoch == 3


def test_state_is_loaded_by_torch(photos: Path, tmp_path: Path) -> None:
    loader = fl.torch.Loader(photos, 5, image=RESIZED)
    next(iter(loader))
    torch.save({"loader": loader.state_dict()}, tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True)["loader"] == loader.state_dict()


# DataLoaders


def test_a_dataloader_of_torch(same_size: Path) -> None:
    loader = fl.torch.Loader(same_size, 8, order="random", image=FLIPPED)
    batches = fl.torch.DataLoader(loader)
    assert isinstance(batches, torch.utils.data.DataLoader) and len(batches) == 5
    other = fl.torch.Loader(same_size, 8, order="random", image=FLIPPED)
    for _ in range(2):
        for left, right in zip(batches, other, strict=True):
            assert isinstance(left, tuple) and torch.equal(left[0], right[0])
    batches.set_epoch(7)
    assert loader.next_epoch == 7
    assert len(pickle.loads(pickle.dumps(batches))) == 5
    with pytest.raises(fl.ConfigError, match=r"expected a fuseloop\.torch\.Loader"):
        fl.torch.DataLoader(fl.Loader(same_size, image=WHOLE))


def test_a_dataloader_of_torch_resumes(same_size: Path) -> None:
    def made() -> Any:
        return fl.torch.DataLoader(fl.torch.Loader(same_size, 8, order="random", image=FLIPPED))

    first, resumed = made(), made()
    epoch = iter(first)
    next(epoch), next(epoch)
    resumed.load_state_dict(first.state_dict())
    assert len(resumed) == 5
    for left, right in zip(epoch, resumed, strict=True):
        assert torch.equal(left[0], right[0])


def test_a_loader_is_no_map_style_dataset(same_size: Path) -> None:
    batches = torch.utils.data.DataLoader(fl.torch.Loader(same_size, 8, image=WHOLE), batch_size=None)
    with pytest.raises(fl.ConfigError, match=r"as_iterable\(loader\)"):
        next(iter(batches))


class Iterated(torch.utils.data.IterableDataset):
    """A dataset of a user that iterates over a loader."""

    def __init__(self, loader: fl.torch.Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Any:
        return iter(self.loader)


METHODS = ["fork", "forkserver", "spawn"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("begun", [False, True])
def test_inside_dataloader_workers(same_size: Path, method: str, begun: bool) -> None:
    options: dict[str, Any] = {"batch_size": None, "multiprocessing_context": method}
    flipped = [ops.RandomHorizontalFlip(), ops.RandomCrop(28, padding=2)]
    loader = fl.torch.Loader(same_size, 8, order="random", seed=3, workers=1, image=flipped)
    if begun:
        iterator = iter(loader)  # its threads do not survive a fork
        next(iterator)
        loader.set_epoch(0)
    expected = rows_of(fl.torch.Loader(same_size, 8, order="random", seed=3, image=flipped))
    whole = rows_of(torch.utils.data.DataLoader(Iterated(loader), num_workers=1, **options))
    assert whole == expected


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(
    ("method", "workers", "persistent"),
    [("fork", 2, False), ("fork", 3, True), ("forkserver", 2, True), ("spawn", 2, True)],
)
def test_workers_share_the_samples(same_size: Path, method: str, workers: int, persistent: bool) -> None:
    flipped = [ops.RandomHorizontalFlip(), ops.RandomCrop(28, padding=2)]
    loader = fl.torch.Loader(same_size, 6, order="random", seed=3, image=flipped)
    shared = torch.utils.data.DataLoader(
        fl.torch.as_iterable(loader),
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=method,
        persistent_workers=persistent,
    )
    expected = fl.torch.Loader(same_size, 6, order="random", seed=3, image=flipped)
    epochs = [rows_of(shared) for _ in range(2)]
    assert epochs == [rows_of(expected) for _ in range(2)] and epochs[0] != epochs[1]
    shared.dataset.set_epoch(0)
    assert rows_of(shared) == epochs[0]


def test_workers_share_those_of_a_rank(same_size: Path) -> None:
    ranks = [fl.Ranks(rank, 2) for rank in range(2)]
    loaders = [fl.torch.Loader(same_size, 5, order="random", image=WHOLE, ranks=rank) for rank in ranks]
    options: dict[str, Any] = {"batch_size": None, "num_workers": 2}
    found = [rows_of(torch.utils.data.DataLoader(fl.torch.as_iterable(loader), **options)) for loader in loaders]
    assert found[0] + found[1] == rows_of(fl.torch.Loader(same_size, 5, order="random", image=WHOLE))


def test_as_iterable_without_workers(same_size: Path) -> None:
    loader = fl.torch.Loader(same_size, 6, image=WHOLE)
    found = list(torch.utils.data.DataLoader(fl.torch.as_iterable(loader), batch_size=None))
    assert [len(images) for images, _ in found] == [6] * 6 + [4]


def test_batches_of_batches_are_refused(same_size: Path) -> None:
    batches = fl.torch.as_iterable(fl.torch.Loader(same_size, 6, image=WHOLE))
    with pytest.raises(fl.ConfigError, match="batches of batches: give it batch_size=None"):
        list(torch.utils.data.DataLoader(batches))
    taken = torch.utils.data.DataLoader(batches, batch_size=1, collate_fn=lambda batches: batches[0])
    assert [len(images) for images, _ in taken] == [6] * 6 + [4]


def test_samples_that_pad_a_rank_are_marked(same_size: Path) -> None:
    counted = 0
    for rank in range(3):
        ranks = fl.Ranks(rank, 3, uneven="exact")
        for images, labels, mask in fl.torch.Loader(same_size, 6, image=WHOLE, ranks=ranks):
            assert mask.dtype == torch.bool and len(images) == len(labels) == len(mask)
            counted += int(mask.sum())
        named = next(iter(fl.torch.Loader(same_size, 6, as_dict=True, image=WHOLE, ranks=ranks)))
        assert list(named) == ["image", "label", "batch.mask"]
    assert counted == 40


def test_sizes_of_a_padded_output_follow_the_outputs(same_size: Path) -> None:
    padded = fl.torch.Loader(same_size, 4, collate={"image": fl.Collate.pad(to=(32, 32))})
    assert [tensor.name for tensor in padded.tensors] == ["image", "label", "image.size"]
    images, labels, sizes = next(iter(padded))
    assert sizes.tolist() == [list(images.shape[1:3])] * 4 and len(labels) == 4


def test_as_iterable_refuses_what_it_can_not_divide(same_size: Path) -> None:
    with pytest.raises(fl.ConfigError, match="not 'env'"):
        fl.torch.as_iterable(fl.torch.Loader(same_size, image=WHOLE, ranks="env"))
    with pytest.raises(fl.ConfigError, match="uneven='exact'"):
        fl.torch.as_iterable(fl.torch.Loader(same_size, image=WHOLE, ranks=fl.Ranks(0, 2, uneven="exact")))
    with pytest.raises(fl.ConfigError, match=r"expected a fuseloop\.torch\.Loader"):
        fl.torch.as_iterable(fl.Loader(same_size, image=WHOLE))


def test_a_loader_refuses_to_start_a_thread_a_core_in_workers(same_size: Path) -> None:
    loader = fl.torch.Loader(same_size, 8, image=WHOLE)
    with pytest.raises(fl.ConfigError, match="workers=1"):
        list(torch.utils.data.DataLoader(Iterated(loader), batch_size=None, num_workers=1))
    assert len(list(torch.utils.data.DataLoader(Iterated(loader), batch_size=None))) == 5


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 2])
def test_as_iterable_resumes_with_torchdata(same_size: Path, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def made() -> Any:
        loader = fl.torch.Loader(same_size, 5, order="random", image=FLIPPED)
        return stateful.StatefulDataLoader(fl.torch.as_iterable(loader), batch_size=None, num_workers=workers)

    whole = [images for images, _ in made()]
    for taken in (0, 1, 4):
        first, resumed = made(), made()
        epoch = iter(first)
        for _ in range(taken):
            next(epoch)
        resumed.load_state_dict(first.state_dict())
        rest = [images for images, _ in resumed]
        assert len(rest) == len(whole) - taken
        assert all(torch.equal(left, right) for left, right in zip(rest, whole[taken:], strict=True))
