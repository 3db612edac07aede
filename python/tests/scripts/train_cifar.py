"""Writes two small files of pictures of 32 x 32, and makes the loaders of a training on CIFAR, as users of FFCV do.

It imports FFCV, and runs unchanged under ``python -m fuseloop.ffcv``.
"""

import json
import sys
from pathlib import Path
from typing import List

import numpy as np
import torch as ch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.operation import Operation
from ffcv.transforms import Convert, Cutout, RandomHorizontalFlip, RandomTranslate, Squeeze
from ffcv.transforms import ToDevice, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter

CIFAR_MEAN = [125.307, 122.961, 113.8575]
CIFAR_STD = [51.5865, 50.847, 51.255]


class Normalize(ch.nn.Module):
    """torchvision.transforms.Normalize."""

    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, tensor):
        mean = ch.as_tensor(self.mean, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
        std = ch.as_tensor(self.std, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
        return (tensor - mean) / std


class Pictures(ch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.pictures = np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        return self.pictures[index], index % 10


def write(folder):
    for name, count in (("train", 48), ("test", 20)):
        fields = {"image": RGBImageField(), "label": IntField()}
        writer = DatasetWriter(str(folder / f"{name}.beton"), fields, num_workers=2)
        writer.from_indexed_dataset(Pictures(count, count))


def make_dataloaders(folder, batch_size=16, num_workers=2):
    paths = {"train": str(folder / "train.beton"), "test": str(folder / "test.beton")}
    loaders = {}
    for name in ["train", "test"]:
        label_pipeline: List[Operation] = [IntDecoder(), ToTensor(), ToDevice(ch.device("cuda:0")), Squeeze()]
        image_pipeline: List[Operation] = [SimpleRGBImageDecoder()]
        if name == "train":
            image_pipeline.extend([
                RandomHorizontalFlip(),
                RandomTranslate(padding=2, fill=tuple(map(int, CIFAR_MEAN))),
                Cutout(4, tuple(map(int, CIFAR_MEAN))),
            ])
        image_pipeline.extend([
            ToTensor(),
            ToDevice(ch.device("cuda:0"), non_blocking=True),
            ToTorchImage(),
            Convert(ch.float16),
            Normalize(CIFAR_MEAN, CIFAR_STD),
        ])
        ordering = OrderOption.RANDOM if name == "train" else OrderOption.SEQUENTIAL
        loaders[name] = Loader(
            paths[name],
            batch_size=batch_size,
            num_workers=num_workers,
            order=ordering,
            drop_last=(name == "train"),
            pipelines={"image": image_pipeline, "label": label_pipeline},
        )
    return loaders


def main():
    folder = Path(sys.argv[1])
    write(folder)
    np.random.seed(0)
    loaders = make_dataloaders(folder)
    found = {"len": [len(loaders["train"]), len(loaders["test"])], "train": []}
    for _ in range(2):
        for ims, labs in loaders["train"]:
            is_last = ims.is_contiguous(memory_format=ch.channels_last)
            found["train"].append([list(ims.shape), str(ims.dtype), labs.tolist(), is_last])
    images = ch.cat([ims.cpu() for ims, _ in loaders["test"]])
    wanted = ch.from_numpy(Pictures(20, 20).pictures).permute(0, 3, 1, 2)
    found["same"] = bool(ch.equal(images, Normalize(CIFAR_MEAN, CIFAR_STD)(wanted.half())))
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
