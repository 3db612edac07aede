"""Trains a small CNN with Lightning, stops in an epoch, and goes on from the checkpoint with the next batch.

    python examples/lightning_cnn.py

Needs torch and lightning. The loaders are passed to the trainer as they are. Their position is a part of Lightning's
checkpoints, and ``ranks="env"`` divides the samples where several processes train.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

import fuseloop as fl
from fuseloop import ops

sys.path.insert(0, str(Path(__file__).resolve().parent))
from train_cnn import MEAN, STD, draw, network


class Pictures(lightning.LightningDataModule):
    """The loaders. They are made in the hooks, when the ranks are known."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def train_dataloader(self) -> fl.torch.Loader:
        return fl.torch.Loader(
            self.folder / "train.beton",
            50,
            order="random",
            seed=1,
            ranks="env",
            image=[
                ops.RandomCrop(32, padding=4),
                ops.RandomHorizontalFlip(),
                ops.Normalize(MEAN, STD),
                ops.ToChannelsFirst(),
            ],
        )

    def val_dataloader(self) -> fl.torch.Loader:
        image = [ops.Normalize(MEAN, STD), ops.ToChannelsFirst()]
        return fl.torch.Loader(self.folder / "test.beton", 50, ranks="env", image=image)


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = network(0)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> None:
        images, labels = batch
        self.log("accuracy", (self.network(images).argmax(1) == labels).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def train(folder: Path, epochs: int, samples: int) -> float:
    """Trains in two parts. Returns the accuracy."""
    for name, seed in (("train", 1), ("test", 2)):
        pictures, labels = draw(samples, seed, test=name == "test")
        fl.write.write(
            zip(pictures, labels, strict=True), folder / f"{name}.beton", image=fl.write.Image("raw"), progress=None
        )
    options: dict[str, Any] = {
        "accelerator": "cpu", "default_root_dir": folder, "logger": False, "enable_model_summary": False
    }
    batches = samples // 50
    kept = ModelCheckpoint(folder, filename="stopped", every_n_train_steps=batches + batches // 2)
    first = lightning.Trainer(max_steps=batches + batches // 2, callbacks=[kept], **options)
    first.fit(Classifier(), datamodule=Pictures(folder))
    rest = lightning.Trainer(max_epochs=epochs, enable_checkpointing=False, **options)
    rest.fit(Classifier(), datamodule=Pictures(folder), ckpt_path=folder / "stopped.ckpt")
    return float(rest.callback_metrics["accuracy"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(f"accuracy: {100 * train(Path(scratch), epochs=6, samples=4000):.1f} %")
