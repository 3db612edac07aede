"""Transforms of Albumentations 2.0.8 as ops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, cast

from . import ops
from ._conversion import (
    BITS,
    DIFFER,
    LEVEL,
    NOTHING,
    Conversion,
    Library,
    Made,
    Report,
    Row,
    absent,
    for_a_share,
    together,
)
from ._op import Op
from .errors import ConfigError

# OpenCV's numbers. Those for masks have to be INTER_NEAREST, as masks here take the nearest pixel.
_RESIZES = {
    0: "nearest", 1: "bilinear-aliased", 2: "bicubic-aliased", 3: "area", 5: "bilinear-aliased", 6: "nearest-exact"
}
_WARPS = {0: "nearest", 1: "bilinear", 2: "bicubic"}
_NAMES = {0: "INTER_NEAREST", 1: "INTER_LINEAR", 2: "INTER_CUBIC", 3: "INTER_AREA", 4: "INTER_LANCZOS4"}
# Ops with one number stand for a range of it.
_DEVIATIONS = 8
# The largest of 2 * 256 * 256 numbers of a normal distribution, on average.
_LARGEST = 4.63
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 4: "reflect"}


def converted(transform: Any, report: Report | None = None) -> list[Op]:
    """Returns the ops for a transform."""
    state = Conversion(LIBRARY)
    made = state.one(transform)
    if state.channels_first:
        made.append(ops.ToChannelsFirst())
    return state.finished(made, report)


def _resize_by(t: Any, s: Conversion) -> Any:
    """Returns our word for the interpolation of a resize."""
    if t.area_for_downscale is not None:
        raise ConfigError(
            f"area_for_downscale={t.area_for_downscale!r} chooses by the size of the image: choose "
            "interpolation=cv2.INTER_AREA or INTER_LINEAR"
        )
    word = _RESIZES.get(t.interpolation)
    if word is None:
        raise ConfigError(
            f"interpolation={_named(t.interpolation)} has no counterpart: choose cv2.INTER_LINEAR or INTER_AREA"
        )
    if word.startswith("bicubic"):
        s.differs("INTER_CUBIC differs by more than a level where it overshoots, at sharp edges")
    if word == "nearest-exact":
        s.differs("INTER_NEAREST_EXACT takes the other pixel where two are equally near")
    return word


def _warp_by(t: Any) -> Any:
    """Returns our word for the interpolation of a warp, whose border has to be of one colour."""
    if t.border_mode != 0:
        raise ConfigError(
            f"border_mode={t.border_mode} has no counterpart: choose cv2.BORDER_CONSTANT, which is 0, and a fill"
        )
    word = _WARPS.get(t.interpolation)
    if word is None:
        raise ConfigError(
            f"interpolation={_named(t.interpolation)} has no counterpart: choose cv2.INTER_LINEAR, INTER_CUBIC or "
            "INTER_NEAREST"
        )
    return word


def _named(interpolation: int) -> str:
    return f"cv2.{_NAMES[interpolation]}" if interpolation in _NAMES else str(interpolation)


def _border(t: Any) -> Any:
    word = _BORDERS.get(t.border_mode)
    if word is None:
        raise ConfigError(
            f"border_mode={t.border_mode} has no counterpart: choose cv2.BORDER_CONSTANT or BORDER_REFLECT_101"
        )
    return word


def _level(value: float) -> int:
    if value != int(value):
        raise ConfigError(f"fill={value} has no counterpart: whole levels of 0 to 255, please")
    return int(value)


def _fill(t: Any) -> Any:
    """Returns a colour as one level, or as a level for each channel."""
    if isinstance(t.fill, str):
        raise ConfigError(f"fill={t.fill!r} has no counterpart: choose a level or a colour")
    return tuple(_level(value) for value in t.fill) if isinstance(t.fill, Iterable) else _level(t.fill)


def _is_one(pair: Any) -> bool:
    return bool(pair[0] == pair[1])


def _only(t: Any, name: str, value: Any, cure: str) -> None:
    """Refuses a parameter that has another value."""
    found = getattr(t, name)
    if found != value:
        raise ConfigError(f"{name}={found!r} has no counterpart: {cure}")


def _always(t: Any) -> None:
    if t.p < 1:
        raise ConfigError(f"p={t.p} has no counterpart, as all images of a batch have one type and size: set p=1")


# Lists of transforms.


def _compose(t: Any, s: Conversion) -> Made:
    made = s.all(t.transforms, is_forced=False)
    for name, loader in [("bbox_params", "fuseloop.Target.boxes"), ("keypoint_params", "fuseloop.Target.keypoints")]:
        params = _processor(t, name)
        if params is not None:
            s.differs(f"{name}: targets= of the loader declares them, targets={{'image': {{...: {loader}(...)}}}}")
            made = [*made, *(_sanitize_boxes if name == "bbox_params" else _sanitize_keypoints)(params, s)]
    targets = getattr(t, "_additional_targets", None) or {}
    for name, kind in targets.items():
        s.differs(
            f"additional_targets: {name} gets the ops of this list, and share_draws={{{name!r}: 'image'}} of the loader"
            if kind == "image" else f"additional_targets: {name} is declared by targets= of the loader"
        )
    if getattr(t, "seed", None) is not None:
        s.differs("seed: seed= of the loader is the number that all draws follow from")
    if getattr(t, "mask_interpolation", None) not in (None, 0):
        raise ConfigError(f"mask_interpolation={t.mask_interpolation} has no counterpart: masks take the nearest pixel")
    if type(t._transform).__name__ == "ReplayCompose":
        s.differs("nothing is saved for a replay: the draws of a sample follow from seed=, the epoch and the sample")
    return _share_of_list(t, s, made)


def _share_of_list(t: Any, s: Conversion, made: list[Op]) -> Made:
    if t.p < 1 and (s.channels_first or any(op.name in ("Normalize", "ScaleIntensityRange") for op in made)):
        raise ConfigError(f"p={t.p} of a list with Normalize, ToFloat or ToTensorV2 has no counterpart: all images of a "
                          "batch have one type")
    return for_a_share(made, t.p)


def _processor(t: Any, name: str) -> Any:
    """Returns what ``bbox_params`` and ``keypoint_params`` say."""
    kept = getattr(t, "processors", {}).get({"bbox_params": "bboxes", "keypoint_params": "keypoints"}[name])
    return None if kept is None else kept.params


def _sanitize_boxes(params: Any, s: Conversion) -> list[Op]:
    """Returns the op that removes objects by their boxes, as is done there after all transforms."""
    for name in ("min_visibility", "max_accept_ratio"):
        if getattr(params, name, None):
            raise ConfigError(
                f"bbox_params: {name}={getattr(params, name)} has no counterpart: min_area, min_width and min_height have"
            )
    if params.min_width != params.min_height:
        raise ConfigError("bbox_params: min_width and min_height are one number here, min_size: set both to the same")
    if params.min_width == params.min_area == 0:
        return []
    return [ops.SanitizeBoundingBoxes(float(params.min_width) or 1e-6, float(params.min_area) or 1e-6)]


def _sanitize_keypoints(params: Any, s: Conversion) -> list[Op]:
    if params.remove_invisible:
        s.differs("keypoint_params: a keypoint outside the image stays, with visibility 0; ops.SanitizeKeyPoints() removes "
                  "the objects that have one")
    return []


def _sequential(t: Any, s: Conversion) -> Made:
    return _share_of_list(t, s, s.all(t.transforms))


def _one_of(t: Any, s: Conversion) -> Made:
    made = [together(one) for one in s.each(t.transforms, is_forced=True)]
    weights = [float(one.p) for one in t.transforms]
    return for_a_share([ops.RandomChoice(made, None if len(set(weights)) == 1 else weights)], t.p)


def _one_or_other(t: Any, s: Conversion) -> Made:
    first, *_, last = (together(one) for one in s.each(t.transforms, is_forced=True))
    return ops.RandomChoice([first, last], [t.own("p"), 1 - t.own("p")])


def _some_of(t: Any, s: Conversion) -> Made:
    """Returns a choice of all that can be drawn."""
    is_ordered = type(t._transform).__name__ == "SomeOf"
    made, n = s.each(t.transforms), t.n
    share = t.own("p")  # which a container around it does not change
    if t.replace and n > 1:
        raise ConfigError("replace=True has no counterpart: set replace=False, or list a RandomChoice n times")
    if n == len(made):
        whole = [op for one in made for op in one]
        if is_ordered:
            return for_a_share(whole, share)
        if n <= 5:
            return for_a_share([ops.RandomOrder([together(one) for one in made])], share)
    drawn = (itertools.combinations if is_ordered else itertools.permutations)(made, n)
    outcomes = list(itertools.islice(drawn, 129))
    if len(outcomes) > 128:
        raise ConfigError(f"n={n} of {len(made)} are more than 128 outcomes, which RandomChoice does not take")
    listed = [together([op for one in outcome for op in one]) for outcome in outcomes]
    return for_a_share([ops.RandomChoice(listed)], share)


# Sizes.


def _resize(t: Any, s: Conversion) -> Made:
    _always(t)
    return ops.Resize((t.height, t.width), interpolation=_resize_by(t, s))


def _max_size(t: Any, s: Conversion) -> Made:
    _always(t)
    side: Any = "short" if type(t._transform).__name__ == "SmallestMaxSize" else "long"
    s.differs("the other side is rounded down here, and to the nearest pixel there")
    return ops.Resize(_one_max_size(t), side=side, interpolation=_resize_by(t, s))


def _one_max_size(t: Any) -> int:
    if t.max_size_hw is not None:
        raise ConfigError("max_size_hw has no counterpart: give max_size, or write ops.Letterbox((height, width))")
    if not isinstance(t.max_size, int):
        raise ConfigError(f"max_size={t.max_size!r} has no counterpart: one number, or ops.RandomShortestSize(sizes)")
    return t.max_size


def _letterbox(t: Any, pad: Any, s: Conversion) -> Made | None:
    """Returns the op for a LongestMaxSize and a PadIfNeeded to a square of its size."""
    size = _one_max_size(t)
    if (pad.min_height, pad.min_width, pad.position, pad.border_mode) != (size, size, "center", 0):
        return None
    if (pad.pad_height_divisor, pad.pad_width_divisor) != (None, None) or t.p < 1 or pad.p < 1:
        return None
    _of_masks(t, s)
    _of_masks(pad, s)
    return ops.Letterbox(size, fill=_fill(pad), interpolation=_resize_by(t, s))


def _padded_crop(pad: Any, t: Any, s: Conversion) -> Made | None:
    """Returns the op for a PadIfNeeded and a crop of the size that it pads to."""
    if (pad.min_height, pad.min_width, pad.position) != (t.height, t.width, "center") or pad.p < 1 or t.p < 1:
        return None
    if (pad.pad_height_divisor, pad.pad_width_divisor) != (None, None):
        return None
    _of_masks(pad, s)
    _of_masks(t, s)
    _ = (t.pad_if_needed, t.pad_position, t.border_mode, t.fill)  # the image is large enough
    return ops.RandomCrop(_height_and_width(t), fill=_fill(pad), padding_mode=_border(pad))


def _height_and_width(t: Any) -> Any:
    return t.height if t.height == t.width else (t.height, t.width)


def _random_crop(t: Any, s: Conversion) -> Made:
    _always(t)
    if not t.pad_if_needed:
        s.differs("an image that is too small gets a black border here, and is an error there")
        return ops.RandomCrop(_height_and_width(t))
    _only(t, "pad_position", "center", "choose center")
    return ops.RandomCrop(_height_and_width(t), fill=_fill(t), padding_mode=_border(t))


def _center_crop(t: Any, s: Conversion) -> Made:
    _always(t)
    if t.pad_if_needed:
        _only(t, "pad_position", "center", "choose center")
        _only(t, "border_mode", 0, "choose cv2.BORDER_CONSTANT, which is 0")
        if _fill(t) != 0:
            raise ConfigError(f"fill={t.fill} has no counterpart: CenterCrop pads with black")
    s.differs("the crop begins one pixel later if it leaves out 3, 7, 11, ... rows or columns"
              + ("" if t.pad_if_needed else ", and an image that is too small gets a black border instead of an error"))
    return ops.CenterCrop(_height_and_width(t))


def _random_resized_crop(t: Any, s: Conversion) -> Made:
    _always(t)
    size = t.size[0] if _is_one(t.size) else tuple(t.size)
    return ops.RandomResizedCrop(size, tuple(t.scale), tuple(t.ratio), _resize_by(t, s))


def _pad_if_needed(t: Any, s: Conversion) -> Made:
    _always(t)
    for name in ("pad_height_divisor", "pad_width_divisor"):
        _only(t, name, None, "set min_height and min_width")
    size = t.min_height if t.min_height == t.min_width else (t.min_height, t.min_width)
    return ops.PadIfNeeded(size, t.position, _fill(t), _border(t))


def _crop(t: Any, s: Conversion) -> Made:
    _always(t)
    _only(t, "pad_if_needed", False, "leave it False, or write ops.PadIfNeeded before it")
    s.differs("a window that is not inside the image is black here, and an error there")
    return ops.Crop((t.y_max - t.y_min, t.x_max - t.x_min), t.y_min, t.x_min)


def _random_sized_crop(t: Any, s: Conversion) -> Made:
    _always(t)
    s.differs("a window is at most as large as the image here, and a larger one is an error there")
    size = t.size[0] if _is_one(t.size) else tuple(t.size)
    return ops.RandomSizedCrop(size, tuple(t.min_max_height), float(t.w2h_ratio), _resize_by(t, s))


def _pad(t: Any, s: Conversion) -> Made:
    _always(t)
    padding = t.padding if isinstance(t.padding, int) else tuple(t.padding)
    return ops.Pad(padding, _fill(t), _border(t))


# Geometry.


def _rotate(t: Any, s: Conversion) -> Made:
    _only(t, "crop_border", False, "leave it False, and crop after it")
    return ops.RandomRotation(tuple(t.limit), _warp_by(t), fill=_fill(t))


def _affine(t: Any, s: Conversion) -> Made:
    for name in ("fit_output", "balanced_scale"):
        _only(t, name, False, "leave it False")
    return _affine_of(t, s, keeps_ratio=t.keep_ratio)


def _shift_scale_rotate(t: Any, s: Conversion) -> Made:
    return _affine_of(t, s, keeps_ratio=False)


def _affine_of(t: Any, s: Conversion, *, keeps_ratio: bool) -> Made:
    """Returns the op for a scale, a rotation, shears and a shift, in this order."""
    scale, shear = t.scale, t.shear
    if tuple(scale["x"]) != tuple(scale["y"]):
        raise ConfigError(f"scale={scale} has no counterpart: RandomAffine scales both axes alike")
    if not _is_one(scale["x"]) and not keeps_ratio:
        s.differs("one factor is drawn for both axes, as with keep_ratio=True; 2.0.8 draws one for each")
    sheared = [axis for axis in ("x", "y") if tuple(shear[axis]) != (0, 0)]
    if len(sheared) == 2 or sheared and tuple(t.rotate) != (0, 0):
        s.differs("the shears are not combined with one another and with the rotation in the same order")
    low, high = t.rotate
    return ops.RandomAffine(
        (-high, -low),  # counter-clockwise there, and clockwise here
        _translate(t),
        None if tuple(scale["x"]) == (1, 1) else tuple(scale["x"]),
        None if not sheared else (*shear["x"], *shear["y"]),
        _warp_by(t),
        _fill(t),
    )


def _translate(t: Any) -> tuple[float, float] | None:
    """Returns the largest shift as a share of the width and of the height."""
    if t.translate_percent is None:
        if any(tuple(t.translate_px[axis]) != (0, 0) for axis in ("x", "y")):
            raise ConfigError("translate_px has no counterpart: give translate_percent, a share of each side")
        return None
    limits = []
    for axis in ("x", "y"):
        low, high = t.translate_percent[axis]
        if low != -high:
            raise ConfigError(f"a shift of {low} to {high} has no counterpart: RandomAffine shifts as far both ways")
        limits.append(float(high))
    return None if limits == [0.0, 0.0] else (limits[0], limits[1])


def _elastic(t: Any, s: Conversion) -> Made:
    for name in ("approximate", "same_dxdy"):
        _only(t, name, False, "leave it False")
    alpha = 2.0 * t.alpha
    if t.noise_distribution == "gaussian":
        alpha *= 3**0.5 / _LARGEST
        s.differs("displacements are divided by the largest number that an image of 256 x 256 draws on average, and by that "
                  "of each image there")
    elif t.noise_distribution != "uniform":
        raise ConfigError(f"noise_distribution={t.noise_distribution!r} has no counterpart: choose 'gaussian' or 'uniform'")
    s.differs("displacements go on at the edges by reflection, and by repetition there")
    return ops.ElasticTransform((alpha, alpha), (float(t.sigma),) * 2, _warp_by(t), _fill(t))


def _grid(t: Any, s: Conversion) -> Made:
    _only(t, "normalized", True, "leave it True")
    return ops.GridDistortion(t.num_steps, tuple(t.distort_limit), _warp_by(t), _outside(t), t.p)


def _optical(t: Any, s: Conversion) -> Made:
    s.differs("the centre is half a pixel off there")
    return ops.OpticalDistortion(tuple(t.distort_limit), t.mode, _warp_by(t), _outside(t), t.p)


def _perspective(t: Any, s: Conversion) -> Made:
    _only(t, "keep_size", True, "leave it True")
    _only(t, "fit_output", False, "leave it False")
    s.differs("the part fills the image, and 2.0.8 enlarges it once more, so that its right and bottom are cut off")
    return ops.Perspective(tuple(t.scale), _warp_by(t), _outside(t), t.p)


def _outside(t: Any) -> Any:
    """Returns a colour, and None for black that is blended in once at the edge."""
    return None if _fill(t) in (0, (0, 0, 0)) else _fill(t)


# Colours.


def _numbers(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) else [value]


def _normalize(t: Any, s: Conversion) -> Made:
    _always(t)
    _only(t, "normalization", "standard", "images are not normalized by their own mean")
    mean, std = ([float(one) for one in value] for value in (_numbers(t.mean), _numbers(t.std)))
    s.is_normalized = True
    if t.max_pixel_value == 255:
        return ops.Normalize(mean, std)
    of = float(t.max_pixel_value)
    return ops.Normalize([one * of for one in mean], [one * of for one in std], "levels")


def _to_float(t: Any, s: Conversion) -> Made:
    _always(t)
    return ops.ScaleIntensityRange(0.0, 255.0 if t.max_value is None else float(t.max_value))


def _to_tensor(t: Any, s: Conversion) -> Made:
    _always(t)
    s.channels_first = True
    return []


def _to_gray(t: Any, s: Conversion) -> Made:
    if t.method == "average":
        _only(t, "num_output_channels", 3, "choose 3")
        return ops.ColorMatrix([1 / 3, 1 / 3, 1 / 3, 0.0] * 3)
    _only(t, "method", "weighted_average", "choose weighted_average or average")
    if t.num_output_channels == 1:
        _always(t)
        return ops.Grayscale(1)
    _only(t, "num_output_channels", 3, "choose 1 or 3")
    return ops.Grayscale(3) if t.p >= 1 else ops.RandomGrayscale(t.p)


def _solarize(t: Any, s: Conversion) -> Made:
    low, high = t.threshold_range
    if low != high:
        raise ConfigError(f"threshold_range={(low, high)} has no counterpart: RandomSolarize has one threshold")
    return ops.RandomSolarize(low * 255.0, t.p)


def _posterize(t: Any, s: Conversion) -> Made:
    if isinstance(t.num_bits, list):
        raise ConfigError(f"num_bits={t.num_bits} has no counterpart: one number of bits for all channels")
    low, high = (int(one) for one in t.num_bits)
    if low == high:
        return ops.RandomPosterize(low, t.p)
    return ops.RandomChoice([ops.RandomPosterize(bits, 1.0) for bits in range(low, high + 1)])


def _equalize(t: Any, s: Conversion) -> Made:
    _only(t, "by_channels", True, "leave it True")
    if t.mask is not None:
        raise ConfigError("mask has no counterpart: leave it None")
    s.differs("the look-up table is Pillow's and torchvision's: levels differ by tens from both modes there")
    return ops.RandomEqualize(t.p)


def _autocontrast(t: Any, s: Conversion) -> Made:
    _only(t, "method", "pil", "choose 'pil'")
    return ops.RandomAutocontrast(t.p)


def _jitter(t: Any, s: Conversion) -> Made:
    parts = (tuple(t.brightness), tuple(t.contrast), tuple(t.saturation), tuple(t.hue))
    if parts[3] != (0, 0):
        s.differs("hue is a whole number of 2 degrees there, and exact here: values differ by some levels")
    return ops.ColorJitter(*parts)


def _brightness_contrast(t: Any, s: Conversion) -> Made:
    _only(t, "ensure_safe_range", False, "leave it False")
    _only(t, "brightness_by_max", True, "leave it True")
    return ops.RandomBrightnessContrast(tuple(t.brightness_limit), tuple(t.contrast_limit), t.p)


def _gamma(t: Any, s: Conversion) -> Made:
    return ops.RandomGamma((t.gamma_limit[0] / 100, t.gamma_limit[1] / 100), t.p)


def _sepia(t: Any, s: Conversion) -> Made:
    rows = t.sepia_transformation_matrix
    return ops.ColorMatrix([value for row in rows for value in (*map(float, row), 0.0)])


def _hsv(t: Any, s: Conversion) -> Made:
    s.differs("hues are whole numbers of 2 degrees there, and saturations whole levels: up to 12 levels apart")
    return ops.HueSaturationValue(
        tuple(t.hue_shift_limit), tuple(t.sat_shift_limit), tuple(t.val_shift_limit), t.p
    )


def _rgb_shift(t: Any, s: Conversion) -> Made:
    limits = (t.r_shift_limit, t.g_shift_limit, t.b_shift_limit)
    # Limits of at most 1 are shares of 255.
    red, green, blue = (tuple(one * (255 if max(map(abs, limit)) <= 1 else 1) for one in limit) for limit in limits)
    return ops.RGBShift(red, green, blue, t.p)


def _clahe(t: Any, s: Conversion) -> Made:
    s.differs("colours are up to 2 levels apart, and gray images are the same")
    tiles = t.tile_grid_size
    return ops.CLAHE(tuple(t.clip_limit), tiles[0] if _is_one(tiles) else tuple(tiles), t.p)


# Neighbourhoods and noise.


def _odd(limits: Any) -> list[int]:
    """Returns the odd sizes of a kernel in a range."""
    low, high = (int(one) for one in limits)
    return list(range(low + 1 - low % 2, high + 1, 2)) or [low]


def _blur(t: Any, s: Conversion) -> Made:
    sizes = _odd(t.blur_limit)
    made: list[Op] = [ops.BoxBlur(size) for size in sizes]
    return made[0] if len(made) == 1 else ops.RandomChoice(made)


def _gaussian_blur(t: Any, s: Conversion) -> Made:
    sigma = tuple(float(one) for one in t.sigma_limit)
    low, high = (int(one) for one in t.blur_limit)
    if high == 0:
        return ops.GaussianBlur(int(sigma[1] * 3.5) * 2 + 1, sigma)
    if low == 0:
        raise ConfigError(f"blur_limit={(low, high)} has no counterpart: choose 0, or a range that begins above it")
    # An even size becomes the next odd one.
    drawn = [size + 1 - size % 2 for size in range(low, high + 1)]
    sizes = sorted(set(drawn))
    made: list[Op] = [ops.GaussianBlur(size, sigma) for size in sizes]
    return made[0] if len(made) == 1 else ops.RandomChoice(made, [float(drawn.count(size)) for size in sizes])


def _gauss_noise(t: Any, s: Conversion) -> Made:
    _only(t, "per_channel", True, "leave it True")
    _only(t, "noise_scale_factor", 1, "leave it 1")
    if not _is_one(t.mean_range):
        raise ConfigError(f"mean_range={tuple(t.mean_range)} has no counterpart: GaussianNoise has one mean")
    low, high = t.std_range
    if low == high:
        return ops.GaussianNoise(t.mean_range[0], low)
    s.differs(f"the standard deviation is one of {_DEVIATIONS} in the range")
    step = (high - low) / _DEVIATIONS
    return ops.RandomChoice(
        [ops.GaussianNoise(t.mean_range[0], round(low + step * (k + 0.5), 6)) for k in range(_DEVIATIONS)]
    )


def _coarse_dropout(t: Any, s: Conversion) -> Made:
    height, width = tuple(t.hole_height_range), tuple(t.hole_width_range)
    if (height[1] >= 1) != (width[1] >= 1):
        raise ConfigError(
            f"hole_height_range={height} and hole_width_range={width} have no counterpart: both shares, or both pixels"
        )
    if t.fill_mask is not None:
        raise ConfigError(f"fill_mask={t.fill_mask} has no counterpart: masks keep their classes below holes, so leave it None")
    return ops.CoarseDropout(tuple(t.num_holes_range), height, width, _fill(t), t.p)


def _pixel_dropout(t: Any, s: Conversion) -> Made:
    if not isinstance(t.drop_value, (int, float)):
        raise ConfigError(f"drop_value={t.drop_value!r} has no counterpart: one number")
    return ops.PixelDropout(t.dropout_prob, t.per_channel, float(t.drop_value), t.p)


def _multiplicative_noise(t: Any, s: Conversion) -> Made:
    return ops.MultiplicativeNoise(tuple(t.multiplier), t.per_channel, t.elementwise, t.p)


def _motion_blur(t: Any, s: Conversion) -> Made:
    return ops.MotionBlur(tuple(t.blur_limit), t.allow_shifted, tuple(t.angle_range), tuple(t.direction_range), t.p)


def _sharpen(t: Any, s: Conversion) -> Made:
    _only(t, "method", "kernel", "choose 'kernel'")
    return ops.Sharpen(tuple(t.alpha), tuple(t.lightness), t.p)


def _image_compression(t: Any, s: Conversion) -> Made:
    _only(t, "compression_type", "jpeg", "choose 'jpeg'")
    low, high = (int(one) for one in t.quality_range)
    s.differs("colours are some levels apart, as red and blue are exchanged there; gray images are the same")
    return ops.JPEG(low if low == high else (low, high))


def _downscale(t: Any, s: Conversion) -> Made:
    if set(t.interpolation_pair.values()) != {0}:
        raise ConfigError(f"interpolation_pair={t.interpolation_pair} has no counterpart: choose cv2.INTER_NEAREST for both")
    return ops.Downscale(tuple(t.scale_range), t.p)


def _erasing(t: Any, s: Conversion) -> Made:
    low, high = t.ratio
    s.differs("the logarithm of the ratio is uniform, as in the paper, and the ratio there")
    return ops.RandomErasing(t.p, tuple(t.scale), (1 / high, 1 / low), _fill(t))


def _time_masking(t: Any, s: Conversion) -> Made:
    s.differs("the length of the mask is below the parameter, as torchaudio has it, and at most the parameter there")
    kind = ops.TimeMasking if "time_mask_param" in vars(t._transform) else ops.FrequencyMasking
    name = "time_mask_param" if kind is ops.TimeMasking else "freq_mask_param"
    return kind(int(getattr(t, name)))


# What follows an image.


def _of_masks(t: Any, s: Conversion) -> None:
    """Reads the parameters of masks and boxes."""
    if getattr(t, "mask_interpolation", 0) != 0:
        raise ConfigError(
            f"mask_interpolation={_named(t.mask_interpolation)} has no counterpart: masks take the nearest pixel, which is "
            "cv2.INTER_NEAREST"
        )
    if getattr(t, "rotate_method", "largest_box") != "largest_box":
        raise ConfigError(f"rotate_method={t.rotate_method!r} has no counterpart: choose 'largest_box'")
    fill = getattr(t, "fill_mask", None)
    if fill not in (None, 0, 0.0):
        s.differs(f"fill_mask={fill} is given to fuseloop.Target.mask, which is 255 by default")


def _row(same: str, ours: str, made: Callable[[Any, Conversion], Made], note: str = "", *, draws: bool = True,
         unused: tuple[str, ...] = ()) -> Row:
    """Returns the row of a transform, whose own share ``p`` of the images is taken care of."""

    def with_share(t: Any, s: Conversion) -> Made:
        found = made(t, s)
        _of_masks(t, s)
        if "p" in t._read:
            return found
        return for_a_share([found] if isinstance(found, Op) else found, t.p)

    return Row(f"`{ours}`" if ours else "nothing", same, note, with_share, draws, unused)


def _list(ours: str, made: Callable[[Any, Conversion], Made], note: str = "", unused: tuple[str, ...] = ()) -> Row:
    return Row(ours, "", note, made, unused=unused, is_list=True)


_SHAPES = "it paints shapes of OpenCV, without a formula; `ops.Lambda(function, per_sample=True)` calls a function"
_CALL = "`ops.Lambda(function, per_sample=True)` calls a function with each image"
_VOLUMES = "volumes have no ops of three axes"
_BOXES = "`ops.RandomIoUCrop` crops by the boxes"
_OTHERS = "it takes other images: `ops.Mosaic`, `ops.MixUp` and `ops.CutMix` take those of the batch"
_SIZES = "`ops.ScaleJitter`, `ops.RandomResize` and `ops.RandomResizedCrop` draw sizes in other ways"
_COMPOSE = ("is_check_shapes", "strict", "save_applied_params", "bbox_params", "keypoint_params", "additional_targets",
            "save_key")
_KEYPOINTS = ("keypoint_remapping_method",)
_EDGE = "the same bits with INTER_NEAREST; others blend with `fill` in another way at the edge"

# A row for each class of Albumentations 2.0.8.
TABLE: dict[str, Row] = {
    "Compose": _list("a list", _compose, "what is around the transforms: above", _COMPOSE),
    "ReplayCompose": _list("a list", _compose, "nothing is saved for a replay", _COMPOSE),
    "Sequential": _list("a list, or `RandomApply`", _sequential),
    "OneOf": _list("`RandomChoice`, in `RandomApply` if `p` is below 1", _one_of),
    "OneOrOther": _list("`RandomChoice`", _one_or_other, unused=("first", "second")),
    "SomeOf": _list("`RandomChoice` of all that can be drawn", _some_of, "at most 128 outcomes; `replace=False`"),
    "RandomOrder": _list("`RandomOrder`, or `RandomChoice`", _some_of, "at most 128 outcomes; `replace=False`"),
    "SelectiveChannelTransform": absent("all channels take the same ops"),
    "NoOp": _row(NOTHING, "", lambda t, s: [], draws=False),
    "Lambda": absent("`ops.Lambda` takes the function"),
    "ToTensorV2": _row(BITS, "ToChannelsFirst", _to_tensor, "at the end of the list", draws=False,
                       unused=("transpose_mask",)),
    "ToTensor3D": absent(_VOLUMES),
    "ToRGB": _row(NOTHING, "", lambda t, s: [], "images are read as RGB, unless `read_mode` says otherwise", draws=False),
    "Normalize": _row(LEVEL, "Normalize", _normalize, "to 1e-6; `normalization=\"standard\"`", draws=False),
    "ToFloat": _row(BITS, "ScaleIntensityRange", _to_float, draws=False),
    "FromFloat": absent("`ops.Convert` changes the type, and values are not scaled"),
    "Resize": _row(LEVEL, "Resize", _resize, "INTER_AREA gives the same bits, INTER_CUBIC differs", draws=False),
    "SmallestMaxSize": _row(
        DIFFER, "Resize", _max_size, "the other side is rounded down, and to the nearest pixel there", draws=False
    ),
    "LongestMaxSize": _row(
        DIFFER, "Resize(side=\"long\")", _max_size,
        "the other side is rounded down, and to the nearest pixel there; with `PadIfNeeded` of its size it is `Letterbox`, "
        "within a level", draws=False,
    ),
    "PadIfNeeded": _row(
        BITS, "PadIfNeeded", _pad_if_needed, "or `Letterbox` after `LongestMaxSize`, and a part of `RandomCrop` before one, of "
        "the same size; no divisors",
    ),
    "Pad": _row(BITS, "Pad", _pad, draws=False),
    "CenterCrop": _row(
        DIFFER, "CenterCrop", _center_crop, "by one pixel if it leaves out 3, 7, 11, ... rows or columns", draws=False
    ),
    "RandomCrop": _row(BITS, "RandomCrop", _random_crop),
    "RandomResizedCrop": _row(LEVEL, "RandomResizedCrop", _random_resized_crop),
    "RandomSizedCrop": _row(LEVEL, "RandomSizedCrop", _random_sized_crop),
    "RandomScale": absent(_SIZES),
    "Crop": _row(BITS, "Crop", _crop, draws=False, unused=("pad_position", "border_mode", "fill")),  # nothing is padded
    "CropAndPad": absent("`ops.Pad` adds a frame, and `ops.RandomCrop` cuts"),
    "RandomCropFromBorders": absent(_SIZES),
    "CropNonEmptyMaskIfExists": absent("no crop looks at a mask"),
    "RandomCropNearBBox": absent(_BOXES),
    "RandomSizedBBoxSafeCrop": absent(_BOXES),
    "BBoxSafeRandomCrop": absent(_BOXES),
    "AtLeastOneBBoxRandomCrop": absent(_BOXES),
    "HorizontalFlip": _row(BITS, "RandomHorizontalFlip", lambda t, s: ops.RandomHorizontalFlip(t.p)),
    "VerticalFlip": _row(BITS, "RandomVerticalFlip", lambda t, s: ops.RandomVerticalFlip(t.p)),
    "Transpose": _row(BITS, "Transpose", lambda t, s: ops.Transpose(t.p)),
    "RandomRotate90": _row(BITS, "RandomRotate90", lambda t, s: ops.RandomRotate90(t.p)),
    "D4": _row(BITS, "D4", lambda t, s: ops.D4()),
    "SquareSymmetry": _row(BITS, "D4", lambda t, s: ops.D4()),
    "Rotate": _row(LEVEL, "RandomRotation", _rotate, _EDGE),
    "SafeRotate": absent("`ops.RandomRotation(expand=True)` keeps all pixels, in a larger image"),
    "Affine": _row(LEVEL, "RandomAffine", _affine, f"{_EDGE}; one factor for both axes; shifts by a share of the sides",
                   unused=("translate_px",)),
    "ShiftScaleRotate": _row(
        LEVEL, "RandomAffine", _shift_scale_rotate, f"{_EDGE}; one factor for both axes",
        unused=("shift_limit", "shift_limit_x", "shift_limit_y", "scale_limit", "rotate_limit"),
    ),
    "Perspective": _row(
        DIFFER, "Perspective", _perspective, "the part fills the image, and 2.0.8 enlarges it once more; `keep_size=True`"
    ),
    "ElasticTransform": _row(
        DIFFER, "ElasticTransform", _elastic, "at the edges, and in strength unless `noise_distribution=\"uniform\"`",
        unused=_KEYPOINTS,
    ),
    "GridDistortion": _row(LEVEL, "GridDistortion", _grid, "to 1/32 of a pixel", unused=_KEYPOINTS),
    "GridElasticDeform": absent("`ops.ElasticTransform` and `ops.GridDistortion` move pixels by smooth steps, too"),
    "OpticalDistortion": _row(
        DIFFER, "OpticalDistortion", _optical, "the centre is half a pixel off there", unused=_KEYPOINTS
    ),
    "PiecewiseAffine": absent("`ops.ElasticTransform` and `ops.GridDistortion` move pixels by smooth steps, too"),
    "ThinPlateSpline": absent("`ops.ElasticTransform` and `ops.GridDistortion` move pixels by smooth steps, too"),
    "RandomGridShuffle": _row(BITS, "RandomGridShuffle", lambda t, s: ops.RandomGridShuffle(
        t.grid[0] if _is_one(t.grid) else (t.grid[1], t.grid[0]), t.p
    ), "boxes and keypoints are refused"),
    "ColorJitter": _row(LEVEL, "ColorJitter", _jitter, "hue by some levels, as it is a whole number of 2 degrees there"),
    "RandomBrightnessContrast": _row(
        LEVEL, "RandomBrightnessContrast", _brightness_contrast, "the same bits with `number_rule=\"exact\"`"
    ),
    "RandomGamma": _row(LEVEL, "RandomGamma", _gamma),
    "HueSaturationValue": _row(
        DIFFER, "HueSaturationValue", _hsv, "by up to 12 levels, as hues are whole numbers of 2 degrees there"
    ),
    "RGBShift": _row(LEVEL, "RGBShift", _rgb_shift),
    "ToGray": _row(LEVEL, "Grayscale", _to_gray, "or `RandomGrayscale`, or `ColorMatrix` for `method=\"average\"`"),
    "ToSepia": _row(LEVEL, "ColorMatrix", _sepia),
    "InvertImg": _row(BITS, "RandomInvert", lambda t, s: ops.RandomInvert(t.p)),
    "Solarize": _row(BITS, "RandomSolarize", _solarize, "one threshold"),
    "Posterize": _row(BITS, "RandomPosterize", _posterize, "a range becomes a `RandomChoice`"),
    "Equalize": _row(DIFFER, "RandomEqualize", _equalize, "by tens of levels: the look-up table is Pillow's",
                     unused=("mode", "mask_params")),
    "AutoContrast": _row(LEVEL, "RandomAutocontrast", _autocontrast, "`method=\"pil\"`"),
    "CLAHE": _row(DIFFER, "CLAHE", _clahe, "by a level, in one value of 40,000 by up to 5; not at all for gray images"),
    "ChannelShuffle": _row(BITS, "RandomChannelPermutation", lambda t, s: ops.RandomChannelPermutation(t.p)),
    "ChannelDropout": _row(BITS, "ChannelDropout", lambda t, s: ops.ChannelDropout(
        tuple(t.channel_drop_range), float(t.fill), t.p
    )),
    "FancyPCA": absent("`ops.Lighting` takes ImageNet's colours in place of the image's own"),
    "PlanckianJitter": absent("`ops.RGBShift` adds to each channel"),
    "RandomToneCurve": _row(
        LEVEL, "RandomToneCurve", lambda t, s: ops.RandomToneCurve(float(t.scale), t.per_channel, t.p)
    ),
    "ChromaticAberration": absent(_CALL),
    "HEStain": absent(_CALL),
    "Illumination": absent(_CALL),
    "PlasmaBrightnessContrast": absent(_CALL),
    "Blur": _row(BITS, "BoxBlur", _blur, "a range of sizes becomes a `RandomChoice`"),
    "GaussianBlur": _row(LEVEL, "GaussianBlur", _gaussian_blur, "a range of sizes becomes a `RandomChoice`"),
    "MedianBlur": _row(
        BITS, "MedianBlur", lambda t, s: ops.MedianBlur(tuple(t.blur_limit), t.p), "at most 15 pixels a side"
    ),
    "MotionBlur": _row(LEVEL, "MotionBlur", _motion_blur),
    "AdvancedBlur": absent("`ops.GaussianBlur` has a round kernel"),
    "Defocus": absent("`ops.GaussianBlur` and `ops.MotionBlur` have other kernels"),
    "GlassBlur": absent("`ops.GaussianBlur` and `ops.MotionBlur` have other kernels"),
    "ZoomBlur": absent("`ops.GaussianBlur` and `ops.MotionBlur` have other kernels"),
    "RingingOvershoot": absent(_CALL),
    "Sharpen": _row(
        LEVEL, "Sharpen", _sharpen, "`method=\"kernel\"`", unused=("kernel_size", "sigma")
    ),
    "UnsharpMask": absent("it blurs what it blurred; `ops.Sharpen` and `ops.RandomAdjustSharpness` have no threshold"),
    "Emboss": _row(LEVEL, "Emboss", lambda t, s: ops.Emboss(tuple(t.alpha), tuple(t.strength), t.p)),
    "GaussNoise": _row(
        LEVEL, "GaussianNoise", _gauss_noise, "a range of deviations becomes a `RandomChoice` of 8; one mean"
    ),
    "AdditiveNoise": absent("`ops.GaussianNoise` adds normal noise"),
    "MultiplicativeNoise": _row(LEVEL, "MultiplicativeNoise", _multiplicative_noise),
    "ISONoise": absent("it needs a statistic of the whole image first; `ops.GaussianNoise` adds normal noise"),
    "ShotNoise": absent("`ops.GaussianNoise` adds normal noise"),
    "SaltAndPepper": absent("`ops.PixelDropout` sets pixels to one value"),
    "Downscale": _row(BITS, "Downscale", _downscale, "nearest pixels both ways; the scale has single precision"),
    "ImageCompression": _row(
        DIFFER, "JPEG", _image_compression, "by some levels, as red and blue are exchanged there; the codec is the same to the "
        "bit, so that gray images are; `compression_type=\"jpeg\"`",
    ),
    "Superpixels": absent(_CALL),
    "Morphological": absent(_CALL),
    "Erasing": _row(
        DIFFER, "RandomErasing", _erasing, "the logarithm of the ratio is uniform, and the ratio there; `fill` is a colour"
    ),
    "CoarseDropout": _row(BITS, "CoarseDropout", _coarse_dropout, "`fill` is a colour; boxes below holes stay"),
    "ConstrainedCoarseDropout": absent("`ops.CoarseDropout` paints rectangles over anywhere"),
    "GridDropout": absent("`ops.GridMask` is the paper's, with squares"),
    "MaskDropout": absent("`ops.SimpleCopyPaste` pastes objects by their masks"),
    "PixelDropout": _row(BITS, "PixelDropout", _pixel_dropout, "`drop_value` is one number"),
    "XYMasking": absent("`ops.TimeMasking` and `ops.FrequencyMasking` mask one band each"),
    "TimeMasking": _row(DIFFER, "TimeMasking", _time_masking, "the length is below the parameter, as torchaudio has it"),
    "FrequencyMasking": _row(
        DIFFER, "FrequencyMasking", _time_masking, "the length is below the parameter, as torchaudio has it"
    ),
    "TimeReverse": _row(BITS, "RandomHorizontalFlip", lambda t, s: ops.RandomHorizontalFlip(t.p)),
    "RandomFog": absent(_SHAPES),
    "RandomGravel": absent(_SHAPES),
    "RandomRain": absent(_SHAPES),
    "RandomShadow": absent(_SHAPES),
    "RandomSnow": absent(_SHAPES),
    "RandomSunFlare": absent(_SHAPES),
    "PlasmaShadow": absent(_CALL),
    "Spatter": absent(_SHAPES),
    "TextImage": absent(_SHAPES),
    "OverlayElements": absent(_OTHERS),
    "Mosaic": absent(_OTHERS),
    "FDA": absent(_OTHERS),
    "HistogramMatching": absent(_OTHERS),
    "PixelDistributionAdaptation": absent(_OTHERS),
    "CenterCrop3D": absent(_VOLUMES),
    "RandomCrop3D": absent(_VOLUMES),
    "Pad3D": absent(_VOLUMES),
    "PadIfNeeded3D": absent(_VOLUMES),
    "CoarseDropout3D": absent(_VOLUMES),
    "CubicSymmetry": absent(_VOLUMES),
}

LIBRARY = Library("from_albumentations", {"albumentations": TABLE}, {
    ("LongestMaxSize", "PadIfNeeded"): _letterbox,
    ("PadIfNeeded", "RandomCrop"): _padded_crop,
})
