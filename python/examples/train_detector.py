"""Trains a small detector with batches of Fuseloop, and with those of torchvision and torch's DataLoader.

    python examples/train_detector.py              # one training each
    python examples/train_detector.py --rounds 4   # mean mAP50 of four, and their difference
    python examples/train_detector.py --plain      # without augmentation: what it is worth

Both read the same 1,000 drawn pictures of 96 x 96 pixels with one to four shapes of three classes, and augment them in
the same way: colours, a zoom out, a crop around boxes, a flip, normalization. The k-th trainings of both begin with the
same weights. The detector is measured on 300 other pictures by its mAP50. Needs torch and torchvision.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torchvision import tv_tensors
from torchvision.ops import batched_nms, generalized_box_iou_loss
from torchvision.transforms import v2

import fuseloop as fl
from fuseloop import ops

CLASSES = ("disc", "square", "triangle")
SIZE, MOST, BATCH = 96, 4, 25
MEAN, STD, FILL = (0.4, 0.4, 0.4), (0.2, 0.2, 0.2), (102, 102, 102)


# Pictures


class Picture(NamedTuple):
    """A picture and its objects: ``pixels`` uint8 ``[96, 96, 3]``, ``boxes`` float32 ``[N, 4]`` as x1, y1, x2, y2, and
    ``classes`` int64 ``[N]``."""

    pixels: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray


def draw(count: int, seed: int, test: bool = False) -> list[Picture]:
    """Draws shapes that hardly overlap on gradients, under noise. A box is the edges of the pixels of its shape.

    For training the shapes are reddish and of similar sizes, and triangles have their right angle on the left. For the
    test they have any colour, more sizes, and triangles on either side: what the augmentation teaches.
    """
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)
    pictures = []
    for _ in range(count):
        first, second = rng.uniform(60, 130, (2, 3))
        slope = ((x + y) / (2 * SIZE - 2))[..., None]
        pixels = first * (1 - slope) + second * slope
        covered = np.zeros((SIZE, SIZE), bool)
        boxes: list[tuple[int, ...]] = []
        classes: list[int] = []
        for _ in range(rng.integers(1, MOST + 1)):
            radius = rng.uniform(7, 20) if test else rng.uniform(10, 15)
            cx, cy = rng.uniform(radius, SIZE - 1 - radius, 2)
            label, left = int(rng.integers(len(CLASSES))), not test or rng.random() < 0.5
            color = rng.uniform(40, 110) * np.array([1, rng.uniform(0, 0.4), rng.uniform(0, 0.4)])
            color = rng.permutation(color) if test else color
            u, v = (x - cx) / radius, (y - cy) / radius
            inside = [np.hypot(u, v) < 1, np.maximum(abs(u), abs(v)) < 0.85, (v < 0.9) & (abs(u) < 0.9)][label]
            if label == 2:
                inside &= v > (u if left else -u)
            if boxes and (inside & covered).sum() > 0.1 * inside.sum():
                continue
            covered |= inside
            pixels[inside] += color
            rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
            boxes.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
            classes.append(label)
        pixels += rng.normal(0, 12, pixels.shape)
        pixels = np.clip(pixels, 0, 255).astype(np.uint8)
        pictures.append(Picture(pixels, np.array(boxes, np.float32), np.array(classes, np.int64)))
    return pictures


def write(pictures: Sequence[Picture], path: Path) -> None:
    """Writes a dataset: boxes and classes are the bytes of their arrays."""
    fields = {"image": "image", "bbox": "bytes", "category_id": "bytes"}
    rows = ((pixels, boxes.tobytes(), classes.tobytes()) for pixels, boxes, classes in pictures)
    fl.write.write(rows, path, fields, image=fl.write.Image("raw"), progress=None)


# Batches: images float32 [B, 3, 96, 96], boxes float32 [B, 4, 4] and classes int64 [B, 4], -1 where there is no object.

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

FINISH = [ops.Normalize(MEAN, STD), ops.ToChannelsFirst()]
AUGMENT = [
    ops.RandomPhotometricDistort(),
    ops.RandomZoomOut(FILL, side_range=(1.0, 2.0)),
    ops.RandomIoUCrop(),
    ops.Resize((SIZE, SIZE)),
    ops.RandomHorizontalFlip(),
    ops.SanitizeBoundingBoxes(),
]


def in_order(dataset: Path, image: Sequence[Any] = FINISH, **options: Any) -> fl.torch.Loader:
    padded = fl.Collate.pad(to=MOST, fill=-1.0)
    return fl.torch.Loader(
        dataset,
        BATCH,
        image=image,
        targets={"image": {"bbox": fl.Target.boxes("xyxy"), "category_id": fl.Target.column()}},
        collate={"bbox": padded, "category_id": padded},
        as_dict=True,
        after=lambda batch: (batch["image"], batch["bbox"], batch["category_id"]),
        **options,
    )


def with_fuseloop(dataset: Path, seed: int, augment: bool = True) -> fl.torch.Loader:
    image = [*AUGMENT, *FINISH] if augment else FINISH
    return in_order(dataset, image, order="random", seed=seed, drop_last=True)


class Drawn(torch.utils.data.Dataset):
    """The pictures for torchvision."""

    def __init__(self, pictures: Sequence[Picture], augment: bool = True) -> None:
        self.pictures = pictures
        finish = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        augmented = [
            v2.RandomPhotometricDistort(),
            v2.RandomZoomOut(FILL, side_range=(1.0, 2.0)),
            v2.RandomIoUCrop(),
            v2.Resize((SIZE, SIZE)),
            v2.RandomHorizontalFlip(),
            v2.SanitizeBoundingBoxes(),
        ]
        self.transform = v2.Compose([*augmented, *finish] if augment else finish)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        pixels, boxes, classes = self.pictures[index]
        image = tv_tensors.Image(torch.from_numpy(pixels).permute(2, 0, 1))
        bounding = tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=(SIZE, SIZE))
        return self.transform({"image": image, "boxes": bounding, "labels": torch.from_numpy(classes)})


def collate(samples: list[dict[str, torch.Tensor]]) -> Batch:
    boxes = torch.full((len(samples), MOST, 4), -1.0)
    classes = torch.full((len(samples), MOST), -1)
    for row, sample in enumerate(samples):
        boxes[row, : len(sample["boxes"])] = sample["boxes"]
        classes[row, : len(sample["labels"])] = sample["labels"]
    return torch.stack([sample["image"] for sample in samples]), boxes, classes


def with_torchvision(pictures: Sequence[Picture], seed: int, augment: bool = True) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(
        Drawn(pictures, augment),
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
        collate_fn=collate,
        generator=torch.Generator().manual_seed(seed),
    )


# The detector: CenterNet's heatmap of each class, and FCOS's distances to the edges of a box, for every fourth pixel.

STRIDE = 4
CELLS = SIZE // STRIDE


class Detector(nn.Module):
    """Returns the logits of the heatmaps ``[B, 3, 24, 24]``, and boxes in pixels ``[B, 24, 24, 4]``."""

    middles: torch.Tensor  # of the cells, in pixels

    def __init__(self) -> None:
        super().__init__()

        def block(channels: int, to: int, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(channels, to, 3, stride, 1, bias=False), nn.BatchNorm2d(to), nn.ReLU())

        self.fine = nn.Sequential(block(3, 16, 2), block(16, 48, 2))
        self.middle = block(48, 64, 2)
        self.coarse = nn.Sequential(block(64, 96, 2), block(96, 64))
        self.beside = nn.Conv2d(64, 48, 1)
        self.join = block(48, 48)
        self.heads = nn.Conv2d(48, len(CLASSES) + 4, 1)
        nn.init.constant_(self.heads.bias[: len(CLASSES)], -2.2)  # a probability of 0.1, as in CenterNet
        middles = STRIDE * (torch.arange(CELLS) + 0.5)
        self.register_buffer("middles", torch.stack(torch.meshgrid(middles, middles, indexing="xy"), -1))

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine = self.fine(images)
        middle = self.middle(fine)
        middle = middle + nn.functional.interpolate(self.coarse(middle), scale_factor=2)
        found = self.heads(self.join(fine + nn.functional.interpolate(self.beside(middle), scale_factor=2)))
        logits, distances = found.split([len(CLASSES), 4], 1)
        distances = (2 * STRIDE * distances.clamp(-4, 4).exp()).permute(0, 2, 3, 1)
        boxes = torch.cat([self.middles - distances[..., :2], self.middles + distances[..., 2:]], -1)
        return logits, boxes

    def loss(self, batch: Batch) -> torch.Tensor:
        """CenterNet's focal loss of the heatmaps, and the GIoU loss of the boxes around the middle of each object."""
        images, boxes, classes = batch
        logits, found = self(images)
        middle, size = (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]
        present = (classes >= 0)[..., None, None]
        # [B, objects, 24, 24, 2]: from the middle of the object to that of the cell.
        offset = self.middles - middle[:, :, None, None]
        own = (offset.abs().amax(-1) <= STRIDE / 2) & present
        heat = torch.exp(-(offset / (0.2 * size[:, :, None, None].clamp(min=1))).square().sum(-1) / 2)
        heat = torch.where(own, 1.0, heat) * present
        wanted = torch.stack([(heat * (classes == label)[..., None, None]).amax(1) for label in range(len(CLASSES))], 1)
        positive = wanted == 1
        p = torch.sigmoid(logits)
        certain = nn.functional.logsigmoid(logits) * (1 - p) ** 2
        absent = nn.functional.logsigmoid(-logits) * p**2 * (1 - wanted) ** 4
        focal = -torch.where(positive, certain, absent).sum() / positive.sum().clamp(min=1)
        near = (offset.abs().amax(-1) <= 1.5 * STRIDE) & present
        nearest = (heat * near).argmax(1)
        rows, y, x = near.any(1).nonzero(as_tuple=True)
        regression = generalized_box_iou_loss(found[rows, y, x], boxes[rows, nearest[rows, y, x]], "mean")
        return focal + 2 * regression

    @torch.no_grad()
    def detect(self, images: torch.Tensor, most: int = 20) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Returns the boxes, scores and classes of the peaks of each image."""
        logits, boxes = self(images)
        peaks = torch.where(nn.functional.max_pool2d(logits, 3, 1, 1) == logits, logits, -torch.inf).flatten(1)
        scores, cells = peaks.topk(most)
        boxes = boxes.flatten(1, 2)
        found = []
        for row in range(len(images)):
            labels, at = cells[row] // CELLS**2, boxes[row, cells[row] % CELLS**2]
            kept = batched_nms(at, scores[row], labels, 0.5)
            found.append((at[kept].numpy(), scores[row][kept].sigmoid().numpy(), labels[kept].numpy()))
        return found


# The measure


def mean_average_precision(
    found: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], objects: Sequence[tuple[np.ndarray, np.ndarray]]
) -> float:
    """mAP50: the mean, over the classes that have objects, of the area under the curve of precision over recall.

    In the order of their scores, the boxes that were found take the object of their class that they overlap most, if
    their IoU is 0.5 or more and no box before them has taken it. The precision at a recall is the highest at that
    recall or a higher one.

    Args:
        found: Boxes ``[M, 4]``, scores ``[M]`` and classes ``[M]`` of each image.
        objects: Boxes ``[N, 4]`` and classes ``[N]`` of each image.
    """
    areas = []
    for label in np.unique(np.concatenate([classes for _, classes in objects])):
        truth = [boxes[classes == label] for boxes, classes in objects]
        free = [np.ones(len(boxes), bool) for boxes in truth]
        listed = [
            (score, image, box)
            for image, (boxes, scores, classes) in enumerate(found)
            for box, score in zip(boxes[classes == label], scores[classes == label], strict=True)
        ]
        hits = np.zeros(len(listed))
        for place, (_, image, box) in enumerate(sorted(listed, key=lambda entry: -entry[0])):
            overlaps = np.where(free[image], iou(box, truth[image]), 0)
            if len(overlaps) and overlaps.max() >= 0.5:
                free[image][overlaps.argmax()] = False
                hits[place] = 1
        precision = hits.cumsum() / np.arange(1, len(hits) + 1)
        highest = np.maximum.accumulate(precision[::-1])[::-1]
        areas.append((highest * hits).sum() / sum(map(len, truth)))
    return float(np.mean(areas))


def iou(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns the area that a box shares with each of the others, divided by that of both together."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = sides.clip(0).prod(1)
    return shared / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - shared)


# Training


def train(batches: Iterable[Batch], steps: int, seed: int) -> Detector:
    """Trains with ``steps`` batches, of as many epochs as they need."""
    torch.manual_seed(seed)
    model = Detector()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, total_steps=steps)
    model.train()
    done = 0
    while done < steps:
        for batch in batches:
            loss = model.loss(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            done += 1
            if done == steps:
                break
    return model


def evaluate(model: Detector, test: Iterable[Batch]) -> float:
    model.eval()
    found, objects = [], []
    for images, boxes, classes in test:
        found += model.detect(images)
        objects += [(b[c >= 0].numpy(), c[c >= 0].numpy()) for b, c in zip(boxes, classes, strict=True)]
    return mean_average_precision(found, objects)


def compare(
    seeds: Iterable[int], steps: int, augment: bool = True, say: Callable[[str], None] = print
) -> dict[str, dict[str, list[float]]]:
    """Trains with both, once for each seed.

    Returns:
        For "fuseloop" and "torchvision" the mAP50 from 0 to 1, and the seconds of each training.
    """
    pictures = draw(1000, seed=1)
    results: dict[str, dict[str, list[float]]] = {
        name: {"map50": [], "seconds": []} for name in ("fuseloop", "torchvision")
    }
    with tempfile.TemporaryDirectory() as folder:
        dataset, test = Path(folder, "train.beton"), Path(folder, "test.beton")
        write(pictures, dataset)
        write(draw(300, seed=2, test=True), test)
        for seed in seeds:
            for name, found in results.items():
                started = time.perf_counter()
                if name == "fuseloop":
                    loader = with_fuseloop(dataset, seed, augment)
                else:
                    loader = with_torchvision(pictures, seed, augment)
                model = train(loader, steps, seed)
                del loader
                found["seconds"].append(time.perf_counter() - started)
                found["map50"].append(evaluate(model, in_order(test)))
                measured, seconds = found["map50"][-1], found["seconds"][-1]
                say(f"seed {seed}, {name:<11}: mAP50 {measured:.3f}, {seconds:.1f} s")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="trainings with each (1)")
    parser.add_argument("--steps", type=int, default=400, help="batches of a training (400)")
    parser.add_argument("--plain", action="store_true", help="train without augmentation")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the other core, if there are two, is the loader's
    results = compare(range(args.rounds), args.steps, not args.plain, lambda line: print(line, flush=True))
    means = {name: statistics.mean(found["map50"]) for name, found in results.items()}
    for name, found in results.items():
        seconds = statistics.mean(found["seconds"])
        print(f"{name:<11}: mean mAP50 {means[name]:.3f}, {seconds:.1f} s a training")
    print(f"difference : {means['fuseloop'] - means['torchvision']:+.3f}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
