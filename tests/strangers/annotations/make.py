"""Makes the files of this folder with Pillow: `python make.py`, in the folder.

`orientation/FORMAT-N.*` are pictures of 48 x 32 pixels, black with a white rectangle, in orientation N;
`rectangles.json` has the rectangle of the stored picture and, by orientation, of the upright one, which Pillow's
`exif_transpose` makes. `upright-N.png` are those pictures, `mask-N.png` the same with the classes 0 and 1, and
`turned-3.png` is such a mask in orientation 3. The other folders are datasets, one a case.
"""

import json
import shutil
import struct
import zlib
from pathlib import Path

from PIL import Image, ImageOps

HERE = Path(__file__).parent
STORED = (8, 0, 24, 8)  # left, top, right, bottom
SIZE = (48, 32)


def exif(orientation):
    data = Image.Exif()
    data[274] = orientation
    return data


def save(picture, path, orientation):
    options = {"exif": exif(orientation)}
    if path.suffix == ".jpg":
        options |= {"quality": 95, "subsampling": 0}
    if path.suffix == ".webp":
        options |= {"lossless": True}
    if path.suffix == ".tif":
        # Pillow turns a TIFF that has the tag when it opens it, so that the file must be written as raw numbers.
        options = {"tiffinfo": {274: orientation}}
    picture.save(path, **options)


def png_with_late_exif(picture, path, orientation):
    """A PNG whose chunk eXIf follows the pixels."""
    picture.save(path)
    data = exif(orientation).tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(data)) + b"eXIf" + data + struct.pack(">I", zlib.crc32(b"eXIf" + data))
    file = path.read_bytes()
    path.write_bytes(file[:-12] + chunk + file[-12:])


def boxes_of(picture):
    left, top, right, bottom = picture.convert("L").point(lambda level: 255 * (level > 128)).getbbox()
    return [left, top, right, bottom]


def coco(folder, name, image, annotations, names=("dog",), **more):
    folder.mkdir(parents=True, exist_ok=True)
    images = [{"id": 1, "file_name": name, **image}]
    categories = [{"id": i + 1, "name": each} for i, each in enumerate(names)]
    file = {"images": images, "categories": categories, "annotations": annotations, **more}
    (folder / "_annotations.coco.json").write_text(json.dumps(file, indent=1) + "\n")


def orientations():
    folder = HERE / "orientation"
    folder.mkdir(exist_ok=True)
    stored = Image.new("RGB", SIZE)
    stored.paste((255, 255, 255), STORED)
    rectangles = {"stored": list(STORED), "upright": {}}
    for orientation in range(1, 9):
        for suffix in ["jpg", "png", "webp", "tif"]:
            save(stored, folder / f"{suffix}-{orientation}.{suffix}", orientation)
        png_with_late_exif(stored, folder / f"late-{orientation}.png", orientation)
        with Image.open(folder / f"png-{orientation}.png") as png:
            upright = ImageOps.exif_transpose(png)
        upright.getexif().clear()
        upright.info.clear()
        upright.save(folder / f"upright-{orientation}.png")
        upright.convert("L").point(lambda level: int(level > 128)).save(folder / f"mask-{orientation}.png")
        rectangles["upright"][str(orientation)] = boxes_of(upright)
    stored.convert("L").point(lambda level: int(level > 128)).save(folder / "turned-3.png", exif=exif(3))
    (folder / "rectangles.json").write_text(json.dumps(rectangles) + "\n")
    left, top, right, bottom = rectangles["upright"]["6"]
    for suffix in ["jpg", "png", "webp", "tif"]:
        to = HERE / f"coco-{suffix}-orientation6"
        box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [left, top, right - left, bottom - top]}
        coco(to, f"1.{suffix}", {"width": SIZE[1], "height": SIZE[0]}, [box])
        shutil.copy(folder / f"{suffix}-6.{suffix}", to / f"1.{suffix}")


def damaged():
    """Datasets of which one sample has something wrong."""
    picture = Image.new("RGB", SIZE)

    def dataset(name, annotations, sizes=(SIZE, SIZE)):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        images = []
        for number, (width, height) in enumerate(sizes, 1):
            picture.save(folder / f"{number}.png")
            images.append({"id": number, "file_name": f"{number}.png", "width": width, "height": height})
        file = {"images": images, "categories": [{"id": 1, "name": "dog"}], "annotations": annotations}
        (folder / "_annotations.coco.json").write_text(json.dumps(file, indent=1) + "\n")

    def box(number, image, bbox=(1, 2, 3, 4)):
        return {"id": number, "image_id": image, "category_id": 1, "bbox": list(bbox)}

    dataset("coco-bad-bbox", [box(1, 1), box(2, 2, [1, 2, 3])])
    dataset("coco-other-size", [box(1, 1), box(2, 2)], [SIZE, (96, 64)])
    dataset("coco-unknown-image", [box(1, 1), box(2, 2), box(3, 9)])
    dataset("coco-first-missing", [box(1, 1), box(2, 2)])
    (HERE / "coco-first-missing/1.png").unlink()
    folder = HERE / "yolo-bad-line"
    for name in ["images", "labels"]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, label in [(1, "0 0.5 0.5 0.5 0.5"), (2, "0 0.5 0.5 0.5 0.5\n0 0.5 0.5 30 20")]:
        picture.save(folder / f"images/{number}.png")
        (folder / f"labels/{number}.txt").write_text(label + "\n")
    folder = HERE / "yolo-class-count"
    for name in ["images", "labels"]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    picture.resize((4, 3)).save(folder / "images/1.png")
    (folder / "labels/1.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    (folder / "data.yaml").write_text("train: images\nnc: 3  # of which one has no name\nnames: [cat, dog]\n")
    folder = HERE / "yolo-jp2"
    for name in ["images", "labels"]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, suffix in [(1, "png"), (2, "jp2")]:
        picture.resize((4, 3)).save(folder / f"images/{number}.{suffix}")
        (folder / f"labels/{number}.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    folder = HERE / "masks-jp2"
    for name in ["images", "masks"]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, suffix in [(1, "png"), (2, "jp2")]:
        picture.resize((4, 3)).save(folder / f"images/{number}.{suffix}")
    picture.resize((4, 3)).convert("L").save(folder / "masks/1.png")


orientations()
damaged()
