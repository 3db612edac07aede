"""Transforms of timm, and those of torchvision that are next to them, as ops."""

from __future__ import annotations

import math
from typing import Any

from . import _torchvision, ops
from ._conversion import BITS, DIFFER, LEVEL, Conversion, Library, Made, Report, Row, absent
from ._op import Op
from ._torchvision import fill_of, size_of, to_image, to_tensor
from .errors import ConfigError


def converted(transform: Any, report: Report | None = None) -> list[Op]:
    """Returns the ops for a transform."""
    return _torchvision.converted(transform, report, LIBRARY)


def _words(interpolation: Any) -> list[Any]:
    """Returns our words for an interpolation, or for those of which one is drawn."""
    given = interpolation if isinstance(interpolation, (list, tuple)) else [interpolation]
    words = [getattr(one, "value", one) for one in given]
    for word in words:
        if word not in ("nearest", "bilinear", "bicubic"):
            raise ConfigError(f"there is no interpolation {word}")
    return words


def _drawn(made: list[Op]) -> Op:
    return made[0] if len(made) == 1 else ops.RandomChoice(made)


def _random_resized_crop(t: Any, s: Conversion) -> Made:
    size, scale, ratio = size_of(t.size), tuple(t.scale), tuple(t.ratio)
    return _drawn([ops.RandomResizedCrop(size, scale, ratio, word) for word in _words(t.interpolation)])


def _keep_ratio(t: Any, s: Conversion) -> Made:
    _not_random(t)
    if len(set(t.size)) > 1 or t.longest not in (0.0, 1.0):
        raise ConfigError(f"size={t.size} with longest={t.longest} has no counterpart: a square, and longest of 0 or 1")
    s.differs("the other side is rounded down here, and to the nearest pixel there")
    side: Any = "long" if t.longest else "short"
    return _drawn([ops.Resize(t.size[0], side=side, interpolation=word) for word in _words(t.interpolation)])


def _not_random(t: Any) -> None:
    if t.random_scale_prob > 0 or t.random_aspect_prob > 0:
        raise ConfigError(
            "random_scale_prob and random_aspect_prob have no counterpart: train_crop_mode='rrc' is ops.RandomResizedCrop"
        )


def _letterbox(t: Any, crop: Any, s: Conversion) -> Made | None:
    """Returns the op for a resize by the long side and a border around it."""
    if t.longest != 1.0 or tuple(t.size) != tuple(crop.size) or crop.padding_mode != "constant":
        return None
    _not_random(t)
    size, fill = size_of(t.size), fill_of(crop)
    return _drawn([ops.Letterbox(size, fill=fill, interpolation=word) for word in _words(t.interpolation)])


def _center_crop(t: Any, s: Conversion) -> Made:
    if fill_of(t) != 0 or t.padding_mode != "constant":
        raise ConfigError(
            f"fill={t.fill!r} and padding_mode={t.padding_mode!r} have no counterpart: CenterCrop pads with black; "
            "crop_pct=1 with crop_mode='border' is ops.Letterbox"
        )
    return ops.CenterCrop(size_of(t.size))


def _random_crop(t: Any, s: Conversion) -> Made:
    return ops.RandomCrop(size_of(t.size), 0, True, fill_of(t), t.padding_mode)


def _prefetched(t: Any, s: Conversion) -> Made:
    s.differs(
        "the transform does not normalize, as timm's loader or the model does: append ops.Normalize(mean, std) if neither will"
    )
    return to_image(t, s)


def _erasing(t: Any, s: Conversion) -> Made:
    if t.rand_color:
        raise ConfigError("mode='rand' has no counterpart: choose 'const' or 'pixel'")
    if (t.min_count, t.max_count) != (1, 1):
        raise ConfigError(f"max_count={t.max_count} has no counterpart: RandomErasing erases one rectangle")
    if t.num_splits > 1:
        raise ConfigError(f"num_splits={t.num_splits} has no counterpart: views= of the loader makes a clean image, too")
    low, high = (math.exp(one) for one in t.log_aspect_ratio)
    return ops.RandomErasing(
        t.probability, (t.min_area, t.max_area), (round(low, 12), round(high, 12)), "random" if t.per_pixel else 0
    )


# The sets of actions of RandAugment, by their names in a configuration string.
_INCREASING = {"PosterizeIncreasing", "SolarizeIncreasing", "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing",
               "SharpnessIncreasing"}
_ALL = {"AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color", "Contrast",
        "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"}
_SETS = {
    frozenset(_ALL): ("", None),
    frozenset({name for name in _ALL if f"{name}Increasing" not in _INCREASING} | _INCREASING): ("-inc1", "-tweights"),
    frozenset({"SolarizeIncreasing", "Desaturate", "GaussianBlur"}): ("-t3a", None),
    frozenset({"SolarizeIncreasing", "Desaturate", "GaussianBlur", "Rotate", "ShearX", "ShearY", "PosterizeIncreasing",
               "AutoContrast", "ColorIncreasing", "SharpnessIncreasing", "ContrastIncreasing", "BrightnessIncreasing",
               "Equalize", "Invert"}): (None, "-t3aw"),
}
# The shares of two actions in the weighted sets, by which the sets are known.
_WEIGHTS = {"-tweights": ("Rotate", "Invert", 3 / 0.05), "-t3aw": ("GaussianBlur", "Invert", 6.0)}
_HPARAMS = {"translate_const", "img_mean", "interpolation", "magnitude_std", "magnitude_max", "translate_pct"}


def _rand_augment(t: Any, s: Conversion) -> Made:
    """Returns the op whose configuration string has the actions and strengths that were made of one."""
    first = t.ops[0]
    names = [one.name for one in t.ops]
    plain, weighted = _SETS.get(frozenset(names), (None, None))
    found = plain if t.choice_weights is None else weighted
    if found is None or len(names) != len(set(names)):
        raise ConfigError(f"its actions have no counterpart: {', '.join(names)}")
    if t.choice_weights is not None:
        one, other, ratio = _WEIGHTS[found]
        shares = dict(zip(names, t.choice_weights))
        if abs(shares[one] / shares[other] - ratio) > 1e-6:
            raise ConfigError("weights of actions have no counterpart: choose tweights or t3aw")
    _same_for_all(t.ops)
    std, most = first.magnitude_std, first.magnitude_max
    config = f"rand-m{first.magnitude:g}-n{t.num_layers}-p{first.prob:g}"
    if std:
        config += f"-mstd{101 if math.isinf(std) else f'{std:g}'}"
    if most is not None:
        config += f"-mmax{most}"
    return ops.RandAugment(config=config + found, interpolation=_resample(first), fill=_fillcolor(first))


def _same_for_all(actions: list[Any]) -> None:
    """Refuses actions that differ in more than their names."""
    for one in actions:
        unknown = set(one.hparams) - _HPARAMS
        if unknown:
            raise ConfigError(f"hparams have no counterpart: {', '.join(sorted(unknown))}")
        if one.hparams.get("translate_pct", 0.45) != 0.45:
            raise ConfigError(f"translate_pct={one.hparams['translate_pct']} has no counterpart: it is 0.45")
        if (one.prob, one.magnitude, one.hparams) != (actions[0].prob, actions[0].magnitude, actions[0].hparams):
            raise ConfigError("its actions have strengths of their own, which has no counterpart")


def _resample(action: Any) -> Any:
    """Returns our word for the interpolation of an action, and None for one of two that is drawn."""
    given = action.kwargs["resample"]
    if isinstance(given, (list, tuple)):
        return None
    word = {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(int(given))
    if word is None:
        raise ConfigError(f"there is no interpolation {given}")
    return word


def _fillcolor(action: Any) -> Any:
    return tuple(int(one) for one in action.kwargs["fillcolor"])


_POLICIES = "`ops.AutoAugment` has torchvision's policies, and `ops.RandAugment(config=...)` timm's strings"
_NAFLEX = "images become no sequences of patches"
_SIDE = "the other side is rounded down, and to the nearest pixel there"

# A row for each class of timm.data's transforms; those of torchvision are in its own table.
TABLE: dict[str, Row] = {
    "RandomResizedCropAndInterpolation": Row(
        "`RandomResizedCrop`", LEVEL, "`interpolation=\"random\"` becomes a `RandomChoice`", _random_resized_crop, True
    ),
    "ResizeKeepRatio": Row(
        "`Resize`", DIFFER,
        f"{_SIDE}; with `CenterCropOrPad` of its size (`crop_mode=\"border\"`) `Letterbox`, within a level",
        _keep_ratio, unused=("random_scale_range", "random_scale_area", "random_aspect_range"),
    ),
    "CenterCropOrPad": Row("`CenterCrop`", BITS, "black borders", _center_crop),
    "RandomCropOrPad": Row("`RandomCrop`", BITS, "", _random_crop, True),
    "RandAugment": Row(
        "`RandAugment(config=...)`", LEVEL, "the string that it was made of; warps are those of tensors", _rand_augment, True
    ),
    "RandomErasing": Row(
        "`RandomErasing`", BITS, "modes `const` and `pixel`; one rectangle", _erasing, True, unused=("device", "mode")
    ),
    "MaybeToTensor": Row("`Normalize`, `ToChannelsFirst` last", LEVEL, "", to_tensor),
    "ToTensor": Row("`Normalize`, `ToChannelsFirst` last", LEVEL, "", to_tensor),
    "MaybePILToTensor": Row("`ToChannelsFirst` last", BITS, "`use_prefetcher=True` normalizes later", _prefetched),
    "ToNumpy": Row("`ToChannelsFirst` last", BITS, "`use_prefetcher=True` normalizes later", _prefetched),
    "AutoAugment": absent(_POLICIES),
    "AugMixAugment": absent("`ops.AugMix` has torchvision's actions and strengths"),
    "AugmentOp": absent(_POLICIES),
    "TrimBorder": absent("no op cuts a border of fixed width: `ops.CenterCrop` cuts to a size"),
    "RandomPad": absent("`ops.RandomCrop(size, pad_if_needed=True)` pads what is smaller, and crops what is larger"),
    "Patchify": absent(_NAFLEX),
    "ResizeToSequence": absent(_NAFLEX),
    "ResizeKeepRatioToSequence": absent(_NAFLEX),
    "CenterCropToSequence": absent(_NAFLEX),
    "RandomCropToSequence": absent(_NAFLEX),
    "RandomResizedCropToSequence": absent(_NAFLEX),
    "TfPreprocessTransform": absent("a transform of TensorFlow does not say what it does"),
}

LIBRARY = Library(
    "from_timm",
    {"timm": TABLE, "torchvision": _torchvision.TABLE, "torch": _torchvision.LISTS},
    {("ResizeKeepRatio", "CenterCropOrPad"): _letterbox},
)
