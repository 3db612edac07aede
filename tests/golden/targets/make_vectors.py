"""Golden vectors for boxes and points: what torchvision makes of them.

    python make_vectors.py > vectors.json

Needs torch 2.15.0 and torchvision 0.29.2.
A case: {"name", "call", "args", "canvas": [h, w], "in": {...}, "out": {...}}. Boxes are lists of rows in the
format named; numbers are f32 in shortest form unless "dtype" says int64.
"draws": what torch.rand and torch.randint returned, in order. Random ops are replayed from these.
"""
import json
import math
import warnings

import numpy as np
import torch
from torchvision import ops, tv_tensors as tv
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
CASES = []


def plain(value):
    if isinstance(value, torch.Tensor):
        value = value.as_subclass(torch.Tensor)
        if value.dtype == torch.float32:
            def short(v):
                return [short(x) for x in v] if isinstance(v, list) else word(v)

            def word(v):
                if math.isnan(v):
                    return "nan"
                return float(np.format_float_positional(np.float32(v), unique=True, trim="0"))

            return short(value.tolist())
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def case(name, call, args, canvas, given, out, **more):
    CASES.append(plain(dict(name=name, call=call, args=args, canvas=canvas, **more, **{"in": given, "out": out})))


def boxes(rows, fmt, canvas, mode="soft", dtype=torch.float32):
    return tv.BoundingBoxes(torch.tensor(rows, dtype=dtype), format=fmt, canvas_size=canvas, clamping_mode=mode)


def points(rows, canvas):
    return tv.KeyPoints(torch.tensor(rows, dtype=torch.float32), canvas_size=canvas)


H, W = CANVAS = (20, 30)
XYXY = [[4, 5, 9, 12], [0, 0, 30, 20], [21.5, 3.25, 29.75, 19]]
ROTATED = [[10, 8, 6, 2, 30], [25, 15, 12, 6, -50], [8, 9, 4, 4, 0]]  # CXCYWHR
POINTS = [[0, 0], [29, 19], [14.5, 7.25], [3.2, 18.9]]
ROWS = {"XYXY": XYXY}
for name in ("XYWH", "CXCYWH"):
    ROWS[name] = plain(F.convert_bounding_box_format(boxes(XYXY, "XYXY", CANVAS), new_format=name))
ROWS["CXCYWHR"] = ROTATED
for name in ("XYWHR", "XYXYXYXY"):
    ROWS[name] = plain(F.convert_bounding_box_format(boxes(ROTATED, "CXCYWHR", CANVAS), new_format=name))
PAIRS = ("XYXY", "XYWH", "CXCYWH"), ("CXCYWHR", "XYWHR", "XYXYXYXY")

# Formats, float and integer.
for group in PAIRS:
    for a in group:
        out = {b: F.convert_bounding_box_format(boxes(ROWS[a], a, CANVAS), new_format=b) for b in group if b != a}
        case(f"convert.{a}", "convert", {}, CANVAS, {a: ROWS[a]}, out)
ints = {"XYXY": [[1, 2, 6, 9], [-3, -5, 2, 2]], "XYWH": [[1, 2, 5, 7], [-3, -5, 5, 7]], "CXCYWH": [[3, 5, 5, 7], [0, 0, 5, 7]]}
for a in PAIRS[0]:
    out = {b: F.convert_bounding_box_format(boxes(ints[a], a, CANVAS, dtype=torch.int64), new_format=b) for b in PAIRS[0] if b != a}
    case(f"convert.int.{a}", "convert", {}, CANVAS, {a: ints[a]}, out, dtype="int64")

# One op, every format, with the points.
SP, EP = [[0, 0], [29, 0], [29, 19], [0, 19]], [[2, 1], [27, 0], [29, 18], [1, 19]]
AFFINE = dict(angle=30.0, translate=[2.0, 1.0], scale=1.2, shear=[5.0, -3.0])
EVERY = [
    ("horizontal_flip", {}),
    ("vertical_flip", {}),
    ("resize", dict(size=[13, 47])),
    ("resize.short", dict(size=[11])),
    ("crop", dict(top=4, left=6, height=9, width=15)),
    ("crop.outside", dict(top=-3, left=-2, height=30, width=40)),
    ("center_crop", dict(output_size=[9, 12])),
    ("center_crop.larger", dict(output_size=[23, 33])),
    ("pad", dict(padding=[3, 1, 2, 5])),
    ("resized_crop", dict(top=2, left=3, height=15, width=22, size=[32, 24])),
    ("rotate", dict(angle=30.0)),
    ("rotate.center", dict(angle=-17.0, center=[5.0, 8.0])),
    ("rotate.90.expand", dict(angle=90.0, expand=True)),
    ("rotate.30.expand", dict(angle=30.0, expand=True)),
    ("affine", AFFINE),
    ("perspective", dict(startpoints=SP, endpoints=EP)),
]
for name, args in EVERY:
    call = getattr(F, name.split(".")[0])
    given, out = {}, {}
    for fmt, rows in ROWS.items():
        made = call(boxes(rows, fmt, CANVAS), **args)
        given[fmt], out[fmt] = rows, made
        out["boxes.canvas"] = list(made.canvas_size)
    made = call(points(POINTS, CANVAS), **args)
    given["points"], out["points"], out["points.canvas"] = POINTS, made, list(made.canvas_size)
    image = call(tv.Image(torch.zeros(1, H, W, dtype=torch.uint8)), **args)
    out["image.canvas"] = list(image.shape[-2:])
    case(name, name.split(".")[0], args, CANVAS, given, out, clamping="soft")

# Clamping modes; what is clamped and what is not.
LARGE = [[-3, -2, 50, 90], [5, 5, 5, 9], [9, 9, 5, 5], [31, 2, 40, 9]]
for mode in ("soft", "hard", None):
    for fmt, rows in (("XYXY", LARGE), ("CXCYWHR", [[2, 10, 12, 6, 30], [-20, 10, 12, 6, 30], [2, 10, 12, 6, 0], [28, 18, 9, 5, -70]])):
        out = {
            "clamp": F.clamp_bounding_boxes(boxes(rows, fmt, CANVAS, mode)),
            "crop": F.crop(boxes(rows, fmt, CANVAS, mode), 2, 3, 12, 16),
            "resize": F.resize(boxes(rows, fmt, CANVAS, mode), [10, 60]),
        }
        case(f"clamp.{fmt}.{mode}", "clamp; crop(2, 3, 12, 16); resize(10, 60)", {}, CANVAS, {fmt: rows}, out, clamping=mode)

# Rotated boxes across every edge and corner of the image.
torch.manual_seed(5)
size = torch.tensor([36.0, 26, 24, 16, 360])
least = torch.tensor([-3.0, -3, 1, 1, -180])
rows = [[round(v, 2) for v in row] for row in (torch.rand(40, 5) * size + least).tolist()]
for mode in ("soft", "hard"):
    case(f"clamp.random.{mode}", "clamp", {}, CANVAS, {"CXCYWHR": rows},
         {"CXCYWHR": F.clamp_bounding_boxes(boxes(rows, "CXCYWHR", CANVAS, mode))}, clamping=mode)
rows = [[1, 2, 5, 9]]
case("resize.int", "resize", dict(size=[10, 21]), CANVAS, {"XYXY": rows},
     {"XYXY": F.resize(boxes(rows, "XYXY", CANVAS, dtype=torch.int64), [10, 21])}, dtype="int64")


class Recorder:
    """Notes what random functions give."""

    def __enter__(self):
        self.draws, self.own = [], (torch.rand, torch.randint)
        torch.rand, torch.randint = self.of(torch.rand, "rand"), self.of(torch.randint, "randint")
        return self.draws

    def of(self, call, name):
        def noted(*args, **kwargs):
            got = call(*args, **kwargs)
            self.draws.append([name, plain(got)])
            return got
        return noted

    def __exit__(self, *_):
        torch.rand, torch.randint = self.own


def drawn(name, transform, seeds, rows=XYXY, canvas=CANVAS):
    for seed in seeds:
        torch.manual_seed(seed)
        sample = {"image": tv.Image(torch.zeros(3, *canvas, dtype=torch.uint8)), "boxes": boxes(rows, "XYXY", canvas)}
        with Recorder() as draws:
            made = transform(sample)
        case(f"{name}.{seed}", name, {"as": repr(transform)}, canvas, {"XYXY": rows},
             {"XYXY": made["boxes"], "canvas": list(made["image"].shape[-2:])}, draws=draws)


drawn("ScaleJitter", v2.ScaleJitter((64, 48)), (0, 1, 2))
drawn("RandomShortestSize", v2.RandomShortestSize([16, 25, 33], max_size=40), (0, 1, 2))
a, b = torch.tensor(XYXY), torch.tensor([[0.0, 0, 15, 10], [5, 5, 30, 20]])
case("box_iou", "torchvision.ops.box_iou", {}, CANVAS, {"a": a, "b": b}, {"iou": ops.box_iou(a, b)})

print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]")
