"""Transforms of Albumentations become ops: what the rows say of the images is true, and nothing is lost silently."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import alike, conversions, image_of, picture

import fuseloop as fl
from fuseloop import _albumentations, ops

# With these parameters and p=1 a transform draws nothing. The second value is how the images compare, if not as in the row.
CASES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "HorizontalFlip": [({}, "")],
    "VerticalFlip": [({}, "")],
    "TimeReverse": [({}, "")],
    "Transpose": [({}, "")],
    "NoOp": [({}, "")],
    "ToRGB": [({}, "")],
    "Pad": [({"padding": (1, 2, 3, 4), "fill": 5}, ""), ({"padding": (3, 4), "fill": (5, 6, 7)}, ""),
            *[({"padding": 4, "border_mode": border}, "") for border in (1, 2, 4)]],
    "CenterCrop": [({"height": 31, "width": 41}, "same bits"), ({"height": 70, "width": 90, "pad_if_needed": True}, "same bits")],
    "RandomCrop": [({"height": 90, "width": 95, "pad_if_needed": True, "fill": 9}, ""),
                   ({"height": 90, "width": 95, "pad_if_needed": True, "border_mode": 4}, "")],
    "Resize": [({"height": 24, "width": 30, "interpolation": how}, "") for how in (0, 1, 5)]
    + [({"height": 124, "width": 130}, ""), ({"height": 24, "width": 30, "interpolation": 3}, "same bits")],
    "LongestMaxSize": [({"max_size": 83}, "same bits")],
    "SmallestMaxSize": [({"max_size": 61}, "same bits")],
    "Rotate": [({"limit": (20, 20), "interpolation": 0}, "same bits")],
    "Affine": [({"rotate": (20, 20), "interpolation": 0, "fill": (1, 2, 3)}, "same bits"),
               ({"scale": (1.2, 1.2)}, ""), ({"shear": {"x": (10, 10), "y": (0, 0)}, "interpolation": 0}, "same bits"),
               ({"shear": {"y": (10, 10), "x": (0, 0)}, "interpolation": 0}, "same bits")],
    "InvertImg": [({}, "")],
    "Solarize": [({"threshold_range": (0.3, 0.3)}, "")],
    "Posterize": [({"num_bits": 3}, "")],
    "AutoContrast": [({"method": "pil"}, "")],
    "ToGray": [({}, ""), ({"method": "average"}, ""), ({"num_output_channels": 1}, "")],
    "ToSepia": [({}, "")],
    "RandomGamma": [({"gamma_limit": (70, 70)}, "")],
    "ColorJitter": [({"brightness": (1.3, 1.3), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0)}, ""),
                    ({"brightness": (1, 1), "contrast": (1.3, 1.3), "saturation": (1, 1), "hue": (0, 0)}, ""),
                    ({"brightness": (1, 1), "contrast": (1, 1), "saturation": (1.3, 1.3), "hue": (0, 0)}, "")],
    "RandomBrightnessContrast": [
        ({"brightness_limit": (b, b), "contrast_limit": (c, c)}, "") for b, c in [(0, 0.3), (0.2, -0.1), (-0.3, 0), (0.4, -1.5)]
    ],
    "PadIfNeeded": [({"min_height": 90, "min_width": 95, "fill": (1, 2, 3)}, ""),
                    ({"min_height": 70, "min_width": 20, "position": "bottom_left", "border_mode": 4}, ""),
                    *[({"min_height": 99, "min_width": 99, "position": at, "fill": 7}, "")
                      for at in ("top_left", "top_right", "bottom_right")]],
    "Crop": [({"x_min": 5, "y_min": 7, "x_max": 40, "y_max": 60}, "")],
    "RandomSizedCrop": [({"min_max_height": (61, 61), "w2h_ratio": 83 / 61, "size": (40, 30), "interpolation": 1}, "")],
    "Blur": [({"blur_limit": (size, size)}, "") for size in (3, 5, 7)],
    "MedianBlur": [({"blur_limit": (size, size)}, "") for size in (3, 5, 7)],
    "Sharpen": [({"alpha": (0.4, 0.4), "lightness": (0.7, 0.7)}, "")],
    "Emboss": [({"alpha": (0.4, 0.4), "strength": (0.3, 0.3)}, "")],
    "Downscale": [({"scale_range": (scale, scale)}, "") for scale in (0.25, 0.37)],
    "RGBShift": [({"r_shift_limit": (9, 9), "g_shift_limit": (-17, -17), "b_shift_limit": (0.1, 0.1)}, "")],
    "RandomToneCurve": [({"scale": 0.0}, "")],
    "MultiplicativeNoise": [({"multiplier": (1.2, 1.2), "elementwise": how}, "") for how in (False, True)],
    "PixelDropout": [({"dropout_prob": 1.0, "drop_value": 7}, "")],
    "RandomGridShuffle": [({"grid": (1, 1)}, "")],
    "Perspective": [({"scale": (0, 0)}, "same bits")],
    "GaussianBlur": [({"blur_limit": (5, 5), "sigma_limit": (1.2, 1.2)}, ""), ({"sigma_limit": (1.2, 1.2)}, "")],
}

# Parameters with which the transforms of other rows are converted.
OTHERS: dict[str, dict[str, Any]] = {
    "RandomResizedCrop": {"size": (32, 24)}, "RandomRotate90": {}, "D4": {"p": 1}, "SquareSymmetry": {"p": 1},
    "ShiftScaleRotate": {}, "ElasticTransform": {"noise_distribution": "uniform"}, "Equalize": {}, "ChannelShuffle": {},
    "ChannelDropout": {}, "GaussNoise": {}, "Erasing": {}, "TimeMasking": {}, "FrequencyMasking": {}, "Normalize": {},
    "ToFloat": {}, "ToTensorV2": {}, "HueSaturationValue": {}, "CLAHE": {"tile_grid_size": (4, 5)}, "CoarseDropout": {},
    "MotionBlur": {}, "GridDistortion": {}, "OpticalDistortion": {"mode": "fisheye", "fill": 7},
    "ImageCompression": {"quality_range": (30, 60)},
}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def library() -> Any:
    """Imports Albumentations."""
    return conversions("albumentations")[0]


def made_of(name: str, **given: Any) -> Any:
    """Builds a transform."""
    albumentations = conversions("albumentations", "albumentations.pytorch")
    kind = next(getattr(module, name) for module in albumentations if hasattr(module, name))
    return kind(**given)


def test_every_class_has_a_row() -> None:
    modules = conversions("albumentations", "albumentations.pytorch")
    from albumentations.core.transforms_interface import BasicTransform

    bases = (BasicTransform, modules[0].BaseCompose)
    found = {
        name
        for module in modules
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and issubclass(kind, bases)
    }
    found -= {"BaseCompose", "BasicTransform", "DualTransform", "ImageOnlyTransform", "Transform3D"}
    assert found == set(_albumentations.TABLE)


def test_every_row_with_an_op_is_tested() -> None:
    with_ops = {name for name, row in _albumentations.TABLE.items() if row.made is not None and not row.is_list}
    assert with_ops == set(CASES) | set(OTHERS)


@pytest.mark.parametrize(("name", "given", "same"), [(name, *case) for name in CASES for case in CASES[name]])
def test_images_are_as_the_row_says(name: str, given: dict[str, Any], same: str) -> None:
    transform = made_of(name, **{"p": 1.0, **given})
    for seed in range(3):
        pixels = picture(seed, 61, 83)
        theirs = library().Compose([transform])(image=pixels)["image"]
        made = ops.from_albumentations(transform)
        alike(same or _albumentations.TABLE[name].same, theirs, image_of(pixels, made).reshape(theirs.shape))


def test_the_edge_of_a_warp_is_blended_otherwise_and_the_inside_is_the_same() -> None:
    for name, given in [("Rotate", {"limit": (20, 20)}), ("Affine", {"rotate": (-30, -30), "scale": (0.8, 0.8)})]:
        for interpolation in (1, 2):
            transform = made_of(name, p=1.0, interpolation=interpolation, **given)
            run, made = library().Compose([transform]), ops.from_albumentations(transform)
            white = np.full((61, 83, 3), 255, np.uint8)
            inside = (run(image=white)["image"] == 255) & (image_of(white, made) == 255)
            for _ in range(3):  # pixels that are not next to the edge
                inside[[0, -1]] = inside[:, [0, -1]] = False
                inside[1:-1, 1:-1] &= inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
            assert inside.mean() > 0.2
            pixels = picture(3, 61, 83)
            alike("within a level", run(image=pixels)["image"][inside], image_of(pixels, made)[inside])


def test_floats_are_the_same_to_a_millionth() -> None:
    pixels = picture(1, 20, 30)
    for given in ({}, {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.4), "max_pixel_value": 128.0}, {"mean": 0.5, "std": 0.25}):
        transform = made_of("Normalize", **given)
        theirs = library().Compose([transform])(image=pixels)["image"]
        assert np.abs(theirs - image_of(pixels, ops.from_albumentations(transform))).max() < 1e-6
    transform = library().Compose([made_of("ToFloat"), made_of("ToTensorV2")])
    assert np.array_equal(transform(image=pixels)["image"].numpy(), image_of(pixels, ops.from_albumentations(transform)))


def test_compressed_images_are_those_of_exchanged_colours() -> None:
    transform = made_of("ImageCompression", p=1.0, quality_range=(37, 37))
    made = ops.from_albumentations(transform, report=lambda line: None)
    for seed in range(3):
        pixels = picture(seed, 61, 83)
        theirs = library().Compose([transform])(image=np.ascontiguousarray(pixels[..., ::-1]))["image"][..., ::-1]
        alike("same bits", theirs, image_of(pixels, made))


RANDOM: dict[str, dict[str, Any]] = {
    "HorizontalFlip": {"p": 0.3}, "Transpose": {}, "RandomRotate90": {"p": 0.5}, "D4": {"p": 1}, "SquareSymmetry": {"p": 1},
    "RandomResizedCrop": {"size": (48, 48), "scale": (0.2, 0.7)}, "RandomCrop": {"height": 32, "width": 32},
    "Rotate": {"limit": (-40, 10)}, "Affine": {"scale": (0.7, 1.5), "keep_ratio": True, "p": 0.8},
    "ShiftScaleRotate": {"shift_limit": 0.2}, "ColorJitter": {}, "RandomGamma": {}, "Posterize": {"num_bits": (1, 3)},
    "RandomBrightnessContrast": {"brightness_limit": 0}, "ChannelShuffle": {}, "ChannelDropout": {"channel_drop_range": (1, 2)},
    "Blur": {}, "GaussianBlur": {"blur_limit": (3, 7)}, "GaussNoise": {}, "Erasing": {"ratio": (0.5, 0.6)},
    "ElasticTransform": {"alpha": 100, "sigma": 4, "noise_distribution": "uniform"}, "ToGray": {"p": 0.4}, "InvertImg": {"p": 0.2},
    "Solarize": {"threshold_range": (0.5, 0.5)}, "ToSepia": {"p": 0.7}, "RGBShift": {"r_shift_limit": (-0.2, 0.1)},
    "HueSaturationValue": {"hue_shift_limit": 40}, "CLAHE": {"clip_limit": (2, 8)}, "RandomToneCurve": {"scale": 0.2, "per_channel": True},
    "MultiplicativeNoise": {"multiplier": (0.5, 1.2), "per_channel": True}, "PixelDropout": {"dropout_prob": 0.2, "drop_value": 99},
    "CoarseDropout": {"num_holes_range": (1, 4), "hole_height_range": (0.2, 0.5)}, "MotionBlur": {"blur_limit": (3, 11)},
    "MedianBlur": {}, "Sharpen": {}, "Emboss": {}, "Downscale": {"scale_range": (0.2, 0.6)}, "GridDistortion": {},
    "OpticalDistortion": {"distort_limit": 0.5}, "ImageCompression": {"quality_range": (5, 90)}, "RandomGridShuffle": {"grid": (3, 4)},
    "RandomSizedCrop": {"min_max_height": (20, 40), "size": (48, 48)},
}


@pytest.mark.parametrize("name", RANDOM)
def test_numbers_are_drawn_from_the_same_distributions(name: str) -> None:
    """The mean over many images of how far they are from the stored image, and its spread, are the same."""
    count, pixels = 400, picture(7, 48, 48)
    run = library().Compose([made_of(name, **RANDOM[name])], seed=1)
    made = ops.from_albumentations(made_of(name, **RANDOM[name]), report=lambda line: None)
    loader = fl.Loader(fl.sources.from_arrays(image=np.repeat(pixels[None], count, 0)), count, image=made, seed=1)
    images = [run(image=pixels)["image"] for _ in range(count)], next(iter(loader))["image"].numpy()
    whole = pixels.astype(float)[8:-8, 8:-8] if name == "RandomCrop" else pixels.astype(float)
    theirs, ours = (np.array([np.abs(image - whole).mean() for image in of]) for of in images)
    error = np.hypot(theirs.std(), ours.std()) / np.sqrt(count)
    assert abs(theirs.mean() - ours.mean()) < 4 * error + 0.4, (theirs.mean(), ours.mean())
    assert abs(theirs.std() - ours.std()) < 0.2 * max(theirs.std(), ours.std()) + 0.4, (theirs.std(), ours.std())


def test_parts_in_perspective_have_the_same_distribution() -> None:
    """Albumentations draws the corners, and OpenCV draws the part out to the image: 2.0.8 enlarges it once more."""
    cv2 = pytest.importorskip("cv2")
    (functional,) = conversions("albumentations.augmentations.geometric.functional")
    count, pixels, rng = 400, picture(7, 48, 48), np.random.default_rng(1)
    whole = np.array([[0, 0], [48, 0], [48, 48], [0, 48]], np.float32)

    def theirs() -> Any:
        drawn = functional.generate_perspective_points((48, 48), rng.uniform(0.05, 0.2), rng)
        matrix = cv2.getPerspectiveTransform(functional.order_points(drawn), whole)
        return cv2.warpPerspective(pixels, matrix, (48, 48))

    made = ops.from_albumentations(made_of("Perspective", scale=(0.05, 0.2), p=1.0), report=lambda line: None)
    loader = fl.Loader(fl.sources.from_arrays(image=np.repeat(pixels[None], count, 0)), count, image=made, seed=1)
    images = [theirs() for _ in range(count)], next(iter(loader))["image"].numpy()
    other, ours = (np.array([np.abs(image - pixels.astype(float)).mean() for image in of]) for of in images)
    assert abs(other.mean() - ours.mean()) < 4 * np.hypot(other.std(), ours.std()) / np.sqrt(count) + 0.4
    assert abs(other.std() - ours.std()) < 0.2 * max(other.std(), ours.std())


def test_normal_displacements_have_the_strength_of_a_usual_image() -> None:
    pixels, count = picture(7, 256, 256), 12
    transform = made_of("ElasticTransform", alpha=300, sigma=6, p=1.0)
    made = ops.from_albumentations(transform, report=lambda line: None)
    run = library().Compose([transform], seed=1)
    loader = fl.Loader(fl.sources.from_arrays(image=np.repeat(pixels[None], count, 0)), count, image=made)
    images = [run(image=pixels)["image"] for _ in range(count)], next(iter(loader))["image"].numpy()
    theirs, ours = (np.mean([np.abs(image - pixels.astype(float)).mean() for image in of]) for of in images)
    assert 0.9 < ours / theirs < 1.1 and theirs > 1


def test_shifts_and_shapes_keep_their_axes() -> None:
    (op,) = ops.from_albumentations(made_of("Affine", translate_percent={"x": (-0.1, 0.1)}, p=1.0))
    assert op.translate == (0.1, 0.0)
    run = library().Compose([made_of("Erasing", scale=(0.1, 0.1), ratio=(3, 3), fill=0, p=1.0)])
    white = np.full((60, 90, 3), 255, np.uint8)
    made = ops.from_albumentations(run, report=lambda line: None)
    for image in (run(image=white)["image"], image_of(white, made)):
        rows, columns = np.nonzero(image[..., 0] == 0)
        assert np.ptp(columns) > 2 * np.ptp(rows)


@pytest.mark.parametrize("name", OTHERS)
def test_other_rows_are_converted(name: str) -> None:
    made = ops.from_albumentations(made_of(name, **OTHERS[name]), report=lambda line: None)
    assert made and all(isinstance(op, ops.Op) for op in made)


def test_the_share_of_the_images_is_the_ops_or_around_it() -> None:
    converted = ops.from_albumentations
    assert converted(made_of("HorizontalFlip", p=0.3)) == [ops.RandomHorizontalFlip(0.3)]
    assert converted(made_of("Posterize", num_bits=3, p=0.3)) == [ops.RandomPosterize(3, 0.3)]
    assert converted(made_of("ToSepia", p=1.0))[0].name == "ColorMatrix"
    (op,) = converted(made_of("Rotate", limit=(-5, 10), p=0.3))
    assert op == ops.RandomApply([ops.RandomRotation((-5, 10), "bilinear")], 0.3)
    (op,) = converted(made_of("Affine", rotate=(-5, 10), p=1.0))
    assert op == ops.RandomAffine((-10, 5), interpolation="bilinear")


def test_lists_of_transforms() -> None:
    A = library()  # noqa: N806, its own abbreviation
    invert, flip, gray = A.InvertImg(p=0.2), A.HorizontalFlip(p=0.6), A.ToGray(p=0.3)
    converted = ops.from_albumentations
    assert converted(A.Compose([flip, invert])) == [ops.RandomHorizontalFlip(0.6), ops.RandomInvert(0.2)]
    assert converted(A.Compose([flip, invert], p=0.4)) == [
        ops.RandomApply([ops.RandomHorizontalFlip(0.6), ops.RandomInvert(0.2)], 0.4)
    ]
    assert converted(A.Sequential([flip])) == [ops.RandomApply([ops.RandomHorizontalFlip(0.6)], 0.5)]
    # Its weights are their p, which does not count otherwise.
    assert converted(A.OneOf([flip, invert], p=0.7)) == [
        ops.RandomApply([ops.RandomChoice([ops.RandomHorizontalFlip(1.0), ops.RandomInvert(1.0)], [0.6, 0.2])], 0.7)
    ]
    assert converted(A.OneOrOther(flip, invert, p=0.7)) == [
        ops.RandomChoice([ops.RandomHorizontalFlip(1.0), ops.RandomInvert(1.0)], [0.7, 1 - 0.7])
    ]
    own = [ops.RandomHorizontalFlip(0.6), ops.RandomInvert(0.2), ops.RandomGrayscale(0.3)]
    assert converted(A.SomeOf([flip, invert, gray], n=3)) == own
    assert converted(A.RandomOrder([flip, invert, gray], n=3)) == [ops.RandomOrder(own)]
    assert converted(A.SomeOf([flip, invert, gray], n=1, p=0.5)) == [ops.RandomApply([ops.RandomChoice(own)], 0.5)]
    pairs = [(own[0], own[1]), (own[0], own[2]), (own[1], own[2])]
    assert converted(A.SomeOf([flip, invert, gray], n=2)) == [ops.RandomChoice([ops.RandomApply(two, 1.0) for two in pairs])]
    (op,) = converted(A.RandomOrder([flip, invert, gray], n=2))
    assert len(op.ops) == 6
    for refused, said in [
        (A.SomeOf([flip, invert], n=2, replace=True), "replace=True"),
        (A.RandomOrder([flip] * 6, n=6), "more than 128 outcomes"),
        (A.Compose([flip, A.Normalize()], p=0.5), "p=0.5 of a list with Normalize"),
    ]:
        with pytest.raises(fl.ConfigError, match=said):
            converted(refused)


def test_a_share_of_a_choice_is_that_of_albumentations() -> None:
    A = library()  # noqa: N806
    (op,) = ops.from_albumentations(A.OneOf([A.InvertImg(p=0.9), A.Solarize((0, 0), p=0.1)], p=0.5))
    pixels = np.zeros((2000, 1, 1, 3), np.uint8)
    loader = fl.Loader(fl.sources.from_arrays(image=pixels), 2000, image=[op])
    share = next(iter(loader))["image"].numpy().mean() / 255  # both ops make black white
    assert abs(share - 0.5) < 0.05


def test_a_long_side_and_a_border_are_a_letterbox() -> None:
    A = library()  # noqa: N806
    compose = A.Compose([A.LongestMaxSize(64), A.PadIfNeeded(64, 64, border_mode=0, fill=7)])
    made = ops.from_albumentations(compose)
    assert made == [ops.Letterbox(64, fill=7)]
    for pixels in (picture(3, 61, 83), picture(4, 90, 33)):
        alike("within a level", compose(image=pixels)["image"], image_of(pixels, made))
    compose = A.Compose([A.PadIfNeeded(91, 95, border_mode=0, fill=9), A.RandomCrop(91, 95)])
    made = ops.from_albumentations(compose)
    assert made == [ops.RandomCrop((91, 95), fill=9)]
    alike("same bits", compose(image=pixels)["image"], image_of(pixels, made))
    compose = A.Compose([A.LongestMaxSize(64), A.PadIfNeeded(64, 80)])
    made = ops.from_albumentations(compose, report=lambda line: None)
    assert [op.name for op in made] == ["Resize", "PadIfNeeded"]


def test_targets_are_reported() -> None:
    A = library()  # noqa: N806
    compose = A.Compose(
        [A.HorizontalFlip()], bbox_params=A.BboxParams("coco", min_area=4, label_fields=["labels"]),
        keypoint_params=A.KeypointParams("xy"), additional_targets={"right": "image", "depth": "mask"}, seed=3,
    )
    with pytest.warns(fl.FuseloopWarning) as warned:
        made = ops.from_albumentations(compose)
    assert made == [ops.RandomHorizontalFlip(), ops.SanitizeBoundingBoxes(1e-6, 4.0)]
    (text,) = (str(one.message) for one in warned)
    for said in ("Target.boxes", "Target.keypoints", "share_draws={'right': 'image'}", "depth is declared by targets=", "seed="):
        assert said in text
    assert warned[0].filename == __file__
    with pytest.raises(fl.ConfigError, match="min_visibility=0.3 has no counterpart"):
        ops.from_albumentations(A.Compose([], bbox_params=A.BboxParams("coco", min_visibility=0.3)))
    with pytest.warns(fl.FuseloopWarning, match="replay"):
        ops.from_albumentations(A.ReplayCompose([A.HorizontalFlip()]))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("Rotate", {"border_mode": 4}, "border_mode=4 .*BORDER_CONSTANT"),
        ("Rotate", {"interpolation": 4}, r"interpolation=cv2\.INTER_LANCZOS4"),
        ("Rotate", {"crop_border": True}, "crop_border=True"),
        ("Rotate", {"rotate_method": "ellipse"}, "rotate_method='ellipse'"),
        ("Rotate", {"mask_interpolation": 1}, "mask_interpolation=cv2.INTER_LINEAR"),
        ("Affine", {"fit_output": True}, "fit_output=True"),
        ("Affine", {"translate_px": 5}, "translate_px .* translate_percent"),
        ("Affine", {"translate_percent": (0.0, 0.1)}, "a shift of 0.0 to 0.1"),
        ("Affine", {"scale": {"x": (0.9, 1.1), "y": (1, 1)}}, "scales both axes alike"),
        ("Resize", {"height": 8, "width": 8, "area_for_downscale": "image"}, "area_for_downscale='image'"),
        ("Resize", {"height": 8, "width": 8, "p": 0.5}, "p=0.5 .*set p=1"),
        ("RandomCrop", {"height": 8, "width": 8, "pad_if_needed": True, "pad_position": "random"}, "pad_position='random'"),
        ("RandomCrop", {"height": 8, "width": 8, "pad_if_needed": True, "border_mode": 3}, "border_mode=3"),
        ("Normalize", {"normalization": "image"}, "normalization='image'"),
        ("ToGray", {"method": "pca"}, "method='pca'"),
        ("Solarize", {"threshold_range": (0.1, 0.5)}, "threshold_range="),
        ("Posterize", {"num_bits": [(1, 2), (2, 3), (3, 4)]}, "num_bits="),
        ("Equalize", {"by_channels": False}, "by_channels=False"),
        ("AutoContrast", {}, "method='cdf' .* 'pil'"),
        ("AutoContrast", {"method": "pil", "cutoff": 5}, "cutoff=5.* leave the parameter at 0"),
        ("Erasing", {"fill": "random"}, "fill='random'"),
        ("ElasticTransform", {"same_dxdy": True}, "same_dxdy=True"),
        ("GaussNoise", {"mean_range": (0.0, 0.1)}, "mean_range="),
        ("GaussNoise", {"per_channel": False}, "per_channel=False"),
        ("SmallestMaxSize", {"max_size": [8, 9]}, "RandomShortestSize"),
        ("LongestMaxSize", {"max_size_hw": (8, 9)}, "max_size_hw"),
        ("CoarseDropout", {"hole_height_range": (3, 9)}, "both shares, or both pixels"),
        ("CoarseDropout", {"fill_mask": 0}, "fill_mask=0"),
        ("PixelDropout", {"drop_value": None}, "drop_value=None"),
        ("PixelDropout", {"mask_drop_value": 3}, "mask_drop_value=3.*leave the parameter at None"),
        ("MedianBlur", {"blur_limit": (3, 31)}, "blur_limit"),
        ("Sharpen", {"method": "gaussian"}, "method='gaussian'"),
        ("Downscale", {"interpolation_pair": {"upscale": 1, "downscale": 0}}, "interpolation_pair="),
        ("GridDistortion", {"normalized": False}, "normalized=False"),
        ("OpticalDistortion", {"border_mode": 4}, "border_mode=4"),
        ("ImageCompression", {"compression_type": "webp"}, "compression_type='webp'"),
        ("PadIfNeeded", {"min_height": None, "pad_height_divisor": 32}, "pad_height_divisor=32"),
        ("Perspective", {"fit_output": True}, "fit_output=True"),
        ("RandomBrightnessContrast", {"brightness_by_max": False}, "brightness_by_max=False"),
        ("RandomFog", {}, " has no op in Fuseloop: .*Lambda"),
    ],
)
def test_values_without_a_counterpart_are_refused_by_name(name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(fl.ConfigError, match=f"from_albumentations: 1 transform can't be converted:\n  {name}.*{said}"):
        ops.from_albumentations(made_of(name, **given))


def test_every_parameter_counts() -> None:
    """A parameter that no converter reads is refused if it has a value of its own: none may be lost."""
    for name, row in _albumentations.TABLE.items():
        if row.made is None or row.is_list:
            continue
        given = {"p": 1.0, **(CASES[name][0][0] if name in CASES else OTHERS[name])}
        transform = made_of(name, **given)
        for param in inspect.signature(type(transform).__init__).parameters:
            if param in ("self", *row.unused) or not hasattr(transform, param):
                continue
            changed = made_of(name, **given)
            setattr(changed, param, Strange())
            try:
                ops.from_albumentations(changed, report=lambda line: None)
            except Exception:  # noqa: BLE001, S112, it was looked at
                continue
            looked_at = Strange.count
            Strange.count = 0
            assert looked_at, (name, param)


class Strange:
    """A value that counts how often it is looked at."""

    count = 0

    def __getattribute__(self, name: str) -> Any:
        Strange.count += 1
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        Strange.count += 1
        return False

    def __hash__(self) -> int:
        return 0


def test_a_whole_list_runs() -> None:
    A, pytorch = conversions("albumentations", "albumentations.pytorch")  # noqa: N806
    compose = A.Compose([
        A.LongestMaxSize(64), A.PadIfNeeded(64, 64, border_mode=0, fill=(114, 114, 114)),
        A.OneOf([A.Blur(), A.GaussianBlur((3, 7)), A.ColorJitter(p=0.2)], p=0.3), A.ShiftScaleRotate(), A.HorizontalFlip(),
        A.Affine(rotate=(-10, 20), shear=(-5, 5)), A.SomeOf([A.InvertImg(), A.Posterize((2, 4)), A.ToSepia()], n=2),
        A.RandomOrder([A.InvertImg(), A.ToGray()], n=2), A.Sequential([A.Transpose(), A.D4()], p=0.5), A.Erasing(),
        A.RandomBrightnessContrast(), A.GaussNoise(), A.ElasticTransform(noise_distribution="uniform"), A.Normalize(),
        pytorch.ToTensorV2(),
    ])
    with pytest.warns(fl.FuseloopWarning):
        made = ops.from_albumentations(compose)
    images = np.stack([picture(seed, 61, 83) for seed in range(8)])
    batch = next(iter(fl.Loader(fl.sources.from_arrays(image=images), 8, image=made)))["image"].numpy()
    assert batch.shape == (8, 3, 64, 64) and batch.dtype == np.float32
