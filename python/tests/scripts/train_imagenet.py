"""The loaders of a training on ImageNet, as users of FFCV write them, and a few epochs without a model.

It imports FFCV, and runs unchanged under ``python -m fuseloop.ffcv``.
"""

import argparse
import json
from pathlib import Path
from typing import List

import numpy as np
import torch as ch
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.operation import Operation
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToDevice, ToTensor, ToTorchImage
from ffcv.transforms.common import Squeeze as CommonSqueeze

IMAGENET_MEAN = np.array([0.485, 0.456, 0.406]) * 255
IMAGENET_STD = np.array([0.229, 0.224, 0.225]) * 255
DEFAULT_CROP_RATIO = 224 / 256

assert CommonSqueeze is Squeeze


class ImageNetTrainer:
    def __init__(self, gpu, resolutions, distributed=0):
        self.gpu = gpu
        self.resolutions = resolutions
        self.distributed = distributed

    def get_resolution(self, epoch):
        return self.resolutions[min(epoch, len(self.resolutions) - 1)]

    def create_train_loader(self, train_dataset, num_workers, batch_size, in_memory):
        this_device = f"cuda:{self.gpu}"
        train_path = Path(train_dataset)
        assert train_path.is_file()

        res = self.get_resolution(epoch=0)
        self.decoder = RandomResizedCropRGBImageDecoder((res, res))
        image_pipeline: List[Operation] = [
            self.decoder,
            RandomHorizontalFlip(),
            ToTensor(),
            ToDevice(ch.device(this_device), non_blocking=True),
            ToTorchImage(),
            NormalizeImage(IMAGENET_MEAN, IMAGENET_STD, np.float16),
        ]

        label_pipeline: List[Operation] = [
            IntDecoder(),
            ToTensor(),
            Squeeze(),
            ToDevice(ch.device(this_device), non_blocking=True),
        ]

        order = OrderOption.RANDOM if self.distributed else OrderOption.QUASI_RANDOM
        return Loader(
            train_dataset,
            batch_size=batch_size,
            num_workers=num_workers,
            order=order,
            os_cache=in_memory,
            drop_last=True,
            pipelines={"image": image_pipeline, "label": label_pipeline},
            distributed=self.distributed,
        )

    def create_val_loader(self, val_dataset, num_workers, batch_size, resolution):
        this_device = f"cuda:{self.gpu}"
        res_tuple = (resolution, resolution)
        cropper = CenterCropRGBImageDecoder(res_tuple, ratio=DEFAULT_CROP_RATIO)
        image_pipeline = [
            cropper,
            ToTensor(),
            ToDevice(ch.device(this_device), non_blocking=True),
            ToTorchImage(),
            NormalizeImage(IMAGENET_MEAN, IMAGENET_STD, np.float16),
        ]

        label_pipeline = [
            IntDecoder(),
            ToTensor(),
            Squeeze(),
            ToDevice(ch.device(this_device), non_blocking=True),
        ]

        return Loader(
            val_dataset,
            batch_size=batch_size,
            num_workers=num_workers,
            order=OrderOption.SEQUENTIAL,
            drop_last=False,
            pipelines={"image": image_pipeline, "label": label_pipeline},
            distributed=self.distributed,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--resolutions", default="32,40")
    args = parser.parse_args()

    ch.manual_seed(0)
    np.random.seed(0)
    trainer = ImageNetTrainer(0, [int(r) for r in args.resolutions.split(",")])
    train = trainer.create_train_loader(args.data, 2, 2, in_memory=1)
    val = trainer.create_val_loader(args.data, 2, 4, 32)
    found = {"train": [], "val": [], "len": [len(train), len(val)]}
    for epoch in range(2):
        res = trainer.get_resolution(epoch)
        trainer.decoder.output_size = (res, res)
        for images, target in train:
            labels = target.tolist()
            found["train"].append([epoch, list(images.shape), list(images.stride()), str(images.dtype), labels])
    outputs = [(images.float().cpu(), target.cpu()) for images, target in val]
    found["val"] = [[list(images.shape), target.tolist()] for images, target in outputs]
    ch.save([ch.cat(part) for part in zip(*outputs)], args.out + ".pt")
    Path(args.out).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
