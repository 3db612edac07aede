"""Lightning, Accelerate and torchdata with loaders as they are."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import fuseloop as fl
from fuseloop import ops

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

IMAGE = [ops.CenterCrop(32), ops.RandomHorizontalFlip(), ops.Normalize.imagenet(), ops.ToChannelsFirst()]


def made(dataset: Path, form: str = "loader") -> Any:
    """Returns a loader, or a DataLoader of torch around one."""
    loader = fl.torch.Loader(dataset, 8, order="random", seed=5, image=IMAGE)
    return loader if form == "loader" else fl.torch.DataLoader(loader)


def digest(batch: Any) -> str:
    images, labels = batch
    return hashlib.sha256(images.cpu().numpy().tobytes() + labels.cpu().numpy().tobytes()).hexdigest()[:16]


def epochs_of(dataset: Path, epochs: int) -> list[list[str]]:
    loader = made(dataset)
    return [[digest(batch) for batch in loader] for _ in range(epochs)]


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(4, 4),
    )


# Lightning


def lightning_module() -> Any:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()
            self.seen: list[tuple[int, str]] = []
            self.stop_after: int | None = None

        def training_step(self, batch: Any, _: int) -> Any:
            if len(self.seen) == self.stop_after:
                raise RuntimeError("the machine was stopped")
            self.seen.append((self.current_epoch, digest(batch)))
            images, labels = batch
            return torch.nn.functional.cross_entropy(self.network(images), labels)

        def validation_step(self, batch: Any, _: int) -> None:
            images, labels = batch
            self.log("accuracy", (self.network(images).argmax(1) == labels).float().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)

    return Module()


def trainer(folder: Path, epochs: int, **options: Any) -> Any:
    lightning = pytest.importorskip("lightning")
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def weights_of(module: Any) -> list[Any]:
    return [parameter.detach().clone() for parameter in module.network.parameters()]


@pytest.mark.parametrize("form", ["loader", "DataLoader"])
@pytest.mark.parametrize("stop", [7, 5, 10], ids=["in an epoch", "at its end", "at the second end"])
def test_lightning_fit_save_resume(same_size: Path, tmp_path: Path, form: str, stop: int) -> None:
    callbacks = pytest.importorskip("lightning.pytorch.callbacks")
    whole = lightning_module()
    trainer(tmp_path, 3, enable_checkpointing=False).fit(whole, made(same_size, form), made(same_size, form))
    expected = [(epoch, one) for epoch, batches in enumerate(epochs_of(same_size, 3)) for one in batches]
    assert whole.seen == expected and len(expected) == 15

    # A checkpoint after each step, and an end without warning.
    kept = callbacks.ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    stopped = lightning_module()
    stopped.stop_after = stop
    with pytest.raises(RuntimeError, match="the machine was stopped"):
        trainer(tmp_path, 3, callbacks=[kept]).fit(stopped, made(same_size, form), made(same_size, form))
    assert stopped.seen == expected[:stop]

    resumed = lightning_module()
    again = trainer(tmp_path, 3, enable_checkpointing=False)
    again.fit(resumed, made(same_size, form), made(same_size, form), ckpt_path=tmp_path / f"step={stop}.ckpt")
    assert resumed.seen == expected[stop:]
    for left, right in zip(weights_of(resumed), weights_of(whole), strict=True):
        assert torch.equal(left, right)


def test_lightning_sets_epochs(same_size: Path, tmp_path: Path) -> None:
    """A trainer that leaves epochs early begins each anew."""
    module = lightning_module()
    trainer(tmp_path, 3, enable_checkpointing=False, limit_train_batches=2).fit(module, made(same_size))
    epochs = epochs_of(same_size, 3)
    assert module.seen == [(epoch, one) for epoch in range(3) for one in epochs[epoch][:2]]


# Run by Lightning in two processes: writes the samples that each has seen.
DIVIDED = """
import json, os, sys
from pathlib import Path
import lightning, torch
import fuseloop as fl
from fuseloop import ops

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen = []

    def train_dataloader(self):
        image = [ops.CenterCrop(32), ops.Convert("float32"), ops.ToChannelsFirst()]
        return fl.torch.Loader(sys.argv[1], 4, order="random", seed=2, ranks="env", image=image)

    def training_step(self, batch, _):
        images, labels = batch
        self.seen.append([self.current_epoch, sorted(image.sum().item() for image in images)])
        return self.layer(images.mean(dim=(2, 3)) / 255).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

module = Module()
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=sys.argv[2],
)
trainer.fit(module)
weights = [float(value) for value in module.layer.weight.flatten()]
found = {"seen": module.seen, "weights": weights, "batches": trainer.num_training_batches}
Path(sys.argv[2], f"rank{trainer.global_rank}.json").write_text(json.dumps(found))
"""


@pytest.mark.timeout(300)
def test_lightning_divides_the_samples(same_size: Path, tmp_path: Path) -> None:
    """ranks="env" in two processes that Lightning starts, which sets no RANK."""
    pytest.importorskip("lightning")
    script = tmp_path / "divided.py"
    script.write_text(DIVIDED, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    package = str(Path(fl.__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join([package, environment.get("PYTHONPATH", "")])
    command = [sys.executable, str(script), str(same_size), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]
    whole = fl.torch.Loader(same_size, 40, image=[ops.CenterCrop(32), ops.Convert("float32"), ops.ToChannelsFirst()])
    sums = sorted(image.sum().item() for image in next(iter(whole))[0])
    for epoch in range(2):
        found = [one for rank in ranks for number, batch in rank["seen"] if number == epoch for one in batch]
        assert sorted(found) == sums
    assert ranks[0]["weights"] == ranks[1]["weights"] and ranks[0]["batches"] == 5


def test_fabric_takes_the_dataloader(same_size: Path) -> None:
    lightning = pytest.importorskip("lightning")
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    batches = fabric.setup_dataloaders(made(same_size, "DataLoader"))
    assert [[digest(batch) for batch in batches] for _ in range(2)] == epochs_of(same_size, 2)


# Accelerate


@pytest.mark.parametrize("form", ["loader", "DataLoader"])
def test_accelerate_loop(same_size: Path, tmp_path: Path, form: str) -> None:
    accelerate = pytest.importorskip("accelerate")

    def run(epochs: int, stop: int | None, resume: bool) -> tuple[list[str], list[Any]]:
        accelerator = accelerate.Accelerator(cpu=True)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        loader = made(same_size)
        if form == "loader":
            model, optimizer, batches = accelerator.prepare(model, optimizer, loader)
            assert batches is loader
        else:
            model, optimizer = accelerator.prepare(model, optimizer)
            batches = fl.torch.DataLoader(loader)
        accelerator.register_for_checkpointing(loader)
        if resume:
            accelerator.load_state(str(tmp_path / "state"))
        seen: list[str] = []
        while loader.next_epoch < epochs or loader.state_dict()["batches"]:
            for images, labels in batches:
                seen.append(digest((images, labels)))
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                if len(seen) == stop:
                    accelerator.save_state(str(tmp_path / "state"), safe_serialization=False)
                    return seen, []
        return seen, [parameter.detach().clone() for parameter in model.parameters()]

    whole, weights = run(3, None, resume=False)
    assert whole == [one for batches in epochs_of(same_size, 3) for one in batches]
    for stop in (1, 5, 8):
        first, _ = run(3, stop, resume=False)
        rest, after = run(3, None, resume=True)
        assert first + rest == whole
        assert all(torch.equal(left, right) for left, right in zip(after, weights, strict=True))


def test_accelerate_skips_no_batches_in_silence(same_size: Path) -> None:
    """skip_first_batches would make a DataLoader without our ops. It fails instead, at the latest with our error."""
    accelerate = pytest.importorskip("accelerate")
    with pytest.raises(ValueError, match="prefetch_factor|load_state_dict"):
        list(accelerate.skip_first_batches(made(same_size), 2))


# torchdata, and other callers of the protocol


def test_a_loader_is_stateful(same_size: Path) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader.stateful")
    for form in ("loader", "DataLoader"):
        assert isinstance(made(same_size, form), stateful.Stateful)


def test_distributed_checkpoint(same_size: Path, tmp_path: Path) -> None:
    """torch.distributed.checkpoint saves what is stateful."""
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    loader = made(same_size)
    epoch = iter(loader)
    next(epoch), next(epoch)
    other = made(same_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save({"loader": loader}, checkpoint_id=str(tmp_path))
        checkpoint.load({"loader": other}, checkpoint_id=str(tmp_path))
    assert [digest(batch) for batch in other] == [digest(batch) for batch in epoch]
