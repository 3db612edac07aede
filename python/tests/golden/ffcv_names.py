"""Writes ``ffcv_names.json``, in an environment with FFCV 1.0.2: what each of its modules defines and exports, and
the parameters of functions and methods."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
from pathlib import Path


def parameters(function):
    """Returns the parameters of a function, each as its name, or as ``name=default`` if the default is plain."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        name, default = parameter.name, parameter.default
        if parameter.kind is parameter.VAR_POSITIONAL:
            name = f"*{name}"
        if default is not parameter.empty:
            plain = default is None or isinstance(default, (bool, int, float, str, tuple))
            name = f"{name}={default!r}" if plain else f"{name}=..."
        found.append(name)
    return found


def described(value):
    """Describes a class by its methods and properties, a function by its parameters, and other values not at all."""
    if inspect.isclass(value):
        found = {}
        for name, code in vars(value).items():
            code = code.__func__ if isinstance(code, (staticmethod, classmethod)) else code
            if name == "__init__" or not name.startswith("_"):
                found[name] = parameters(code) if inspect.isfunction(code) else None
        return found
    code = getattr(value, "py_func", value)
    return parameters(code) if inspect.isfunction(code) else None


def names_of(module):
    """Returns what a module defines, and the names that it exports from others."""
    defined = set()
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            defined.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    found = {name: described(getattr(module, name)) for name in sorted(defined) if not name.startswith("_")}
    return found | {name: None for name in getattr(module, "__all__", ()) if name not in found}


def names():
    """Returns the public names of all modules of FFCV but for its benchmarks and its C library."""
    import ffcv

    modules = ["ffcv", *(module.name for module in pkgutil.walk_packages(ffcv.__path__, "ffcv."))]
    modules = [name for name in modules if not name.startswith(("ffcv.benchmarks", "ffcv._libffcv"))]
    return {name: names_of(importlib.import_module(name)) for name in modules}


if __name__ == "__main__":
    lines = ",\n".join(f"{json.dumps(module)}: {json.dumps(found)}" for module, found in names().items())
    (Path(__file__).parent / "ffcv_names.json").write_text("{\n" + lines + "\n}\n")
