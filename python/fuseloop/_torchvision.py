"""Transforms of torchvision as ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from . import ops
from ._conversion import BITS, LEVEL, NOTHING, Conversion, Library, Made, Report, Row, absent, decimal, together
from ._op import Op
from .errors import ConfigError


def converted(transform: Any, report: Report | None = None, library: Library | None = None) -> list[Op]:
    """Returns the ops for a transform."""
    state = Conversion(library or LIBRARY)
    made = state.one(transform)
    if state.is_scaled and not state.is_normalized:
        made.append(ops.Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    if state.dtype is not None:
        made.append(ops.Convert(state.dtype))
    if state.channels_first:
        made.append(ops.ToChannelsFirst())
    return state.finished(made, report)


# Pillow's numbers for interpolations, which torchvision takes, too.
_PILLOW = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")


def interpolation(transform: Any, warp: bool = False) -> Any:
    """Returns our word for an interpolation."""
    given = getattr(transform.interpolation, "value", transform.interpolation)
    given = _PILLOW[given] if isinstance(given, int) and given in range(len(_PILLOW)) else given
    antialias = getattr(transform, "antialias", True)
    if warp and given in ("nearest", "bilinear", "bicubic"):
        return given
    if not warp and given in ("bilinear", "bicubic"):
        return given if antialias in (True, None, "warn") else f"{given}-aliased"
    if not warp and given in ("nearest", "nearest-exact"):
        return str(given)
    raise ConfigError(f"there is no interpolation {given}")


def size_of(size: Any) -> Any:
    """Returns a size as one number, or as height and width."""
    if isinstance(size, int):
        return size
    return size[0] if len(set(size)) == 1 else tuple(size)


def fill_of(transform: Any, none: int | None = 0) -> Any:
    """Returns a colour as one level, or as a level for each channel."""
    fill = getattr(transform, "fill", 0)
    if fill is None:
        return none
    if isinstance(fill, dict):
        raise ConfigError("one fill for all kinds of inputs, please, not a dict")
    levels = tuple(int(value) for value in fill) if isinstance(fill, Iterable) else (int(fill),)
    return levels[0] if len(levels) == 1 else levels


def _range(value: Any) -> Any:
    return 0.0 if value is None else tuple(float(part) for part in value)


def _optional(value: Any) -> Any:
    return None if value is None else tuple(value)


def _compose(t: Any, s: Conversion) -> Made:
    return s.all(getattr(t, "transforms", t._transform))


def _preset(t: Any, s: Conversion) -> Made:
    """Returns the ops of the transforms that torchvision's weights have: resize, crop, scale and normalize."""
    s.channels_first = s.is_scaled = s.is_normalized = True
    made: list[Op] = []
    if t.resize_size is not None:
        size = t.resize_size[0] if len(t.resize_size) == 1 else tuple(t.resize_size)
        made.append(ops.Resize(size, interpolation=interpolation(t)))
    crop = getattr(t, "crop_size", None)
    if crop is not None:
        made.append(ops.CenterCrop(size_of(crop)))
    return [*made, ops.Normalize(tuple(t.mean), tuple(t.std))]


def to_tensor(t: Any, s: Conversion) -> Made:
    s.channels_first = s.is_scaled = True
    return []


def to_image(t: Any, s: Conversion) -> Made:
    s.channels_first = True
    return []


def _to_dtype(t: Any, s: Conversion) -> Made:
    name = type(t._transform).__name__
    dtype = str(t.dtype).removeprefix("torch.")
    scale = name == "ConvertImageDtype" or t.scale
    if dtype == "uint8" and not s.is_scaled:
        return []
    if not dtype.startswith(("float", "bfloat")) or not scale:
        raise ConfigError(f"{name} to {dtype} is only an op from bytes to floats with scale=True")
    s.is_scaled = True
    s.dtype = None if dtype == "float32" else dtype
    return []


def _normalize(t: Any, s: Conversion) -> Made:
    if not s.is_scaled:
        raise ConfigError("Normalize needs a picture in 0 to 1: put ToTensor or ToDtype(scale=True) before it")
    s.is_normalized = True
    return ops.Normalize(decimal(t.mean), decimal(t.std))


def _resize(t: Any, _: Conversion) -> Op:
    if t.size is None:
        return ops.Resize(t.max_size, side="long", interpolation=interpolation(t))
    size = t.size if isinstance(t.size, int) else t.size[0] if len(t.size) == 1 else tuple(t.size)
    return ops.Resize(size, max_size=t.max_size, interpolation=interpolation(t))


def _choice(t: Any, s: Conversion) -> Op:
    weights = getattr(t, "p", None)
    made = [together(one) for one in s.each(t.transforms)]
    return ops.RandomChoice(made, weights=None if weights is None else list(weights))


def _erasing(t: Any, _: Conversion) -> Op:
    value = t.value if not isinstance(t.value, (list, tuple)) or len(t.value) != 1 else t.value[0]
    return ops.RandomErasing(t.p, t.scale, t.ratio, "random" if value in (None, "random") else value)


def _aug_mix(t: Any, _: Conversion) -> Op:
    depth = None if t.chain_depth <= 0 else t.chain_depth
    return ops.AugMix(
        t.severity, t.mixture_width, depth, t.alpha, t.all_ops, interpolation(t, True), fill_of(t, None)
    )


def _row(same: str, made: Callable[[Any, Conversion], Made], note: str = "", *, ours: str = "", draws: bool = True,
         unused: tuple[str, ...] = ()) -> Row:
    return Row(ours, same, note, made, draws, unused)


def _list(made: Callable[[Any, Conversion], Made], note: str = "", *, ours: str = "", draws: bool = True) -> Row:
    return Row(ours, "", note, made, draws, is_list=True)


_TARGETS = ("labels_getter",)
_EXACT = "the same bits with `number_rule=\"exact\"`"
_WARP = "of tensors; those of PIL images differ at edges, and in bicubic"
_CROPS = "`views` of the loader makes further outputs of an image, each with a crop"
_MIX = "it is no transform of an image: write `ops.{0}` last in the lists of the image and the label"

# A row for each class of torchvision.transforms, .v2 and the transforms of weights. An empty name of the op is the name
# of the class.
TABLE: dict[str, Row] = {
    "Compose": _list(_compose, ours="a list", draws=False),
    "Sequential": _list(_compose, ours="a list", draws=False),
    "ModuleList": _list(_compose, ours="a list", draws=False),
    "RandomApply": _list(lambda t, s: ops.RandomApply(s.all(t.transforms), t.p)),
    "RandomChoice": _list(_choice),
    "RandomOrder": _list(
        lambda t, s: ops.RandomOrder([together(one) for one in s.each(t.transforms)]), "at most 5 transforms"
    ),
    "Identity": _row(NOTHING, lambda t, _: [], ours="nothing", draws=False),
    "ToPureTensor": _row(NOTHING, lambda t, _: [], ours="nothing", draws=False),
    "RGB": _row(
        NOTHING, lambda t, _: [], "images are read as RGB, unless `read_mode` says otherwise", ours="nothing", draws=False
    ),
    "ToTensor": _row(LEVEL, to_tensor, ours="`Normalize`, `ToChannelsFirst` last", draws=False),
    "ToImage": _row(BITS, to_image, ours="`ToChannelsFirst` last", draws=False),
    "PILToTensor": _row(BITS, to_image, ours="`ToChannelsFirst` last", draws=False),
    "ToDtype": _row(
        LEVEL, _to_dtype, "to floats with `scale=True`", ours="the scale of `Normalize`, `Convert`", draws=False
    ),
    "ConvertImageDtype": _row(LEVEL, _to_dtype, "to floats", ours="the scale of `Normalize`, `Convert`", draws=False),
    "Normalize": _row(
        LEVEL, _normalize, "after `ToTensor` or `ToDtype(scale=True)`", draws=False, unused=("inplace",)
    ),
    "Resize": _row(LEVEL, _resize, draws=False),
    "CenterCrop": _row(BITS, lambda t, _: ops.CenterCrop(size_of(t.size)), draws=False),
    "RandomCrop": _row(BITS, lambda t, _: ops.RandomCrop(
        size_of(t.size), 0 if t.padding is None else t.padding, t.pad_if_needed, fill_of(t), t.padding_mode
    )),
    "RandomResizedCrop": _row(LEVEL, lambda t, _: ops.RandomResizedCrop(
        size_of(t.size), tuple(t.scale), tuple(t.ratio), interpolation(t)
    )),
    "Pad": _row(BITS, lambda t, _: ops.Pad(t.padding, fill_of(t), t.padding_mode), draws=False),
    "RandomZoomOut": _row(BITS, lambda t, _: ops.RandomZoomOut(fill_of(t), tuple(t.side_range), t.p)),
    "RandomIoUCrop": _row(BITS, lambda t, _: ops.RandomIoUCrop(
        (t.min_scale, t.max_scale), (t.min_aspect_ratio, t.max_aspect_ratio), list(t.options), t.trials
    ), "objects outside the crop are removed", unused=("sampler_options",)),
    "ScaleJitter": _row(
        LEVEL, lambda t, _: ops.ScaleJitter(tuple(t.target_size), tuple(t.scale_range), interpolation(t))
    ),
    "RandomShortestSize": _row(
        LEVEL, lambda t, _: ops.RandomShortestSize(list(t.min_size), t.max_size, interpolation(t))
    ),
    "RandomResize": _row(LEVEL, lambda t, _: ops.RandomResize(t.min_size, t.max_size, interpolation(t))),
    "ElasticTransform": _row(LEVEL, lambda t, _: ops.ElasticTransform(
        tuple(t.alpha), tuple(t.sigma), interpolation(t, True), fill_of(t)
    ), _WARP),
    "SanitizeBoundingBoxes": _row(
        NOTHING, lambda t, _: ops.SanitizeBoundingBoxes(t.min_size, t.min_area), draws=False, unused=_TARGETS
    ),
    "ClampBoundingBoxes": _row(NOTHING, lambda t, _: ops.ClampBoundingBoxes(), draws=False),
    "ConvertBoundingBoxFormat": _row(NOTHING, lambda t, _: ops.ConvertBoundingBoxFormat(
        cast(Any, str(getattr(t.format, "name", t.format)).lower())
    ), draws=False),
    "SanitizeKeyPoints": _row(NOTHING, lambda t, _: ops.SanitizeKeyPoints(), draws=False, unused=_TARGETS),
    "ClampKeyPoints": _row(NOTHING, lambda t, _: ops.ClampKeyPoints(), draws=False),
    "RandomHorizontalFlip": _row(BITS, lambda t, _: ops.RandomHorizontalFlip(t.p)),
    "RandomVerticalFlip": _row(BITS, lambda t, _: ops.RandomVerticalFlip(t.p)),
    "RandomRotation": _row(LEVEL, lambda t, _: ops.RandomRotation(
        tuple(t.degrees), interpolation(t, True), t.expand, _optional(t.center), fill_of(t)
    ), _WARP),
    "RandomAffine": _row(LEVEL, lambda t, _: ops.RandomAffine(
        tuple(t.degrees), _optional(t.translate), _optional(t.scale), _optional(t.shear),
        interpolation(t, True), fill_of(t), _optional(t.center),
    ), _WARP),
    "RandomPerspective": _row(LEVEL, lambda t, _: ops.RandomPerspective(
        t.distortion_scale, t.p, interpolation(t, True), fill_of(t)
    ), _WARP),
    "ColorJitter": _row(
        LEVEL, lambda t, _: ops.ColorJitter(*map(_range, (t.brightness, t.contrast, t.saturation, t.hue))), _EXACT
    ),
    "RandomPhotometricDistort": _row(LEVEL, lambda t, _: ops.RandomPhotometricDistort(
        tuple(t.brightness), tuple(t.contrast), tuple(t.saturation), tuple(t.hue), t.p
    ), _EXACT),
    "Grayscale": _row(LEVEL, lambda t, _: ops.Grayscale(t.num_output_channels), _EXACT, draws=False),
    "RandomGrayscale": _row(LEVEL, lambda t, _: ops.RandomGrayscale(t.p), _EXACT),
    "RandomChannelPermutation": _row(BITS, lambda t, _: ops.RandomChannelPermutation()),
    "RandomInvert": _row(BITS, lambda t, _: ops.RandomInvert(t.p)),
    "RandomPosterize": _row(BITS, lambda t, _: ops.RandomPosterize(t.bits, t.p)),
    "RandomSolarize": _row(BITS, lambda t, _: ops.RandomSolarize(t.threshold, t.p)),
    "RandomAutocontrast": _row(LEVEL, lambda t, _: ops.RandomAutocontrast(t.p), _EXACT),
    "RandomEqualize": _row(BITS, lambda t, _: ops.RandomEqualize(t.p)),
    "RandomAdjustSharpness": _row(LEVEL, lambda t, _: ops.RandomAdjustSharpness(t.sharpness_factor, t.p), _EXACT),
    "GaussianBlur": _row(LEVEL, lambda t, _: ops.GaussianBlur(tuple(t.kernel_size), tuple(t.sigma))),
    "GaussianNoise": _row(
        LEVEL, lambda t, _: ops.GaussianNoise(t.mean, t.sigma, t.clip), "it takes floats there, and images here"
    ),
    "RandomErasing": _row(BITS, _erasing, "noise only after `Normalize`", unused=("inplace",)),
    "AugMix": _row(LEVEL, _aug_mix, _WARP),
    "AutoAugment": _row(LEVEL, lambda t, _: ops.AutoAugment(
        getattr(t.policy, "value", t.policy), interpolation(t, True), fill_of(t, None)
    ), _WARP),
    "RandAugment": _row(LEVEL, lambda t, _: ops.RandAugment(
        t.num_ops, t.magnitude, t.num_magnitude_bins, None, interpolation(t, True), fill_of(t, None)
    ), _WARP),
    "TrivialAugmentWide": _row(LEVEL, lambda t, _: ops.TrivialAugmentWide(
        t.num_magnitude_bins, interpolation(t, True), fill_of(t, None)
    ), _WARP),
    "ImageClassification": _row(
        LEVEL, _preset, "of `weights.transforms()`",
        ours="`Resize`, `CenterCrop`, `Normalize`, `ToChannelsFirst`", draws=False,
    ),
    "SemanticSegmentation": _row(
        LEVEL, _preset, "of `weights.transforms()`", ours="`Resize`, `Normalize`, `ToChannelsFirst`", draws=False
    ),
    "ObjectDetection": _row(
        LEVEL, to_tensor, "of `weights.transforms()`", ours="`Normalize`, `ToChannelsFirst`", draws=False
    ),
    "OpticalFlow": absent("pairs of frames are not read as one image"),
    "VideoClassification": absent("give its `Resize`, `CenterCrop` and `Normalize` for the frames of `clips`"),
    "UniformTemporalSubsample": absent("`clips=fl.Clips.segments(n, middle=True)` chooses frames before they are decoded"),
    "CutMix": absent(_MIX.format("CutMix")),
    "MixUp": absent(_MIX.format("MixUp")),
    "FiveCrop": absent(f"an image becomes one tensor here: {_CROPS}"),
    "TenCrop": absent(f"an image becomes one tensor here: {_CROPS}"),
    "JPEG": _row(BITS, lambda t, _: ops.JPEG(t.quality[0] if t.quality[0] == t.quality[1] else tuple(t.quality)), "of RGB images"),
    "Lambda": absent("`ops.Lambda` takes the function: it gets arrays of NumPy"),
    "LinearTransformation": absent("`ops.Lambda(function)` calls a function with each batch"),
    "SetClampingMode": absent("`fuseloop.Target.boxes(clamping=...)` says how boxes are clamped"),
    "ToPILImage": absent("leave it out: the loader decodes images itself; `PIL.Image.fromarray` takes an image of a batch"),
    "Transform": absent(
        "it is the base of classes of your own: `ops.Lambda` calls a function of yours; the class of ops is `ops.Op`"
    ),
}

# Modules of PyTorch that hold transforms.
LISTS = {name: TABLE[name] for name in ("Sequential", "ModuleList")}

LIBRARY = Library("from_torchvision", {"torchvision": TABLE, "torch": LISTS}, {})
