"""Checks that a release has one version: ``release_version.py [TAG]``

The workspace, its crates' requirements of each other, the Python package and the tag have the same; with a tag, its
section of CHANGELOG.md has a date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def toml(name: str) -> dict[str, object]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def versions() -> dict[str, str]:
    """Returns every place that says a version of this project, and the version that it says."""
    workspace: dict = toml("Cargo.toml")["workspace"]
    found = {"Cargo.toml": workspace["package"]["version"]}
    manifests = ["Cargo.toml", "python/Cargo.toml", *(f"{member}/Cargo.toml" for member in workspace["members"])]
    for name in manifests:
        manifest: dict = toml(name)
        version = manifest["package"]["version"]
        if isinstance(version, str) and not name.startswith("tests/"):
            found[f"{name}, package"] = version
        for crate, needed in manifest.get("dependencies", {}).items():
            if isinstance(needed, dict) and "path" in needed and "version" in needed:
                found[f"{name}, {crate}"] = needed["version"]
    return found


def main() -> None:
    """Ends with an error that names what differs."""
    found = versions()
    tags = [tag for tag in sys.argv[1:] if tag]
    for tag in tags:
        found[f"the tag {tag}"] = tag.removeprefix("v")
    if len(set(found.values())) != 1:
        raise SystemExit("versions differ: " + ", ".join(f"{where} has {version}" for where, version in found.items()))
    version = found["Cargo.toml"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(version)}\] - (\S+)", changelog, re.M)
    if section is None:
        raise SystemExit(f"CHANGELOG.md has no section [{version}]")
    if tags and not re.fullmatch(r"\d{4}-\d\d-\d\d", section[1]):
        raise SystemExit(f"CHANGELOG.md says {section[1]} for {version}: give it the date of the release")
    print(version)


if __name__ == "__main__":
    main()
