"""Writes ``ffcv_names.json``, in an environment with FFCV 1.0.2: for each of its modules the public classes and
functions that it has, with their parameters and defaults."""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
from pathlib import Path


def parameters(function):
    """Returns the parameters of a function: name, kind, and whether it has a default, and which if it is plain."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        plain = default is None or isinstance(default, (bool, int, float, str, tuple))
        shown = None if default is parameter.empty else ["default", default if plain else "..."]
        found.append([parameter.name, parameter.kind.name, shown])
    return found


def names_of(module):
    """Returns the public names of a module."""
    found = {}
    for name, value in sorted(vars(module).items()):
        is_exported = name in getattr(module, "__all__", ())
        if name.startswith("_") or not (is_exported or getattr(value, "__module__", None) == module.__name__):
            continue
        if inspect.isclass(value):
            methods = {}
            if not issubclass(value, enum.Enum):
                for method, code in inspect.getmembers(value):
                    own = getattr(code, "__module__", "") or ""
                    if (method == "__init__" or not method.startswith("_")) and own.startswith("ffcv."):
                        methods[method] = parameters(code) if callable(code) else "property"
            found[name] = {"class": methods}
        elif callable(value):
            found[name] = {"function": parameters(getattr(value, "py_func", value))}
    return found


def names():
    """Returns the public names of all modules of FFCV."""
    import ffcv

    modules = ["ffcv", *(module.name for module in pkgutil.walk_packages(ffcv.__path__, "ffcv."))]
    return {module: names_of(importlib.import_module(module)) for module in modules if "__main__" not in module}


if __name__ == "__main__":
    lines = ",\n".join(f"{json.dumps(module)}: {json.dumps(found)}" for module, found in names().items())
    (Path(__file__).parent / "ffcv_names.json").write_text("{\n" + lines + "\n}\n")
