"""Without the frameworks that parts of the package need, only these parts are absent."""

from __future__ import annotations

from conftest import run_python

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "torch", "ray"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import fuseloop as fl
"""


def test_absent_parts_are_absent_attributes() -> None:
    done = run_python(
        BLOCKED
        + """
import inspect, pydoc
for name, cure in (("jax", "pip install jax"), ("torch", "pip install torch"), ("ray", "pip install 'ray[data]'")):
    assert not hasattr(fl, name)
    try:
        getattr(fl, name)
    except AttributeError as error:
        assert cure in str(error), error
    try:
        exec(f"import fuseloop.{name}")
    except ImportError as error:
        assert cure in str(error), error
    else:
        raise AssertionError(name)
    try:
        exec(f"from fuseloop import {name}")
    except ImportError as error:
        assert cure in str(error), error
    else:
        raise AssertionError(name)
found = dict(inspect.getmembers(fl))
assert {"Loader", "sources", "write", "ffcv"} <= set(found), found
assert "jax" not in found
text = pydoc.render_doc(fl, renderer=pydoc.plaintext)
assert "class Loader" in text and len(text) > 20000, text[:300]
assert "class RandomResizedCrop" in pydoc.render_doc(fl.ops, renderer=pydoc.plaintext)
"""
    )
    assert done.returncode == 0, done.stderr


def test_an_import_loads_little_beyond_numpy() -> None:
    done = run_python(
        """
import sys, numpy
before = set(sys.modules)
import fuseloop
loaded = {name.removeprefix("fuseloop.") for name in set(sys.modules) - before}
late = {"detection", "ffcv", "jax", "metrics", "ray", "sources", "torch", "write", "_values", "_workers"}
assert not loaded & late, loaded & late
slow = {"concurrent", "hashlib", "html", "multiprocessing", "subprocess", "tempfile", "torch", "typing_extensions"}
others = {name.partition(".")[0] for name in loaded}
assert not others & slow, others & slow
# 17 of the standard library with Python 3.11 and NumPy 2, and 12 of the package itself.
assert len(others) <= 36, sorted(others)
"""
    )
    assert done.returncode == 0, done.stderr
