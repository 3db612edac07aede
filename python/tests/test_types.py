"""Checkers of types find the mistakes in types/planted.py, and nothing else there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fuseloop as fl

PLANTED = Path(__file__).parent / "types" / "planted.py"


def expected() -> set[int]:
    lines = PLANTED.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# error")}


def environment() -> dict[str, str]:
    package = str(Path(fl.__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": package, "MYPYPATH": ""}


@pytest.mark.timeout(600)
def test_mypy_finds_what_is_planted(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    pytest.importorskip("torch")
    options = ["--ignore-missing-imports", "--no-error-summary", "--cache-dir", str(tmp_path), "--python-executable"]
    command = [sys.executable, "-m", "mypy", *options, sys.executable, PLANTED.name]
    found = subprocess.run(
        command, capture_output=True, text=True, cwd=PLANTED.parent, env=environment(), timeout=500, check=False
    )
    lines = {int(line) for line in re.findall(r"^planted\.py:(\d+): error", found.stdout, re.M)}
    assert lines == expected(), found.stdout + found.stderr


@pytest.mark.timeout(600)
def test_pyright_finds_what_is_planted(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    try:
        import pyright  # noqa: F401
    except ImportError:
        print("pyright is not installed: its findings are not checked")
        pytest.skip("no pyright")
    package = str(Path(fl.__file__).resolve().parent.parent)
    (tmp_path / PLANTED.name).write_bytes(PLANTED.read_bytes())
    settings = {"include": [PLANTED.name], "extraPaths": [package], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=500, check=False)
    try:
        findings = json.loads(found.stdout)["generalDiagnostics"]
    except ValueError:  # it fetches its program when it first runs
        pytest.skip(f"pyright does not run here: {found.stderr:.200}")
    lines = {one["range"]["start"]["line"] + 1 for one in findings if one["severity"] == "error"}
    assert lines == expected(), found.stdout
