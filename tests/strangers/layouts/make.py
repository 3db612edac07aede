"""Makes the layouts of this area, with Pillow and Python's tarfile: python make.py."""

import io
import json
import tarfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent


def encoded(value, format):
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (value, 255 - value, 128)).save(out, format=format)
    return out.getvalue()


def put(path, data):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def shard(path, members):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def classes(path, names):
    lines = ",\n".join(json.dumps({"number": k, "name": name}, separators=(",", ":")) for k, name in enumerate(names))
    put(f"{path}.classes.json", f'{{"fuseloop":"classes","version":1,"classes":[\n{lines}\n]}}\n'.encode())


# Images and their masks, by the names that labelling tools give the folders.
put("masks-png/images/1.jpg", encoded(40, "JPEG"))
put("masks-png/masks_png/1.png", encoded(50, "PNG"))
put("pets/images/1.jpg", encoded(60, "JPEG"))
put("pets/annotations/trimaps/1.png", encoded(70, "PNG"))
# Folders in class folders: those of a split, those that may be the classes, and those that hold the images of a class.
for number, path in enumerate(("train/cat/1.jpg", "train/dog/2.jpg", "cat/3.jpg", "dog/4.jpg")):
    put(f"split-beside/{path}", encoded(10 * number, "JPEG"))
for number, path in enumerate(("animal/cat/1.jpg", "animal/2.jpg", "thing/car/3.jpg")):
    put(f"inner/{path}", encoded(20 * number, "JPEG"))
for number, path in enumerate(("n01443537/images/1.jpg", "n01629819/images/2.jpg", "train/3.jpg")):
    put(f"inner-images/{path}", encoded(30 * number, "JPEG"))
for number, path in enumerate(("cat/1.jpg", "dog/2.jpg", "test/3.jpg")):
    put(f"split-flat/{path}", encoded(30 * number, "JPEG"))
# What lies next to the folders of YOLO and of Pascal VOC.
put("yolo/data.yaml", b"train: images/train\nval: images/val\nnames: [cat, dog]\n")
put("voc/1.xml", b"<annotation><filename>1.jpg</filename></annotation>\n")
# Shards of two datasets with other numbers of classes, with the same, and with more of the same.
for name, value, label in (("ab", 80, b"0"), ("ba", 90, b"1"), ("abc", 100, b"2"), ("plain", 110, b"1")):
    shard(f"joined/{name}.tar", [("1.jpg", encoded(value, "JPEG")), ("1.cls", label)])
classes("joined/ab.tar", ["ant", "bee"])
classes("joined/ba.tar", ["bee", "ant"])
classes("joined/abc.tar", ["ant", "bee", "cow"])
# Shards whose first samples have other extensions.
shard("mixed/0.tar", [("1.jpg", encoded(120, "JPEG")), ("1.cls", b"0")])
shard("mixed/1.tar", [("2.png", encoded(130, "PNG")), ("2.cls", b"1")])
# Tables whose files do not exist, and one whose only number is no label.
put("rows/x/1.jpg", encoded(140, "JPEG"))
put("rows/x/2.jpg", encoded(150, "JPEG"))
put("rows/other-root.csv", b"path,label\n1.jpg,cat\n2.jpg,dog\n")
put("rows/half.csv", b"path,label\nx/1.jpg,cat\nx/3.jpg,dog\n")
put("rows/two-delimiters.csv", b"path,label;split\nx/1.jpg;train,cat\nx/2.jpg;val,dog\n")
put("rows/age.csv", b"path,age\nx/1.jpg,31\nx/2.jpg,28\n")
put("rows/class-id.csv", b"path,class_id\nx/1.jpg,3\nx/2.jpg,5\n")
