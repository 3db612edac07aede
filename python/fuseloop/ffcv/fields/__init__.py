"""Fields: what a sample is made of."""

from .base import Field
from .basics import FloatField, IntField
from .bytes import BytesField
from .json import JSONField
from .ndarray import NDArrayField, TorchTensorField
from .rgb_image import RGBImageField

__all__ = [
    "BytesField",
    "Field",
    "FloatField",
    "IntField",
    "JSONField",
    "NDArrayField",
    "RGBImageField",
    "TorchTensorField",
]
