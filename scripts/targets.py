"""Times torchvision's v2 transforms, and Albumentations, on an image with a mask, boxes and keypoints.

    pip install torch torchvision albumentations
    python3 scripts/targets.py

The work is that of `cargo bench --bench targets -- targets/raw`: a decoded image of 500 x 375 pixels, with a mask of class
numbers, 20 boxes and 17 keypoints each, through RandomResizedCrop, a rotation by up to 10 degrees, a flip and a normalization,
on one thread. Prints microseconds a sample, with and without the targets.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

HEIGHT, WIDTH = 375, 500
RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
MASK = (np.add.outer(np.arange(HEIGHT) // 40, np.arange(WIDTH) // 50)).astype(np.uint8)
BOXES = np.array([(20 * k, 40, 60 + 20 * k, 90) for k in range(20)], np.float32)
COUNT = np.arange(20 * 17)
POINTS = np.stack([COUNT % 490, COUNT % 370], -1).astype(np.float32)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def microseconds(run: Callable[[], object]) -> float:
    """Returns the best of seven rounds of 64 samples."""
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(64):
            run()
        best = min(best, time.perf_counter() - begin)
    return best / 64 * 1e6


def torchvision() -> None:
    """Times torchvision.transforms.v2 on tensors."""
    import torch
    import torchvision as library
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    image = tv_tensors.Image(torch.from_numpy(IMAGE).permute(2, 0, 1).contiguous())
    size = (HEIGHT, WIDTH)
    sample = {
        "image": image,
        "mask": tv_tensors.Mask(torch.from_numpy(MASK)),
        "boxes": tv_tensors.BoundingBoxes(torch.from_numpy(BOXES), format="XYXY", canvas_size=size),
        "points": tv_tensors.KeyPoints(torch.from_numpy(POINTS), canvas_size=size),
    }
    transform = v2.Compose([
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomRotation(10, interpolation=v2.InterpolationMode.BILINEAR),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD),
    ])
    alone = microseconds(lambda: transform({"image": image}))
    print(f"torchvision {library.__version__}: {alone:.0f} alone, {microseconds(lambda: transform(sample)):.0f} with targets")


def albumentations() -> None:
    """Times Albumentations on arrays."""
    import albumentations as library
    import cv2

    cv2.setNumThreads(1)
    ops = [
        library.RandomResizedCrop(size=(224, 224)),
        library.Rotate(limit=10),
        library.HorizontalFlip(),
        library.Normalize(MEAN, STD),
    ]
    boxes = library.BboxParams(format="pascal_voc", label_fields=["labels"], min_area=0, clip=True)
    points = library.KeypointParams(format="xy", remove_invisible=False)
    alone, all_of_them = library.Compose(ops), library.Compose(ops, bbox_params=boxes, keypoint_params=points)
    labels = list(range(len(BOXES)))

    def with_targets() -> object:
        return all_of_them(image=IMAGE, mask=MASK, bboxes=BOXES, labels=labels, keypoints=POINTS)

    time_alone = microseconds(lambda: alone(image=IMAGE))
    print(f"Albumentations {library.__version__}: {time_alone:.0f} alone, {microseconds(with_targets):.0f} with targets")


if __name__ == "__main__":
    torchvision()
    albumentations()
