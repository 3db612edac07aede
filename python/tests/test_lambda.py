"""Functions of Python in lists of ops."""

from __future__ import annotations

import functools
import gc
import pickle
import threading
import time
import traceback

import numpy as np
import pytest
from conftest import run_python

import fuseloop as fl
from fuseloop import ops


def invert(images, ids):
    np.subtract(255, images, out=images)


def invert_one(image, sample):
    return 255 - image


def noise(image, sample, rng):
    image[:] = rng.integers(0, 256, image.shape, dtype=np.uint8)


def noise_batch(images, ids, rng):
    images[:] = rng.integers(0, 256, images.shape, dtype=np.uint8)


def half(image, sample):
    return image[::2, ::2]


class Adder:
    def __init__(self, by):
        self.by = by

    def __call__(self, labels, ids):
        labels += self.by

    def method(self, labels):
        labels += self.by


def images(loader, epoch=0, name="image"):
    return np.concatenate([batch[name].numpy().copy() for batch in loader.epoch(epoch)])


def loader_of(photos, *image, **more):
    return fl.Loader(photos, batch_size=5, image=[ops.Resize((16, 20)), *image], **more)


# What a function gets and does


def test_a_function_on_batches_changes_them_in_place(same_size):
    seen = []

    def spy(array, ids):
        seen.append((array.shape, array.dtype, array.flags.writeable, ids.dtype, ids.tolist()))
        array[0] = 0

    plain = images(loader_of(same_size))
    loader = loader_of(same_size, ops.Lambda(spy), workers=3)
    found = images(loader)
    assert (found[::5] == 0).all()
    keep = np.arange(len(plain)) % 5 != 0
    np.testing.assert_array_equal(found[keep], plain[keep])
    assert sorted(ids for *_, ids in seen) == [list(range(k, k + 5)) for k in range(0, 40, 5)]
    assert {(shape, str(dtype), writable, str(of_ids)) for shape, dtype, writable, of_ids, _ in seen} == {
        ((5, 16, 20, 3), "uint8", True, "int64")
    }


def test_a_function_on_batches_gets_the_type_and_layout_of_the_batch(photos):
    def scale(array, ids):
        assert array.shape == (4, 3, 16, 20) and array.dtype == np.float16
        return array * np.float16(2)

    listed = [ops.Resize((16, 20)), ops.Normalize.imagenet(), ops.Convert("f16"), ops.ToChannelsFirst()]
    plain = fl.Loader(photos, batch_size=4, image=listed)
    doubled = fl.Loader(photos, batch_size=4, image=[*listed, ops.Lambda(scale)])
    np.testing.assert_array_equal(images(doubled), images(plain) * np.float16(2))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_function_on_samples_stands_between_compiled_ops(photos, workers):
    plain = loader_of(photos, ops.RandomHorizontalFlip(0.5), ops.ToChannelsFirst(), seed=3)
    wanted = 255 - images(plain)
    function = ops.Lambda(invert_one, per_sample=True)
    loader = loader_of(photos, ops.RandomHorizontalFlip(0.5), function, ops.ToChannelsFirst(), seed=3, workers=workers)
    np.testing.assert_array_equal(images(loader), wanted)
    plan = str(loader.explain())
    assert "invert_one is not compiled" in plan or "not compiled: called with the stored picture" in plan, plan


def test_it_gets_the_number_of_its_sample_whatever_the_order(same_size):
    def mark(image, sample):
        assert isinstance(sample, int)
        image[0, 0, 0] = sample

    loader = loader_of(same_size, ops.Lambda(mark, per_sample=True), order="random", seed=9, workers=2)
    for batch in loader:
        assert batch["image"].numpy()[:, 0, 0, 0].tolist() == batch.ids.tolist()


def test_it_may_take_the_array_alone(photos):
    loader = loader_of(photos, ops.Lambda(lambda image: 255 - image, per_sample=True))
    np.testing.assert_array_equal(images(loader), 255 - images(loader_of(photos)))
    added = fl.Loader(photos, batch_size=5, image=[ops.Resize((8, 8))], label=[ops.Lambda(Adder(3).method)])
    assert set(images(added, name="label").tolist()) == {3, 4}
    with pytest.raises(fl.ParamError, match=r"can be called with \(array, ids\)"):
        ops.Lambda(lambda: None)
    with pytest.raises(fl.ParamError, match=r"\(array, ids, rng\)"):
        ops.Lambda(lambda a, b, c, d: None, rng=True)


def test_output_is_the_size_of_other_images(photos):
    loader = loader_of(photos, ops.Lambda(half, per_sample=True, output=(8, 10)), ops.ToChannelsFirst())
    assert loader.tensors[0].shape == (3, 8, 10)
    wanted = images(loader_of(photos))[:, ::2, ::2].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(images(loader), wanted)


def test_labels_are_columns(photos):
    lists = {"image": [ops.Resize((8, 8))], "label": [ops.Squeeze(), ops.Lambda(Adder(10))]}
    loader = fl.Loader(photos, batch_size=5, ops=lists)
    for batch in loader:
        labels = batch["label"].numpy()
        assert labels.dtype == np.int64 and labels.tolist() == [10 + int(k >= 12) for k in batch.ids]
    assert "Adder on the finished batch" in loader.explain()

    def count(labels, ids):
        assert labels.dtype == np.float32 and labels.shape == (len(ids), 2)
        return labels[:, ::-1]

    hot = fl.Loader(photos, batch_size=5, image=[ops.Resize((8, 8))], label=[ops.OneHot(2), ops.Lambda(count)])
    assert images(hot, name="label")[[0, 23]].tolist() == [[0, 1], [1, 0]]


def test_it_stands_in_containers(photos):
    function = ops.Lambda(invert_one, per_sample=True)
    plain, turned = images(loader_of(photos)), 255 - images(loader_of(photos))
    always = loader_of(photos, ops.RandomApply([function], p=1.0))
    np.testing.assert_array_equal(images(always), turned)
    some = images(loader_of(photos, ops.RandomApply([function, ops.RandomHorizontalFlip(0.0)], p=0.5), seed=4))
    is_plain = (some == plain).all((1, 2, 3))
    assert 0 < is_plain.sum() < len(plain)
    np.testing.assert_array_equal(some[~is_plain], turned[~is_plain])
    one = loader_of(photos, ops.RandomChoice([ops.RandomApply([function], p=1.0), function]))
    np.testing.assert_array_equal(images(one), turned)


def test_lists_by_epoch_may_have_functions(photos):
    def listed(epoch):
        by = 10 * epoch

        def fill(array, ids):
            array[:] = by

        return [ops.Resize((8, 8)), ops.Lambda(fill)]

    loader = fl.Loader(photos, batch_size=6, image=listed)
    for epoch in range(3):
        assert (images(loader, epoch) == 10 * epoch).all()


def test_a_function_may_keep_its_arrays(same_size):
    kept = []
    loader = loader_of(same_size, ops.Lambda(lambda array, ids: kept.append((array, ids))), workers=2)
    found = images(loader)
    assert len(kept) == 8
    for array, ids in kept:
        np.testing.assert_array_equal(array, found[ids])


@pytest.mark.parametrize("function", [ops.Lambda(noise, rng=True, per_sample=True), ops.Lambda(noise_batch, rng=True)])
def test_draws_are_the_same_for_any_number_of_workers(same_size, function):
    def run(workers, seed=7, epoch=2):
        return images(loader_of(same_size, function, workers=workers, seed=seed), epoch)

    first = run(1)
    np.testing.assert_array_equal(run(3), first)
    assert (run(1, seed=8) != first).mean() > 0.9
    assert (run(1, epoch=3) != first).mean() > 0.9
    assert len(np.unique(first.reshape(len(first), -1), axis=0)) == len(first)


# Errors


def test_lambda_exception_comes_out_itself(photos):
    class Mine(Exception):
        pass

    raised = Mine("no")

    def fails(array, which):
        if 7 in np.atleast_1d(which):
            raise raised

    for per_sample, on_damaged in [(True, "fail"), (True, "skip"), (True, "substitute"), (False, "skip")]:
        function = ops.Lambda(fails, per_sample=per_sample)
        loader = loader_of(photos, function, on_damaged=on_damaged, workers=2)
        epoch = loader.epoch(4)
        next(epoch)
        with pytest.raises(Mine) as caught:
            next(epoch)
        assert caught.value is raised
        frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert frames[-1] == "fails", frames
        note = raised.__notes__.pop()
        assert note.startswith("fuseloop: batch 1: "), note
        assert "fails failed in epoch 4" in note and "image" in note
        assert ("sample 7" in note) == per_sample
        raised.__traceback__ = None
        with pytest.raises(StopIteration):
            next(epoch)
        assert loader.quarantine().rows == 0


def test_stop_iteration_does_not_end_the_loop_in_silence(photos):
    def stop(array, ids):
        next(iter(()))

    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        list(loader_of(photos, ops.Lambda(stop)))
    assert isinstance(caught.value.__cause__, StopIteration)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (ops.Lambda(lambda x: x[:4], per_sample=True), r"shape \(4, 20, 3\), expected uint8 and shape \(16, 20, 3\).*output="),
        (ops.Lambda(lambda x: x / 255, per_sample=True), r"float64 and shape .*expected uint8.*astype"),
        (ops.Lambda(lambda x: x.mean()), r"returned an array of float64 and shape \(\), expected uint8 and shape \(5, 16, 20, 3\)"),
        (ops.Lambda(lambda x: "text"), r"expected uint8"),
        (ops.Lambda(lambda x: None, per_sample=True, output=4), r"returned None, expected uint8 and shape \(4, 4, 3\)"),
    ],
)
def test_what_a_function_returns_is_checked(photos, function, said):
    with pytest.raises(fl.PipelineError, match=said):
        list(loader_of(photos, function))


def test_where_it_may_stand(photos):
    with pytest.raises(fl.PipelineError, match="put it before the function on batches, which must be last"):
        loader_of(photos, ops.Lambda(invert), ops.Normalize.imagenet())
    with pytest.raises(fl.PipelineError, match="put it last, outside of containers"):
        loader_of(photos, ops.RandomApply([ops.Lambda(invert)]))
    with pytest.raises(fl.PipelineError, match="put it before Normalize"):
        loader_of(photos, ops.Normalize.imagenet(), ops.Lambda(invert_one, per_sample=True))
    with pytest.raises(fl.PipelineError, match="leave per_sample out"):
        fl.Loader(photos, image=[ops.Resize((8, 8))], label=[ops.Lambda(invert_one, per_sample=True)])
    with pytest.raises(fl.PipelineError, match="no bf16"):
        loader_of(photos, ops.Convert("bf16"), ops.Lambda(invert))


def test_its_own_arguments_are_checked():
    for given in [{"f": 3}, {"f": invert, "name": ""}, {"f": invert, "output": (3, 4)}]:
        with pytest.raises(fl.ParamError) as caught:
            ops.Lambda(**given)
        assert caught.value.op == "Lambda" and caught.value.param in given
    with pytest.raises(fl.ParamError, match="1 to 65535"):
        ops.Lambda(half, per_sample=True, output=(0, 4))
    with pytest.raises(fl.ParamError, match="did you mean per_sample"):
        ops.Lambda(half, persample=True)


# The object


def test_it_is_an_op_that_does_not_change():
    function = ops.Lambda(half, per_sample=True, output=8)
    assert isinstance(function, ops.Op)
    assert repr(function) == "Lambda(half, per_sample=True, output=(8, 8))" and function.name == "half"
    assert function == ops.Lambda(half, per_sample=True, output=(8, 8)) and function != ops.Lambda(half)
    assert hash(function) == hash(ops.Lambda(half, per_sample=True, output=(8, 8)))
    assert repr(ops.Lambda(functools.partial(Adder(2)), name="Add")) == "Lambda(Adder, name='Add')"
    with pytest.raises(AttributeError, match="does not change"):
        function.name = "other"


def test_it_pickles_if_its_function_does(photos):
    function = ops.Lambda(invert_one, per_sample=True)
    again = pickle.loads(pickle.dumps([function, ops.RandomApply([function])]))
    assert again == [function, ops.RandomApply([function])]
    loader = pickle.loads(pickle.dumps(loader_of(photos, function)))
    np.testing.assert_array_equal(images(loader), 255 - images(loader_of(photos)))
    with pytest.raises(TypeError, match="define it with `def` in a module"):
        pickle.dumps(ops.Lambda(lambda x: x))


def test_a_state_fits_the_same_code_alone(photos):
    def state_of(function):
        epoch = loader_of(photos, function).epoch(0)
        next(epoch)
        return epoch.state_dict()

    def made(by, plus):
        if plus:
            return lambda array, ids: np.add(array, by, out=array)
        return lambda array, ids: np.subtract(array, by, out=array)

    state = state_of(ops.Lambda(made(1, True)))
    loader_of(photos, ops.Lambda(made(2, True))).resume(state)  # the values around it are not compared
    for other in [ops.Lambda(made(1, False)), ops.Lambda(made(1, True), name="Other")]:
        with pytest.raises(fl.StateError, match="plan|op"):
            loader_of(photos, other).resume(state)


def test_its_fingerprint_is_the_same_in_every_process():
    code = """
from fuseloop._lambda import _code
def f(x):
    if x in {"a", "b", "c", "d", "e"}:
        return lambda y: (y, "inner", {"p", "q", "r"})
print(_code(f))
"""
    found = {run_python(code, PYTHONHASHSEED=str(seed)).stdout for seed in range(4)}
    assert len(found) == 1 and len(found.pop().strip()) == 16


# Threads and the end


@pytest.mark.parametrize("how", ["close", "close_epoch", "del", "gc", "break"])
@pytest.mark.parametrize("per_sample", [True, False])
def test_lambda_while_the_caller_frees(same_size, how, per_sample):
    for _ in range(3):
        inside, go_on = threading.Event(), threading.Event()

        def slow(array, ids):
            inside.set()
            go_on.wait(0.05)  # the caller frees meanwhile, and this thread then wants the interpreter back
            array[:] = 1

        loader = loader_of(same_size, ops.Lambda(slow, per_sample=per_sample), workers=3)
        epoch = loader.epoch(0)
        if how == "break":
            for _batch in epoch:
                break
        assert inside.wait(10)
        start = time.monotonic()
        if how == "close":
            loader.close()
        elif how == "close_epoch":
            epoch.close()
        elif how == "gc":
            loader.itself = loader
        del loader, epoch
        gc.collect()
        go_on.set()
        assert time.monotonic() - start < 4


def test_functions_of_several_loaders_run_beside_each_other(same_size):
    def run(found, k):
        loader = loader_of(same_size, ops.Lambda(lambda image: image + k, per_sample=True), workers=2)
        found[k] = images(loader)

    found = {}
    threads = [threading.Thread(target=run, args=(found, np.uint8(k))) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    plain = images(loader_of(same_size))
    for k in range(4):
        np.testing.assert_array_equal(found[k], plain + np.uint8(k))


ENDS = """
import sys, time, threading
import numpy as np
import fuseloop as fl
from fuseloop import ops

inside = threading.Event()

def slow(array, ids):
    inside.set()
    time.sleep(0.02)
    array[:] = 1

loader = fl.Loader({photos!r}, batch_size=5, workers=3, image=[ops.Resize((8, 8)), ops.Lambda(slow, per_sample={per_sample})])
epoch = loader.epoch(0)
assert inside.wait(10)
{end}
"""


@pytest.mark.parametrize("per_sample", [True, False])
@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("sys.exit(0)", 0), ("del epoch", 0), ("1 / 0", 1), ("next(epoch)", 0)])
def test_exit_in_the_midst_of_a_function(photos, end, code, per_sample):
    for _ in range(4):
        ended = run_python(ENDS.format(photos=str(photos), per_sample=per_sample, end=end), timeout=30)
        assert ended.returncode == code, ended.stderr
        assert "Fatal" not in ended.stderr and "panicked" not in ended.stderr, ended.stderr


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("per_sample", [True, False])
@pytest.mark.parametrize("ask", ["epoch", "get"])
def test_a_function_that_asks_its_own_loader_for_a_batch_gets_an_error(same_size, workers, per_sample, ask):
    loaders = {}

    def asks(*_):
        loader = loaders["own"]
        if ask == "get":
            loader.get([0, 1])
        else:
            next(iter(loader))

    other = fl.Loader(same_size, 4, image=[ops.Resize((8, 8))], workers=1)
    function = ops.Lambda(asks, per_sample=per_sample)
    loaders["own"] = loader = fl.Loader(same_size, 4, image=[ops.Resize((8, 8)), function], workers=workers)
    begun = time.monotonic()
    with pytest.raises(fl.PipelineError, match="requests a batch of the same loader.*use another loader"):
        list(loader)
    assert time.monotonic() - begun < 10
    # Another loader is none of its own.
    loaders["own"] = other
    assert len(list(loader)) == 10
