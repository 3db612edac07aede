"""Writes what follows from something else: fuseloop/ops.py from the registry of ops of the compiled module; the
signatures of the loaders of fuseloop/torch.py, fuseloop/jax.py and fuseloop/ray, for checkers of types, from
fuseloop.Loader's; and the tables of docs/migration.md from those by which transforms of other libraries become ops.

    python tools/generate.py            writes the files
    python tools/generate.py --check    fails if a file is not what would be written
"""

import argparse
import ast
import importlib
import json
import keyword
import sys
import textwrap
from pathlib import Path

from fuseloop import _draws, _pixel_op, _trace
from fuseloop._fuseloop import registry

PACKAGE = Path(__file__).resolve().parent.parent / "fuseloop"

HEAD = '''"""The ops: what a list of an output can have, in the order in which they run.

Written by tools/generate.py from the registry of the compiled module. The same names and parameters are used in Rust
and in pipeline files; ``docs/ops`` shows each op with pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._draws import *  # noqa: F403
from ._lambda import Lambda
from ._op import Compose, Op, _plain, _unless, from_albumentations, from_timm, from_torchvision
from ._pixel_op import *  # noqa: F403
from ._trace import *  # noqa: F403
from ._trace import abs as abs
from ._trace import round as round

if not TYPE_CHECKING:

    def __getattr__(name: str):
        from ._hints import missing_op

        raise missing_op(name)


Interpolation = Literal[
    "bilinear", "area", "nearest", "nearest-exact", "bicubic", "bilinear-aliased", "bicubic-aliased"
]
Device = Literal["auto", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7"]
Pair = Sequence[float]
Size = int | Sequence[int]
Color = int | Sequence[int]
'''

# The functions of ops.py that convert transforms of other libraries.
FUNCTIONS = ["from_albumentations", "from_timm", "from_torchvision"]

# What the kinds of parameters are in Python.
TYPES = {
    "Bool": "bool",
    "Number": "float",
    "Whole": "int",
    "Integer": "int",
    "Size": "Size",
    "Sizes": "Iterable[Size]",
    "Kernel": "Size",
    "Sides": "Size",
    "Pair": "Pair",
    "Range": "Pair",
    "NumberOrRange": "float | Pair",
    "Shear": "float | Pair",
    "Color": "Color",
    "Channels": "Sequence[float]",
    "Paint": 'float | Sequence[float] | Literal["random"]',
    "Permutation": "Sequence[int]",
    "Matrix": "Iterable[float]",
    "Levels": "Iterable[float]",
    "Numbers": "Iterable[float]",
    "Ids": "Iterable[int]",
    "Shape": "Sequence[int]",
    "DType": "Any",
    "Text": "str",
    "Words": "Iterable[str]",
    "Ops": "Iterable[Op]",
    "Table": "Mapping[str, Any]",
}

# The statistics that everyone uses and the sizes that follow from an area, as in Rust.
EXTRAS = {
    "Normalize": '''
    @classmethod
    def imagenet(cls) -> Normalize:
        """Returns the op with the mean and the standard deviation of ImageNet."""
        return cls((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    @classmethod
    def cifar10(cls) -> Normalize:
        """Returns the op with the mean and the standard deviation of CIFAR-10."""
        return cls((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.201))
''',
    "ResizeToBucket": '''
    @classmethod
    def of_area(
        cls,
        size: Size,
        sides: Sequence[int] = (512, 2048),
        step: int = 64,
        random_crop: bool = False,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> ResizeToBucket:
        """Returns the op with the buckets of an area: those of kohya's ``make_bucket_resolutions``.

        Args:
            size: Whose pixels are the area. Expected: pixels, or (height, width).
            sides: The first and the last length of a side. Expected: (first, last).
            step: The distance between two lengths of a side. Expected: pixels.
            random_crop: As for the op.
            interpolation: As for the op.
            antialias: As for the op.

        >>> len(ResizeToBucket.of_area(1024).sizes)
        33
        """
        from ._fuseloop import bucket_sizes

        sizes = bucket_sizes(_plain(size), _plain(sides), _plain(step))
        return cls(sizes, random_crop=random_crop, interpolation=interpolation, antialias=antialias)
''',
}

# A parameter in place of others: with it, their defaults are not passed on.
INSTEAD = {"RandAugment": ("config", ("num_ops", "magnitude", "num_magnitude_bins"))}


# Types with a name, by their first and last words.
NAMED = {("bilinear", "bicubic-aliased"): "Interpolation", ("auto", "cuda:7"): "Device"}


def literal(words):
    return NAMED.get((words[0], words[-1])) or "Literal[" + ", ".join(f'"{word}"' for word in words) + "]"


def code(value):
    """Returns Python for a value, with double quotes."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        inside = ", ".join(code(item) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)


def argument(param):
    kind = literal(param["words"]) if param["words"] else TYPES[param["kind"]]
    name = param["name"]
    if keyword.iskeyword(name):
        raise ValueError(f"{name} is a keyword of Python")
    if param["need"] == "required":
        return f"{name}: {kind}"
    if param["need"] == "default":
        return f"{name}: {kind} = {code(param['value'])}"
    return f"{name}: {kind} | None = None"


def ordered(params):
    """Returns the parameters in their order, those that must be given first: Python asks for that."""
    return sorted(params, key=lambda param: param["need"] != "required")


def sentence(text):
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?", ":")) else text + "."


def paragraph(text, indent):
    lines = textwrap.wrap(text, 118 - indent)
    return ("\n" + " " * indent).join(lines)


def example(op):
    given = [code(param["value"]) for param in ordered(op["params"]) if param["need"] == "required"]
    return f"{op['name']}({', '.join(given)})"


def docstring(op):
    lines = [paragraph(sentence(op["summary"]), 4)]
    if op["params"]:
        lines += ["", "Args:"]
        for param in ordered(op["params"]):
            doc = f"{param['name']}: {sentence(param['doc'])}"
            if not param["words"] and param["kind"] not in ("Bool", "Number", "Whole", "Integer"):
                doc += f" Expected: {param['expected'].replace('[', '(').replace(']', ')')}."
            wrapped = textwrap.wrap(doc, 110)
            lines += ["    " + wrapped[0], *("        " + line for line in wrapped[1:])]
    if not any(param["kind"] == "Ops" for param in op["params"]):
        shown = example(op)
        if len(shown) < 100:
            lines += ["", f">>> {shown}", shown.replace('"', "'")]
    text = "\n".join(("    " + line) if line and k else line for k, line in enumerate(lines))
    return f'    """{text}\n    """'


def passed_on(op, param):
    """Returns the argument of Op for a parameter."""
    name = param["name"]
    other, others = INSTEAD.get(op["name"], ("", ()))
    return f"{name}=_unless({other}, {name}, {code(param['value'])})" if name in others else f"{name}={name}"


def written(op):
    params = ordered(op["params"])
    arguments = ", ".join(["self", *map(argument, params)])
    passed = ", ".join(passed_on(op, param) for param in params)
    match = ", ".join(f'"{param["name"]}"' for param in params)
    match = f"({match}{',' if len(params) == 1 else ''})"
    head = f"    def __init__({arguments}) -> None:"
    if len(head) > 120:
        lines = [f"        {argument(param)}," for param in params]
        head = "\n".join(["    def __init__(", "        self,", *lines, "    ) -> None:"])
    call = f"        super().__init__({passed})"
    if len(call) > 120:
        lines = [f"            {passed_on(op, param)}," for param in params]
        call = "\n".join(["        super().__init__(", *lines, "        )"])
    if len(match) > 96:
        match = "(\n" + "".join(f'        "{param["name"]}",\n' for param in params) + "    )"
    extras = EXTRAS.get(op["name"], "")
    return (
        f"class {op['name']}(Op):\n{docstring(op)}\n\n    __slots__ = ()\n    __match_args__ = {match}\n"
        f'    name = "{op["name"]}"\n\n{head}\n{call}\n{extras}'
    )


def text():
    found = registry()
    names = sorted([op["name"] for op in found] + [alias for op in found for alias in op["aliases"]])
    traced = sorted([*_draws.__all__, *_pixel_op.__all__, *_trace.__all__])
    listed = "".join(f'    "{name}",\n' for name in ["Compose", "Lambda", "Op", *FUNCTIONS, *traced, *names])
    parts = [HEAD, f"__all__ = [\n{listed}]\n\n"]
    for op in found:
        parts.append("\n" + written(op) + "\n")
        parts += [f"\n{alias} = {op['name']}\n" for alias in op["aliases"]]
    return "".join(parts).rstrip("\n") + "\n"


# The parameters of the loaders of fuseloop.ray.
ACTORS = [
    "actors: int = 2",
    "num_cpus: float = 1",
    "ray_remote_args: dict[str, Any] | None = None",
    "retries: int = 3",
    "batches_ahead: int | None = None",
]
# The signatures of the loaders of frameworks: of each the type of a batch, and the parameters of its own.
SIGNATURES = {
    "torch.py": [
        (
            "tuple[torch.Tensor, ...]",
            ["as_dict: Literal[False] = False", "channels_last: bool = False", "after: None = None"],
        ),
        ("dict[str, torch.Tensor]", ["as_dict: Literal[True]", "channels_last: bool = False", "after: None = None"]),
        ("", ["as_dict: bool = False", "channels_last: bool = False", "after: Callable[..., B]"]),
    ],
    "jax.py": [("", ["sharding: Shardings | None = None"])],
    "ray/_loader.py": [("", ACTORS)],
}
SIGNATURES["ray/_torch.py"] = [(batch, [*form, *ACTORS]) for batch, form in SIGNATURES["torch.py"]]
BEGIN = "        # Signatures of __init__, written by tools/generate.py.\n"
END = "        # End of the signatures.\n"


def loader_parameters():
    """Returns the parameters of fuseloop.Loader by keyword, as they are written there."""
    tree = ast.parse((PACKAGE / "loader.py").read_text(encoding="utf-8"))
    loader = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Loader")
    init = next(node for node in loader.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    assert init.args.kwarg is not None
    fields = f"**{init.args.kwarg.arg}: {ast.unparse(init.args.kwarg.annotation)}"
    given = zip(init.args.kwonlyargs, init.args.kw_defaults)
    dataset = ast.unparse(init.args.posonlyargs[1].annotation)
    keywords = [
        f"{arg.arg}: {ast.unparse(arg.annotation)} = {ast.unparse(default)}".replace("'", '"') for arg, default in given
    ]
    return dataset, keywords, fields


def signatures(name, kinds):
    dataset, keywords, fields = loader_parameters()
    made = []
    for batch, own in kinds:
        owner = f"self: {name}[{batch}]" if batch else "self"
        replaced = {parameter.partition(":")[0] for parameter in own}
        others = [parameter for parameter in keywords if parameter.partition(":")[0] not in replaced]
        listed = [owner, f"dataset: {dataset}", "/", "batch_size: int = 64", "*", *own, *others, fields]
        lines = "".join(f"            {parameter},\n" for parameter in listed)
        overload = "        @overload\n" if len(kinds) > 1 else ""
        made.append(f"{overload}        def __init__(\n{lines}        ) -> None: ...\n")
    if len(kinds) > 1:
        # What Python asks of overloads outside of stubs.
        made.append("        def __init__(self, dataset: Any, /, batch_size: Any = 64, **given: Any) -> None: ...\n")
    return "\n".join(made)


def with_signatures(name):
    before, rest = (PACKAGE / name).read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    loader = "TorchLoader" if name == "ray/_torch.py" else "Loader"
    return f"{before}{BEGIN}{signatures(loader, SIGNATURES[name])}{END}{after}"


# The pages with tables, next to the package.
PAGE = PACKAGE.parent.parent / "docs" / "migration.md"
TABLES = ("torchvision", "albumentations", "timm")


COUNTS = Path(__file__).with_name("op_counts.json")


def counted(library, table):
    """Returns a sentence on the classes without an op that public code names, or an empty text."""
    counts = json.loads(COUNTS.read_text(encoding="utf-8")).get(library)
    if counts is None:
        return ""
    named = {name: sources for name, (sources, _) in counts["classes"].items() if sources >= 2 and name in table}
    without = [f"`{name}` {sources}" for name, sources in named.items() if table[name].same == "absent"]
    listed = f"; without: {', '.join(without)}" if without else ""
    return (
        f"Of {len(counts['sources'])} public projects that use it, two or more name {len(named)} of these classes, of which "
        f"{len(named) - len(without)} have an op{listed} ([how it was counted](#how-often-classes-are-used)).\n\n"
    )


def with_tables():
    """Returns the page with the tables of the classes of other libraries."""
    page = PAGE.read_text(encoding="utf-8")
    for library in TABLES:
        table = importlib.import_module(f"fuseloop._{library}").TABLE
        begin = f"<!-- python/tools/generate.py: {library} -->\n"
        before, rest = page.split(begin)
        _, end, after = rest.partition("<!-- end -->\n")
        lines = "".join(table[name].printed(name) for name in sorted(table, key=str.lower))
        page = f"{before}{begin}{counted(library, table)}| {library} | Fuseloop | images |\n|---|---|---|\n{lines}{end}{after}"
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    written = {PACKAGE / "ops.py": text(), **{PACKAGE / name: with_signatures(name) for name in SIGNATURES}}
    written[PAGE] = with_tables()
    for path, made in written.items():
        if not is_check:
            path.write_text(made, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != made:
            sys.exit(f"{path.name} is not what would be written: run python tools/generate.py")


if __name__ == "__main__":
    main()
