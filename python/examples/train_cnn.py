"""Trains a small CNN with batches of Fuseloop, and with those of torchvision and torch's DataLoader.

    python examples/train_cnn.py              # one training each
    python examples/train_cnn.py --rounds 8   # mean accuracies of eight, and their difference

Both read the same 4,000 drawn pictures of 32 x 32 pixels in eight classes, and augment them in the same way: a crop
with padding, a flip, normalization. The k-th trainings of both begin with the same weights. Accuracy is measured on
4,000 other pictures. Needs torch and torchvision.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fuseloop as fl
from fuseloop import ops

CLASSES = ("disc", "ring", "square", "frame", "plus", "cross", "up", "down")
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
PADDING, BATCH = 4, 125


# Pictures


def draw(count: int, seed: int, test: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Draws shapes of several sizes and colours on gradients, under noise.

    For training they are near the middle and turned to one side. For the test they are farther away from it, and
    turned to either side: what a crop and a flip teach.

    Returns:
        Pictures ``[count, 32, 32, 3]`` of uint8, and the classes.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % len(CLASSES)
    shape = (count, 1, 1)
    y, x = np.mgrid[:32, :32].astype(np.float32)
    spread = 3 if test else 1
    center = rng.uniform(15.5 - spread, 15.5 + spread, (2, *shape))
    radius = rng.uniform(7, 10, shape)
    angle = rng.uniform(0, 0.4, shape) * (rng.choice([-1, 1], shape) if test else 1)
    dx, dy = (x - center[0]) / radius, (y - center[1]) / radius
    u, v = np.cos(angle) * dx + np.sin(angle) * dy, np.cos(angle) * dy - np.sin(angle) * dx
    far, side = np.hypot(u, v), np.maximum(abs(u), abs(v))
    bars = np.minimum(abs(u), abs(v)) < 0.25
    diagonals = np.minimum(abs(u - v), abs(u + v)) < 0.35
    inside = np.stack([
        far < 1,
        (far < 1) & (far > 0.55),
        side < 0.85,
        (side < 0.85) & (side > 0.45),
        bars & (side < 1),
        diagonals & (side < 0.8),
        (v < 0.7) & (abs(u) < 0.5 * (v + 1)),
        (v > -0.7) & (abs(u) < 0.5 * (1 - v)),
    ])[labels, np.arange(count)]
    first, second = rng.uniform(70, 185, (2, count, 1, 1, 3))
    slope = ((x + y) / 62)[None, :, :, None]
    ground = first * (1 - slope) + second * slope
    contrast = rng.uniform(45, 110, (count, 1, 1, 1)) * rng.choice([-1, 1], (count, 1, 1, 1))
    color = contrast * rng.uniform(0.5, 1, (count, 1, 1, 3))
    pictures = ground + color * inside[..., None] + rng.normal(0, 15, (count, 32, 32, 3))
    return np.clip(pictures, 0, 255).astype(np.uint8), labels


# Batches

IMAGE = [
    ops.RandomCrop(32, padding=PADDING),
    ops.RandomHorizontalFlip(),
    ops.Normalize(MEAN, STD),
    ops.ToChannelsFirst(),
]


def with_fuseloop(dataset: Path, seed: int) -> fl.torch.Loader:
    return fl.torch.Loader(dataset, BATCH, order="random", seed=seed, drop_last=True, image=IMAGE)


class Drawn(torch.utils.data.Dataset):
    """The pictures for torchvision."""

    def __init__(self, pictures: np.ndarray, labels: np.ndarray) -> None:
        from torchvision.transforms import v2

        self.pictures = torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()
        self.labels = labels.tolist()
        self.transform = v2.Compose([
            v2.RandomCrop(32, padding=PADDING),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[index]), self.labels[index]


def with_torchvision(pictures: np.ndarray, labels: np.ndarray, seed: int) -> torch.utils.data.DataLoader:
    generator = torch.Generator().manual_seed(seed)
    return torch.utils.data.DataLoader(
        Drawn(pictures, labels),
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
        generator=generator,
    )


# Training


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)

    def block(channels: int, to: int, stride: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(channels, to, 3, stride, 1, bias=False), nn.BatchNorm2d(to), nn.ReLU())

    return nn.Sequential(
        block(3, 16, 1), block(16, 32, 2), block(32, 64, 2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 8)
    )


def train(batches: Iterable[tuple[torch.Tensor, torch.Tensor]], steps: int, epochs: int, seed: int) -> nn.Module:
    model = network(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps * epochs)
    model.train()
    for _ in range(epochs):
        for images, labels in batches:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model


@torch.no_grad()
def accuracy(model: nn.Module, pictures: np.ndarray, labels: np.ndarray) -> float:
    model.eval()
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2).float().div_(255)
    images = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    found = torch.cat([model(part).argmax(1) for part in images.split(500)])
    return 100 * (found == torch.from_numpy(labels)).float().mean().item()


def compare(rounds: int, epochs: int, say: Callable[[str], None] = print) -> dict[str, dict[str, list[float]]]:
    """Trains with both, `rounds` times each.

    Returns:
        For "fuseloop" and "torchvision" the accuracies in percent, and the seconds of each training.
    """
    pictures, labels = draw(4000, seed=1)
    test = draw(4000, seed=2, test=True)
    results: dict[str, dict[str, list[float]]] = {
        name: {"accuracies": [], "seconds": []} for name in ("fuseloop", "torchvision")
    }
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder, "train.beton")
        fl.write.write(zip(pictures, labels, strict=True), dataset, image=fl.write.Image("raw"))
        for number in range(rounds):
            for name, found in results.items():
                started = time.perf_counter()
                if name == "fuseloop":
                    loader = with_fuseloop(dataset, number)
                else:
                    loader = with_torchvision(pictures, labels, number)
                model = train(loader, len(loader), epochs, number)
                del loader
                found["seconds"].append(time.perf_counter() - started)
                found["accuracies"].append(accuracy(model, *test))
                accurate, seconds = found["accuracies"][-1], found["seconds"][-1]
                say(f"round {number}, {name:<11}: accuracy {accurate:.2f} %, {seconds:.1f} s")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="trainings with each (1)")
    parser.add_argument("--epochs", type=int, default=15, help="epochs of a training (15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the other core, if there are two, is the loader's
    results = compare(args.rounds, args.epochs, lambda line: print(line, flush=True))
    means = {name: statistics.mean(found["accuracies"]) for name, found in results.items()}
    for name, found in results.items():
        seconds = statistics.mean(found["seconds"])
        print(f"{name:<11}: mean accuracy {means[name]:.2f} %, {seconds:.1f} s a training")
    print(f"difference : {means['fuseloop'] - means['torchvision']:+.2f} points")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
