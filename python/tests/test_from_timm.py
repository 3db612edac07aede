"""What timm's create_transform returns becomes ops."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest
from conftest import conversions, image_of, picture

import fuseloop as fl
from fuseloop import _timm, ops

MODULES = ("transforms", "auto_augment", "random_erasing", "naflex_transforms", "tf_preprocessing")
NORMALIZED = [ops.Normalize.imagenet(), ops.ToChannelsFirst()]


def created(size: Any = 224, **given: Any) -> Any:
    """Returns a transform of timm."""
    (data,) = conversions("timm.data")
    return data.create_transform(size, **given)


def test_every_class_has_a_row() -> None:
    conversions("timm.data")
    found = set()
    for name in MODULES:
        if name == "tf_preprocessing":
            found.add("TfPreprocessTransform")  # importing it needs TensorFlow
            continue
        module = importlib.import_module(f"timm.data.{name}")
        found |= {key for key, kind in vars(module).items() if inspect.isclass(kind) and kind.__module__ == module.__name__}
    assert found == set(_timm.TABLE)


def test_evaluation() -> None:
    assert ops.from_timm(created()) == [ops.Resize(256), ops.CenterCrop(224), *NORMALIZED]
    assert ops.from_timm(created(crop_pct=0.9, crop_mode="squash", interpolation="bicubic")) == [
        ops.Resize((248, 248), interpolation="bicubic"), ops.CenterCrop(224), *NORMALIZED
    ]
    made = ops.from_timm(created(crop_pct=1.0, crop_mode="border"))
    assert made == [ops.Letterbox(224, fill=(124, 116, 104), interpolation="bilinear"), *NORMALIZED]


@pytest.mark.parametrize("given", [{}, {"crop_pct": 0.9, "crop_mode": "squash"}, {"crop_pct": 1.0, "crop_mode": "border"}])
def test_images_are_within_a_level(given: dict[str, Any]) -> None:
    Image = pytest.importorskip("PIL.Image")

    transform = created(48, **given)
    for pixels in (picture(3, 61, 83), picture(4, 120, 90)):
        theirs = transform(Image.fromarray(pixels)).numpy()
        ours = image_of(pixels, ops.from_timm(transform))
        assert theirs.shape == ours.shape and np.abs(theirs - ours).max() < 1.01 / 255 / 0.224


def test_training() -> None:
    crop = ops.RandomResizedCrop(224)
    flip = ops.RandomHorizontalFlip()
    jitter = ops.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4))
    assert ops.from_timm(created(is_training=True)) == [crop, flip, jitter, *NORMALIZED]
    assert ops.from_timm(created(is_training=True, separate=True)) == [crop, flip, jitter, *NORMALIZED]
    made = ops.from_timm(created((3, 224, 192), is_training=True, interpolation="random", color_jitter=None, vflip=0.2))
    crops = [ops.RandomResizedCrop((224, 192), interpolation=word) for word in ("bilinear", "bicubic")]
    assert made == [ops.RandomChoice(crops), flip, ops.RandomVerticalFlip(0.2), *NORMALIZED]
    *_, erasing, last = ops.from_timm(created(is_training=True, re_prob=0.25, re_mode="pixel"))
    assert (erasing.p, erasing.value, last.name) == (0.25, "random", "ToChannelsFirst")
    assert erasing.scale == (0.02, 1 / 3) and np.allclose(erasing.ratio, (0.3, 1 / 0.3))


@pytest.mark.parametrize(
    ("config", "same"),
    [
        ("rand-m9-mstd0.5-inc1", "rand-m9-n2-p0.5-mstd0.5-inc1"),
        ("rand-m7-n1-p0.7-mmax20-tweights", "rand-m7-n1-p0.7-mmax20-tweights"),
        ("rand-mstd101-t3aw", "rand-m10-n2-p0.5-mstd101-t3aw"),
        ("rand-m5-t3a", "rand-m5-n2-p0.5-t3a"),
        ("rand", "rand-m10-n2-p0.5"),
    ],
)
def test_randaugment_is_its_configuration_again(config: str, same: str) -> None:
    (op,) = (op for op in ops.from_timm(created(is_training=True, auto_augment=config)) if op.name == "RandAugment")
    assert op == ops.RandAugment(config=same, interpolation="bilinear", fill=(124, 116, 104))
    (op,) = ops.from_timm(importlib.import_module("timm.data.auto_augment").rand_augment_transform(config))
    assert op == ops.RandAugment(config=same, fill=(128, 128, 128))


def test_randaugment_with_actions_of_ones_own() -> None:
    (module,) = conversions("timm.data.auto_augment")
    with pytest.raises(fl.ConfigError, match="RandAugment: its actions have no counterpart: Invert, Rotate"):
        ops.from_timm(module.rand_augment_transform("rand-m9", transforms=["Invert", "Rotate"]))
    weights = dict.fromkeys(module._RAND_INCREASING_TRANSFORMS, 1.0)
    with pytest.raises(fl.ConfigError, match="weights of actions"):
        ops.from_timm(module.rand_augment_transform("rand-m9", transforms=weights))
    changed = module.rand_augment_transform("rand-m9")
    changed.ops[3].magnitude = 2
    with pytest.raises(fl.ConfigError, match="strengths of their own"):
        ops.from_timm(changed)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"is_training": True, "auto_augment": "augmix-m5"}, r"\[2\] AugMixAugment has no op.*ops\.AugMix"),
        ({"is_training": True, "auto_augment": "original"}, r"\[2\] AutoAugment has no op.*ops\.RandAugment"),
        ({"is_training": True, "train_crop_mode": "rkrc"}, r"2 transforms.*\n.*random_scale_prob.*\n.*padding_mode='reflect'"),
        ({"is_training": True, "re_prob": 0.2, "re_count": 3}, "max_count=3"),
        ({"is_training": True, "re_prob": 0.2, "re_mode": "rand"}, "mode='rand'"),
        ({"crop_pct": 0.9, "crop_mode": "border"}, r"\[1\] CenterCropOrPad: fill=.*crop_pct=1"),
        ({"crop_border_pixels": 3}, "TrimBorder has no op"),
        ({"naflex": True}, "ResizeToSequence has no op"),
    ],
)
def test_what_has_no_counterpart(given: dict[str, Any], said: str) -> None:
    with pytest.raises(fl.ConfigError, match=said):
        ops.from_timm(created(**given))


def test_a_transform_for_the_prefetcher_is_reported() -> None:
    with pytest.warns(fl.FuseloopWarning, match=r"\[2\] MaybePILToTensor: the transform does not normalize"):
        made = ops.from_timm(created(use_prefetcher=True))
    assert made == [ops.Resize(256), ops.CenterCrop(224), ops.ToChannelsFirst()]


def test_a_list_of_timm_runs() -> None:
    transform = created(64, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.5, re_mode="pixel")
    images = np.stack([picture(seed, 61, 83) for seed in range(8)])
    loader = fl.Loader(fl.sources.from_arrays(image=images), 8, image=ops.from_timm(transform))
    assert next(iter(loader))["image"].shape == (8, 3, 64, 64)
