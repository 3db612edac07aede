"""timm.json: timm's RandAugment.

    level_to_arg    the arguments of an op at each of `levels`, with its random sign fixed; absolute translations
                    use a `translate_const` of 100
    config          the meaning of a configuration string, or the exception that it raises

`mstd` is "inf" if the magnitude is uniform. `weights` are normalised, in the order of `ops`.
"""

import math
from unittest import mock

from timm.data import auto_augment
from timm.data.auto_augment import rand_augment_transform

from .common import write_json

LEVELS = [0, 0.5, 3, 4.5, 9, 10, 20]
HPARAMS = {"translate_const": 100, "img_mean": (124, 116, 104)}
CONFIGS = [
    "rand",
    "rand-m9-mstd0.5-inc1",
    "rand-m7-n3",
    "rand-m9",
    "rand-n3-m9-p1.0",
    "rand-p0.25-inc0",
    "rand-inc1",
    "rand-inc2",
    "rand-m20-mmax30",
    "rand-m9-mstd100",
    "rand-m9-mstd101",
    "rand-mstd0",
    "rand-mstd1-mstd2",
    "rand-mmax5-mmax7",
    "rand-m9-m5",
    "rand-n0",
    "rand-m0",
    "rand-tweights",
    "rand-mstd1-tweights-inc1",
    "rand-t3a-inc1",
    "rand-n3-t3aw",
    "rand-tother",
    "rand-tother-inc1",
    "rand-t",
    "rand-t3a-tweights",
    # Sections without a digit are skipped.
    "rand-m-n",
    "rand-inc",
    "rand-mstdinf",
    "rand-weights",
    "rand--m9",
    "rand-",
    # Refused.
    "",
    "RAND-m9",
    "random-m9",
    "augmix-m3-w3",
    "rand-w0",
    "rand-x9",
    "rand-M9",
    "rand-9",
    "rand-m-9",
    "rand-m9.5",
    "rand-n2.5",
    "rand-m9x",
    "rand-p0.5x",
    "rand-p0.5.5",
    "rand-mmax10.5",
    "rand-inc0.5",
    "rand-m 9",
]


def level_to_arg(name, negated):
    """Returns the tuple of arguments at each level, with a random number of 1 (negative) or 0."""
    to_arg = auto_augment.LEVEL_TO_ARG[name]
    with mock.patch.object(auto_augment.random, "random", lambda: float(negated)):
        args = [[] if to_arg is None else list(to_arg(level, HPARAMS)) for level in LEVELS]
    return {"op": "level_to_arg", "name": name, "negated": negated, "levels": LEVELS, "args": args}


def levels():
    for name in auto_augment.LEVEL_TO_ARG:
        plus, minus = level_to_arg(name, False), level_to_arg(name, True)
        yield plus
        if minus["args"] != plus["args"]:
            yield minus


def parsed(config):
    transform = rand_augment_transform(config, dict(HPARAMS))
    op = transform.ops[0]
    weights = transform.choice_weights
    return {
        "n": transform.num_layers,
        "magnitude": op.magnitude,
        "p": op.prob,
        "mstd": "inf" if math.isinf(op.magnitude_std) else op.magnitude_std,
        "mmax": op.magnitude_max,
        "ops": [op.name for op in transform.ops],
        "weights": None if weights is None else weights.tolist(),
    }


def config(text):
    try:
        return {"op": "config", "config": text, **parsed(text)}
    except (AssertionError, ValueError) as error:
        return {"op": "config", "config": text, "error": f"{type(error).__name__}: {error}"}


def write():
    write_json("timm.json", [*levels(), *map(config, CONFIGS)])
