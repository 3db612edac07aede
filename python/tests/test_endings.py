"""An exception that ends loops, such as StopIteration, raised by what a user brings, never ends an epoch as if it were
complete: at every place where the library calls Python."""

from __future__ import annotations

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources, write

ENDINGS = [StopIteration, StopAsyncIteration, GeneratorExit]
SMALL = [ops.Resize((4, 4))]
AT = 5
"""The sample at which each function raises."""


class Squares:
    """A dataset of 12 pictures."""

    def __init__(self, error: type[BaseException] | None = None) -> None:
        self.error = error

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if index == AT and self.error:
            raise self.error
        return np.full((8, 8, 3), index, np.uint8), index


def raising(error):
    def function(*_):
        raise error

    return function


def squares():
    return sources.from_python(Squares())


def batches(dataset, image=(), **options):
    return list(loader_of(dataset, image, **options))


def loader_of(dataset, image=(), **options):
    return fl.Loader(dataset, batch_size=4, image=image if callable(image) else [*SMALL, *image], **options)


def of_dataset(error):
    batches(sources.from_python(Squares(error), {"image": "image", "label": "int"}))


def of_sample(error):
    sources.from_python(Squares(error), {"image": "image", "label": "int"})[AT]


def of_samples(error):
    list(sources.from_python(Squares(error), {"image": "image", "label": "int"}))


def of_column(error):
    sources.from_python(Squares(error), {"image": "image", "label": "int"}).column("label")


def of_concat(error):
    fields = {"image": "image", "label": "int"}
    batches(sources.concat([squares(), sources.from_python(Squares(error), fields)]))


def of_generator(error):
    def make(epoch, sample):
        return Squares(error)[sample]

    batches(sources.from_generator(make, {"image": "image", "label": "int"}, 12))


def of_map(error):
    def change(values):
        if values["label"] == AT:
            raise error
        return values

    batches(sources.Stream(squares()).map(change))


def of_filter(error):
    batches(sources.Stream(squares()).filter(lambda values: raising(error)() if values["label"] == AT else True))


class Sampler:
    def __init__(self, error, at: str) -> None:
        self.error, self.at = error, at

    def __len__(self) -> int:
        return 12

    def set_epoch(self, epoch: int) -> None:
        if self.at == "set_epoch":
            raise self.error

    def __iter__(self):
        if self.at == "iter":
            raise self.error
        return Items(self.error) if self.at == "item" else iter(range(12))


class Items:
    """An iterator with an item that raises."""

    def __init__(self, error) -> None:
        self.error = error

    def __iter__(self):
        return self

    def __next__(self):
        return Item(self.error)


class Item:
    def __init__(self, error) -> None:
        self.error = error

    def __int__(self) -> int:
        raise self.error


def of_sampler(error):
    batches(squares(), order=Sampler(error, "iter"))


def of_sampler_item(error):
    batches(squares(), order=Sampler(error, "item"))


def of_sampler_epoch(error):
    batches(squares(), order=Sampler(error, "set_epoch"))


def of_ops_by_epoch(error):
    # The list of the first epoch is asked for when the loader is built.
    loader = loader_of(squares(), lambda epoch: raising(error)() if epoch else SMALL)
    assert len(list(loader)) == 3
    list(loader)


class Ops:
    """A list of ops that raises."""

    def __init__(self, error) -> None:
        self.error = error

    def __iter__(self):
        raise self.error


def of_list_of_ops(error):
    loader = loader_of(squares(), lambda epoch: Ops(error) if epoch else SMALL)
    assert len(list(loader)) == 3
    list(loader)


def of_view_by_epoch(error):
    view = fl.View("image", lambda epoch: raising(error)() if epoch else SMALL)
    loader = loader_of(squares(), views={"small": view})
    assert len(list(loader)) == 3
    list(loader)


def of_lambda(error):
    batches(squares(), image=[ops.Lambda(raising(error))])


def of_lambda_of_samples(error):
    batches(squares(), image=[ops.Lambda(raising(error), per_sample=True)])


def of_filter(error):
    batches(squares(), filter=raising(error))


def of_after(error):
    pytest.importorskip("torch")
    list(fl.torch.Loader(squares(), batch_size=4, image=SMALL, after=raising(error)))


def of_get(error):
    loader_of(squares(), [ops.Lambda(raising(error))]).get([0, 1])


def of_preview(error):
    loader_of(squares(), [ops.Lambda(raising(error), per_sample=True)]).preview(2)


DOORS = [value for name, value in list(globals().items()) if name.startswith("of_")]


@pytest.mark.parametrize("error", ENDINGS)
@pytest.mark.parametrize("door", DOORS)
def test_an_exception_that_ends_loops_is_an_error(door, error):
    with pytest.raises(RuntimeError, match=f"raised {error.__name__}") as caught:
        door(error)
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.parametrize("error", ENDINGS)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_that_is_written_does_not_end_in_silence(error, workers, tmp_path):
    with pytest.raises((RuntimeError, error)) as caught:
        write.write(Squares(error), tmp_path / "out.beton", ["image", "label"], workers=workers, progress=False)
    assert not isinstance(caught.value, StopIteration) or workers
    assert not (tmp_path / "out.beton").exists()


@pytest.mark.parametrize("error", ENDINGS)
def test_the_operations_of_an_ffcv_loader_do_not_end_its_epoch(error, tmp_path):
    pytest.importorskip("torch")
    from fuseloop.ffcv.fields.basics import IntDecoder
    from fuseloop.ffcv.loader import Loader, OrderOption
    from fuseloop.ffcv.pipeline.operation import Operation
    from fuseloop.ffcv.traversal_order.base import TraversalOrder

    path = tmp_path / "squares.beton"
    write.write(Squares(), path, ["image", "label"], progress=False)

    class Raises(Operation):
        def generate_code(self):
            return raising(error)

        def declare_state_and_memory(self, previous_state):
            return previous_state, None

    class Order(TraversalOrder):
        def sample_order(self, epoch):
            if epoch:
                raise error
            return list(range(12))

    pipelines = {"image": None, "label": [IntDecoder(), Raises()]}
    with pytest.raises(RuntimeError, match=f"raised {error.__name__}"):
        list(Loader(str(path), 4, num_workers=1, order=OrderOption.SEQUENTIAL, pipelines=pipelines))
    loader = Loader(str(path), 4, num_workers=1, order=Order, pipelines={"image": None})
    assert len(list(loader)) == 3
    with pytest.raises(RuntimeError, match=f"raised {error.__name__}"):
        list(loader)


def test_an_index_error_of_a_dataset_does_not_end_a_loop_over_it():
    with pytest.raises(IndexError):
        list(sources.from_python(Squares(IndexError), {"image": "image", "label": "int"}))
    assert [values["label"] for values in squares()] == list(range(12))
