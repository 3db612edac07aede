"""Makes the files of this folder, with Pillow: pictures under names that shells, patterns and addresses treat specially.

Windows can store all of them, so none has a `?` or a `:`.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
NAMES = [
    "odd [names] {0..1}/cat #1/a b%20.png",
    "odd [names] {0..1}/dog &x=1/-c;;d.png",
    "odd [names] {0..1}/dog &x=1/é\u202ef.png",
    "-dash/--help/1.png",
]

for number, name in enumerate(NAMES):
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (40 * number, 90, 200)).save(path)
(HERE / "windows.csv").write_bytes(
    b"\xef\xbb\xbfpath,label\r\n" + "".join(f"{name},{k}\r\n" for k, name in enumerate(NAMES[:2])).encode()
)
