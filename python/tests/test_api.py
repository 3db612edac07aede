"""The loader and its batches: what they give, how long their memory lives, what they refuse."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run_python

import fuseloop as fl
from fuseloop import ops


# The pictures of `same_size`, whose sizes a folder does not tell.
WHOLE = [ops.Resize((32, 32))]


def crops(size: int = 24) -> list[ops.Op]:
    return [ops.RandomResizedCrop(size), ops.RandomHorizontalFlip(), ops.Normalize.imagenet(), ops.ToChannelsFirst()]


def test_ten_lines(photos: Path) -> None:
    loader = fl.Loader(
        photos, batch_size=8, order="random", seed=42,
        image=[ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(), ops.Normalize.imagenet(), ops.ToChannelsFirst()],
        label=[ops.Squeeze()],
    )
    for _ in range(2):
        seen = []
        for images, labels in loader:
            assert images.numpy().shape == (8, 3, 24, 24) and images.numpy().dtype == np.float32
            assert labels.numpy().shape == (8,) and labels.numpy().dtype == np.int64
            seen += labels.numpy().tolist()
        assert sorted(seen) == [0] * 12 + [1] * 12
    assert loader.next_epoch == 2 and len(loader) == 3 and loader.classes == {0: "bee", 1: "cow"}


def test_batches_depend_on_seed_and_epoch_alone(photos: Path) -> None:
    def epoch(number: int, **changes) -> list[bytes]:
        loader = fl.Loader(photos, 8, **{"order": "random", "seed": 3, "image": crops(), **changes})
        return [batch["image"].numpy().tobytes() for batch in loader.epoch(number)]

    first = epoch(1)
    assert first == epoch(1, workers=1) == epoch(1, workers=7, batches_ahead=1)
    assert first != epoch(2) and first != epoch(1, seed=4)


def test_a_batch_is_a_sequence_and_a_mapping(photos: Path) -> None:
    batch = next(iter(fl.Loader(photos, 6, image=crops())))
    images, labels = batch
    assert [*batch.keys()] == ["image", "label"] and len(batch) == 2
    assert batch[0].name == "image" == batch[-2].name and labels.shape == (6,)
    assert dict(batch)["label"].nbytes == 48
    assert batch.ids.tolist() == [0, 1, 2, 3, 4, 5] and batch.mask.all() and not len(batch.skipped)
    assert (batch.epoch, batch.index, batch.samples) == (0, 0, 6)
    assert repr(images) == "Tensor('image', shape=[6, 3, 24, 24], dtype=float32, device=cpu)"
    with pytest.raises(KeyError, match="no tensor 'imgae' in this batch, which has image, label"):
        batch["imgae"]
    with pytest.raises(IndexError):
        batch[2]
    for thing in (batch, images):
        with pytest.raises(TypeError, match="can't be pickled"):
            pickle.dumps(thing)


def test_arrays_share_memory_and_can_be_written(photos: Path) -> None:
    batch = next(iter(fl.Loader(photos, 6, image=crops())))
    one, other = batch["image"].numpy(), np.from_dlpack(batch["image"])
    one[0, 0, 0, 0] = 77
    assert other[0, 0, 0, 0] == 77 and np.shares_memory(one, other)
    assert one.ctypes.data == batch["image"].ptr and one.ctypes.data % 64 == 0
    copy = batch["image"].numpy(copy=True)
    copied = np.from_dlpack(batch["image"], copy=True)
    copy[0, 0, 0, 0] = copied[0, 0, 0, 0] = 1
    assert one[0, 0, 0, 0] == 77


def test_lease_outlives_loader(photos: Path) -> None:
    loader = fl.Loader(photos, 6, image=crops())
    batch = next(iter(loader))
    image = batch["image"].numpy()
    kept = image.copy()
    loader.close()
    del loader, batch
    gc.collect()
    assert (image == kept).all()


def test_views_of_views_hold_the_slot(photos: Path) -> None:
    loader = fl.Loader(photos, 6, memory_limit=6 * (3 * 24 * 24 * 4 + 64) * 4, batches_ahead=1, image=crops())
    batches = iter(loader)
    view = next(batches)["image"].numpy()[2:4, 1][::-1].T
    kept = view.copy()
    for _ in range(3):
        for batch in loader:
            batch["image"].numpy()[:] = 0
    assert (view == kept).all()


def test_list_of_an_epoch_is_all_different(photos: Path) -> None:
    batches = list(fl.Loader(photos, 2, image=crops()))
    contents = {batch["image"].numpy().tobytes() for batch in batches}
    assert len(batches) == len(contents) == 12
    assert len({batch["image"].ptr for batch in batches}) == 12


def test_release_refuses_with_views(photos: Path) -> None:
    batch = next(iter(fl.Loader(photos, 2, image=crops())))
    image = batch["image"]
    array, capsule = image.numpy(), image.__dlpack__()
    with pytest.raises(BufferError, match="2 arrays"):
        batch.release()
    del array
    with pytest.raises(BufferError, match="1 array "):
        batch.release()
    del capsule
    batch.release()
    batch.release()
    for use in (lambda: batch["image"], lambda: image.numpy(), lambda: np.asarray(image), lambda: batch.ids):
        with pytest.raises((RuntimeError, BufferError), match="released"):
            use()
    assert repr(batch) == "Batch(released)"


def test_slots_held_error_names_them(photos: Path) -> None:
    code = f"""
import fuseloop as fl
from fuseloop import ops
loader = fl.Loader({str(photos)!r}, 4, memory_limit=100_000, image=[ops.Resize((64, 64))], timeout=1)
held = []
try:
    for batch in loader:
        held.append(batch)
except (fl.SlotsHeldError, fl.StalledError) as error:
    assert len(held) == 2, held
    assert error.batch == 2 and error.epoch == 0, vars(error)
    print("ok", error)
"""
    done = run_python(code)
    assert done.stdout.startswith("ok"), done.stderr


def test_10000_dlpack_exports_leave_none(photos: Path) -> None:
    batch = next(iter(fl.Loader(photos, 2, image=crops())))
    image = batch["image"]
    gc.collect()
    before = sys.getrefcount(image)
    for _ in range(10_000):
        np.from_dlpack(image)
    for version in (None, (1, 0)):
        for _ in range(1000):
            image.__dlpack__(max_version=version)
    gc.collect()
    assert sys.getrefcount(image) == before
    del image
    batch.release()  # fails if anything is left


def test_old_and_new_dlpack_structures(photos: Path) -> None:
    image = next(iter(fl.Loader(photos, 2, image=crops())))["image"]
    assert '"dltensor"' in repr(image.__dlpack__())
    assert '"dltensor_versioned"' in repr(image.__dlpack__(max_version=(1, 0)))
    assert image.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="on cpu"):
        image.__dlpack__(dl_device=(2, 0))


def test_asarray_and_buffer_protocol(photos: Path) -> None:
    batch = next(iter(fl.Loader(photos, 2, image=crops())))
    view = memoryview(batch["image"])
    assert view.shape == (2, 3, 24, 24) and view.format == "f" and not view.readonly
    assert np.shares_memory(np.asarray(batch["image"]), np.asarray(batch["image"]))
    assert np.asarray(batch["label"]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("to", "name"), [("f16", "float16"), (np.float32, "float32"), ("u8", "uint8"), (np.uint16, "uint16"), (np.dtype("float16"), "float16")]
)
def test_dtypes_by_dlpack(photos: Path, to: object, name: str) -> None:
    image = next(iter(fl.Loader(photos, 2, image=[ops.Resize((8, 8)), ops.Convert(to)])))["image"]
    assert image.dtype == name == image.numpy().dtype.name == np.from_dlpack(image).dtype.name


def test_bfloat16_is_refused_where_numpy_has_none(photos: Path) -> None:
    image = next(iter(fl.Loader(photos, 2, image=[ops.Resize((8, 8)), ops.Convert("bf16")])))["image"]
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(image)
    if "ml_dtypes" not in sys.modules:
        try:
            import ml_dtypes  # noqa: F401
        except ImportError:
            with pytest.raises(TypeError, match="install ml_dtypes"):
                image.numpy()
            return
    assert image.numpy().dtype.name == "bfloat16"


def test_collated_outputs(photos: Path) -> None:
    padded = next(iter(fl.Loader(photos, 4, image=[], collate={"image": fl.Collate.pad(to=(60, 80))})))
    assert padded["image"].shape[0] == 4 and padded["image.size"].numpy().shape == (4, 2)
    listed = next(iter(fl.Loader(photos, 4, image=[], collate={"image": fl.Collate.list(to=(60, 80))})))
    sizes = listed["image.size"].numpy().tolist()
    rows = listed["image"]
    assert [[*row.shape[:2]] for row in rows] == sizes
    for row, (height, width), whole in zip(rows, sizes, padded["image"].numpy()):
        assert (row.numpy() == whole[:height, :width]).all()
    assert [row.shape for row in listed.numpy()["image"]] == [row.shape for row in rows]


def test_images_of_ops_are_collated(photos: Path) -> None:
    def batch(how: fl.Collate) -> fl.Batch:
        sizes = ops.RandomShortestSize([16, 24], max_size=50)
        return next(iter(fl.Loader(photos, 4, image=[sizes, ops.ToChannelsFirst()], collate={"image": how})))

    padded, listed = batch(fl.Collate.pad(to_multiple=32)), batch(fl.Collate.list())
    images = padded["image"].numpy()
    assert images.shape[:2] == (4, 3) and all(side % 32 == 0 for side in images.shape[2:])
    for image, own, (height, width) in zip(images, listed["image"], padded["image.size"].numpy()):
        assert own.shape == (3, height, width)
        assert (image[:, :height, :width] == own.numpy()).all() and not image[:, height:].any()


def test_mixtures_have_exact_shares_and_take_other_weights_after_a_checkpoint(same_size: Path) -> None:
    from fuseloop import sources

    both = sources.concat([same_size, same_size])

    def loader(order: fl.DataMixture, **arguments) -> fl.Loader:
        return fl.Loader(both, 8, order=order, image=WHOLE, **arguments)

    def ids(batches) -> list[int]:
        return [sample for batch in batches for sample in batch.ids.tolist()]

    def counts(samples: list[int]) -> list[int]:
        return [sum(sample < 40 for sample in samples), sum(sample >= 40 for sample in samples)]

    first = loader(fl.DataMixture([3.0, 1.0]))
    assert first.drawn() == [0, 0] and fl.Loader(same_size, 8, image=WHOLE).drawn() is None
    batches = iter(first)
    start = ids(next(batches) for _ in range(4))
    assert first.drawn() == counts(start) and len(start) == 32
    state = first.state_dict()
    whole = start + ids(batches)
    assert counts(whole) == [60, 20] == first.drawn() and counts(start) == first.drawn(state)
    ranks = [ids(loader(fl.DataMixture([3.0, 1.0]), ranks=fl.Ranks(rank, 2))) for rank in range(2)]
    assert [sample for pair in zip(*ranks) for sample in pair] == whole

    with pytest.raises(fl.StateError, match="a mixture with other weights .*`changed_at`"):
        loader(fl.DataMixture([1.0, 1.0])).load_state_dict(state)
    changed = loader(fl.DataMixture([3.0, 1.0]).changed_at(state, [0.0, 1.0]))
    changed.load_state_dict(state)
    assert counts(ids(changed)) == [0, 48]
    assert ids(loader(fl.DataMixture([3.0, 1.0]).changed_at(state, [0.0, 1.0])))[:32] == start

    line = loader(fl.DataMixture({0: [1.0, 0.0], 1: [0.0, 1.0]}, linear=True, samples=64 * 50))
    assert [counts(ids(line)), counts(ids(line))] == [[1600, 1600], [0, 3200]]
    steps = ids(loader(fl.DataMixture({0: [1.0, 0.0], 3: [0.0, 1.0]}, unit="step")))
    assert max(steps[:24]) < 40 <= min(steps[24:])
    assert counts(ids(loader(fl.DataMixture(temperature=5.0, samples=100)))) == [50, 50]
    for stopping, expected in [
        ("first_exhausted", 40),
        ("all_exhausted", 119),
        ("all_exhausted_without_replacement", 40),
    ]:
        mixture = fl.DataMixture([3.0, 1.0], stopping_strategy=stopping)  # type: ignore[arg-type]
        assert counts(ids(loader(mixture)))[0] == expected

    for wrong, message in [
        (fl.DataMixture(), "either weights or a temperature"),
        (fl.DataMixture([1, 1], samples=3, stopping_strategy="first_exhausted"), "remove one of them"),
        (fl.DataMixture({1: [1, 1]}), "expected some at 0"),
        (fl.DataMixture({"0": [1, 1]}), "weights have the epoch '0', expected a number"),
        (fl.DataMixture("70:30"), "weights are '70:30', expected numbers"),
        (fl.DataMixture([[1], [1]]), "expected numbers, one for each dataset"),
        (fl.DataMixture([1, 1], stopping_strategy="samples"), "'all_exhausted'"),  # type: ignore[arg-type]
        (fl.DataMixture([1, 1], unit="batch"), "unit is 'batch'"),  # type: ignore[arg-type]
        (fl.DataMixture([1, 1], stopping_strategy="never"), "stopping_strategy"),  # type: ignore[arg-type]
        (fl.DataMixture([1, 1, 1]), "3 weights for a dataset of 2 components"),
    ]:
        with pytest.raises(fl.ConfigError, match=message):
            loader(wrong)


def test_orders_subsets_and_views(same_size: Path) -> None:
    def ids(**arguments) -> list[int]:
        return [sample for batch in fl.Loader(same_size, 8, image=WHOLE, **arguments) for sample in batch.ids.tolist()]

    assert ids(indices=[5, 3, 5]) == [5, 3, 5] == ids(indices=np.array([5, 3, 5], dtype=np.uint16))
    assert ids(filter=lambda column: column["label"] == 2) == list(range(20, 30))
    assert ids(filter=lambda column: column["label"] == 2, indices=[3, 21, 25]) == [21, 25]
    assert sorted(ids(order="random")) == list(range(40)) != ids(order="random")
    assert set(ids(order=fl.Weighted([0.0] * 39 + [1.0]))) == {39}
    balanced = ids(order=fl.ClassBalanced(replacement=False))
    assert sorted(balanced) == list(range(40))
    ranks = [ids(ranks=fl.Ranks(rank, 2, "drop")) for rank in range(2)]
    assert sorted(ranks[0] + ranks[1]) == list(range(40)) and len(ranks[0]) == 20

    class Backwards:
        def __init__(self) -> None:
            self.epochs: list[int] = []

        def set_epoch(self, epoch: int) -> None:
            self.epochs.append(epoch)

        def __len__(self) -> int:
            return 4

        def __iter__(self):
            return iter([3, 2, 1, 0])

        def __repr__(self) -> str:
            return "Backwards()"

    sampler = Backwards()
    assert ids(order=sampler) == [3, 2, 1, 0] and sampler.epochs[-1] == 0
    view = fl.View("image", [*WHOLE, ops.RandomHorizontalFlip(1.0)])
    batch = next(iter(fl.Loader(same_size, 4, image=WHOLE, views={"flipped": view})))
    assert (batch["flipped"].numpy() == batch["image"].numpy()[:, :, ::-1]).all()


def test_lists_by_epoch(same_size: Path) -> None:
    called = []

    def growing(epoch: int) -> list[ops.Op]:
        called.append(epoch)
        return [ops.Resize((8 + 8 * epoch, 8 + 8 * epoch))]

    loader = fl.Loader(same_size, 8, image=growing)
    assert [next(iter(loader))["image"].shape[1] for _ in range(3)] == [8, 16, 24]
    assert called == [0, 0, 1, 2]

    def wrong(epoch: int) -> list[ops.Op]:
        raise LookupError(f"nothing for {epoch}")

    with pytest.raises(LookupError, match="nothing for 0"):
        fl.Loader(same_size, 8, image=wrong)


def test_set_ops_and_renew(same_size: Path) -> None:
    loader = fl.Loader(same_size, 8, image=WHOLE)
    epoch = iter(loader)
    first = next(epoch)
    loader.set_ops("image", [*WHOLE, ops.RandomInvert(1.0)])
    rest = list(loader.renew(epoch))
    plain = list(fl.Loader(same_size, 8, image=WHOLE))
    assert first["image"].numpy().tobytes() == plain[0]["image"].numpy().tobytes()
    assert [batch.index for batch in rest] == [1, 2, 3, 4]
    for batch, before in zip(rest, plain[1:]):
        assert (batch["image"].numpy() == 255 - before["image"].numpy()).all()


def test_set_ops_changes_an_image_and_its_label_together(same_size: Path) -> None:
    mixed = {"image": [*WHOLE, ops.MixUp(0.4)], "label": [ops.MixUp(0.4)]}
    plain: dict[str, list[ops.Op]] = {"image": WHOLE, "label": []}
    loader = fl.Loader(same_size, 8, ops=mixed)
    for output in mixed:
        with pytest.raises(fl.FuseloopError, match="with the same parameters"):
            loader.set_ops(output, plain[output])
    for wrong in [("image", None), (plain, WHOLE)]:
        with pytest.raises(fl.ConfigError, match="an output and its ops, or a dict"):
            loader.set_ops(*wrong)

    def rows(loader: fl.Loader) -> list[bytes]:
        return [batch[name].numpy().tobytes() for batch in loader.epoch(2) for name in mixed]

    before = rows(loader)
    loader.set_ops(plain)
    assert rows(loader) == rows(fl.Loader(same_size, 8, ops=plain)) != before
    assert rows(pickle.loads(pickle.dumps(loader))) == rows(loader)
    loader.set_ops({"image": lambda epoch: mixed["image"], "label": mixed["label"]})
    assert rows(loader) == before


def test_renew_goes_on_with_a_batch_that_was_not_handed_out(
    same_size: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(batch: fl.Batch) -> fl.Batch:
        raise KeyboardInterrupt

    inverted = [*WHOLE, ops.RandomInvert(1.0)]
    expected = [batch["image"].numpy().tobytes() for batch in fl.Loader(same_size, 8, image=inverted)]
    for handed in range(5):
        loader = fl.Loader(same_size, 8, image=WHOLE)
        epoch = iter(loader)
        for _ in range(handed):
            next(epoch)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(loader, "_converted", interrupted)
            next(epoch)
        loader.set_ops("image", inverted)
        renewed = loader.renew(epoch)
        assert len(renewed) == 5 - handed and renewed.state_dict()["batches"] == handed
        rest = list(renewed)
        assert [batch.index for batch in rest] == list(range(handed, 5))
        assert [batch["image"].numpy().tobytes() for batch in rest] == expected[handed:]


def test_get(same_size: Path) -> None:
    loader = fl.Loader(same_size, 8, order="random", image=[ops.RandomCrop(20)])
    by_id = {s: row for batch in loader.epoch(3) for s, row in zip(batch.ids.tolist(), batch["image"].numpy(copy=True))}
    batch = loader.get([7, 39, 7], epoch=3)
    assert batch.ids.tolist() == [7, 39, 7]
    for sample, row in zip(batch.ids.tolist(), batch["image"].numpy()):
        assert (row == by_id[sample]).all()
    with pytest.raises(fl.ConfigError, match="40"):
        loader.get([40])


def test_dataset(photos: Path) -> None:
    dataset = fl.Dataset.open(photos)
    assert dataset.fields == {"image": "image", "label": "int"} and len(dataset) == 24
    assert dataset[-1]["label"] == 1 and dataset[0]["image"].startswith(b"\x89PNG")
    assert dataset.column("label").tolist() == [0] * 12 + [1] * 12
    assert dataset.column("label", [0, 23]).tolist() == [0, 1]
    assert dataset.classes == {0: "bee", 1: "cow"}
    with pytest.raises(IndexError):
        dataset[24]
    for field in ("image", "lable"):
        with pytest.raises(fl.ConfigError, match=field):
            dataset.column(field)


def test_no_growth_over_10000_batches(same_size: Path) -> None:
    code = f"""
import gc, resource
import fuseloop as fl
from fuseloop import ops
loader = fl.Loader({str(same_size)!r}, 4, image=[ops.RandomCrop(24)], workers=2)
def play(batches):
    while batches > 0:
        for batch in loader:
            batch["image"].numpy(), batch["label"].numpy()
            batches -= 1
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
play(1000)
gc.collect()
objects, memory = len(gc.get_objects()), resident()
play(9000)
gc.collect()
print(len(gc.get_objects()) - objects, resident() - memory)
"""
    done = run_python(code, timeout=110)
    objects, memory = map(int, done.stdout.split())
    assert objects < 50 and memory < 4 << 20, done.stdout


def test_no_growth_over_100_loaders(same_size: Path) -> None:
    code = f"""
import gc, resource
import fuseloop as fl
from fuseloop import ops
def play(loaders):
    for _ in range(loaders):
        loader = fl.Loader({str(same_size)!r}, 4, image=[ops.RandomCrop(24)], workers=2)
        batches = [batch["image"].numpy() for batch in loader]
        assert len(batches) == 10
        del batches
        loader.close()
    gc.collect()
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
play(10)
memory = resident()
play(90)
print(resident() - memory)
"""
    done = run_python(code, timeout=110)
    assert int(done.stdout) < 1_000_000, done.stdout + done.stderr


def test_break_1000_times_no_threads_left(same_size: Path) -> None:
    import os

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    gc.collect()  # Loaders of other tests
    before = threads()
    loader = fl.Loader(same_size, 4, workers=2, image=WHOLE)
    for _ in range(1000):
        for _ in loader:
            break
    assert threads() == before + 2
    reference = weakref.ref(loader)
    del loader
    gc.collect()
    assert reference() is None
    assert threads() == before


def test_two_threads_take_batches_by_turns(same_size: Path) -> None:
    epoch = iter(fl.Loader(same_size, 2, image=WHOLE))
    taken: list[int] = []

    def take() -> None:
        for batch in epoch:
            taken.append(batch.index)

    workers = [threading.Thread(target=take) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(taken) == list(range(20))


def test_what_it_tells(photos: Path) -> None:
    loader = fl.Loader(photos, 8, image=crops())
    list(loader)
    assert "RandomResizedCrop" in loader.explain() and "<pre>" in loader.explain()._repr_html_()
    assert repr(loader.explain()) == str(loader.explain())
    stats = loader.stats()
    assert str(stats) in repr(stats) and "samples in" in repr(stats)
    assert "float32 [3, 24, 24]" in repr(loader) and "<table>" in loader._repr_html_()
    stats = loader.stats()
    assert stats.samples == 24 and str(stats) == stats.verdict and stats.phases["decode"] > 0
    assert loader.quarantine().samples == () and loader.device == "cpu"
    assert loader.tensors[0] == fl.TensorSpec("image", "float32", (3, 24, 24))
    epoch = iter(loader)
    assert len(epoch) == 3 and repr(epoch) == "Epoch(1, batches left: 3)"
    next(epoch)
    assert len(epoch) == 2
    with epoch:
        pass
    assert list(epoch) == []


def test_headroom_replays_a_batch_and_leaves_the_position(photos: Path) -> None:
    loader = fl.Loader(photos, 8, image=crops())
    epoch = iter(loader)
    first = next(epoch)["image"].numpy().copy()
    state = loader.state_dict()
    replay = loader.headroom(batches=5)
    with pytest.raises(fl.ConfigError, match="iterate over all 5 batches"):
        replay.report()
    batches = []
    for batch in replay:
        batches.append(batch["image"].numpy())
        time.sleep(0.02)
    assert len(batches) == len(replay) == 5
    assert all(np.array_equal(batch, first) for batch in batches)
    report = replay.report()
    # 8 samples in at least 20 ms.
    assert 0 < report.consumer <= 400 and report.loader > 0
    assert report.headroom == report.loader / report.consumer
    assert str(report).startswith(f"the consumer uses {report.consumer:,.0f} samples/s")
    assert loader.state_dict() == state and next(epoch).index == 1
    one = loader.headroom(1, epoch=3)
    assert [batch.epoch for batch in one] == [3] and one.report().consumer > 0
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(fl.ConfigError, match="at least 1"):
            loader.headroom(wrong)
    assert str(fl.HeadroomReport(4000.0, 2893.4)) == (
        "the consumer uses 4,000 samples/s, the loader prepares 2,893 samples/s: the loader is the limit (headroom 0.72)"
    )


def test_copies(photos: Path) -> None:
    batches = list(fl.Loader(photos, 8, image=crops(), copy=True))
    assert all(type(batch) is dict and batch["image"].flags.owndata for batch in batches)


def test_import_takes_little() -> None:
    code = """
import sys
import numpy
before = set(sys.modules)
import fuseloop
print(*(set(sys.modules) - before))
"""
    modules = set(run_python(code).stdout.split())
    own = {name for name in modules if name.startswith("fuseloop")}
    parts = ("_arrow", "_checks", "_draws", "_fuseloop", "_hints", "_lambda", "_manifest", "_op", "_pixel_op", "_preview", "_studio",
             "_trace", "errors", "loader", "ops")
    assert own <= {"fuseloop", *(f"fuseloop.{part}" for part in parts)}
    assert not {name.partition(".")[0] for name in modules} & {"torch", "jax", "PIL", "asyncio", "multiprocessing"}


def test_gray_images_have_one_channel(photos: Path) -> None:
    lists = {"image": [ops.CenterCrop(16), ops.Normalize([0.1307], [0.3081]), ops.ToChannelsFirst()]}
    batch = next(iter(fl.Loader(photos, 4, ops=lists, read_mode={"image": "gray"})))
    assert batch["image"].shape == (4, 1, 16, 16)
    rgb = next(iter(fl.Loader(photos, 4, image=[ops.CenterCrop(16)])))["image"].numpy()
    gray = next(iter(fl.Loader(photos, 4, image=[ops.CenterCrop(16)], read_mode={"image": "gray"})))["image"].numpy()
    weights = np.array([0.299, 0.587, 0.114])
    assert np.abs(gray[..., 0] - rgb @ weights).max() <= 3  # the luma, from which RGB was computed and rounded
    with pytest.raises(fl.ConfigError, match='read_mode: image is "grey", expected "rgb", "gray", "gray16", "rgb_alpha" or "index"'):
        fl.Loader(photos, read_mode={"image": "grey"})


def test_arrays_of_bytes_take_the_ops_of_images() -> None:
    digits = [(np.full((28, 28), n, np.uint8), n) for n in range(10)]
    fields = {"image": fl.write.Array("uint8", (28, 28)), "label": "int"}
    dataset = fl.sources.from_python(digits, fields)
    batch = next(iter(fl.Loader(dataset, 10, image=[ops.Pad(2), ops.Normalize([0.5], [0.5]), ops.ToChannelsFirst()])))
    images = batch["image"].numpy()
    assert images.shape == (10, 1, 32, 32)
    assert (images[3, 0, 2:-2, 2:-2] == np.float32((3 - 127.5) / 127.5)).all() and images[3, 0, 0, 0] == -1


def test_volumes_have_the_axes_that_are_named() -> None:
    scans = [(np.arange(20 * 9 * 8, dtype=np.int16).reshape(20, 9, 8) + 100 * n,) for n in range(4)]
    dataset = fl.sources.from_python(scans, {"scan": fl.write.Array("int16", (20, 9, 8))})
    crop = [ops.CenterCrop((5, 6))]
    slices = next(iter(fl.Loader(dataset, 4, scan=crop, axes={"scan": "DHW"})))["scan"].numpy()
    assert slices.shape == (4, 20, 5, 6)
    assert (slices == np.stack([scan for (scan,) in scans])[:, :, 2:7, 1:7]).all()
    last = next(iter(fl.Loader(dataset, 4, scan=[ops.CenterCrop((5, 6))], axes={"scan": "HWC"})))["scan"].numpy()
    assert last.shape == (4, 5, 6, 8)
    with pytest.raises(fl.ConfigError, match="it is not clear which axes of .20, 9, 8. are rows, columns and channels"):
        fl.Loader(dataset, 4, scan=crop)
    with pytest.raises(fl.ConfigError, match="expected one letter for each axis"):
        fl.Loader(dataset, 4, scan=crop, axes={"scan": "HW?"})


def test_bytes_are_arrays_of_differing_lengths() -> None:
    waves = [np.arange(n, dtype=np.float32) for n in (70, 300, 64)]
    dataset = fl.sources.from_python([(wave.tobytes(),) for wave in waves], {"wave": "bytes"})
    loader = fl.Loader(dataset, 3, wave=[ops.CenterCrop((1, 64))], arrays={"wave": (np.float32, (-1,))})
    batch = next(iter(loader))["wave"].numpy()
    assert batch.shape == (3, 64) and batch.dtype == np.float32
    assert batch[:, 0].tolist() == [3, 118, 0]
    assert loader.preview(2).array().shape[2] == 3
    with pytest.raises(fl.ConfigError, match='arrays: dtype is "f12", expected "u8"'):
        fl.Loader(dataset, 3, wave=[], arrays={"wave": ("f12", (-1,))})


def test_small_samples_are_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "small.beton"
    samples = [(np.full((9, 9, 3), k % 251, np.uint8), k) for k in range(3000)]
    fields = {"image": "image", "label": "int"}
    fl.write.write(samples, path, fields, image=fl.write.Image("raw"), progress=None)
    held, read = fl.Loader(path, 1000), fl.Loader(path, 1000, in_memory=False)
    line = f"dataset: read into memory, {path.stat().st_size / 1e6:.1f} MB"
    assert str(held.explain()).startswith(line) and not str(read.explain()).startswith("dataset:")
    for one, other in zip(held, read, strict=True):
        assert np.array_equal(np.asarray(one["image"]), np.asarray(other["image"]))


def test_folders_of_audio_are_datasets(tmp_path: Path) -> None:
    goldens = Path(__file__).parents[2] / "tests/golden/audio"
    for path, golden in [("yes/1.wav", "i16.wav"), ("no/1.flac", "i24.flac"), ("no/2.ogg", "mono.ogg")]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes((goldens / golden).read_bytes())
    dataset = fl.sources.folder(tmp_path)
    assert dataset.fields == {"audio": "bytes", "label": "int"} and dataset.classes == {0: "no", 1: "yes"}
    audio = fl.Audio(16_000, resample=True)
    loader = fl.Loader(tmp_path, 3, arrays={"audio": audio}, audio=[ops.CenterCrop((1, 300))])
    batch = next(iter(loader))
    assert batch["audio"].numpy().shape == (3, 300) and list(batch["label"].numpy()) == [0, 0, 1]
    report = dataset.verify(progress=None)
    assert report.is_whole and report.audio_files == 3
    fl.write.convert(dataset, tmp_path / "x.beton", progress=None)
    stored = fl.sources.open(tmp_path / "x.beton")
    assert stored.verify(progress=None).audio_files == 0
    assert stored.verify(audio="audio", progress=None).audio_files == 3
    (tmp_path / "no" / "3.mp3").write_bytes(b"no audio")
    damaged = fl.sources.folder(tmp_path).verify(progress=None)
    assert damaged.kinds == {"audio_damaged": 1} and str(damaged.damaged[0].path).endswith("no/3.mp3")


def test_audio_files_are_signals() -> None:
    goldens = Path(__file__).parents[2] / "tests/golden/audio"
    expected = np.frombuffer((goldens / "mono.ogg.f32").read_bytes(), np.float32)
    files = [(goldens / name).read_bytes() for name in ("mono.ogg", "i16.flac", "i16.wav")]
    loader = fl.Loader({"audio": files}, 3, arrays={"audio": fl.Audio(16_000)}, audio=[ops.CenterCrop((1, 700))])
    batch = next(iter(loader))["audio"].numpy()
    assert batch.shape == (3, 700) and batch.dtype == np.float32
    assert np.abs(batch[0] - expected[1150:1850]).max() < 1e-4
    stereo = {"audio": fl.Audio(16_000, num_channels=2)}
    rows = fl.Loader({"audio": files[2:]}, 1, arrays=stereo, audio=[ops.CenterCrop((2, 700))])
    assert (next(iter(rows))["audio"].numpy().mean(1) == batch[2]).all()
    with pytest.raises(fl.FuseloopError, match="audio of 16000 samples a second, expected 8000: set `sample_rate`"):
        next(iter(fl.Loader({"audio": files}, 3, arrays={"audio": fl.Audio(8_000)}, audio=[ops.CenterCrop((1, 9))])))
    faster = {"audio": fl.Audio(32_000, resample=True)}
    resampled = next(iter(fl.Loader({"audio": files}, 3, arrays=faster, audio=[ops.CenterCrop((1, 1_000))])))["audio"]
    middle = batch[:, 100:-100]
    assert resampled.shape == (3, 1_000) and abs(resampled.numpy().std() / middle.std() - 1) < 0.2
    with pytest.raises(fl.ConfigError, match="arrays: resample of audio is 1, expected True or False"):
        wrong: Any = 1
        fl.Loader({"audio": files}, 3, arrays={"audio": fl.Audio(8_000, resample=wrong)}, audio=[])
    with pytest.raises(fl.ConfigError, match="arrays: sample_rate of audio is 0, expected a whole number over 0"):
        fl.Loader({"audio": files}, 3, arrays={"audio": fl.Audio(0)}, audio=[])
    # A loader is pickled with its declarations.
    assert (next(iter(pickle.loads(pickle.dumps(loader))))["audio"].numpy() == batch).all()
