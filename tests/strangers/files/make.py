#!/usr/bin/env python3
"""Writes shards, TIFFs and annotations as other programs write them: ImageNet's TFRecords in the layout of TensorFlow's
build_imagenet_data.py, TIFFs with LZW by imagecodecs, archives by tar, VOC and COCO in other encodings.

    python make.py        (needs numpy, pillow, tifffile, imagecodecs, and GNU tar)
"""

import io
import json
import pathlib
import struct
import subprocess
import tarfile
import tempfile

import numpy as np
import tifffile
from PIL import Image

HERE = pathlib.Path(__file__).parent


def picture(height, width, shift=0):
    y, x = np.mgrid[:height, :width]
    return np.dstack([(x * 3 + y + shift) % 256, (y * 5) % 256, (x ^ y) % 256]).astype(np.uint8)


def file_of(array, form, **options):
    out = io.BytesIO()
    Image.fromarray(array).save(out, form, **options)
    return out.getvalue()


def at(name):
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


# TFRecord


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(value):
    if isinstance(value, bytes):
        return field(1, field(1, value))
    if isinstance(value, np.ndarray):
        return field(2, field(1, value.astype("<f4").tobytes()))
    return field(3, field(1, b"".join(varint(number) for number in value)))


def record(features):
    entries = b"".join(field(1, field(1, key.encode()) + field(2, feature(features[key]))) for key in sorted(features))
    data = field(1, entries)
    head = struct.pack("<Q", len(data))
    return head + masked(head) + data + masked(data)


def imagenet():
    out = b""
    for number, (synset, text, label) in enumerate([("n01440764", b"tench", 1), ("n01443537", b"goldfish, Carassius auratus", 2)]):
        pixels = picture(24, 32, 40 * number)
        jpeg = file_of(pixels, "JPEG", quality=90)
        if number == 0:
            Image.open(io.BytesIO(jpeg)).convert("RGB").save(at("imagenet.expected.png"))
        out += record({
            "image/height": [24], "image/width": [32], "image/colorspace": b"RGB", "image/channels": [3],
            "image/class/label": [label], "image/class/synset": synset.encode(), "image/class/text": text,
            "image/object/bbox/xmin": np.full(number, 0.25), "image/object/bbox/xmax": np.full(number, 0.5),
            "image/object/bbox/ymin": np.full(number, 0.25), "image/object/bbox/ymax": np.full(number, 0.5),
            "image/object/bbox/label": [label] * number, "image/format": b"JPEG",
            "image/filename": f"{synset}_{number}.JPEG".encode(), "image/encoded": jpeg,
        })
    at("imagenet/train-00000-of-00001").write_bytes(out)


# TIFF


def tiff():
    for name, shape, options in [
        ("tiles", (40, 50, 3), {"tile": (16, 16)}),
        ("tiles-predictor", (40, 50, 3), {"tile": (16, 16), "predictor": True}),
        ("tiles-gray", (40, 50), {"tile": (16, 16)}),
        ("tiles-gray16", (40, 50), {"tile": (16, 16), "predictor": True}),
        ("tile-larger-than-the-image", (5, 9, 3), {"tile": (16, 32)}),
        ("strips", (40, 50, 3), {"rowsperstrip": 7}),
        ("strips-predictor", (40, 50, 3), {"rowsperstrip": 7, "predictor": True}),
    ]:
        pixels = picture(*shape[:2])
        stored = pixels if len(shape) == 3 else pixels[:, :, 0]
        if name.endswith("16"):
            stored = stored.astype(np.uint16) * 257
        photometric = "rgb" if len(shape) == 3 else "minisblack"
        tifffile.imwrite(at(f"lzw-{name}/a/1.tif"), stored, compression="lzw", photometric=photometric, **options)
        shown = pixels if len(shape) == 3 else np.dstack([pixels[:, :, 0]] * 3)
        Image.fromarray(shown).save(at(f"lzw-{name}.expected.png"))
    # The second tile ends in the midst of its codes.
    whole = (HERE / "lzw-tiles/a/1.tif").read_bytes()
    with tifffile.TiffFile(io.BytesIO(whole)) as file:
        tag = file.pages[0].tags[325]
        counts = list(tag.value)
        counts[1] //= 2
        form = {3: "H", 4: "I"}[tag.dtype]
        changed = bytearray(whole)
        changed[tag.valueoffset : tag.valueoffset + struct.calcsize(f"<{len(counts)}{form}")] = struct.pack(
            f"<{len(counts)}{form}", *counts
        )
    at("lzw-cut/a/1.tif").write_bytes(whole)
    at("lzw-cut/a/2.tif").write_bytes(changed)


# Archives


def members(out, count):
    for key in range(count):
        for ending, data in ((".png", file_of(picture(6, 8, key), "PNG")), (".cls", str(key + 3).encode())):
            member = tarfile.TarInfo(f"{key}{ending}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))


def archives():
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as out:
        members(out, 3)
    whole = whole.getvalue()
    # A sample has four blocks: two headers and two members of less than a block each.
    at("cut.tar").write_bytes(whole[: 2 * 4 * 512])
    with tarfile.open(at("packed.tar.xz"), "w:xz") as out:
        members(out, 2)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/0.bin", "wb") as out:
            out.write(b"begin")
            out.seek(1 << 20)
            out.write(b"end")
        pathlib.Path(folder, "0.cls").write_bytes(b"1")
        for form in ("gnu", "posix"):
            how = ["--sparse", f"--format={form}", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
            subprocess.run(["tar", "-C", folder, *how, "-cf", at(f"sparse-{form}.tar"), "0.bin", "0.cls"], check=True)


def later_labels():
    """Shards whose first sample lacks the label that the others have."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as out:
        members(out, 3)
    whole = whole.getvalue()
    # The first sample's label is its third and fourth block.
    at("label-later.tar").write_bytes(whole[: 2 * 512] + whole[4 * 512 :])
    out = b""
    for number in range(3):
        features = {"image/encoded": file_of(picture(6, 8, number), "PNG")}
        if number > 0:
            features["image/class/label"] = [number]
        out += record(features)
    at("label-later.tfrecord").write_bytes(out)


# Names


def names():
    np.save(at("array.npy"), picture(4, 4))
    np.save(at("arrays/cat/1.npy"), picture(4, 4))
    for form in ("BMP", "GIF"):
        at(f"named-png-{form.lower()}/a/1.png").write_bytes(file_of(picture(4, 4)[:, :, 0], form))
        at(f"named-png-{form.lower()}/a/2.png").write_bytes(file_of(picture(4, 4), "PNG"))
    at("one/1.png").write_bytes(file_of(picture(4, 4), "PNG"))
    at("one/2.png").write_bytes(file_of(picture(4, 4, 9), "PNG"))
    Image.fromarray(picture(4, 4)).save(at("one.expected.png"))


# Annotations


def voc():
    text = """<?xml version="1.0" encoding="{}"?>
<annotation><folder>Fotos de la a\u00f1ada</folder><size><width>8</width><height>6</height></size>
<object><name>pi\u00f1a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>4</ymax></bndbox></object>
</annotation>
"""
    encodings = {"1": ("ISO-8859-1", "latin-1"), "2": ("UTF-16", "utf-16"), "3": ("UTF-8", "utf-8")}
    for name, (declared, codec) in encodings.items():
        at(f"voc-encodings/Annotations/{name}.xml").write_bytes(text.format(declared).encode(codec))
    at("voc-gbk/Annotations/1.xml").write_bytes(text.format("UTF-8").encode())
    at("voc-gbk/Annotations/2.xml").write_bytes(text.format("GBK").replace("pi\u00f1a", "\u83e0\u841d").replace("\u00f1", "n").encode("gbk"))
    for folder, count in (("voc-encodings", 3), ("voc-gbk", 2)):
        for number in range(count):
            at(f"{folder}/JPEGImages/{number + 1}.png").write_bytes(file_of(picture(6, 8), "PNG"))


def coco():
    def write(name, first, second, begin="", **image):
        for number in range(2):
            at(f"{name}/images/{number}.png").write_bytes(file_of(picture(6, 8, number), "PNG"))
        content = {
            "images": [
                {"id": first, "width": 8, "height": 6, **{key: value.format(0) for key, value in image.items()}},
                {"id": second, "width": 8, "height": 6, **{key: value.format(1) for key, value in image.items()}},
            ],
            "categories": [{"id": 7, "name": "cat"}],
            "annotations": [
                {"id": n + 1, "image_id": image_id, "category_id": 7, "bbox": [1, 1, 3, 3], "area": 9, "iscrowd": 0}
                for n, image_id in enumerate((first, second))
            ],
        }
        at(f"{name}/annotations/instances_train.json").write_text(begin + json.dumps(content), encoding="utf-8")

    write("coco-bom", 1, 2, begin="\ufeff", file_name="{}.png")
    write("coco-text-ids", "frame_a", "frame_b", file_name="{}.png")
    write("coco-float-ids", 1.0, 2.0, file_name="{}.png")
    write("lvis", 1, 2, coco_url="http://images.example/train/{}.png")
    # An export whose file of annotations has no name of COCO's.
    for name in ("0.png", "1.png"):
        at(f"coco-export/images/{name}").write_bytes((HERE / "coco-bom/images" / name).read_bytes())
    text = (HERE / "coco-bom/annotations/instances_train.json").read_bytes().removeprefix(b"\xef\xbb\xbf")
    at("coco-export/annotations/export.json").write_bytes(text)


def main():
    imagenet()
    tiff()
    archives()
    later_labels()
    names()
    voc()
    coco()


main()
