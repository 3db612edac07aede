"""colour.json: brightness, contrast, saturation, and all six orders of the three."""

import itertools

from torchvision.transforms.v2 import functional as F

from .common import TEXTURE_PICTURE, picture, sha256, single, singles, to_pixels, to_tensor, write_json

FACTORS = [0.0, 0.25, 0.3, 0.6, 0.999, 1.0, 1.37, 1.4, 2.3]
TRIPLES = [(0.7, 1.3, 0.6), (1.4, 0.61, 1.39), (1.1, 2.3, 0.0)]
PICTURES = [["waves", 3, 40, 56], ["noise", 1, 33, 47], TEXTURE_PICTURE]
COLOUR = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation]
NAMES = ["brightness", "contrast", "saturation"]


def cases():
    for spec in PICTURES:
        image = to_tensor(picture(*spec))
        for name, adjust in zip(NAMES, COLOUR, strict=True):
            for factor in map(single, FACTORS):
                result = sha256(to_pixels(adjust(image, factor)).tobytes())
                yield {"picture": spec, "order": [name], "factors": [factor], "sha256": result}
        for order in itertools.permutations(range(3)):
            for factors in map(singles, TRIPLES):
                out = image
                for part in order:
                    out = COLOUR[part](out, factors[part])
                order_names = [NAMES[part] for part in order]
                result = sha256(to_pixels(out).tobytes())
                yield {"picture": spec, "order": order_names, "factors": factors, "sha256": result}


def write():
    write_json("colour.json", cases())
