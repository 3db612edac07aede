"""Measures FFCV's own images/s on a .beton file: the figure that README.md compares with.

    python scripts/ffcv_bench.py train.beton

Needs FFCV 1.0.2 (pip install ffcv, with Debian's libopencv-dev, libturbojpeg0-dev and pkg-config),
NumPy and torch. The file may be one that Fuseloop wrote. RandomResizedCrop 224, flip, normalize to
f32, batch 64, two threads; the median excludes the first epoch, in which numba compiles.
"""

import sys
import time

import numpy as np
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor

MEAN = np.array([0.485, 0.456, 0.406]) * 255
STD = np.array([0.229, 0.224, 0.225]) * 255
EPOCHS = 7


def main(path):
    began = time.time()
    image = [
        RandomResizedCropRGBImageDecoder((224, 224)),
        RandomHorizontalFlip(),
        NormalizeImage(MEAN, STD, np.float32),
        ToTensor(),
    ]
    loader = Loader(
        path,
        batch_size=64,
        num_workers=2,
        order=OrderOption.RANDOM,
        seed=7,
        drop_last=False,
        pipelines={"image": image, "label": [IntDecoder(), ToTensor()]},
    )
    rates = []
    for epoch in range(EPOCHS):
        start, images = time.time(), 0
        for pixels, _ in loader:
            if epoch == images == 0:
                print(f"first batch after {time.time() - began:.2f} s, imports not counted")
            images += len(pixels)
        rates.append(images / (time.time() - start))
    print("images/s:", *(round(rate) for rate in rates), "median:", round(np.median(rates[1:])))


if __name__ == "__main__":
    main(sys.argv[1])
