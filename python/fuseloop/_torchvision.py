"""Transforms of torchvision as ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from . import ops
from ._op import Op
from .errors import ConfigError


def converted(transform: Any) -> list[Op]:
    """Returns the ops for a transform."""
    state = _State()
    made = state.all(transform)
    if state.is_scaled and not state.is_normalized:
        made.append(ops.Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    if state.dtype is not None:
        made.append(ops.Convert(state.dtype))
    if state.channels_first:
        made.append(ops.ToChannelsFirst())
    return made


class _State:
    """What was said of the axes and the scale so far."""

    def __init__(self) -> None:
        self.channels_first = False
        self.is_scaled = False
        self.is_normalized = False
        self.dtype: str | None = None

    def all(self, transform: Any) -> list[Op]:
        if isinstance(transform, (list, tuple)):
            return [op for one in transform for op in self.all(one)]
        name = type(transform).__name__
        if _is_preset(transform):
            return self._preset(transform)
        if name in ("Compose", "Sequential"):
            return self.all(list(getattr(transform, "transforms", transform)))
        if name in ("Identity", "ToPureTensor"):
            return []
        if name in ("ToTensor", "ToImage", "PILToTensor", "ToImageTensor"):
            self.channels_first = True
            self.is_scaled |= name == "ToTensor"
            return []
        if name in ("ToDtype", "ConvertImageDtype"):
            self._to_dtype(transform, name)
            return []
        if name == "Normalize":
            if not self.is_scaled:
                raise ConfigError("Normalize needs a picture in 0 to 1: put ToTensor or ToDtype(scale=True) before it")
            self.is_normalized = True
        made = _MADE.get(name)
        if made is None:
            module = type(transform).__module__
            raise ConfigError(
                f"{module}.{name} has no op in Fuseloop: leave it out of the list, and call it on the batches "
                "(fuseloop.torch.Loader(after=...)) or on each picture (fuseloop.ops.Lambda)"
            )
        return [made(transform, self)]

    def _preset(self, t: Any) -> list[Op]:
        """Returns the ops of the transforms that torchvision's weights have: resize, crop, scale and normalize."""
        self.channels_first = self.is_scaled = True
        if type(t).__name__ == "ObjectDetection":
            return []
        self.is_normalized = True
        made: list[Op] = []
        if t.resize_size is not None:
            size = t.resize_size[0] if len(t.resize_size) == 1 else tuple(t.resize_size)
            made.append(ops.Resize(size, interpolation=_interpolation(t)))
        if hasattr(t, "crop_size"):
            made.append(ops.CenterCrop(_size(t.crop_size)))
        return [*made, ops.Normalize(tuple(t.mean), tuple(t.std))]

    def _to_dtype(self, transform: Any, name: str) -> None:
        dtype = str(transform.dtype).removeprefix("torch.")
        scale = name == "ConvertImageDtype" or transform.scale
        if dtype == "uint8" and not self.is_scaled:
            return
        if not dtype.startswith(("float", "bfloat")) or not scale:
            raise ConfigError(f"{name} to {dtype} is only an op from bytes to floats with scale=True")
        self.is_scaled = True
        self.dtype = None if dtype == "float32" else dtype


def _is_preset(transform: Any) -> bool:
    """True for the transforms of ``weights.transforms()`` of models that take one image."""
    names = {"ImageClassification", "SemanticSegmentation", "ObjectDetection"}
    return type(transform).__module__ == "torchvision.transforms._presets" and type(transform).__name__ in names


def _interpolation(transform: Any, warp: bool = False) -> Any:
    """Returns our word for an interpolation."""
    given = getattr(transform.interpolation, "value", transform.interpolation)
    if warp:
        return str(given)
    antialias = getattr(transform, "antialias", True)
    word = {"bilinear": "bilinear", "bicubic": "bicubic"}.get(given)
    if word is not None:
        return word if antialias in (True, None, "warn") else f"{word}-aliased"
    if given in ("nearest", "nearest-exact"):
        return str(given)
    raise ConfigError(f"{type(transform).__name__}: there is no interpolation {given}")


def _size(size: Any) -> Any:
    if isinstance(size, int):
        return size
    return size[0] if len(set(size)) == 1 else tuple(size)


def _fill(transform: Any, none: int | None = 0) -> Any:
    fill = getattr(transform, "fill", 0)
    if fill is None:
        return none
    if isinstance(fill, dict):
        raise ConfigError(f"{type(transform).__name__}: one fill for all kinds of inputs, please, not a dict")
    levels = tuple(int(value) for value in fill) if isinstance(fill, Iterable) else (int(fill),)
    return levels[0] if len(levels) == 1 else levels


def _range(value: Any) -> Any:
    return 0.0 if value is None else tuple(float(part) for part in value)


def _optional(value: Any) -> Any:
    return None if value is None else tuple(value)


def _resize(t: Any, _: _State) -> Op:
    if t.size is None:
        return ops.Resize(t.max_size, side="long", interpolation=_interpolation(t))
    size = t.size if isinstance(t.size, int) else t.size[0] if len(t.size) == 1 else tuple(t.size)
    return ops.Resize(size, max_size=t.max_size, interpolation=_interpolation(t))


def _choice(t: Any, s: _State) -> Op:
    weights = getattr(t, "p", None)
    return ops.RandomChoice(s.all(list(t.transforms)), weights=None if weights is None else list(weights))


def _erasing(t: Any, _: _State) -> Op:
    value = t.value if not isinstance(t.value, (list, tuple)) or len(t.value) != 1 else t.value[0]
    return ops.RandomErasing(t.p, t.scale, t.ratio, "random" if value in (None, "random") else value)


def _aug_mix(t: Any, _: _State) -> Op:
    depth = None if t.chain_depth <= 0 else t.chain_depth
    return ops.AugMix(t.severity, t.mixture_width, depth, t.alpha, t.all_ops, _interpolation(t, True), _fill(t, None))


_MADE: dict[str, Callable[[Any, _State], Op]] = {
    "Resize": _resize,
    "CenterCrop": lambda t, _: ops.CenterCrop(_size(t.size)),
    "RandomCrop": lambda t, _: ops.RandomCrop(
        _size(t.size), 0 if t.padding is None else t.padding, t.pad_if_needed, _fill(t), t.padding_mode
    ),
    "RandomResizedCrop": lambda t, _: ops.RandomResizedCrop(
        _size(t.size), tuple(t.scale), tuple(t.ratio), _interpolation(t)
    ),
    "Pad": lambda t, _: ops.Pad(t.padding, _fill(t), t.padding_mode),
    "RandomZoomOut": lambda t, _: ops.RandomZoomOut(_fill(t), tuple(t.side_range), t.p),
    "RandomIoUCrop": lambda t, _: ops.RandomIoUCrop(
        (t.min_scale, t.max_scale), (t.min_aspect_ratio, t.max_aspect_ratio), list(t.options), t.trials
    ),
    "ScaleJitter": lambda t, _: ops.ScaleJitter(tuple(t.target_size), tuple(t.scale_range), _interpolation(t)),
    "RandomShortestSize": lambda t, _: ops.RandomShortestSize(list(t.min_size), t.max_size, _interpolation(t)),
    "RandomResize": lambda t, _: ops.RandomResize(t.min_size, t.max_size, _interpolation(t)),
    "ElasticTransform": lambda t, _: ops.ElasticTransform(
        tuple(t.alpha), tuple(t.sigma), _interpolation(t, True), _fill(t)
    ),
    "SanitizeBoundingBoxes": lambda t, _: ops.SanitizeBoundingBoxes(t.min_size, t.min_area),
    "ClampBoundingBoxes": lambda t, _: ops.ClampBoundingBoxes(),
    "ConvertBoundingBoxFormat": lambda t, _: ops.ConvertBoundingBoxFormat(
        cast(Any, str(getattr(t.format, "name", t.format)).lower())
    ),
    "SanitizeKeyPoints": lambda t, _: ops.SanitizeKeyPoints(),
    "ClampKeyPoints": lambda t, _: ops.ClampKeyPoints(),
    "RandomHorizontalFlip": lambda t, _: ops.RandomHorizontalFlip(t.p),
    "RandomVerticalFlip": lambda t, _: ops.RandomVerticalFlip(t.p),
    "RandomRotation": lambda t, _: ops.RandomRotation(
        tuple(t.degrees), _interpolation(t, True), t.expand, _optional(t.center), _fill(t)
    ),
    "RandomAffine": lambda t, _: ops.RandomAffine(
        tuple(t.degrees), _optional(t.translate), _optional(t.scale), _optional(t.shear),
        _interpolation(t, True), _fill(t), _optional(t.center),
    ),
    "RandomPerspective": lambda t, _: ops.RandomPerspective(
        t.distortion_scale, t.p, _interpolation(t, True), _fill(t)
    ),
    "ColorJitter": lambda t, _: ops.ColorJitter(*map(_range, (t.brightness, t.contrast, t.saturation, t.hue))),
    "RandomPhotometricDistort": lambda t, _: ops.RandomPhotometricDistort(
        tuple(t.brightness), tuple(t.contrast), tuple(t.saturation), tuple(t.hue), t.p
    ),
    "Grayscale": lambda t, _: ops.Grayscale(t.num_output_channels),
    "RandomGrayscale": lambda t, _: ops.RandomGrayscale(t.p),
    "RandomChannelPermutation": lambda t, _: ops.RandomChannelPermutation(),
    "RandomInvert": lambda t, _: ops.RandomInvert(t.p),
    "RandomPosterize": lambda t, _: ops.RandomPosterize(t.bits, t.p),
    "RandomSolarize": lambda t, _: ops.RandomSolarize(t.threshold, t.p),
    "RandomAutocontrast": lambda t, _: ops.RandomAutocontrast(t.p),
    "RandomEqualize": lambda t, _: ops.RandomEqualize(t.p),
    "RandomAdjustSharpness": lambda t, _: ops.RandomAdjustSharpness(t.sharpness_factor, t.p),
    "GaussianBlur": lambda t, _: ops.GaussianBlur(tuple(t.kernel_size), tuple(t.sigma)),
    "GaussianNoise": lambda t, _: ops.GaussianNoise(t.mean, t.sigma, t.clip),
    "RandomErasing": _erasing,
    "AugMix": _aug_mix,
    "AutoAugment": lambda t, _: ops.AutoAugment(
        getattr(t.policy, "value", t.policy), _interpolation(t, True), _fill(t, None)
    ),
    "RandAugment": lambda t, _: ops.RandAugment(
        t.num_ops, t.magnitude, t.num_magnitude_bins, None, _interpolation(t, True), _fill(t, None)
    ),
    "TrivialAugmentWide": lambda t, _: ops.TrivialAugmentWide(
        t.num_magnitude_bins, _interpolation(t, True), _fill(t, None)
    ),
    "Normalize": lambda t, _: ops.Normalize(tuple(t.mean), tuple(t.std)),
    "RandomApply": lambda t, s: ops.RandomApply(s.all(list(t.transforms)), t.p),
    "RandomOrder": lambda t, s: ops.RandomOrder(s.all(list(t.transforms))),
    "RandomChoice": _choice,
}
