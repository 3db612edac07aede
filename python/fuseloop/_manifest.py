"""Manifests: the shards of a dataset as one, listed in a JSON file next to them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._fuseloop import Dataset, open_split
from .errors import ConfigError, DatasetError, DatasetNotFoundError

NAME = "manifest.json"

# A larger file is no manifest: a shard takes about 150 bytes.
_MAX_BYTES = 256 << 20


def is_manifest(name: Any) -> bool:
    """True for the name of a manifest: ``manifest.json``, or a JSON file that begins like one. Other JSON files are
    annotations of images."""
    if not isinstance(name, (str, os.PathLike)) or not os.fspath(name).endswith(".json") or "://" in os.fspath(name):
        return False
    path = Path(name)
    if path.name == NAME:
        return True
    # Opening a pipe would wait for its other end.
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"fuseloop_manifest"' in file.read(4096)


def check_split(split: Any) -> None:
    """Refuses a split that is not a name."""
    if not isinstance(split, str) or not split:
        raise ConfigError(f"split is {split!r}, expected a name such as 'train'")


@contextmanager
def of_frames(are_frames: bool) -> Iterator[None]:
    """Ignores the warning of folders inside of the class folders while a dataset is opened, if they are of frames."""
    if not are_frames:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* are in folders inside of the class folders")
        yield


def opened(
    name: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Dataset], split: str | None = None
) -> Dataset:
    """Opens a dataset by its name, which may be that of a manifest; or several, which become one."""
    if split is not None:
        check_split(split)
        if not isinstance(name, (str, os.PathLike)):
            raise ConfigError(f"split={split!r} is of one name: open each with its split, and join them")
        return _split(os.fspath(name), split)
    if not isinstance(name, (str, os.PathLike)):
        from . import sources

        return sources.concat(name)
    return open_manifest(name) if is_manifest(name) else Dataset.open(name)


def _split(name: str, split: str) -> Dataset:
    return Dataset(open_split(name, split), (_split, (name, split)))


def entry(path: Path) -> dict[str, Any]:
    """Returns what a manifest says of a shard, and its fields."""
    dataset = Dataset.open(path)
    return {
        "name": path.name,
        "samples": len(dataset),
        "bytes": path.stat().st_size,
        "fingerprint": dataset.fingerprint,
        "fields": dict(dataset.fields),
    }


def write_manifest(folder: Path, shards: Iterable[Mapping[str, Any]]) -> Path:
    """Writes the manifest of shards, in the order of their names. It appears whole or not at all."""
    listed = sorted((dict(shard) for shard in shards), key=lambda shard: shard["name"])
    if not listed:
        raise ConfigError(f"{folder}: there are no samples to write")
    fields = listed[0]["fields"]
    for shard in listed:
        if shard["fields"] != fields:
            raise ConfigError(
                f"{shard['name']} has the fields {_text(shard['fields'])}, and {listed[0]['name']} {_text(fields)}: "
                "say by fields= what they are"
            )
        del shard["fields"]
    text = json.dumps({"fuseloop_manifest": 1, "fields": fields, "shards": listed}, indent=1) + "\n"
    # The system applies the umask. Reading it by os.umask would change it for other threads.
    temporary = folder / f".fuseloop-part-{os.urandom(8).hex()}"
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        target = folder / NAME
        if target.is_file():
            # What others may not read stays so.
            os.chmod(temporary, target.stat().st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return folder / NAME


def _text(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in fields.items())


def read_manifest(name: str | os.PathLike[str]) -> list[tuple[Path, dict[str, Any]]]:
    """Reads a manifest.

    Returns:
        The path of each shard, and what the manifest says of it.
    """
    path = Path(name)

    def damaged(why: str) -> DatasetError:
        error = DatasetError(f"{path}: no manifest of Fuseloop: {why}")
        error.path = str(path)
        return error

    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        missing = DatasetNotFoundError(f"{path}: no such file")
        missing.path = str(path)
        raise missing from None
    except OSError as error:
        raise damaged(str(error)) from error
    if len(text) > _MAX_BYTES:
        raise damaged(f"it has more than {_MAX_BYTES >> 20} MiB")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(f"it is no JSON ({error})") from None
    if not isinstance(found, dict) or found.get("fuseloop_manifest") != 1:
        raise damaged('expected {"fuseloop_manifest": 1, "shards": [...]}')
    shards = found.get("shards")
    if not isinstance(shards, list) or not shards:
        raise damaged("it lists no shards")
    listed = []
    for shard in shards:
        file_name = shard.get("name") if isinstance(shard, dict) else None
        # Only files beside the manifest, whatever its bytes say.
        if not isinstance(file_name, str) or file_name in ("", ".", "..") or set(file_name) & set("/\\\0{}"):
            raise damaged(f"{file_name!r} is not the name of a file next to it")
        listed.append((path.parent / file_name, shard))
    return listed


def open_manifest(name: str | os.PathLike[str]) -> Dataset:
    """Opens the shards of a manifest as one dataset, in their order."""
    from . import sources

    parts = []
    for path, shard in read_manifest(name):
        if not path.exists():
            missing = DatasetNotFoundError(f"{path}: this shard of {name} is missing")
            missing.path = str(path)
            raise missing
        part = sources.beton(path)
        for what, listed, own in [
            ("samples", shard.get("samples"), len(part)),
            ("fingerprint", shard.get("fingerprint"), part.fingerprint),
        ]:
            if listed != own:
                error = DatasetError(f"{path}: {what} {own}, but {name} lists {listed}: the shard was replaced")
                error.path = str(path)
                raise error
        parts.append(part)
    return sources.concat(parts)
