"""Mistakes that checkers of types find, each on a line marked so, and what they must not object to.

Never run: tests/test_types.py gives it to mypy and pyright.
"""

from collections.abc import Iterator

import torch

import fuseloop as fl
from fuseloop import ops, sources


def fine() -> None:
    image = [ops.RandomResizedCrop(224, scale=(0.2, 1.0)), ops.RandomHorizontalFlip(), ops.Normalize.imagenet()]
    loader = fl.Loader("train", 64, image=image, label=[ops.Squeeze()], order="random", ranks=fl.Ranks(0, 2))
    for batch in loader:
        ids = batch.ids.sum() + batch.samples
        assert ids
    torch_loader = fl.torch.Loader("train", batch_size=64, image=lambda epoch: [ops.Resize(128 + epoch)])
    for images, labels in torch_loader:
        assert images.float().mean() > labels.sum()
    for by_name in fl.torch.Loader("train", as_dict=True):
        assert by_name["image"].dim() == 4
    for numbers in fl.torch.Loader("train", after=lambda *tensors: len(tensors)):
        assert numbers + 1
    epoch = loader.epoch(3)
    first: fl.Batch = next(epoch)
    assert first.epoch == epoch.number
    fl.Loader(sources.concat(["a", "b"]), order=[3, 1, 2], on_damaged="skip")
    fl.Loader("train", order=fl.ClassBalanced(), copy=True)
    fl.Loader("train", order=torch.utils.data.RandomSampler(range(10)))


def planted(loader: fl.Loader, torch_loader: fl.torch.Loader) -> None:
    ops.RandomResizedCrop()  # error
    ops.RandomResizedCrop(224, scales=(0.2, 1.0))  # error
    ops.Resize(224, interpolation="lanczos")  # error
    ops.RandomHorizontalFlip("often")  # error
    ops.Normalize.imagenett()  # error
    ops.RandomHorizontalFlipp()  # error
    fl.Loader("train", order="randm")  # error
    fl.Loader("train", on_damaged="ignore")  # error
    fl.Loader("train", image=ops.CenterCrop(32))  # error
    fl.Loader("train", shuffle=True)  # error
    fl.Loader("train", "64")  # error
    fl.torch.Loader("train", order="randm")  # error
    fl.torch.Loader("train", number_rule="fast")  # error
    fl.torch.Loader("train", image=[32])  # error
    fl.torch.Loaderr("train")  # error
    fl.nothing()  # error
    for batch in loader:
        batch.idds  # error
    for tensors in torch_loader:
        tensors["image"]  # error
    rows: Iterator[int] = iter(loader)  # error
    number: int = next(iter(torch_loader))  # error
    del rows, number
