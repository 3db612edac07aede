"""policies.json and policies.bin: the tables of torchvision's automatic policies, and replays of their draws.

    augmentation_space      one op's magnitudes, by class, number of bins and image size; none if the op has none
    auto_augment_policy     25 sub-policies of two [op, probability, magnitude index or none]
    apply_op                one op at one magnitude; nearest, no fill
    auto_augment            the sub-policy `index` with both ops run, unless its shear has ties: see warp.py
    rand_augment, trivial_augment_wide
                            `picks` of [op, magnitude index, negated], in their order
    aug_mix                 `chains` of such picks, mixed by `m` (of the original and of the mix) and `weights`

A replay runs the class itself, with a generator that is patched to return the draws of the case. All
are exact except an aug_mix with bilinear interpolation, whose bytes are stored.
"""

import contextlib
import itertools
from unittest import mock

import PIL.Image
import torch
from torchvision.transforms import v2

from .common import TEXTURE_PICTURE, Tie, difference, picture, sha256, single, singles, to_pixels, to_tensor, write_pair

WAVES, NOISE = ["waves", 3, 24, 31], ["noise", 1, 17, 22]

# class, bins, in the order in which an op is chosen
SPACES = [(v2.AutoAugment, 10), (v2.RandAugment, 31), (v2.TrivialAugmentWide, 31), (v2.AugMix, 10)]
RAND_OPS, MIX_OPS = list(v2.RandAugment._AUGMENTATION_SPACE), list(v2.AugMix._AUGMENTATION_SPACE)

MAGNITUDES = {
    "Identity": [0.0],
    "ShearX": [0.0, 0.09, -0.09, 0.3, -0.3, 0.99, -0.99],
    "ShearY": [0.0, 0.09, -0.09, 0.3, -0.3, 0.99, -0.99],
    "TranslateX": [0.0, 3.7, -3.7, 9.0, -9.99, 32.0],
    "TranslateY": [0.0, 3.7, -3.7, 9.0, -9.99, 32.0],
    "Rotate": [0.0, 9.0, -9.0, 30.0, -30.0, 77.0, -135.0],
    "Brightness": [0.0, 0.27, -0.27, 0.9, -0.9, 0.99, -0.99],
    "Color": [0.0, 0.27, -0.27, 0.9, -0.9, 0.99, -0.99],
    "Contrast": [0.0, 0.27, -0.27, 0.9, -0.9, 0.99, -0.99],
    "Sharpness": [0.0, 0.27, -0.27, 0.9, -0.9, 0.99, -0.99],
    "Posterize": [8.0, 7.0, 4.0, 2.0, 0.0],
    "Solarize": [1.0, 0.7, 0.3, 0.03, 0.0],
    "AutoContrast": [0.0],
    "Equalize": [0.0],
    "Invert": [0.0],
}

# [op, magnitude index, negated]
RAND_PICKS = [
    [["ShearX", 9, False], ["Equalize", 9, False]],
    [["Rotate", 9, True], ["Color", 9, True]],
    [["TranslateY", 9, True], ["Sharpness", 9, False]],
    [["Posterize", 20, False], ["Solarize", 20, False], ["Brightness", 20, True]],
    [["Contrast", 30, True], ["AutoContrast", 30, False]],
    [["Identity", 5, False], ["ShearY", 5, True]],
    [["TranslateX", 14, False], ["TranslateX", 14, False]],
]
WIDE_PICKS = [["ShearX", 30, True], ["TranslateX", 17, False], ["TranslateY", 30, True], ["Rotate", 30, False],
              ["Brightness", 30, False], ["Color", 11, True], ["Posterize", 30, False], ["Solarize", 3, False],
              ["Equalize", None, False], ["Identity", None, False]]  # fmt: skip

# severity, m, weights, chains
MIXES = [
    (3, (0.4, 0.6), (0.2, 0.3, 0.5), [
        [["ShearX", 1, True]],
        [["Rotate", 1, False], ["Posterize", 2, False]],
        [["Equalize", None, False], ["Color", 2, True], ["TranslateX", 1, False]]]),
    (3, (0.1, 0.9), (0.7, 0.1, 0.2), [
        [["Solarize", 2, False], ["AutoContrast", None, False]],
        [["Brightness", 0, False]],
        [["Sharpness", 2, False], ["Contrast", 1, True], ["ShearY", 1, False]]]),
    (10, (0.35, 0.65), (0.55, 0.45), [
        [["TranslateY", 9, True], ["Equalize", None, False]],
        [["Rotate", 9, True], ["Posterize", 9, False], ["Solarize", 8, False]]]),
    (1, (0.9, 0.1), (1.0,), [[["AutoContrast", None, False]]]),
    (1, (0.123, 0.877), (0.3, 0.3, 0.4), [[["Posterize", 0, False]], [["Rotate", 0, False]], [["ShearX", 0, False]]]),
]  # fmt: skip


def space(policy):
    return policy._AUGMENTATION_SPACE


def table(policy, op, bins, height, width):
    magnitudes, signed = space(policy)[op]
    values = magnitudes(bins, height, width)
    values = None if values is None else values.tolist()
    where = {"policy": policy.__name__, "name": op, "bins": bins, "height": height, "width": width}
    return {"op": "augmentation_space", **where, "signed": signed, "magnitudes": values}


def tables():
    for policy, bins in SPACES:
        for op in space(policy):
            yield table(policy, op, bins, 224, 224)
        for op in ["TranslateX", "TranslateY"]:
            yield table(policy, op, bins, 33, 47)
    for op in ["ShearX", "Rotate", "Posterize", "Solarize"]:
        yield table(v2.RandAugment, op, 11, 224, 224)
    for policy in v2.AutoAugmentPolicy:
        yield {"op": "auto_augment_policy", "policy": policy.value, "sub_policies": v2.AutoAugment(policy)._policies}


def apply_op(spec, name, magnitude):
    policy, pixels = v2.AutoAugment(), picture(*spec)

    def applied_to(image):
        return policy._apply_image_or_video_transform(image, name, magnitude, "nearest", policy._fill)

    out = to_pixels(applied_to(to_tensor(pixels)))
    case = {"op": "apply_op", "picture": spec, "name": name, "magnitude": magnitude}
    # Pillow refuses to posterize to zero bits.
    if (name, magnitude) != ("Posterize", 0.0):
        case |= difference(out, applied_to(PIL.Image.fromarray(pixels)))
    return {**case, "sha256": sha256(out.tobytes())}


def applied():
    for name, magnitudes in MAGNITUDES.items():
        for magnitude in magnitudes:
            for spec in [WAVES, NOISE]:
                yield apply_op(spec, name, single(magnitude))
    for name in ["ShearX", "Rotate", "Color", "Contrast", "Sharpness"]:
        yield apply_op(TEXTURE_PICTURE, name, single(0.5))


def drawing(integers, coins):
    """Patches torch's generator to return these draws, in this order."""
    integers, coins = iter(integers), iter(coins)
    return mock.patch.multiple(
        torch,
        randint=lambda *_, **__: torch.tensor(next(integers)),
        rand=lambda *_: torch.tensor(next(coins)),
    )


def sign(negated):
    """Returns the random number that decides a sign: below 0.5 is negative."""
    return 0.25 if negated else 0.75


def replayed(transform, spec, integers, coins):
    with drawing(integers, coins):
        return to_pixels(transform(to_tensor(picture(*spec)))).tobytes()


def sub_policy(policy, index, negated):
    transform = v2.AutoAugment(policy)
    coins = []
    for name, _, _ in transform._policies[index]:
        coins.append(0.0)
        coins += [sign(negated)] * space(transform)[name][1]
    out = replayed(transform, WAVES, [index], coins)
    case = {"op": "auto_augment", "picture": WAVES, "policy": policy.value, "index": index, "negated": negated}
    return {**case, "sha256": sha256(out)}


def sub_policies():
    for policy in v2.AutoAugmentPolicy:
        for index in range(25):
            with contextlib.suppress(Tie):
                yield sub_policy(policy, index, bool(index % 2))
    for index in [15, 18]:
        yield sub_policy(v2.AutoAugmentPolicy.IMAGENET, index, bool((index + 1) % 2))


def coins_of(policy, picks):
    return [sign(negated) for name, _, negated in picks if space(policy)[name][1]]


def rand_augments():
    for picks in RAND_PICKS:
        transform = v2.RandAugment(num_ops=len(picks), magnitude=picks[0][1])
        chosen = [RAND_OPS.index(name) for name, _, _ in picks]
        out = replayed(transform, NOISE, chosen, coins_of(v2.RandAugment, picks))
        yield {"op": "rand_augment", "picture": NOISE, "picks": picks, "sha256": sha256(out)}


def wide_augments():
    for pick in WIDE_PICKS:
        chosen = [RAND_OPS.index(pick[0])] + ([] if pick[1] is None else [pick[1]])
        out = replayed(v2.TrivialAugmentWide(), NOISE, chosen, coins_of(v2.TrivialAugmentWide, [pick]))
        yield {"op": "trivial_augment_wide", "picture": NOISE, "picks": [pick], "sha256": sha256(out)}


def mix(spec, interpolation, severity, m, weights, chains):
    m, weights = singles(m), singles(weights)
    transform = v2.AugMix(severity=severity, mixture_width=len(chains), interpolation=interpolation)
    dirichlets = iter([m, weights])
    transform._sample_dirichlet = lambda _: torch.tensor([next(dirichlets)])
    integers = []
    for chain in chains:
        integers.append(len(chain))
        for name, index, _ in chain:
            integers += [MIX_OPS.index(name)] + ([] if index is None else [index])
    out = replayed(transform, spec, integers, coins_of(v2.AugMix, itertools.chain(*chains)))
    case = {"op": "aug_mix", "picture": spec, "interpolation": interpolation}
    case |= {"m": m, "weights": weights, "chains": chains}
    if interpolation == "nearest":
        return {**case, "sha256": sha256(out)}, b""
    return {**case, "bytes": len(out)}, out


def mixes():
    for interpolation in ["nearest", "bilinear"]:
        for case in MIXES:
            yield mix(WAVES, interpolation, *case)
    for case in MIXES:
        yield mix(NOISE, "nearest", *case)


def write():
    exact = itertools.chain(tables(), applied(), sub_policies(), rand_augments(), wide_augments())
    write_pair("policies", [(case, b"") for case in exact] + list(mixes()))
