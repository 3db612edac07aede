"""The cases of rle.json: shapes drawn by hand, and what pycocotools 2.0.11 makes of them.

    pip install pycocotools==2.0.11
    python rle.py > rle.json

A case: {"name", "call", "args", "canvas": [h, w], "in", "out"}; masks are rows of u8.
"""

import json

import numpy as np
from pycocotools import mask as coco

CASES = []


def case(name, call, canvas, given, out):
    CASES.append({"name": f"rle.{name}", "call": call, "args": {}, "canvas": canvas, "in": given, "out": out})


SHAPES = {
    "corners": [1, 1, 1, 4, 5, 4, 5, 1],
    "halves": [1.5, 1.5, 1.5, 4.5, 5.5, 4.5, 5.5, 1.5],
    "fractions": [1.2, 1.2, 1.2, 3.8, 4.8, 3.8, 4.8, 1.2],
    "triangle": [0, 0, 6, 0, 0, 5],
    "outside": [-3, -2, 4, -2, 4, 3, -3, 3],
    "crossing": [0, 0, 6, 5, 6, 0, 0, 5],
    "point": [2, 2, 2, 2, 2, 2],
    "slanted": [0.3, 2.7, 4.4, 0.2, 7.6, 3.1, 3.3, 5.8],
}
for name, polygon in SHAPES.items():
    rle = coco.frPyObjects([polygon], 6, 8)[0]
    out = {"counts": rle["counts"].decode(), "area": int(coco.area(rle)), "bbox.XYWH": coco.toBbox(rle).tolist()}
    case(name, "rleFrPoly", [6, 8], {"polygon": polygon}, out | {"mask": coco.decode(rle).tolist()})
plain = {"size": [3, 4], "counts": [2, 3, 1, 4, 2]}
rle = coco.frPyObjects(plain, 3, 4)
out = {"counts": rle["counts"].decode(), "mask": coco.decode(rle).tolist()}
case("uncompressed", "rleFrUncompressed", [3, 4], plain, out)
big = np.zeros((40, 50), np.uint8, order="F")
big[3:30, 5:44] = 1
case("large", "rleEncode", [40, 50], {"XYXY": [[5, 3, 44, 30]]}, {"counts": coco.encode(big)["counts"].decode()})
polygons = [[0, 0, 4, 0, 4, 3, 0, 3], [2, 1, 7, 1, 7, 5, 2, 5]]
pair = coco.frPyObjects(polygons, 6, 8)
both = {
    "union": int(coco.area(coco.merge(pair))),
    "intersection": int(coco.area(coco.merge(pair, intersect=True))),
    "iou": float(coco.iou(pair[:1], pair[1:], [0])[0, 0]),
    "iou.crowd": float(coco.iou(pair[:1], pair[1:], [1])[0, 0]),
}
case("merge", "rleMerge", [6, 8], {"polygons": polygons}, both)
print("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES) + "\n]")
