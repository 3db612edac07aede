"""Writes goldens of WebDataset shards: files written by webdataset and tarfile, and the samples webdataset reads.

    pip install webdataset==1.0.2 numpy pillow
    python scripts/webdataset_goldens.py            # writes tests/golden/webdataset/

| file            | written by              | content                                           |
|-----------------|-------------------------|---------------------------------------------------|
| names.json      | this script             | names, and the key and extension of each          |
| tiny-0.tar, -1  | webdataset.ShardWriter  | jpg, cls, json, npy, txt: five samples             |
| objects.tar     | webdataset.ShardWriter  | jpg, bbox.npy, category_id.npy, segmentation.json: objects |
| gnu.tar         | tarfile, GNU_FORMAT     | long names, a sparse-free member of no bytes       |
| pax.tar         | tarfile, PAX_FORMAT     | long names, names beyond ASCII, global headers     |
| ustar.tar       | tarfile, USTAR_FORMAT   | a prefix, links, folders, a FIFO                   |
| tiny-0.tar.gz   | gzip of tiny-0.tar      |                                                   |
| tiny-0.tar.zst  | the zstd tool           | two frames, one with a checksum, a skippable one   |
| *.json          | webdataset.WebDataset   | samples: key, and per extension hex and value     |
"""

import gzip
import io
import json
import os
import random
import re
import subprocess
import tarfile

import numpy as np
import webdataset
from PIL import Image
from webdataset.autodecode import basichandlers
from webdataset.tariterators import base_plus_ext

FOLDER = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "webdataset")


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


def path(name):
    return os.path.join(FOLDER, name)


def names():
    draw = random.Random(1)
    rows = {}
    while len(rows) < 2000:
        name = "".join(draw.choices("aA.//__\n", k=draw.randint(1, 9)))
        if draw.random() < 0.2:
            name = "__" + name + "__" + draw.choice(["", "/a.b", "\n", ".x", "\n/a.b"])
        key, ext = base_plus_ext(name)
        if re.match(r"__[^/]*__($|/)", name):
            key, ext = None, None
        rows[name] = [name, key, None if ext is None else ext.lower()]
    with open(path("names.json"), "w") as file:
        json.dump(list(rows.values()), file, indent=None, separators=(",", ":"))


def jpeg(number):
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3) + np.uint8(number * 20)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def tiny():
    with webdataset.ShardWriter(path("tiny-%d.tar"), maxcount=3, verbose=0, mtime=0) as writer:
        for number in range(5):
            writer.write(
                {
                    "__key__": f"train/{number:04d}",
                    "jpg": jpeg(number),
                    "cls": number * 7 - 3,
                    "json": {"caption": f"größe {number}", "boxes": [[1, 2, number]]},
                    "npy": np.arange(6, dtype="<f4").reshape(2, 3) + number,
                    "txt": f"line {number}\n",
                }
            )
    with open(path("tiny-0.tar"), "rb") as plain, open(path("tiny-0.tar.gz"), "wb") as packed:
        packed.write(gzip.compress(plain.read(), mtime=0))
    with open(path("tiny-0.tar"), "rb") as plain, open(path("tiny-0.tar.zst"), "wb") as packed:
        packed.write(zstd(plain.read(9000), "--check", "-19", "--long=27"))
        packed.write(bytes.fromhex("502a4d18") + (5).to_bytes(4, "little") + b"index")
        packed.write(zstd(plain.read(), "--no-check", "-1"))


def objects():
    with webdataset.ShardWriter(path("objects-%d.tar"), verbose=0, mtime=0) as writer:
        for number, count in enumerate([2, 0, 3]):
            boxes = np.arange(4 * count, dtype="<f4").reshape(count, 4) / 3 + number
            writer.write(
                {
                    "__key__": f"{number}",
                    "jpg": jpeg(number),
                    "bbox.npy": boxes,
                    "category_id.npy": np.arange(count, dtype="<i8") * 5 - 1,
                    "segmentation.json": [[[1, 1, 1, 4, 5, 4.5]], None, None][:count],
                }
            )
    os.replace(path("objects-0.tar"), path("objects.tar"))


def add(archive, name, data=b"", **more):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    archive.addfile(info, io.BytesIO(data))


def archives():
    deep = "d" * 60 + "/" + "e" * 60 + "/" + "f" * 30
    with tarfile.open(path("gnu.tar"), "w", format=tarfile.GNU_FORMAT) as archive:
        add(archive, f"{deep}/" + "n" * 120 + ".txt", b"long")
        add(archive, f"{deep}/" + "n" * 120 + ".cls", b" 12\n")
        add(archive, "l.lnk", type=tarfile.SYMTYPE, linkname="t" * 150)
        add(archive, "empty.txt")
        add(archive, "empty.cls", b"-5")
    pax = {"comment": "of the archive as a whole"}
    with tarfile.open(path("pax.tar"), "w", format=tarfile.PAX_FORMAT, pax_headers=pax) as archive:
        add(archive, f"{deep}/größe-{'n' * 120}.txt", b"long", mtime=1.5)
        add(archive, f"{deep}/größe-{'n' * 120}.cls", b"+3", mtime=1.5)
        add(archive, "z.TXT", b"short", pax_headers={"SCHILY.xattr.user": "x"})
        add(archive, "z.Cls", b"4")
    with tarfile.open(path("ustar.tar"), "w", format=tarfile.USTAR_FORMAT) as archive:
        add(archive, "folder.d", type=tarfile.DIRTYPE)
        add(archive, "p" * 80 + "/" + "q" * 60 + ".txt", b"prefixed")
        add(archive, "link.txt", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        add(archive, "p" * 80 + "/" + "q" * 60 + ".cls", b"1")
        add(archive, "hard.txt", type=tarfile.LNKTYPE, linkname="../../escape")
        add(archive, "fifo.txt", type=tarfile.FIFOTYPE)
        add(archive, "__meta__/x.txt", b"passed over")
        add(archive, "README", b"passed over")
        add(archive, "../up.txt", b"only a key")
        add(archive, "../up.cls", b"2")


def value(ext, data):
    if ext == "jpg":
        return None
    found = basichandlers(ext.rsplit(".")[-1], data)
    if isinstance(found, np.ndarray):
        return {"dtype": found.dtype.str, "shape": found.shape, "values": found.ravel().tolist()}
    return found


def samples(name):
    read = webdataset.WebDataset(path(name), shardshuffle=False, empty_check=False)
    rows = []
    for sample in read:
        parts = {ext: data for ext, data in sample.items() if not ext.startswith("__")}
        row = {ext: {"hex": data.hex(), "value": value(ext, data)} for ext, data in parts.items()}
        rows.append({"key": sample["__key__"], "parts": row})
    with open(path(name + ".json"), "w") as file:
        json.dump(rows, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    names()
    tiny()
    objects()
    archives()
    for shard in ["tiny-0.tar", "tiny-1.tar", "objects.tar", "gnu.tar", "pax.tar", "ustar.tar"]:
        samples(shard)
