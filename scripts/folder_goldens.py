#!/usr/bin/env python3
"""Writes the order of torchvision's ImageFolder over a tree of unusual names.

    python scripts/folder_goldens.py tests/golden/folder/imagefolder.txt        (needs torchvision)

Each line of the result has a class's number, a tab, and the path relative to the folder.
"""

import pathlib
import sys
import tempfile

from torchvision.datasets import ImageFolder

FILES = """
b/2.jpg b/10.JPEG b/1.Jpg B/x.png a/deep/er/1.jpeg a/deep/0.jpg a/deep-er/1.jpg a/deep.er/1.jpg
a/deep er/9.jpg a/0.jpg a/zz.jpg a/notes.txt a/deep/notes.md ä/ü.jpg ä/u.jpg z/日本/1.png z/éa.jpg
z/e\u0301a.jpg 10/1.jpg 9/1.jpg a/deep/er/x.JPG a/deeper/1.jpg a/-.jpg a/_.jpg
""".replace("deep er", "deep\0er").split()


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in FILES:
            path = root / name.replace("\0", " ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        samples = ImageFolder(str(root)).samples
        lines = [f"{label}\t{pathlib.Path(path).relative_to(root)}\n" for path, label in samples]
    out = pathlib.Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(lines), encoding="utf-8")


main()
