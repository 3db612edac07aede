"""The scripts that users of FFCV have run: with their import lines changed, and unchanged by ``-m``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fuseloop as fl  # noqa: E402

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
RAW = HERE.parents[1] / "tests" / "golden" / "beton" / "images_raw_resized_p16k.beton"
PACKAGE = Path(fl.__file__).resolve().parent.parent

FLAGS = ["unchanged", "import lines changed"]


def run(script: Path, how: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script on the CPU, and fails if it does."""
    command = [sys.executable, "-m", "fuseloop.ffcv", str(script), *arguments]
    if how != "unchanged":
        changed = tmp_path / script.name
        changed.write_text(script.read_text().replace("from ffcv", "from fuseloop.ffcv"))
        command = [sys.executable, str(changed), *arguments]
    paths = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "FUSELOOP_FFCV_DEVICE": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("how", FLAGS)
def test_ffcv_imagenet_script_runs(how, tmp_path):
    out = tmp_path / "found.json"
    run(HERE / "scripts" / "train_imagenet.py", how, tmp_path, "--data", str(RAW), "--out", str(out))
    found = json.loads(out.read_text())
    assert found["len"] == [3, 2]
    assert [row[1] for row in found["train"]] == [[2, 3, 32, 32]] * 3 + [[2, 3, 40, 40]] * 3
    assert all(row[2][1] == 1 and row[3] == "torch.float16" for row in found["train"])
    for epoch in range(2):
        assert sorted(sum((row[4] for row in found["train"] if row[0] == epoch), [])) == [0, 1, 2, 3, 4, 5]
    assert found["val"] == [[[4, 3, 32, 32], [0, 1, 2, 3]], [[2, 3, 32, 32], [4, 5]]]

    # The pixels are those that FFCV returned for the same calls.
    images, labels = torch.load(f"{out}.pt")
    import hashlib

    recorded = json.loads((HERE / "golden" / "ffcv_batches.json").read_text())["validation_f16"]["epochs"][0]
    for number, (batch, _) in enumerate(recorded):
        part = np.ascontiguousarray(images[4 * number : 4 * number + 4].half().contiguous().numpy())
        assert hashlib.sha256(part.tobytes()).hexdigest() == batch["sha256"]
    assert labels.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("how", FLAGS)
def test_ffcv_cifar_script(how, tmp_path):
    run(HERE / "scripts" / "train_cifar.py", how, tmp_path, str(tmp_path))
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["len"] == [3, 2] and found["same"]
    assert all(row[0] == [16, 3, 32, 32] and row[1] == "torch.float16" and row[3] for row in found["train"])
    epochs = [sum((row[2] for row in found["train"][3 * k : 3 * k + 3]), []) for k in range(2)]
    assert [sorted(labels) for labels in epochs] == [sorted(k % 10 for k in range(48))] * 2 and epochs[0] != epochs[1]


def test_processes_that_a_script_starts_find_ffcv(tmp_path):
    (tmp_path / "helper.py").write_text("NAME = 'helper'\n")
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import multiprocessing, sys
import helper
from ffcv.loader import Loader
from ffcv.fields.decoders import IntDecoder

def labels(rank):
    batches = Loader({str(RAW)!r}, 6, pipelines={{"image": None, "label": [IntDecoder()]}})
    return Loader.__module__, next(iter(batches))[0].sum().item()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(sys.argv[1:], *pool.map(labels, [0]))
"""
    )
    done = run(script, "unchanged", tmp_path, "--flag", "1")
    assert done.stdout.strip() == "['--flag', '1'] ('fuseloop.ffcv.loader.loader', 15)"
    command = [sys.executable, "-m", "fuseloop.ffcv"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode != 0 and "usage: python -m fuseloop.ffcv SCRIPT" in done.stderr


def test_a_module_is_run_as_a_script_is(tmp_path):
    (tmp_path / "tool.py").write_text("import sys, ffcv\nprint(__name__, ffcv.__name__, sys.argv[1:])\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "fuseloop.ffcv", "-m", "tool", "a", "-m"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.stdout.split("\n")[0] == "__main__ fuseloop.ffcv ['a', '-m']", done.stderr


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    page = HERE.parents[1] / "docs" / "ffcv.md"
    if not page.exists():
        pytest.skip("no sources beside the tests")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    names: dict = {}
    exec(compile(code, str(page), "exec"), names)  # noqa: S102
    assert names["images"].shape == (4, 3, 40, 40) and names["images"].dtype == torch.float16
