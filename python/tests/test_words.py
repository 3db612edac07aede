"""Errors speak Python: no message has a name that only Rust has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fuseloop as fl
from fuseloop.errors import _IN_PYTHON, _in_python

ROOT = Path(__file__).resolve().parents[2]
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
RUST = re.compile(r"\b[A-Z][A-Za-z]+::[A-Za-z_]+|`to(_size)?\(")

# Files whose texts are code, or reports of defects.
OTHERS = ("device/codegen", "jit/", "verify/json", "preview/", "cuda/")


def messages() -> list[tuple[str, str]]:
    """Returns the texts in the sources of the library that have words in them and a path of Rust, and their files."""
    found = []
    for folder in ("src", "ops/src", "engine/src"):
        for path in sorted((ROOT / folder).rglob("*.rs")):
            name = path.relative_to(ROOT).as_posix()
            if "test" in name or any(part in name for part in OTHERS):
                continue
            code = path.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests")[0]
            code = re.sub(r"^\s*//.*$", "", code, flags=re.M)
            for match in LITERAL.finditer(code):
                text = re.sub(r"\\\n\s*", "", match[1]).replace('\\"', '"')
                if "\n" not in text and " " in text and RUST.search(text):
                    found.append((name, text))
    return found


def test_messages_have_names_of_python() -> None:
    if not (ROOT / "src").exists():
        pytest.skip("no sources beside the tests")
    texts = messages()
    left = [(name, text) for name, text in texts if RUST.search(_in_python(text)) and not is_code(text)]
    assert left == [], "name what Python calls it in _IN_PYTHON of fuseloop/errors.py"
    assert len(texts) > 20


def is_code(text: str) -> bool:
    """True for what lies between two literals in a line of code."""
    return bool(re.search(r"(::[a-z_]+\()|[;{}]$|=> |\)\?|, ParamKind", text)) and not text.count("`")


def test_a_message_is_translated(photos: Path) -> None:
    with pytest.raises(fl.FuseloopError, match=r"`to=\(height, width\)`"):
        fl.Loader(photos, collate={"image": fl.Collate.pad(to=3)})
    assert not any("::" in python for python in _IN_PYTHON.values())
