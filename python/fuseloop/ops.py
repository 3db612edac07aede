"""The ops: what a list of an output can have, in the order in which they run.

Written by tools/generate.py from the registry of the compiled module. The same names and parameters are used in Rust
and in pipeline files; ``docs/ops`` shows each op with pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._draws import *  # noqa: F403
from ._lambda import Lambda
from ._op import Compose, Op, _plain, _unless, from_albumentations, from_timm, from_torchvision
from ._pixel_op import *  # noqa: F403
from ._trace import *  # noqa: F403
from ._trace import abs as abs
from ._trace import round as round

if not TYPE_CHECKING:

    def __getattr__(name: str):
        from ._hints import missing_op

        raise missing_op(name)


Interpolation = Literal[
    "bilinear", "area", "nearest", "nearest-exact", "bicubic", "bilinear-aliased", "bicubic-aliased"
]
Device = Literal["auto", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7"]
Pair = Sequence[float]
Size = int | Sequence[int]
Color = int | Sequence[int]
__all__ = [
    "Compose",
    "Lambda",
    "Op",
    "from_albumentations",
    "from_timm",
    "from_torchvision",
    "Draw",
    "Pixel",
    "PixelFunction",
    "Value",
    "ceil",
    "choice",
    "clip",
    "cos",
    "exp",
    "floor",
    "fma",
    "integers",
    "log",
    "maximum",
    "mean",
    "minimum",
    "normal",
    "pixel_op",
    "sin",
    "sqrt",
    "stack",
    "trunc",
    "uniform",
    "where",
    "AddGaussianSNR",
    "AugMix",
    "AutoAugment",
    "BoxBlur",
    "CLAHE",
    "CenterCrop",
    "ChannelDropout",
    "ChannelShuffle",
    "ClampBoundingBoxes",
    "ClampKeyPoints",
    "Clip",
    "CoarseDropout",
    "ColorJitter",
    "ColorMatrix",
    "Convert",
    "ConvertBoundingBoxFormat",
    "Crop",
    "CutMix",
    "Cutout",
    "D4",
    "Downscale",
    "ElasticTransform",
    "Emboss",
    "FixedPoints",
    "FixedSizeCrop",
    "FrequencyMasking",
    "Gain",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "GridDistortion",
    "GridMask",
    "HueSaturationValue",
    "ImageMixup",
    "JPEG",
    "LabelMixup",
    "LabelSmoothing",
    "Letterbox",
    "Levels",
    "Lighting",
    "Lut",
    "MedianBlur",
    "MixUp",
    "Mosaic",
    "MotionBlur",
    "MultiplicativeNoise",
    "Normalize",
    "OneHot",
    "OpticalDistortion",
    "Pad",
    "PadIfNeeded",
    "PermuteChannels",
    "Perspective",
    "PixelDropout",
    "PixelProgram",
    "Poison",
    "PolarityInversion",
    "RGBShift",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomBrightness",
    "RandomBrightnessContrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomContrast",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGamma",
    "RandomGrayscale",
    "RandomGridShuffle",
    "RandomHSV",
    "RandomHorizontalFlip",
    "RandomHue",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomJitter",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotate90",
    "RandomRotation",
    "RandomSaturation",
    "RandomShortestSize",
    "RandomSizedCrop",
    "RandomSolarize",
    "RandomToneCurve",
    "RandomTranslate",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "ReplaceLabel",
    "Resize",
    "ResizeToBucket",
    "Rot90",
    "SanitizeBoundingBoxes",
    "SanitizeKeyPoints",
    "ScaleIntensityRange",
    "ScaleJitter",
    "SelectChannels",
    "Sharpen",
    "SimpleCopyPaste",
    "SolarizeAdd",
    "Squeeze",
    "TimeMasking",
    "ToChannelsFirst",
    "ToChannelsLast",
    "ToDevice",
    "ToMono",
    "Transpose",
    "TrivialAugmentWide",
    "View",
]


class RandomResizedCrop(Op):
    """Cuts a random rectangle and scales it to a fixed size.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        scale: Share of the area. Expected: (low, high).
        ratio: Width over height. Expected: (low, high).
        interpolation: How pixels are weighed.
        antialias: Torchvision's: false is the interpolation with "-aliased"; default: true.

    >>> RandomResizedCrop(224)
    RandomResizedCrop(224)
    """

    __slots__ = ()
    __match_args__ = ("size", "scale", "ratio", "interpolation", "antialias")
    name = "RandomResizedCrop"

    def __init__(
        self,
        size: Size,
        scale: Pair = (0.08, 1.0),
        ratio: Pair = (0.75, 1.3333333333333333),
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> None:
        super().__init__(size=size, scale=scale, ratio=ratio, interpolation=interpolation, antialias=antialias)


class Resize(Op):
    """Scales an image.

    Args:
        size: One number: of the side named. Expected: pixels, or (height, width).
        interpolation: How pixels are weighed.
        max_size: Most pixels of the long side, for a short one.
        antialias: Torchvision's: false is the interpolation with "-aliased"; default: true.
        side: Which one number is for; long is torchvision's size = None with a max_size.

    >>> Resize(256)
    Resize(256)
    """

    __slots__ = ()
    __match_args__ = ("size", "interpolation", "max_size", "antialias", "side")
    name = "Resize"

    def __init__(
        self,
        size: Size,
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = None,
        side: Literal["short", "long"] = "short",
    ) -> None:
        super().__init__(size=size, interpolation=interpolation, max_size=max_size, antialias=antialias, side=side)


class ResizeToBucket(Op):
    """Scales and crops an image to the one of several sizes that has the nearest aspect ratio.

    Args:
        sizes: Sizes of the buckets. Expected: a list of (height, width).
        random_crop: Whether the window has a random position, or is in the middle.
        interpolation: How pixels are weighed.
        antialias: Torchvision's: false is the interpolation with "-aliased"; default: true.

    >>> ResizeToBucket(((64, 64), (48, 80), (80, 48)))
    ResizeToBucket(((64, 64), (48, 80), (80, 48)))
    """

    __slots__ = ()
    __match_args__ = ("sizes", "random_crop", "interpolation", "antialias")
    name = "ResizeToBucket"

    def __init__(
        self,
        sizes: Iterable[Size],
        random_crop: bool = False,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> None:
        super().__init__(sizes=sizes, random_crop=random_crop, interpolation=interpolation, antialias=antialias)

    @classmethod
    def of_area(
        cls,
        size: Size,
        sides: Sequence[int] = (512, 2048),
        step: int = 64,
        random_crop: bool = False,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> ResizeToBucket:
        """Returns the op with the buckets of an area: those of kohya's ``make_bucket_resolutions``.

        Args:
            size: Whose pixels are the area. Expected: pixels, or (height, width).
            sides: The first and the last length of a side. Expected: (first, last).
            step: The distance between two lengths of a side. Expected: pixels.
            random_crop: As for the op.
            interpolation: As for the op.
            antialias: As for the op.

        >>> len(ResizeToBucket.of_area(1024).sizes)
        33
        """
        from ._fuseloop import bucket_sizes

        sizes = bucket_sizes(_plain(size), _plain(sides), _plain(step))
        return cls(sizes, random_crop=random_crop, interpolation=interpolation, antialias=antialias)


class CenterCrop(Op):
    """Cuts the middle out of an image.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        ratio: FFCV's form: a square of this share of the short side, scaled to `size`.
        interpolation: How pixels are weighed where there is a `ratio`.

    >>> CenterCrop(224)
    CenterCrop(224)
    """

    __slots__ = ()
    __match_args__ = ("size", "ratio", "interpolation")
    name = "CenterCrop"

    def __init__(self, size: Size, ratio: float | None = None, interpolation: Interpolation = "bilinear") -> None:
        super().__init__(size=size, ratio=ratio, interpolation=interpolation)


class RandomCrop(Op):
    """Cuts a window of fixed size at a random position.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        padding: Pixels first put on each side. Expected: pixels, (horizontal, vertical) or (left, top, right,
            bottom).
        pad_if_needed: Whether an image that is too small may lie anywhere in the window.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        padding_mode: What a frame shows: `fill`, the pixels at the edge, or the mirrored image.

    >>> RandomCrop(224)
    RandomCrop(224)
    """

    __slots__ = ()
    __match_args__ = ("size", "padding", "pad_if_needed", "fill", "padding_mode")
    name = "RandomCrop"

    def __init__(
        self,
        size: Size,
        padding: Size = 0,
        pad_if_needed: bool = False,
        fill: Color = 0,
        padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
    ) -> None:
        super().__init__(size=size, padding=padding, pad_if_needed=pad_if_needed, fill=fill, padding_mode=padding_mode)


class Crop(Op):
    """Cuts a window at a fixed position.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        top: First row.
        left: First column.

    >>> Crop(224)
    Crop(224)
    """

    __slots__ = ()
    __match_args__ = ("size", "top", "left")
    name = "Crop"

    def __init__(self, size: Size, top: int = 0, left: int = 0) -> None:
        super().__init__(size=size, top=top, left=left)


class RandomSizedCrop(Op):
    """Cuts a window of a random height and scales it to a fixed size.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        min_max_height: Range of the window's height in pixels. Expected: (low, high).
        w2h_ratio: The window's width over its height.
        interpolation: How pixels are weighed.
        antialias: Torchvision's: false is the interpolation with "-aliased"; default: true.

    >>> RandomSizedCrop(224, (64, 128))
    RandomSizedCrop(224, (64, 128))
    """

    __slots__ = ()
    __match_args__ = ("size", "min_max_height", "w2h_ratio", "interpolation", "antialias")
    name = "RandomSizedCrop"

    def __init__(
        self,
        size: Size,
        min_max_height: Pair,
        w2h_ratio: float = 1.0,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> None:
        super().__init__(
            size=size,
            min_max_height=min_max_height,
            w2h_ratio=w2h_ratio,
            interpolation=interpolation,
            antialias=antialias,
        )


class RandomIoUCrop(Op):
    """Crops so that a bounding box overlaps the crop as much as drawn.

    Args:
        scale: Share of each side. Expected: (low, high).
        aspect_ratio: Width over height. Expected: (low, high).
        sampler_options: Least IoUs, one of which is drawn; 1 leaves the image as it is. Expected: a list of numbers.
        trials: Windows tried for each.

    >>> RandomIoUCrop()
    RandomIoUCrop()
    """

    __slots__ = ()
    __match_args__ = ("scale", "aspect_ratio", "sampler_options", "trials")
    name = "RandomIoUCrop"

    def __init__(
        self,
        scale: Pair = (0.3, 1.0),
        aspect_ratio: Pair = (0.5, 2.0),
        sampler_options: Iterable[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
        trials: int = 40,
    ) -> None:
        super().__init__(scale=scale, aspect_ratio=aspect_ratio, sampler_options=sampler_options, trials=trials)


class Pad(Op):
    """Frames an image.

    Args:
        padding: Pixels on each side. Expected: pixels, (horizontal, vertical) or (left, top, right, bottom).
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        padding_mode: What a frame shows: `fill`, the pixels at the edge, or the mirrored image.

    >>> Pad(4)
    Pad(4)
    """

    __slots__ = ()
    __match_args__ = ("padding", "fill", "padding_mode")
    name = "Pad"

    def __init__(
        self,
        padding: Size,
        fill: Color = 0,
        padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
    ) -> None:
        super().__init__(padding=padding, fill=fill, padding_mode=padding_mode)


class PadIfNeeded(Op):
    """Frames images that are smaller than a size.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        position: Where the image is placed.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        padding_mode: What a frame shows: `fill`, the pixels at the edge, or the mirrored image.

    >>> PadIfNeeded(224)
    PadIfNeeded(224)
    """

    __slots__ = ()
    __match_args__ = ("size", "position", "fill", "padding_mode")
    name = "PadIfNeeded"

    def __init__(
        self,
        size: Size,
        position: Literal["center", "top_left", "top_right", "bottom_left", "bottom_right", "random"] = "center",
        fill: Color = 0,
        padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
    ) -> None:
        super().__init__(size=size, position=position, fill=fill, padding_mode=padding_mode)


class RandomZoomOut(Op):
    """Places a share p of the images on a larger canvas.

    Args:
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        side_range: How many times as high and wide it is. Expected: (low, high).
        p: Share of the images.

    >>> RandomZoomOut()
    RandomZoomOut()
    """

    __slots__ = ()
    __match_args__ = ("fill", "side_range", "p")
    name = "RandomZoomOut"

    def __init__(self, fill: Color = 0, side_range: Pair = (1.0, 4.0), p: float = 0.5) -> None:
        super().__init__(fill=fill, side_range=side_range, p=p)


class RandomResize(Op):
    """Scales the short side to a random length.

    Args:
        min_size: Shortest short side.
        max_size: Short sides are below this.
        interpolation: How pixels are weighed.
        antialias: Torchvision's: false is the interpolation with "-aliased"; default: true.

    >>> RandomResize(256, 481)
    RandomResize(256, 481)
    """

    __slots__ = ()
    __match_args__ = ("min_size", "max_size", "interpolation", "antialias")
    name = "RandomResize"

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> None:
        super().__init__(min_size=min_size, max_size=max_size, interpolation=interpolation, antialias=antialias)


class RandomShortestSize(Op):
    """Scales the short side to one of several lengths.

    Args:
        min_size: Lengths of the short side. Expected: a list of whole numbers, 0 or more.
        max_size: Most pixels of the long side.
        interpolation: How pixels are weighed.
        antialias: Torchvision's: false is the interpolation with "-aliased"; default: true.

    >>> RandomShortestSize((480, 512, 544))
    RandomShortestSize((480, 512, 544))
    """

    __slots__ = ()
    __match_args__ = ("min_size", "max_size", "interpolation", "antialias")
    name = "RandomShortestSize"

    def __init__(
        self,
        min_size: Iterable[int],
        max_size: int | None = None,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> None:
        super().__init__(min_size=min_size, max_size=max_size, interpolation=interpolation, antialias=antialias)


class ScaleJitter(Op):
    """Scales an image by a random factor.

    Args:
        target_size: The size that a factor of 1 fits into. Expected: pixels, or (width, height).
        scale_range: Range of the factor. Expected: (low, high).
        interpolation: How pixels are weighed.
        antialias: Torchvision's: false is the interpolation with "-aliased"; default: true.

    >>> ScaleJitter(1024)
    ScaleJitter(1024)
    """

    __slots__ = ()
    __match_args__ = ("target_size", "scale_range", "interpolation", "antialias")
    name = "ScaleJitter"

    def __init__(
        self,
        target_size: Size,
        scale_range: Pair = (0.1, 2.0),
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = None,
    ) -> None:
        super().__init__(
            target_size=target_size,
            scale_range=scale_range,
            interpolation=interpolation,
            antialias=antialias,
        )


class FixedSizeCrop(Op):
    """Cuts a random window, or adds a border on the right and below.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).

    >>> FixedSizeCrop(224)
    FixedSizeCrop(224)
    """

    __slots__ = ()
    __match_args__ = ("size", "fill")
    name = "FixedSizeCrop"

    def __init__(self, size: Size, fill: Color = 0) -> None:
        super().__init__(size=size, fill=fill)


class Letterbox(Op):
    """Scales an image to fit into a size, and adds borders.

    Args:
        size: Of the output; one number for a square. Expected: pixels, or (height, width).
        scale_up: Whether smaller images are enlarged.
        center: Whether the image is in the middle, or top left.
        fill: Colour of the borders. Expected: a level 0 to 255, or (red, green, blue).
        interpolation: How pixels are weighed.

    >>> Letterbox(224)
    Letterbox(224)
    """

    __slots__ = ()
    __match_args__ = ("size", "scale_up", "center", "fill", "interpolation")
    name = "Letterbox"

    def __init__(
        self,
        size: Size,
        scale_up: bool = True,
        center: bool = True,
        fill: Color = 114,
        interpolation: Interpolation = "bilinear-aliased",
    ) -> None:
        super().__init__(size=size, scale_up=scale_up, center=center, fill=fill, interpolation=interpolation)


class RandomTranslate(Op):
    """Shifts an image by a few pixels.

    Args:
        padding: Most pixels in each direction.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).

    >>> RandomTranslate(4)
    RandomTranslate(4)
    """

    __slots__ = ()
    __match_args__ = ("padding", "fill")
    name = "RandomTranslate"

    def __init__(self, padding: int, fill: Color = 0) -> None:
        super().__init__(padding=padding, fill=fill)


class RandomHorizontalFlip(Op):
    """Mirrors a share p of the images left to right.

    Args:
        p: Share of the images.

    >>> RandomHorizontalFlip()
    RandomHorizontalFlip()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomHorizontalFlip"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomVerticalFlip(Op):
    """Mirrors a share p of the images top to bottom.

    Args:
        p: Share of the images.

    >>> RandomVerticalFlip()
    RandomVerticalFlip()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomVerticalFlip"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class Rot90(Op):
    """Turns an image by quarters.

    Args:
        k: How many, counter-clockwise.

    >>> Rot90()
    Rot90()
    """

    __slots__ = ()
    __match_args__ = ("k",)
    name = "Rot90"

    def __init__(self, k: int = 1) -> None:
        super().__init__(k=k)


class RandomRotate90(Op):
    """Turns a share p of the images by random quarters.

    Args:
        p: Share of the images.

    >>> RandomRotate90()
    RandomRotate90()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomRotate90"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class Transpose(Op):
    """Swaps rows and columns of a share p of the images.

    Args:
        p: Share of the images.

    >>> Transpose()
    Transpose()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "Transpose"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class D4(Op):
    """Turns and mirrors an image by one of the eight ways of a square.

    >>> D4()
    D4()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "D4"

    def __init__(self) -> None:
        super().__init__()


class RandomAffine(Op):
    """Turns, shifts, scales and shears an image at random.

    Args:
        degrees: Range of the angle; a number d is -d..d. Expected: a number, or (low, high).
        translate: Largest shift, as shares of width and height. Expected: (across, down).
        scale: Range of the factor. Expected: (low, high).
        shear: Degrees; a number s is -s..s along x. Expected: a number, (low, high) or (x low, x high, y low, y
            high).
        interpolation: Interpolation between pixels.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        center: In pixels from the top left corner; default: the middle. Expected: (across, down).

    >>> RandomAffine(15)
    RandomAffine(15)
    """

    __slots__ = ()
    __match_args__ = ("degrees", "translate", "scale", "shear", "interpolation", "fill", "center")
    name = "RandomAffine"

    def __init__(
        self,
        degrees: float | Pair,
        translate: Pair | None = None,
        scale: Pair | None = None,
        shear: float | Pair | None = None,
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "nearest",
        fill: Color = 0,
        center: Pair | None = None,
    ) -> None:
        super().__init__(
            degrees=degrees,
            translate=translate,
            scale=scale,
            shear=shear,
            interpolation=interpolation,
            fill=fill,
            center=center,
        )


class RandomPerspective(Op):
    """Moves the corners of a share p of the images inwards.

    Args:
        distortion_scale: Most that corners move, in shares of the way to the middle.
        p: Share of the images.
        interpolation: Interpolation between pixels.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).

    >>> RandomPerspective()
    RandomPerspective()
    """

    __slots__ = ()
    __match_args__ = ("distortion_scale", "p", "interpolation", "fill")
    name = "RandomPerspective"

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        fill: Color = 0,
    ) -> None:
        super().__init__(distortion_scale=distortion_scale, p=p, interpolation=interpolation, fill=fill)


class Perspective(Op):
    """Draws a random four-sided part out to the whole image, in a share p of the images.

    Args:
        scale: Range of the deviation of the corners, in shares of the sides; a number n is 0..n. Expected: a number,
            or (low, high).
        interpolation: Interpolation between pixels.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        p: Share of the images.

    >>> Perspective()
    Perspective()
    """

    __slots__ = ()
    __match_args__ = ("scale", "interpolation", "fill", "p")
    name = "Perspective"

    def __init__(
        self,
        scale: float | Pair = (0.05, 0.1),
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        fill: Color = 0,
        p: float = 0.5,
    ) -> None:
        super().__init__(scale=scale, interpolation=interpolation, fill=fill, p=p)


class RandomRotation(Op):
    """Turns an image by a random angle.

    Args:
        degrees: Range of the angle; a number d is -d..d. Expected: a number, or (low, high).
        interpolation: Interpolation between pixels.
        expand: Whether the output is enlarged to hold the whole turned image.
        center: In pixels from the top left corner; default: the middle. Expected: (across, down).
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).

    >>> RandomRotation(15)
    RandomRotation(15)
    """

    __slots__ = ()
    __match_args__ = ("degrees", "interpolation", "expand", "center", "fill")
    name = "RandomRotation"

    def __init__(
        self,
        degrees: float | Pair,
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "nearest",
        expand: bool = False,
        center: Pair | None = None,
        fill: Color = 0,
    ) -> None:
        super().__init__(degrees=degrees, interpolation=interpolation, expand=expand, center=center, fill=fill)


class ElasticTransform(Op):
    """Moves each pixel by a smooth random displacement.

    Args:
        alpha: Strength of the displacements. Expected: (across, down).
        sigma: Smoothness of the displacements, in pixels. Expected: (across, down).
        interpolation: Interpolation between pixels.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).

    >>> ElasticTransform()
    ElasticTransform()
    """

    __slots__ = ()
    __match_args__ = ("alpha", "sigma", "interpolation", "fill")
    name = "ElasticTransform"

    def __init__(
        self,
        alpha: Pair = (50.0, 50.0),
        sigma: Pair = (5.0, 5.0),
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        fill: Color = 0,
    ) -> None:
        super().__init__(alpha=alpha, sigma=sigma, interpolation=interpolation, fill=fill)


class GridDistortion(Op):
    """Makes the cells of a grid wider or narrower, in a share p of the images.

    Args:
        num_steps: Number of the grid's columns, and of its rows.
        distort_limit: Range of the change of a length; a number d is -d..d. Expected: a number, or (low, high).
        interpolation: Interpolation between pixels.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        p: Share of the images.

    >>> GridDistortion()
    GridDistortion()
    """

    __slots__ = ()
    __match_args__ = ("num_steps", "distort_limit", "interpolation", "fill", "p")
    name = "GridDistortion"

    def __init__(
        self,
        num_steps: int = 5,
        distort_limit: float | Pair = (-0.3, 0.3),
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        fill: Color = 0,
        p: float = 0.5,
    ) -> None:
        super().__init__(num_steps=num_steps, distort_limit=distort_limit, interpolation=interpolation, fill=fill, p=p)


class OpticalDistortion(Op):
    """Bends a share p of the images as a lens does.

    Args:
        distort_limit: Range of the strength; a number k is -k..k. Expected: a number, or (low, high).
        mode: The lens.
        interpolation: Interpolation between pixels.
        fill: Fill colour outside the image. Expected: a level 0 to 255, or (red, green, blue).
        p: Share of the images.

    >>> OpticalDistortion()
    OpticalDistortion()
    """

    __slots__ = ()
    __match_args__ = ("distort_limit", "mode", "interpolation", "fill", "p")
    name = "OpticalDistortion"

    def __init__(
        self,
        distort_limit: float | Pair = (-0.05, 0.05),
        mode: Literal["camera", "fisheye"] = "camera",
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        fill: Color = 0,
        p: float = 0.5,
    ) -> None:
        super().__init__(distort_limit=distort_limit, mode=mode, interpolation=interpolation, fill=fill, p=p)


class RandomGridShuffle(Op):
    """Puts the tiles of a grid in a random order, in a share p of the images.

    Args:
        grid: How many tiles. Expected: pixels, or (width, height).
        p: Share of the images.

    >>> RandomGridShuffle()
    RandomGridShuffle()
    """

    __slots__ = ()
    __match_args__ = ("grid", "p")
    name = "RandomGridShuffle"

    def __init__(self, grid: Size = 3, p: float = 0.5) -> None:
        super().__init__(grid=grid, p=p)


class SanitizeBoundingBoxes(Op):
    """Removes objects whose box is too small or outside the image.

    Args:
        min_size: Least width and height, in pixels.
        min_area: Least area, in pixels.

    >>> SanitizeBoundingBoxes()
    SanitizeBoundingBoxes()
    """

    __slots__ = ()
    __match_args__ = ("min_size", "min_area")
    name = "SanitizeBoundingBoxes"

    def __init__(self, min_size: float = 1.0, min_area: float = 1.0) -> None:
        super().__init__(min_size=min_size, min_area=min_area)


class ClampBoundingBoxes(Op):
    """Cuts bounding boxes at the edges of the image.

    >>> ClampBoundingBoxes()
    ClampBoundingBoxes()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "ClampBoundingBoxes"

    def __init__(self) -> None:
        super().__init__()


class ConvertBoundingBoxFormat(Op):
    """Sets the format that bounding boxes have in a batch.

    Args:
        format: The edges, a corner and the size, the middle and the size, or a rotated format.

    >>> ConvertBoundingBoxFormat("cxcywh")
    ConvertBoundingBoxFormat('cxcywh')
    """

    __slots__ = ()
    __match_args__ = ("format",)
    name = "ConvertBoundingBoxFormat"

    def __init__(self, format: Literal["xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy"]) -> None:
        super().__init__(format=format)


class SanitizeKeyPoints(Op):
    """Removes objects with a keypoint outside the image.

    >>> SanitizeKeyPoints()
    SanitizeKeyPoints()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "SanitizeKeyPoints"

    def __init__(self) -> None:
        super().__init__()


class ClampKeyPoints(Op):
    """Moves keypoints outside the image to its outermost pixels.

    >>> ClampKeyPoints()
    ClampKeyPoints()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "ClampKeyPoints"

    def __init__(self) -> None:
        super().__init__()


class ColorJitter(Op):
    """Changes brightness, contrast, saturation and hue, in random order.

    Args:
        brightness: The factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off. Expected: a number, or
            (low, high).
        contrast: The factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off. Expected: a number, or
            (low, high).
        saturation: The factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off. Expected: a number, or
            (low, high).
        hue: The hue turns by -value..value, or by low..high, of a full turn; 0 is off. Expected: a number, or (low,
            high).

    >>> ColorJitter()
    ColorJitter()
    """

    __slots__ = ()
    __match_args__ = ("brightness", "contrast", "saturation", "hue")
    name = "ColorJitter"

    def __init__(
        self,
        brightness: float | Pair = 0.0,
        contrast: float | Pair = 0.0,
        saturation: float | Pair = 0.0,
        hue: float | Pair = 0.0,
    ) -> None:
        super().__init__(brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)


class ColorMatrix(Op):
    """Multiplies every pixel by a matrix.

    Args:
        rows: For red, then green, then blue: its shares of red, green and blue, and a constant. Expected: a list of
            12 numbers.

    >>> ColorMatrix((0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0))
    ColorMatrix((0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0))
    """

    __slots__ = ()
    __match_args__ = ("rows",)
    name = "ColorMatrix"

    def __init__(self, rows: Iterable[float]) -> None:
        super().__init__(rows=rows)


class Gamma(Op):
    """Raises every value, of 0 to 1, to a power.

    Args:
        gamma: The power; above 1 is darker.
        gain: A factor after it.

    >>> Gamma(2.2)
    Gamma(2.2)
    """

    __slots__ = ()
    __match_args__ = ("gamma", "gain")
    name = "Gamma"

    def __init__(self, gamma: float, gain: float = 1.0) -> None:
        super().__init__(gamma=gamma, gain=gain)


class Grayscale(Op):
    """Makes every image grey, in one channel or in three.

    Args:
        num_output_channels: Channels of the output: 1 or 3.

    >>> Grayscale()
    Grayscale()
    """

    __slots__ = ()
    __match_args__ = ("num_output_channels",)
    name = "Grayscale"

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__(num_output_channels=num_output_channels)


class HueSaturationValue(Op):
    """Shifts hue, saturation and value of a share p of the images.

    Args:
        hue_shift_limit: Range of the hue's shift, of which 180 are a full turn; a number n is -n..n. Expected: a
            number, or (low, high).
        sat_shift_limit: Range of the saturation's shift, of 255; a number n is -n..n. Expected: a number, or (low,
            high).
        val_shift_limit: Range of the value's shift in levels; a number n is -n..n. Expected: a number, or (low,
            high).
        p: Share of the images.

    >>> HueSaturationValue()
    HueSaturationValue()
    """

    __slots__ = ()
    __match_args__ = ("hue_shift_limit", "sat_shift_limit", "val_shift_limit", "p")
    name = "HueSaturationValue"

    def __init__(
        self,
        hue_shift_limit: float | Pair = (-20.0, 20.0),
        sat_shift_limit: float | Pair = (-30.0, 30.0),
        val_shift_limit: float | Pair = (-20.0, 20.0),
        p: float = 0.5,
    ) -> None:
        super().__init__(
            hue_shift_limit=hue_shift_limit,
            sat_shift_limit=sat_shift_limit,
            val_shift_limit=val_shift_limit,
            p=p,
        )


class Lighting(Op):
    """Shifts the colours by a random step, as AlexNet did.

    Args:
        alpha_std: Standard deviation of the step; the example is AlexNet's.

    >>> Lighting(0.1)
    Lighting(0.1)
    """

    __slots__ = ()
    __match_args__ = ("alpha_std",)
    name = "Lighting"

    def __init__(self, alpha_std: float) -> None:
        super().__init__(alpha_std=alpha_std)


class Lut(Op):
    """Looks every value up in a table.

    Args:
        table: What each level becomes, 0 to 255: for all channels, or red's, green's and blue's. Expected: a list of
            256 numbers, or of 768.
    """

    __slots__ = ()
    __match_args__ = ("table",)
    name = "Lut"

    def __init__(self, table: Iterable[float]) -> None:
        super().__init__(table=table)


class CLAHE(Op):
    """Makes the contrast equal everywhere, in a share p of the images.

    Args:
        clip_limit: Range of the limit of counts, in units of their mean; a number n is 1..n. Expected: a number, or
            (low, high).
        tile_grid_size: How many tiles. Expected: pixels, or (width, height).
        p: Share of the images.

    >>> CLAHE()
    CLAHE()
    """

    __slots__ = ()
    __match_args__ = ("clip_limit", "tile_grid_size", "p")
    name = "CLAHE"

    def __init__(self, clip_limit: float | Pair = (1.0, 4.0), tile_grid_size: Size = 8, p: float = 0.5) -> None:
        super().__init__(clip_limit=clip_limit, tile_grid_size=tile_grid_size, p=p)


class PermuteChannels(Op):
    """Puts the channels in another order.

    Args:
        permutation: Which channel each becomes; the example makes BGR of RGB. Expected: (0, 1, 2) in some order.

    >>> PermuteChannels((2, 1, 0))
    PermuteChannels((2, 1, 0))
    """

    __slots__ = ()
    __match_args__ = ("permutation",)
    name = "PermuteChannels"

    def __init__(self, permutation: Sequence[int]) -> None:
        super().__init__(permutation=permutation)


class RGBShift(Op):
    """Adds a random number to each channel of a share p of the images.

    Args:
        r_shift_limit: Range of the shift of red in levels; a number n is -n..n. Expected: a number, or (low, high).
        g_shift_limit: Range of the shift of green in levels; a number n is -n..n. Expected: a number, or (low, high).
        b_shift_limit: Range of the shift of blue in levels; a number n is -n..n. Expected: a number, or (low, high).
        p: Share of the images.

    >>> RGBShift()
    RGBShift()
    """

    __slots__ = ()
    __match_args__ = ("r_shift_limit", "g_shift_limit", "b_shift_limit", "p")
    name = "RGBShift"

    def __init__(
        self,
        r_shift_limit: float | Pair = (-20.0, 20.0),
        g_shift_limit: float | Pair = (-20.0, 20.0),
        b_shift_limit: float | Pair = (-20.0, 20.0),
        p: float = 0.5,
    ) -> None:
        super().__init__(r_shift_limit=r_shift_limit, g_shift_limit=g_shift_limit, b_shift_limit=b_shift_limit, p=p)


class PixelProgram(Op):
    """Computes each pixel by a program, such as that of a function which Python traced.

    Args:
        program: Its lines: a name, draws and operations. Expected: a list of words.
    """

    __slots__ = ()
    __match_args__ = ("program",)
    name = "PixelProgram"

    def __init__(self, program: Iterable[str]) -> None:
        super().__init__(program=program)


class RandomAutocontrast(Op):
    """Stretches the channels of a share p of the images to 0..255.

    Args:
        p: Share of the images.

    >>> RandomAutocontrast()
    RandomAutocontrast()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomAutocontrast"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomBrightness(Op):
    """Makes a share p of the images brighter or darker.

    Args:
        magnitude: The factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high. Expected: a number, or
            (low, high).
        p: Share of the images.

    >>> RandomBrightness(0.4)
    RandomBrightness(0.4)
    """

    __slots__ = ()
    __match_args__ = ("magnitude", "p")
    name = "RandomBrightness"

    def __init__(self, magnitude: float | Pair, p: float = 0.5) -> None:
        super().__init__(magnitude=magnitude, p=p)


class RandomBrightnessContrast(Op):
    """Multiplies values by a random number and adds another one, in a share p of the images.

    Args:
        brightness_limit: Range of what is added, as a share of 255; a number n is -n..n. Expected: a number, or (low,
            high).
        contrast_limit: Range of the factor, minus 1; a number n is -n..n. Expected: a number, or (low, high).
        p: Share of the images.

    >>> RandomBrightnessContrast()
    RandomBrightnessContrast()
    """

    __slots__ = ()
    __match_args__ = ("brightness_limit", "contrast_limit", "p")
    name = "RandomBrightnessContrast"

    def __init__(
        self,
        brightness_limit: float | Pair = (-0.2, 0.2),
        contrast_limit: float | Pair = (-0.2, 0.2),
        p: float = 0.5,
    ) -> None:
        super().__init__(brightness_limit=brightness_limit, contrast_limit=contrast_limit, p=p)


class RandomChannelPermutation(Op):
    """Puts the channels of a share p of the images in a random order.

    Args:
        p: Share of the images.

    >>> RandomChannelPermutation()
    RandomChannelPermutation()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomChannelPermutation"

    def __init__(self, p: float = 1.0) -> None:
        super().__init__(p=p)


ChannelShuffle = RandomChannelPermutation

class RandomContrast(Op):
    """Changes the contrast of a share p of the images.

    Args:
        magnitude: The factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high. Expected: a number, or
            (low, high).
        p: Share of the images.

    >>> RandomContrast(0.4)
    RandomContrast(0.4)
    """

    __slots__ = ()
    __match_args__ = ("magnitude", "p")
    name = "RandomContrast"

    def __init__(self, magnitude: float | Pair, p: float = 0.5) -> None:
        super().__init__(magnitude=magnitude, p=p)


class RandomEqualize(Op):
    """Equalizes the histograms of a share p of the images.

    Args:
        p: Share of the images.

    >>> RandomEqualize()
    RandomEqualize()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomEqualize"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomGamma(Op):
    """Raises the values, of 0 to 1, of a share p of the images to a random power.

    Args:
        gamma: Range of the power. Expected: (low, high).
        p: Share of the images.

    >>> RandomGamma((0.8, 1.2))
    RandomGamma((0.8, 1.2))
    """

    __slots__ = ()
    __match_args__ = ("gamma", "p")
    name = "RandomGamma"

    def __init__(self, gamma: Pair, p: float = 0.5) -> None:
        super().__init__(gamma=gamma, p=p)


class RandomGrayscale(Op):
    """Makes a share p of the images grey.

    Args:
        p: Share of the images.

    >>> RandomGrayscale()
    RandomGrayscale()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomGrayscale"

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=p)


class RandomHue(Op):
    """Turns the hues of a share p of the images.

    Args:
        hue: By -hue..hue, or by low..high, of a full turn. Expected: a number, or (low, high).
        p: Share of the images.

    >>> RandomHue(0.1)
    RandomHue(0.1)
    """

    __slots__ = ()
    __match_args__ = ("hue", "p")
    name = "RandomHue"

    def __init__(self, hue: float | Pair, p: float = 0.5) -> None:
        super().__init__(hue=hue, p=p)


class RandomHSV(Op):
    """Turns the hue and scales saturation and value, as YOLO does.

    Args:
        hgain: Largest turn of the hue, as a share of a full turn.
        sgain: Largest change of the saturation, as a share of it.
        vgain: Largest change of the value, as a share of it.

    >>> RandomHSV()
    RandomHSV()
    """

    __slots__ = ()
    __match_args__ = ("hgain", "sgain", "vgain")
    name = "RandomHSV"

    def __init__(self, hgain: float = 0.015, sgain: float = 0.7, vgain: float = 0.4) -> None:
        super().__init__(hgain=hgain, sgain=sgain, vgain=vgain)


class RandomInvert(Op):
    """Inverts a share p of the images.

    Args:
        p: Share of the images.

    >>> RandomInvert()
    RandomInvert()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "RandomInvert"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomPhotometricDistort(Op):
    """Changes colours in up to five ways, each in a share p of the images.

    Args:
        brightness: Range of the factor. Expected: (low, high).
        contrast: Range of the factor. Expected: (low, high).
        saturation: Range of the factor. Expected: (low, high).
        hue: Range of what the hue turns by, of a full turn. Expected: (low, high).
        p: Share of the images, for each way.

    >>> RandomPhotometricDistort()
    RandomPhotometricDistort()
    """

    __slots__ = ()
    __match_args__ = ("brightness", "contrast", "saturation", "hue", "p")
    name = "RandomPhotometricDistort"

    def __init__(
        self,
        brightness: Pair = (0.875, 1.125),
        contrast: Pair = (0.5, 1.5),
        saturation: Pair = (0.5, 1.5),
        hue: Pair = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__(brightness=brightness, contrast=contrast, saturation=saturation, hue=hue, p=p)


class RandomPosterize(Op):
    """Keeps the highest bits of each value, in a share p of the images.

    Args:
        bits: How many are kept.
        p: Share of the images.

    >>> RandomPosterize(4)
    RandomPosterize(4)
    """

    __slots__ = ()
    __match_args__ = ("bits", "p")
    name = "RandomPosterize"

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(bits=bits, p=p)


class RandomSaturation(Op):
    """Changes the saturation of a share p of the images.

    Args:
        magnitude: The factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high. Expected: a number, or
            (low, high).
        p: Share of the images.

    >>> RandomSaturation(0.4)
    RandomSaturation(0.4)
    """

    __slots__ = ()
    __match_args__ = ("magnitude", "p")
    name = "RandomSaturation"

    def __init__(self, magnitude: float | Pair, p: float = 0.5) -> None:
        super().__init__(magnitude=magnitude, p=p)


class RandomSolarize(Op):
    """Inverts what is bright, in a share p of the images.

    Args:
        threshold: Values from it on are inverted.
        p: Share of the images.

    >>> RandomSolarize(128)
    RandomSolarize(128)
    """

    __slots__ = ()
    __match_args__ = ("threshold", "p")
    name = "RandomSolarize"

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(threshold=threshold, p=p)


class RandomToneCurve(Op):
    """Changes the values of a share p of the images by a random curve.

    Args:
        scale: Standard deviation of the points that bend the curve.
        per_channel: Whether each channel has a curve of its own.
        p: Share of the images.

    >>> RandomToneCurve()
    RandomToneCurve()
    """

    __slots__ = ()
    __match_args__ = ("scale", "per_channel", "p")
    name = "RandomToneCurve"

    def __init__(self, scale: float = 0.1, per_channel: bool = False, p: float = 0.5) -> None:
        super().__init__(scale=scale, per_channel=per_channel, p=p)


class SolarizeAdd(Op):
    """Brightens what is dark.

    Args:
        add: What is added.
        threshold: Values below it are changed.

    >>> SolarizeAdd(64)
    SolarizeAdd(64)
    """

    __slots__ = ()
    __match_args__ = ("add", "threshold")
    name = "SolarizeAdd"

    def __init__(self, add: float, threshold: float = 128) -> None:
        super().__init__(add=add, threshold=threshold)


class GaussianBlur(Op):
    """Blurs an image by a random amount.

    Args:
        kernel_size: Odd numbers. Expected: pixels, or (width, height).
        sigma: Standard deviation in pixels, or its range. Expected: a number, or (low, high).

    >>> GaussianBlur(5)
    GaussianBlur(5)
    """

    __slots__ = ()
    __match_args__ = ("kernel_size", "sigma")
    name = "GaussianBlur"

    def __init__(self, kernel_size: Size, sigma: float | Pair = (0.1, 2.0)) -> None:
        super().__init__(kernel_size=kernel_size, sigma=sigma)


class BoxBlur(Op):
    """Makes every pixel the mean of those around it.

    Args:
        kernel_size: How many pixels. Expected: pixels, or (width, height).

    >>> BoxBlur(3)
    BoxBlur(3)
    """

    __slots__ = ()
    __match_args__ = ("kernel_size",)
    name = "BoxBlur"

    def __init__(self, kernel_size: Size) -> None:
        super().__init__(kernel_size=kernel_size)


class MotionBlur(Op):
    """Blurs a share p of the images along a random line.

    Args:
        blur_limit: Range of the kernel's side; an even number is the odd one above. Expected: (low, high).
        allow_shifted: Whether the line may miss the pixel.
        angle_range: Range of the line's angle in degrees. Expected: (low, high).
        direction_range: Range of the direction: 1 forward, -1 backward, 0 both. Expected: (low, high).
        p: Share of the images.

    >>> MotionBlur()
    MotionBlur()
    """

    __slots__ = ()
    __match_args__ = ("blur_limit", "allow_shifted", "angle_range", "direction_range", "p")
    name = "MotionBlur"

    def __init__(
        self,
        blur_limit: Pair = (3, 7),
        allow_shifted: bool = True,
        angle_range: Pair = (0.0, 360.0),
        direction_range: Pair = (-1.0, 1.0),
        p: float = 0.5,
    ) -> None:
        super().__init__(
            blur_limit=blur_limit,
            allow_shifted=allow_shifted,
            angle_range=angle_range,
            direction_range=direction_range,
            p=p,
        )


class MedianBlur(Op):
    """Makes every value the median of those around it, in a share p of the images.

    Args:
        blur_limit: Range of the square's side; an even number is the odd one above. Expected: (low, high).
        p: Share of the images.

    >>> MedianBlur()
    MedianBlur()
    """

    __slots__ = ()
    __match_args__ = ("blur_limit", "p")
    name = "MedianBlur"

    def __init__(self, blur_limit: Pair = (3, 7), p: float = 0.5) -> None:
        super().__init__(blur_limit=blur_limit, p=p)


class Sharpen(Op):
    """Adds the edges of an image to it, in a share p of the images.

    Args:
        alpha: Range of the share of the sharpened image. Expected: (low, high).
        lightness: Range of the lightness: 1 keeps the brightness. Expected: (low, high).
        p: Share of the images.

    >>> Sharpen()
    Sharpen()
    """

    __slots__ = ()
    __match_args__ = ("alpha", "lightness", "p")
    name = "Sharpen"

    def __init__(self, alpha: Pair = (0.2, 0.5), lightness: Pair = (0.5, 1.0), p: float = 0.5) -> None:
        super().__init__(alpha=alpha, lightness=lightness, p=p)


class Emboss(Op):
    """Mixes an image with its relief, in a share p of the images.

    Args:
        alpha: Range of the share of the embossed image. Expected: (low, high).
        strength: Range of the strength of the relief. Expected: (low, high).
        p: Share of the images.

    >>> Emboss()
    Emboss()
    """

    __slots__ = ()
    __match_args__ = ("alpha", "strength", "p")
    name = "Emboss"

    def __init__(self, alpha: Pair = (0.2, 0.5), strength: Pair = (0.2, 0.7), p: float = 0.5) -> None:
        super().__init__(alpha=alpha, strength=strength, p=p)


class Downscale(Op):
    """Reduces a share p of the images and enlarges them again.

    Args:
        scale_range: Range of the scale. Expected: (low, high).
        p: Share of the images.

    >>> Downscale()
    Downscale()
    """

    __slots__ = ()
    __match_args__ = ("scale_range", "p")
    name = "Downscale"

    def __init__(self, scale_range: Pair = (0.25, 0.25), p: float = 0.5) -> None:
        super().__init__(scale_range=scale_range, p=p)


class RandomAdjustSharpness(Op):
    """Sharpens or blurs a share p of the images.

    Args:
        sharpness_factor: 0 blurs, 1 changes nothing, 2 sharpens.
        p: Share of the images.

    >>> RandomAdjustSharpness(2.0)
    RandomAdjustSharpness(2.0)
    """

    __slots__ = ()
    __match_args__ = ("sharpness_factor", "p")
    name = "RandomAdjustSharpness"

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(sharpness_factor=sharpness_factor, p=p)


class JPEG(Op):
    """Compresses images as JPEG and decodes them again.

    Args:
        quality: Quality of 1 to 100, or a range of it. Expected: a number, or (low, high).

    >>> JPEG(75)
    JPEG(75)
    """

    __slots__ = ()
    __match_args__ = ("quality",)
    name = "JPEG"

    def __init__(self, quality: float | Pair) -> None:
        super().__init__(quality=quality)


class Cutout(Op):
    """Paints a random square over.

    Args:
        crop_size: Pixels of the square's side.
        fill: Its colour. Expected: a level 0 to 255, or (red, green, blue).

    >>> Cutout(8)
    Cutout(8)
    """

    __slots__ = ()
    __match_args__ = ("crop_size", "fill")
    name = "Cutout"

    def __init__(self, crop_size: int, fill: Color = 0) -> None:
        super().__init__(crop_size=crop_size, fill=fill)


class CoarseDropout(Op):
    """Paints random rectangles over, in a share p of the images.

    Args:
        num_holes_range: Range of the number of holes. Expected: (low, high).
        hole_height_range: Range of a hole's height: shares of the image's, or pixels if it ends at 1 or more.
            Expected: (low, high).
        hole_width_range: Range of a hole's width: shares of the image's, or pixels if it ends at 1 or more. Expected:
            (low, high).
        fill: Their colour. Expected: a level 0 to 255, or (red, green, blue).
        p: Share of the images.

    >>> CoarseDropout()
    CoarseDropout()
    """

    __slots__ = ()
    __match_args__ = ("num_holes_range", "hole_height_range", "hole_width_range", "fill", "p")
    name = "CoarseDropout"

    def __init__(
        self,
        num_holes_range: Pair = (1, 2),
        hole_height_range: Pair = (0.1, 0.2),
        hole_width_range: Pair = (0.1, 0.2),
        fill: Color = 0,
        p: float = 0.5,
    ) -> None:
        super().__init__(
            num_holes_range=num_holes_range,
            hole_height_range=hole_height_range,
            hole_width_range=hole_width_range,
            fill=fill,
            p=p,
        )


class RandomErasing(Op):
    """Erases a random rectangle of a share p of the images.

    Args:
        p: Share of the images.
        scale: Share of the area. Expected: (low, high).
        ratio: Height over width. Expected: (low, high).
        value: What is painted, in units of the values; random is noise. Expected: a number, (red, green, blue) or
            "random".

    >>> RandomErasing()
    RandomErasing()
    """

    __slots__ = ()
    __match_args__ = ("p", "scale", "ratio", "value")
    name = "RandomErasing"

    def __init__(
        self,
        p: float = 0.5,
        scale: Pair = (0.02, 0.33),
        ratio: Pair = (0.3, 3.3),
        value: float | Sequence[float] | Literal["random"] = 0,
    ) -> None:
        super().__init__(p=p, scale=scale, ratio=ratio, value=value)


class GridMask(Op):
    """Sets the squares of a grid to 0, in a share p of the images.

    Args:
        period: Range of the grid's period in pixels; defaults are the paper's for ImageNet. Expected: (low, high).
        ratio: Share of a period that is kept between the squares.
        p: Share of the images.

    >>> GridMask()
    GridMask()
    """

    __slots__ = ()
    __match_args__ = ("period", "ratio", "p")
    name = "GridMask"

    def __init__(self, period: Pair = (96, 224), ratio: float = 0.6, p: float = 0.8) -> None:
        super().__init__(period=period, ratio=ratio, p=p)


class ChannelDropout(Op):
    """Fills random channels of a share p of the images.

    Args:
        channel_drop_range: Range of the number of channels. Expected: (low, high).
        fill: Their value, in units of the values.
        p: Share of the images.

    >>> ChannelDropout()
    ChannelDropout()
    """

    __slots__ = ()
    __match_args__ = ("channel_drop_range", "fill", "p")
    name = "ChannelDropout"

    def __init__(self, channel_drop_range: Pair = (1, 1), fill: float = 0.0, p: float = 0.5) -> None:
        super().__init__(channel_drop_range=channel_drop_range, fill=fill, p=p)


class GaussianNoise(Op):
    """Adds normal noise to every value.

    Args:
        mean: Of the noise: a share of 255 on u8, in units of the values on floats.
        sigma: Its deviation, in the same units.
        clip: Whether u8 values stay in 0..255, or wrap around.

    >>> GaussianNoise()
    GaussianNoise()
    """

    __slots__ = ()
    __match_args__ = ("mean", "sigma", "clip")
    name = "GaussianNoise"

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__(mean=mean, sigma=sigma, clip=clip)


class MultiplicativeNoise(Op):
    """Multiplies the values of a share p of the images by random factors.

    Args:
        multiplier: Range of the factor. Expected: (low, high).
        per_channel: Whether each channel has a factor of its own.
        elementwise: Whether each pixel has a factor of its own.
        p: Share of the images.

    >>> MultiplicativeNoise()
    MultiplicativeNoise()
    """

    __slots__ = ()
    __match_args__ = ("multiplier", "per_channel", "elementwise", "p")
    name = "MultiplicativeNoise"

    def __init__(
        self,
        multiplier: Pair = (0.9, 1.1),
        per_channel: bool = False,
        elementwise: bool = False,
        p: float = 0.5,
    ) -> None:
        super().__init__(multiplier=multiplier, per_channel=per_channel, elementwise=elementwise, p=p)


class Poison(Op):
    """Blends a fixed image into some samples.

    Args:
        size: Of the samples and of the blended image. Expected: pixels, or (height, width).
        mask: The blended image: red, green and blue of each pixel, 0 to 255, row by row. Expected: a list of numbers.
        alpha: The blended image's weight in each pixel, 0 to 1. Expected: a list of numbers.
        indices: The samples. Expected: a list of whole numbers, 0 or more.

    >>> Poison((1, 2), (255, 0, 0, 255, 0, 0), (0.5, 0.5), (0, 7))
    Poison((1, 2), (255, 0, 0, 255, 0, 0), (0.5, 0.5), (0, 7))
    """

    __slots__ = ()
    __match_args__ = ("size", "mask", "alpha", "indices")
    name = "Poison"

    def __init__(self, size: Size, mask: Iterable[float], alpha: Iterable[float], indices: Iterable[int]) -> None:
        super().__init__(size=size, mask=mask, alpha=alpha, indices=indices)


class PixelDropout(Op):
    """Overwrites random pixels of a share p of the images.

    Args:
        dropout_prob: Share of the pixels that are dropped.
        per_channel: Whether values are dropped by themselves.
        drop_value: Value of dropped pixels, in units of the values.
        p: Share of the images.

    >>> PixelDropout()
    PixelDropout()
    """

    __slots__ = ()
    __match_args__ = ("dropout_prob", "per_channel", "drop_value", "p")
    name = "PixelDropout"

    def __init__(
        self,
        dropout_prob: float = 0.01,
        per_channel: bool = False,
        drop_value: float = 0.0,
        p: float = 0.5,
    ) -> None:
        super().__init__(dropout_prob=dropout_prob, per_channel=per_channel, drop_value=drop_value, p=p)


class FrequencyMasking(Op):
    """Overwrites a random band of rows, the frequencies of a spectrogram.

    Args:
        freq_mask_param: Upper bound of the number of rows, which no mask reaches.
        fill: The value of the band, in units of the values.

    >>> FrequencyMasking(27)
    FrequencyMasking(27)
    """

    __slots__ = ()
    __match_args__ = ("freq_mask_param", "fill")
    name = "FrequencyMasking"

    def __init__(self, freq_mask_param: int, fill: float = 0.0) -> None:
        super().__init__(freq_mask_param=freq_mask_param, fill=fill)


class TimeMasking(Op):
    """Overwrites a random band of columns, the time steps of a spectrogram.

    Args:
        time_mask_param: Upper bound of the number of columns, which no mask reaches.
        p: Upper bound of the share of the columns that a mask covers.
        fill: The value of the band, in units of the values.

    >>> TimeMasking(100)
    TimeMasking(100)
    """

    __slots__ = ()
    __match_args__ = ("time_mask_param", "p", "fill")
    name = "TimeMasking"

    def __init__(self, time_mask_param: int, p: float = 1.0, fill: float = 0.0) -> None:
        super().__init__(time_mask_param=time_mask_param, p=p, fill=fill)


class Gain(Op):
    """Makes a share p of the signals louder or quieter.

    Args:
        min_gain_db: The least gain in decibels.
        max_gain_db: The largest gain in decibels.
        p: Share of the images.

    >>> Gain()
    Gain()
    """

    __slots__ = ()
    __match_args__ = ("min_gain_db", "max_gain_db", "p")
    name = "Gain"

    def __init__(self, min_gain_db: float = -12.0, max_gain_db: float = 12.0, p: float = 0.5) -> None:
        super().__init__(min_gain_db=min_gain_db, max_gain_db=max_gain_db, p=p)


class PolarityInversion(Op):
    """Turns a share p of the signals upside down.

    Args:
        p: Share of the images.

    >>> PolarityInversion()
    PolarityInversion()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "PolarityInversion"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class AddGaussianSNR(Op):
    """Adds noise of a drawn signal-to-noise ratio to a share p of the signals.

    Args:
        min_snr_db: The least ratio in decibels.
        max_snr_db: The largest ratio in decibels.
        p: Share of the images.

    >>> AddGaussianSNR()
    AddGaussianSNR()
    """

    __slots__ = ()
    __match_args__ = ("min_snr_db", "max_snr_db", "p")
    name = "AddGaussianSNR"

    def __init__(self, min_snr_db: float = 5.0, max_snr_db: float = 40.0, p: float = 0.5) -> None:
        super().__init__(min_snr_db=min_snr_db, max_snr_db=max_snr_db, p=p)


class ToMono(Op):
    """Makes one channel of the channels of audio: their mean.

    >>> ToMono()
    ToMono()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "ToMono"

    def __init__(self) -> None:
        super().__init__()


class FixedPoints(Op):
    """Samples a fixed number of the rows of an array.

    Args:
        num: Rows of the output.

    >>> FixedPoints(1024)
    FixedPoints(1024)
    """

    __slots__ = ()
    __match_args__ = ("num",)
    name = "FixedPoints"

    def __init__(self, num: int) -> None:
        super().__init__(num=num)


class RandomJitter(Op):
    """Adds a small uniform number to every value.

    Args:
        translate: The largest distance, in units of the values.

    >>> RandomJitter(0.01)
    RandomJitter(0.01)
    """

    __slots__ = ()
    __match_args__ = ("translate",)
    name = "RandomJitter"

    def __init__(self, translate: float) -> None:
        super().__init__(translate=translate)


class AugMix(Op):
    """Mixes the image with the results of random chains of actions.

    Args:
        severity: Magnitudes are below it, of 1..=10.
        mixture_width: How many chains.
        chain_depth: Steps of every chain; default: 1 to 3.
        alpha: Of the Dirichlet distributions.
        all_ops: Whether colours are changed too.
        interpolation: Interpolation of warps; default: nearest.
        fill: Fill colour outside the image; default: black. Expected: a level 0 to 255, or (red, green, blue).

    >>> AugMix()
    AugMix()
    """

    __slots__ = ()
    __match_args__ = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")
    name = "AugMix"

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int | None = None,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Literal["nearest", "bilinear", "bicubic"] | None = None,
        fill: Color | None = None,
    ) -> None:
        super().__init__(
            severity=severity,
            mixture_width=mixture_width,
            chain_depth=chain_depth,
            alpha=alpha,
            all_ops=all_ops,
            interpolation=interpolation,
            fill=fill,
        )


class AutoAugment(Op):
    """Runs one of 25 pairs of actions, found by search for a data set.

    Args:
        policy: Whose pairs.
        interpolation: Interpolation of warps; default: nearest.
        fill: Fill colour outside the image; default: black. Expected: a level 0 to 255, or (red, green, blue).

    >>> AutoAugment()
    AutoAugment()
    """

    __slots__ = ()
    __match_args__ = ("policy", "interpolation", "fill")
    name = "AutoAugment"

    def __init__(
        self,
        policy: Literal["imagenet", "cifar10", "svhn"] = "imagenet",
        interpolation: Literal["nearest", "bilinear", "bicubic"] | None = None,
        fill: Color | None = None,
    ) -> None:
        super().__init__(policy=policy, interpolation=interpolation, fill=fill)


class RandAugment(Op):
    """Runs a few random actions of one strength.

    Args:
        num_ops: How many actions.
        magnitude: How strong, below the bins.
        num_magnitude_bins: How many magnitudes there are.
        config: In place of these a string as timm has it: rand-m9-mstd0.5-inc1. Expected: a word.
        interpolation: Interpolation of warps; default: nearest, or with a config one of the others at random.
        fill: Fill colour outside the image; default: black, or 128 with a config. Expected: a level 0 to 255, or
            (red, green, blue).

    >>> RandAugment()
    RandAugment()
    """

    __slots__ = ()
    __match_args__ = ("num_ops", "magnitude", "num_magnitude_bins", "config", "interpolation", "fill")
    name = "RandAugment"

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        config: str | None = None,
        interpolation: Literal["nearest", "bilinear", "bicubic"] | None = None,
        fill: Color | None = None,
    ) -> None:
        super().__init__(
            num_ops=_unless(config, num_ops, 2),
            magnitude=_unless(config, magnitude, 9),
            num_magnitude_bins=_unless(config, num_magnitude_bins, 31),
            config=config,
            interpolation=interpolation,
            fill=fill,
        )


class RandomApply(Op):
    """Runs a list of ops for a share p of the images.

    Args:
        ops: The ops, in order. Expected: a list of ops.
        p: Share of the images.
    """

    __slots__ = ()
    __match_args__ = ("ops", "p")
    name = "RandomApply"

    def __init__(self, ops: Iterable[Op], p: float = 0.5) -> None:
        super().__init__(ops=ops, p=p)


class RandomChoice(Op):
    """Runs one of a list of ops.

    Args:
        ops: The ops, in order. Expected: a list of ops.
        weights: Relative weight of each; default: all equal. Expected: a list of numbers.
    """

    __slots__ = ()
    __match_args__ = ("ops", "weights")
    name = "RandomChoice"

    def __init__(self, ops: Iterable[Op], weights: Iterable[float] | None = None) -> None:
        super().__init__(ops=ops, weights=weights)


class RandomOrder(Op):
    """Runs up to 5 ops in random order.

    Args:
        ops: The ops, in order. Expected: a list of ops.
    """

    __slots__ = ()
    __match_args__ = ("ops",)
    name = "RandomOrder"

    def __init__(self, ops: Iterable[Op]) -> None:
        super().__init__(ops=ops)


class TrivialAugmentWide(Op):
    """Runs one random action of random strength.

    Args:
        num_magnitude_bins: How many magnitudes there are.
        interpolation: Interpolation of warps; default: nearest.
        fill: Fill colour outside the image; default: black. Expected: a level 0 to 255, or (red, green, blue).

    >>> TrivialAugmentWide()
    TrivialAugmentWide()
    """

    __slots__ = ()
    __match_args__ = ("num_magnitude_bins", "interpolation", "fill")
    name = "TrivialAugmentWide"

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Literal["nearest", "bilinear", "bicubic"] | None = None,
        fill: Color | None = None,
    ) -> None:
        super().__init__(num_magnitude_bins=num_magnitude_bins, interpolation=interpolation, fill=fill)


class MixUp(Op):
    """Mixes each sample with another one of its batch, and their labels alike.

    Args:
        alpha: Shares are drawn from Beta(alpha, alpha).
        partner: Who is mixed with whom: the sample before, or one by a random permutation.
        per_sample: Draws for each sample in place of the batch: FFCV's same_lambda = false.
        p: Share of the batches, or of the samples.

    >>> MixUp()
    MixUp()
    """

    __slots__ = ()
    __match_args__ = ("alpha", "partner", "per_sample", "p")
    name = "MixUp"

    def __init__(
        self,
        alpha: float = 1.0,
        partner: Literal["previous", "permuted"] = "previous",
        per_sample: bool = False,
        p: float = 1.0,
    ) -> None:
        super().__init__(alpha=alpha, partner=partner, per_sample=per_sample, p=p)


ImageMixup = MixUp

LabelMixup = MixUp

class CutMix(Op):
    """Puts a rectangle of another sample of the batch into each, and mixes their labels.

    Args:
        alpha: Shares are drawn from Beta(alpha, alpha).
        partner: Who is mixed with whom: the sample before, or one by a random permutation.
        per_sample: Draws for each sample in place of the batch: FFCV's same_lambda = false.
        p: Share of the batches, or of the samples.

    >>> CutMix()
    CutMix()
    """

    __slots__ = ()
    __match_args__ = ("alpha", "partner", "per_sample", "p")
    name = "CutMix"

    def __init__(
        self,
        alpha: float = 1.0,
        partner: Literal["previous", "permuted"] = "previous",
        per_sample: bool = False,
        p: float = 1.0,
    ) -> None:
        super().__init__(alpha=alpha, partner=partner, per_sample=per_sample, p=p)


class Mosaic(Op):
    """Puts parts of four images of a batch into one, with their objects.

    Args:
        center: Where the four images meet, as a share of each side. Expected: (low, high).
        p: Share of the samples.
        min_size: Least width and height of an object after the cut, in pixels.
        min_area: Least area of an object after the cut, in pixels.

    >>> Mosaic()
    Mosaic()
    """

    __slots__ = ()
    __match_args__ = ("center", "p", "min_size", "min_area")
    name = "Mosaic"

    def __init__(
        self,
        center: Pair = (0.25, 0.75),
        p: float = 1.0,
        min_size: float = 1.0,
        min_area: float = 1.0,
    ) -> None:
        super().__init__(center=center, p=p, min_size=min_size, min_area=min_area)


class SimpleCopyPaste(Op):
    """Pastes objects of another image of the batch, cut out by their masks.

    Args:
        p: Share of the samples.

    >>> SimpleCopyPaste()
    SimpleCopyPaste()
    """

    __slots__ = ()
    __match_args__ = ("p",)
    name = "SimpleCopyPaste"

    def __init__(self, p: float = 1.0) -> None:
        super().__init__(p=p)


class Normalize(Op):
    """Subtracts a mean and divides by a standard deviation; gives f32.

    Args:
        mean: The mean of each channel, or one for all, of pixels in 0..=1; the example is ImageNet's. Expected: (red,
            green, blue).
        std: The standard deviations of the same pixels. Expected: (red, green, blue).
        scale: The pixels that mean and std are of: unit is 0..=1, levels is 0..=255, values is the array's own range.

    >>> Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    """

    __slots__ = ()
    __match_args__ = ("mean", "std", "scale")
    name = "Normalize"

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        scale: Literal["unit", "levels", "values"] = "unit",
    ) -> None:
        super().__init__(mean=mean, std=std, scale=scale)

    @classmethod
    def imagenet(cls) -> Normalize:
        """Returns the op with the mean and the standard deviation of ImageNet."""
        return cls((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    @classmethod
    def cifar10(cls) -> Normalize:
        """Returns the op with the mean and the standard deviation of CIFAR-10."""
        return cls((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.201))


class Levels(Op):
    """Maps the values of black and white to 0 and 255, for ops that change colours; gives f32.

    Args:
        black: The value that becomes 0.
        white: The value that becomes 255.

    >>> Levels(-1000.0, 400.0)
    Levels(-1000.0, 400.0)
    """

    __slots__ = ()
    __match_args__ = ("black", "white")
    name = "Levels"

    def __init__(self, black: float, white: float) -> None:
        super().__init__(black=black, white=white)


class ScaleIntensityRange(Op):
    """Maps a range of values linearly to another; with clip, the window of a CT image.

    Args:
        a_min: The value that becomes b_min.
        a_max: The value that becomes b_max.
        b_min: The lower bound of the results.
        b_max: The upper bound of the results.
        clip: Whether results are limited to their bounds.

    >>> ScaleIntensityRange(0, 255)
    ScaleIntensityRange(0, 255)
    """

    __slots__ = ()
    __match_args__ = ("a_min", "a_max", "b_min", "b_max", "clip")
    name = "ScaleIntensityRange"

    def __init__(self, a_min: float, a_max: float, b_min: float = 0.0, b_max: float = 1.0, clip: bool = False) -> None:
        super().__init__(a_min=a_min, a_max=a_max, b_min=b_min, b_max=b_max, clip=clip)


class Clip(Op):
    """Limits values to a range.

    Args:
        low: The least value.
        high: The largest value.

    >>> Clip(16, 235)
    Clip(16, 235)
    """

    __slots__ = ()
    __match_args__ = ("low", "high")
    name = "Clip"

    def __init__(self, low: float, high: float) -> None:
        super().__init__(low=low, high=high)


class Convert(Op):
    """Changes the type of the elements, of images and labels; values are not scaled.

    Args:
        to: The type. Expected: "u8", "u16", "i16", "i32", "i64", "f16", "bf16", "f32" or "f64".

    >>> Convert("f16")
    Convert('f16')
    """

    __slots__ = ()
    __match_args__ = ("to",)
    name = "Convert"

    def __init__(self, to: Any) -> None:
        super().__init__(to=to)


class SelectChannels(Op):
    """Takes channels by their indices, in the order given: bands of a satellite image, RGB of RGBA.

    Args:
        channels: The input's channel for each channel of the output, from 0. Expected: a list of whole numbers, 0 or
            more.

    >>> SelectChannels((2, 1, 0))
    SelectChannels((2, 1, 0))
    """

    __slots__ = ()
    __match_args__ = ("channels",)
    name = "SelectChannels"

    def __init__(self, channels: Iterable[int]) -> None:
        super().__init__(channels=channels)


class View(Op):
    """Reads the elements, of images and labels, as another type of as many bytes.

    Args:
        to: The type. Expected: "u8", "u16", "i16", "i32", "i64", "f16", "bf16", "f32" or "f64".

    >>> View("i16")
    View('i16')
    """

    __slots__ = ()
    __match_args__ = ("to",)
    name = "View"

    def __init__(self, to: Any) -> None:
        super().__init__(to=to)


class ToChannelsFirst(Op):
    """[height, width, channels] to [channels, height, width], as PyTorch wants it.

    >>> ToChannelsFirst()
    ToChannelsFirst()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "ToChannelsFirst"

    def __init__(self) -> None:
        super().__init__()


class ToChannelsLast(Op):
    """[channels, height, width] to [height, width, channels], as TensorFlow and JAX want it.

    >>> ToChannelsLast()
    ToChannelsLast()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "ToChannelsLast"

    def __init__(self) -> None:
        super().__init__()


class ToDevice(Op):
    """Runs the ops after it, on images and labels, on a device.

    Args:
        device: Auto takes the first GPU if there is one, and the CPU if not.

    >>> ToDevice("auto")
    ToDevice('auto')
    """

    __slots__ = ()
    __match_args__ = ("device",)
    name = "ToDevice"

    def __init__(self, device: Device) -> None:
        super().__init__(device=device)


class OneHot(Op):
    """Turns a label into a vector with a one at its class; gives f32.

    Args:
        classes: Elements of the vector.

    >>> OneHot(1000)
    OneHot(1000)
    """

    __slots__ = ()
    __match_args__ = ("classes",)
    name = "OneHot"

    def __init__(self, classes: int) -> None:
        super().__init__(classes=classes)


class LabelSmoothing(Op):
    """Spreads a share of a one-hot vector evenly over all classes.

    Args:
        epsilon: The share.

    >>> LabelSmoothing(0.1)
    LabelSmoothing(0.1)
    """

    __slots__ = ()
    __match_args__ = ("epsilon",)
    name = "LabelSmoothing"

    def __init__(self, epsilon: float) -> None:
        super().__init__(epsilon=epsilon)


class ReplaceLabel(Op):
    """Gives some samples another label.

    Args:
        indices: The samples. Expected: a list of whole numbers, 0 or more.
        new_label: Their label.

    >>> ReplaceLabel((0, 7), 1)
    ReplaceLabel((0, 7), 1)
    """

    __slots__ = ()
    __match_args__ = ("indices", "new_label")
    name = "ReplaceLabel"

    def __init__(self, indices: Iterable[int], new_label: int) -> None:
        super().__init__(indices=indices, new_label=new_label)


class Squeeze(Op):
    """Drops the axes of length 1.

    >>> Squeeze()
    Squeeze()
    """

    __slots__ = ()
    __match_args__ = ()
    name = "Squeeze"

    def __init__(self) -> None:
        super().__init__()
