"""Lightning, Accelerate, transformers and torchdata with loaders as they are."""

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


@pytest.mark.parametrize("form", ["loader", "DataLoader"])
def test_accelerate_skips_no_batches_in_silence(same_size: Path, form: str) -> None:
    """skip_first_batches would make a DataLoader without our ops, or without our epochs. It fails with our error."""
    accelerate = pytest.importorskip("accelerate")
    with pytest.raises(fl.ConfigError, match="load_state_dict"):
        list(accelerate.skip_first_batches(made(same_size, form), 2))


def test_accelerate_prepares_no_dataloader_in_silence(same_size: Path) -> None:
    """What prepare makes of a DataLoader fetches a batch ahead, and the position would be that of the batch."""
    accelerate = pytest.importorskip("accelerate")
    batches = accelerate.Accelerator(cpu=True).prepare(made(same_size, "DataLoader"))
    with pytest.raises(fl.ConfigError, match="accelerator.prepare"):
        next(iter(batches))


@pytest.mark.parametrize("even_batches", [True, False])
def test_accelerate_accumulates_gradients(same_size: Path, even_batches: bool) -> None:
    """Every second batch makes a step, also over the end of an epoch of 5 batches."""
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    try:
        config = accelerate.DataLoaderConfiguration(even_batches=even_batches)
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2, dataloader_config=config)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model, optimizer, batches = accelerator.prepare(model, optimizer, made(same_size))
        seen, steps = [], []
        for _ in range(2):
            for images, labels in batches:
                before = [parameter.detach().clone() for parameter in model.parameters()]
                with accelerator.accumulate(model):
                    accelerator.backward(torch.nn.functional.cross_entropy(model(images), labels))
                    optimizer.step()
                    optimizer.zero_grad()
                seen.append(digest((images, labels)))
                steps.append(any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)))
        assert seen == [one for batch in epochs_of(same_size, 2) for one in batch]
        assert steps == [False, True] * 5
    finally:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerate.state.GradientState._reset_state()


# Transformers


def fine_tuned(
    dataset: Path, folder: Path, *, form: str = "loader", resume: Path | None = None, **arguments: Any
) -> tuple[list[list[tuple[int, int]]], list[Any], Any]:
    """Trains for three epochs with transformers.Trainer, as in docs/python_frameworks.md. Returns the epochs and ids
    of the samples of each batch, the weights, and the trainer."""
    transformers = pytest.importorskip("transformers")
    callbacks = pytest.importorskip("transformers.trainer_callback")

    def named(images: Any, labels: Any) -> dict[str, Any]:
        return {"pixel_values": images, "labels": labels}

    image = [ops.RandomResizedCrop(32), *IMAGE[1:]]  # The crops of a sample differ between epochs.
    loader = fl.torch.Loader(dataset, 8, order="random", seed=5, image=image, after=named)
    samples = {
        digest_of(row): (epoch, k)
        for epoch in range(3)
        for k, row in enumerate(loader.get(range(40), epoch=epoch)["pixel_values"])
    }
    assert len(samples) == 120
    seen: list[list[tuple[int, int]]] = []

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, pixel_values: Any, labels: Any) -> dict[str, Any]:
            if self.training:
                seen.append([samples[digest_of(row)] for row in pixel_values])
            # The draws of dropout are resumed by transformers.
            logits = torch.nn.functional.dropout(self.network(pixel_values), 0.2, self.training)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            return loader if form == "loader" else fl.torch.DataLoader(loader)

        def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
            return self.eval_dataset

    class LoaderPosition(transformers.TrainerCallback, callbacks.ExportableState):
        def state(self) -> dict[str, Any]:
            return loader.state_dict()

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step:
                loader.load_state_dict(state.stateful_callbacks["LoaderPosition"])

    options = {"num_train_epochs": 3, "save_steps": 1, "ignore_data_skip": True, "learning_rate": 0.01, **arguments}
    model = Model()
    trainer = Trainer(
        model,
        transformers.TrainingArguments(str(folder), use_cpu=True, report_to="none", disable_tqdm=True, **options),
        eval_dataset=fl.torch.Loader(dataset, 8, image=[IMAGE[0], *IMAGE[2:]], after=named),
        callbacks=[LoaderPosition()],
    )
    trainer.train(resume_from_checkpoint=resume and str(resume))
    return seen, [parameter.detach().clone() for parameter in model.parameters()], trainer


def digest_of(image: Any) -> str:
    return hashlib.sha256(image.cpu().numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("form", ["loader", "DataLoader"])
@pytest.mark.parametrize("accumulated", [1, 2, 5])
def test_trainer_resumes(same_size: Path, tmp_path: Path, form: str, accumulated: int) -> None:
    steps = {"gradient_accumulation_steps": accumulated}
    whole, weights, _ = fine_tuned(same_size, tmp_path, form=form, **steps)
    assert len(whole) == 15
    for epoch in range(3):
        # Each sample once an epoch, as it is in this epoch.
        ids = [one for batch in whole[5 * epoch : 5 * epoch + 5] for one in batch]
        assert sorted(ids) == [(epoch, k) for k in range(40)] and ids != sorted(ids)
    # Within the first epoch, at its end, within the second, and before the last batch. With five batches a step there
    # are only ends.
    for step in {1: (2, 5, 7, 14), 2: (1, 3, 4, 8), 5: (1, 2)}[accumulated]:
        checkpoint = tmp_path / f"checkpoint-{step}"
        rest, after, _ = fine_tuned(
            same_size, tmp_path / "resumed", form=form, resume=checkpoint, save_strategy="no", **steps
        )
        epoch, within = divmod(step, -(-5 // accumulated))
        assert rest == whole[5 * epoch + within * accumulated :]
        # transformers makes no step with the fifth batch alone in an epoch that was resumed.
        if accumulated != 2 or not within:
            assert all(torch.equal(left, right) for left, right in zip(after, weights, strict=True))


# Run by torchrun in two processes: writes the batches that each has seen.
FINE_TUNED = """
import hashlib, json, sys
from pathlib import Path
import torch, transformers
from transformers.trainer_callback import ExportableState
import fuseloop as fl
from fuseloop import ops

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 4)
        self.seen = []

    def forward(self, pixel_values, labels):
        self.seen.append([hashlib.sha256(image.numpy().tobytes()).hexdigest() for image in pixel_values])
        return {"loss": torch.nn.functional.cross_entropy(self.layer(pixel_values.mean(dim=(2, 3))), labels)}

class Trainer(transformers.Trainer):
    def get_train_dataloader(self):
        return loader

class LoaderPosition(transformers.TrainerCallback, ExportableState):
    def state(self):
        return loader.state_dict()

    def on_train_begin(self, args, state, control, **_):
        if state.global_step:
            loader.load_state_dict(state.stateful_callbacks["LoaderPosition"])

dataset, folder, name, *resume = sys.argv[1:]
arguments = transformers.TrainingArguments(
    folder, num_train_epochs=2, save_strategy="no" if resume else "steps", save_steps=1, ignore_data_skip=True,
    report_to="none", use_cpu=True, disable_tqdm=True, ddp_find_unused_parameters=False,
)
image = [ops.RandomResizedCrop(32), ops.Normalize.imagenet(), ops.ToChannelsFirst()]
loader = fl.torch.Loader(
    dataset, 4, order="random", seed=2, ranks="env", image=image,
    after=lambda images, labels: {"pixel_values": images, "labels": labels},
)
model = Model()
Trainer(model, arguments, callbacks=[LoaderPosition()]).train(resume_from_checkpoint=resume[0] if resume else None)
found = {"seen": model.seen, "weights": model.layer.weight.flatten().tolist()}
Path(folder, f"{name}{arguments.process_index}.json").write_text(json.dumps(found))
"""


@pytest.mark.timeout(300)
def test_trainer_resumes_two_processes(same_size: Path, tmp_path: Path) -> None:
    """The position that the first process saves is that of both."""
    pytest.importorskip("transformers")
    script = tmp_path / "fine_tuned.py"
    script.write_text(FINE_TUNED, encoding="utf-8")
    package = str(Path(fl.__file__).resolve().parent.parent)
    paths = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    def run(name: str, *resume: str) -> list[dict[str, Any]]:
        launched = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        command = [*launched, str(script), str(same_size), str(tmp_path), name, *resume]
        done = subprocess.run(command, capture_output=True, text=True, timeout=140, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads((tmp_path / f"{name}{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]

    whole, resumed = run("whole"), run("resumed", str(tmp_path / "checkpoint-7"))
    for epoch in range(2):
        # 40 samples in 5 batches of 4 in each process, each sample once.
        batches = [batch for rank in whole for batch in rank["seen"][5 * epoch : 5 * epoch + 5]]
        assert len(batches) == 10 and len({one for batch in batches for one in batch}) == 40
    for rank in range(2):
        assert resumed[rank]["seen"] == whole[rank]["seen"][7:]
        assert resumed[rank]["weights"] == whole[rank]["weights"] == whole[0]["weights"]


def test_trainer_evaluates(same_size: Path, tmp_path: Path) -> None:
    """An evaluation within an epoch leaves the training as it is."""
    plain, weights, _ = fine_tuned(same_size, tmp_path, save_strategy="no")
    options = {"save_strategy": "no", "eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 8}
    seen, after, trainer = fine_tuned(same_size, tmp_path, **options)
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert len(losses) == 8 and seen == plain
    assert all(torch.equal(left, right) for left, right in zip(after, weights, strict=True))
    model = trainer.model.eval()
    with torch.no_grad():
        expected = [model(**batch)["loss"].item() for batch in trainer.eval_dataset]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(sum(expected) / 5, rel=1e-5)


@pytest.mark.parametrize("form", ["loader", "DataLoader"])
def test_trainer_skips_no_batches_in_silence(same_size: Path, tmp_path: Path, form: str) -> None:
    """Without ignore_data_skip, transformers skips batches with accelerate."""
    fine_tuned(same_size, tmp_path, max_steps=7)
    options = {"resume": tmp_path / "checkpoint-7", "ignore_data_skip": False, "save_strategy": "no"}
    with pytest.raises(fl.ConfigError, match="ignore_data_skip=True"):
        fine_tuned(same_size, tmp_path / "resumed", form=form, **options)


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
