"""FFCV: its Loader on the .beton files that `fuseloop write` wrote, as its ImageNet and CIFAR examples set it up.

FFCV has no crop without resizing. A RandomResizedCrop of exactly 224 x 224 pixels is one: OpenCV then copies.
"""

from . import CIFAR_FILL, CIFAR_MEAN, CIFAR_STD, MEAN, STD, levels


def open(job):
    import numpy as np
    from ffcv.fields import decoders
    from ffcv.fields.decoders import IntDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import (
        Cutout,
        NormalizeImage,
        RandomBrightness,
        RandomContrast,
        RandomHorizontalFlip,
        RandomSaturation,
        RandomTranslate,
        ToTensor,
        ToTorchImage,
    )

    jitter = [RandomBrightness(0.4, 1.0), RandomContrast(0.4, 1.0), RandomSaturation(0.4, 1.0)]
    cropped = [decoders.RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip()]
    share = (224 / 256) ** 2
    image = {
        "W1": cropped,
        "W2": [decoders.CenterCropRGBImageDecoder((224, 224), ratio=224 / 256)],
        "W3": cropped + jitter,
        "W4": [
            decoders.SimpleRGBImageDecoder(),
            RandomHorizontalFlip(),
            RandomTranslate(4, CIFAR_FILL),
            Cutout(8, CIFAR_FILL),
        ],
        "W5": [
            decoders.RandomResizedCropRGBImageDecoder((224, 224), scale=(share, share), ratio=(1, 1)),
            RandomHorizontalFlip(),
        ],
    }[job.workload]
    mean, std = (CIFAR_MEAN, CIFAR_STD) if job.workload == "W4" else (levels(MEAN), levels(STD))
    image += [NormalizeImage(np.array(mean), np.array(std), np.float32), ToTensor(), ToTorchImage()]
    loader = Loader(
        job.beton,
        batch_size=job.batch,
        num_workers=job.threads,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        pipelines={"image": image, "label": [IntDecoder(), ToTensor()]},
    )
    return lambda epoch: loader
