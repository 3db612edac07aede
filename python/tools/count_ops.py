"""Counts how often public code names each transform of Albumentations and torchvision.

    python tools/count_ops.py SOURCE... > tools/op_counts.json

A source is a wheel, a zip file, a folder or a Git repository (bare or not, whose HEAD is read). Of each file of Python
and each notebook that imports a library, the script finds the library's classes that the file names: behind an alias of
the module (``A.Blur``) or imported by name and called (``Blur(``). Nothing is executed. Classes are those of the
installed versions; names of older versions count for the classes that replaced them. Copies of a library are left out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

LIBRARIES = ("albumentations", "torchvision")
# Names of Albumentations 0.4 to 1.4, and the classes that have their effect today.
RENAMED = {
    "Cutout": "CoarseDropout", "Flip": "HorizontalFlip", "IAAAdditiveGaussianNoise": "GaussNoise", "IAAAffine": "Affine",
    "IAAEmboss": "Emboss", "IAAFliplr": "HorizontalFlip", "IAAFlipud": "VerticalFlip", "IAAPerspective": "Perspective",
    "IAAPiecewiseAffine": "PiecewiseAffine", "IAASharpen": "Sharpen", "IAASuperpixels": "Superpixels",
    "JpegCompression": "ImageCompression", "RandomBrightness": "RandomBrightnessContrast",
    "RandomContrast": "RandomBrightnessContrast", "ToTensor": "ToTensorV2",
}


def names(library: str) -> dict[str, str]:
    """Returns the names of a library's transforms, and the classes that they count for."""
    if library == "albumentations":
        import albumentations
        from albumentations.core.composition import BaseCompose
        from albumentations.core.transforms_interface import BasicTransform

        kinds, modules = (BasicTransform, BaseCompose), [albumentations, albumentations.pytorch]
        found = {name: name for module in modules for name in dir(module) if _is(getattr(module, name), kinds)}
        return {**found, **RENAMED}
    import torchvision.transforms.transforms as v1
    from torchvision.transforms import v2

    listed = {*v1.__all__, *(name for name in dir(v2) if isinstance(getattr(v2, name), type))}
    return {name: name for name in listed if name[:1].isupper() and name != "InterpolationMode"}


def _is(found: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(found, type) and issubclass(found, kinds) and found not in kinds


def texts(source: Path) -> Iterator[tuple[str, str]]:
    """Returns the path and the text of each file of Python and of each notebook."""
    if source.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(source) as archive:
            for path in archive.namelist():
                if path.endswith((".py", ".ipynb")):
                    yield path, archive.read(path).decode("utf-8", "replace")
    elif (source / "HEAD").exists():
        matching = _git(source, "grep", "-lz", "-e", "|".join(LIBRARIES), "-E", "HEAD", "--", "*.py", "*.ipynb")
        for path in filter(None, matching.split("\0")):
            yield path.removeprefix("HEAD:"), _git(source, "show", path)
    else:
        for file in sorted((*source.rglob("*.py"), *source.rglob("*.ipynb"))):
            yield str(file.relative_to(source)), file.read_text("utf-8", "replace")


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, check=arguments[0] != "grep").stdout.decode("utf-8", "replace")


def code(path: str, text: str) -> str:
    """Returns the Python code of a file."""
    if not path.endswith(".ipynb"):
        return text
    try:
        cells = json.loads(text)["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (ValueError, KeyError, TypeError):
        return ""


def named(library: str, known: dict[str, str], text: str) -> set[str]:
    """Returns the classes of a library that a file names."""
    aliases, imported = set(), set()
    for module, alias in re.findall(r"^\s*import\s+([\w.]+)(?:\s+as\s+(\w+))?", text, re.M):
        if module.split(".")[0] == library:
            aliases.add(alias or module)
    pattern = r"^\s*from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n\\]*(?:\\\n[^\n\\]*)*)"
    for module, items in re.findall(pattern, text, re.M):
        if module.split(".")[0] != library:
            continue
        for item in re.sub(r"#[^\n]*|[()\\]", " ", items).split(","):
            parts = re.fullmatch(r"(\*|\w+)(?:\s+as\s+(\w+))?", item.strip())
            name, alias = parts.groups() if parts else (None, None)
            if name == "*":
                imported |= set(known)
            elif name in known:
                imported.add(name)
            elif name:
                aliases.add(alias or name)
    found = set()
    for alias in aliases:
        found |= set(re.findall(rf"\b{re.escape(alias)}\.(?:transforms\.|v2\.|pytorch\.)*(\w+)", text))
    found |= {name for name in imported if re.search(rf"(?<![\w.]){name}\s*\(", text)}
    return {known[name] for name in found if name in known}


def label(source: Path) -> str:
    """Returns the name of a source with its version."""
    if source.suffix == ".whl":
        name, version = source.name.split("-")[:2]
        return f"{name} {version}"
    if (source / "HEAD").exists():
        name = next(part for part in reversed(source.parts) if part not in (".git", "repo"))
        return f"{name.replace('+', '/')} {_git(source, 'rev-parse', '--short=10', 'HEAD').strip()}"
    return source.name


def counted(sources: list[Path]) -> dict[str, object]:
    """Returns, for each class, how many sources and how many of their files name it."""
    result: dict[str, object] = {}
    known = {library: names(library) for library in LIBRARIES}
    by_source: dict[str, dict[str, set[str]]] = {library: defaultdict(set) for library in LIBRARIES}
    files: dict[str, Counter[str]] = {library: Counter() for library in LIBRARIES}
    totals = Counter[str]()
    for source in sources:
        for path, text in texts(source):
            for library in LIBRARIES:
                if library not in text or f"{library}/" in path and not path.startswith("examples"):
                    continue
                found = named(library, known[library], code(path, text))
                totals[library] += bool(found)
                files[library].update(found)
                for name in found:
                    by_source[library][name].add(label(source))
    for library in LIBRARIES:
        listed = sorted({one for found in by_source[library].values() for one in found}, key=str.lower)
        counts = {name: [len(by_source[library][name]), files[library][name]] for name in set(known[library].values())}
        ranked = sorted(counts.items(), key=lambda item: ([-count for count in item[1]], item[0]))
        result[library] = {"files": totals[library], "sources": listed, "classes": dict(ranked)}
    return result


if __name__ == "__main__":
    found = json.dumps(counted([Path(one) for one in sys.argv[1:]]), indent=1)
    print(re.sub(r"\[\n\s+(\d+),\n\s+(\d+)\n\s+\]", r"[\1, \2]", found))
