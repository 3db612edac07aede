"""Checks wheels before they are published: ``python check_wheel.py [--torch] WHEEL ...``

Each wheel has at most 10 MiB, the files that it needs, its licences, and no function of a newer glibc than its name
says. It is installed into a fresh virtual environment if an interpreter for it is found, and runs there: the command
by its module and by its script, the demo, and the Python of the README. Needs the standard library only; pip fetches
NumPy, and PyTorch with ``--torch``. Without PyTorch, the README's loader is that of NumPy.
"""

from __future__ import annotations

import argparse
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MOST = 10 << 20
"""The largest wheel in bytes."""

NEEDED = ["__init__.py", "__main__.py", "_fuseloop.pyi", "loader.py", "ops.py", "py.typed"]


def contents(wheel: Path) -> str:
    """Checks the file, and returns what was found in a line."""
    size = wheel.stat().st_size
    if size > MOST:
        raise SystemExit(f"{wheel.name} has {size:,} bytes, expected at most {MOST:,}")
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        missing = [name for name in NEEDED if f"fuseloop/{name}" not in names]
        if missing:
            raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")
        modules = [name for name in names if re.fullmatch(r"fuseloop/_fuseloop\.[\w.-]*(so|pyd)", name)]
        if len(modules) != 1:
            raise SystemExit(f"{wheel.name} has the compiled modules {modules}, expected one")
        code = files.read(modules[0])
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"]:
            held = [files.read(name) for name in names if name.endswith(f".dist-info/licenses/{licence}")]
            if held != [(ROOT / licence).read_bytes()]:
                raise SystemExit(f"{wheel.name} does not hold {licence} of the repository's root")
        entries = next(files.read(name).decode() for name in names if name.endswith("/entry_points.txt"))
    if "fuseloop=fuseloop.__main__:main" not in entries.replace(" ", ""):
        raise SystemExit(f"{wheel.name} does not install the command fuseloop")
    found = f"{wheel.name}: {size / (1 << 20):.1f} MiB"
    newest = max((int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", code)), default=None)
    if newest is not None:
        floors = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", wheel.name)]
        if not floors or newest > min(floors):
            raise SystemExit(f"{wheel.name} needs glibc 2.{newest}, which is newer than its name says")
        found += f", glibc 2.{newest}"
    return found


def interpreter(wheel: Path) -> str | None:
    """Returns an interpreter that can install the wheel, if one is found."""
    python, abi = wheel.stem.split("-")[2:4]
    name = f"python{python[2]}.{python[3:]}"
    candidates = [sys.executable, name]
    if abi.endswith("t"):
        # That of the stable ABI runs with the GIL, too.
        candidates = [name + "t", *(candidates if "." in abi else [])]
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is None:
            continue
        # pip knows which wheels an interpreter takes.
        with tempfile.TemporaryDirectory() as folder:
            target = ["install", "--quiet", "--dry-run", "--no-deps", "--target", folder]
            if run([path, "-m", "pip", *target, str(wheel)], check=False).returncode == 0:
                return path
    return None


def run(command: list[str], *, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command for at most ten minutes. With ``check``, a failure ends the program with its output."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=600)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def png(level: int, width: int, height: int) -> bytes:
    """Returns an image in RGB."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((level + x + y) % 256 for x in range(3 * width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def readme(has_torch: bool) -> str:
    """Returns the Python of the README, up to the second block, as a script."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    script = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[:2])
    # One epoch of few images, in batches that they fill.
    script = script.replace("range(16)", "range(1)").replace("batch_size=256", "batch_size=8")
    if not has_torch:
        script = script.replace("fl.torch.Loader", "fl.Loader")
    return f"seen = []\ntrain = lambda images, labels: seen.append(images.shape)\n{script}\nprint(seen, x.shape)\n"


def installed(wheel: Path, python: str, torch: bool) -> None:
    """Installs the wheel into a fresh environment and uses it there."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        run([python, "-m", "venv", str(here / "venv")])
        programs = here / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        own = str(programs / "python")
        pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, str(wheel), *(["torch"] if torch else [])])
        version = wheel.name.split("-")[1]
        for command in [[own, "-m", "fuseloop"], [str(programs / "fuseloop")]]:
            found = run([*command, "--version"], cwd=here).stdout.split()
            if found != ["fuseloop", version]:
                raise SystemExit(f"{' '.join(command)} --version printed {found}, expected fuseloop {version}")
        refused = run([own, "-m", "fuseloop", "no-command"], check=False, cwd=here)
        if refused.returncode != 2:
            raise SystemExit(f"a command that does not exist ended with {refused.returncode}, expected 2")
        demo = run([own, "-m", "fuseloop", "demo"], cwd=here).stdout
        if not (here / "fuseloop-demo.png").exists():
            raise SystemExit(f"the demo wrote no fuseloop-demo.png\n{demo}")
        for label in range(2):
            images = here / "photos" / "train" / f"class{label}"
            images.mkdir(parents=True)
            for number in range(8):
                (images / f"{number}.png").write_bytes(png(64 * label + number, 96, 80))
        (here / "readme.py").write_text(readme(torch), encoding="utf-8")
        printed = run([own, "readme.py"], cwd=here).stdout.strip()
        if printed.count("8, 3, 224, 224") != 2:
            raise SystemExit(f"the README's Python printed {printed}, expected two batches of 8 images")
    print(f"{wheel.name}: runs in {python}")


def main() -> None:
    """Checks the wheels of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--torch", action="store_true", help="install PyTorch, whose loader the README shows")
    parser.add_argument("--all", action="store_true", help="fail for a wheel for which no interpreter is found")
    args = parser.parse_args()
    for wheel in args.wheels:
        print(contents(wheel))
        python = interpreter(wheel)
        if python is not None:
            installed(wheel.resolve(), python, args.torch)
        elif args.all:
            raise SystemExit(f"no interpreter for {wheel.name} was found")
        else:
            print(f"{wheel.name}: no interpreter for it was found: it was not run")


if __name__ == "__main__":
    main()
