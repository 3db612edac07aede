"""torch, imported when it is first needed, and its element types besides those of NumPy."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import ConfigError, PipelineError


def torch(what: str = "this pipeline") -> ModuleType:
    """Returns torch."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{what} needs torch, which is not installed: pip install torch") from error
    return torch


def is_tensor(value: Any) -> bool:
    loaded = sys.modules.get("torch")
    return loaded is not None and isinstance(value, loaded.Tensor)


def is_module(value: Any) -> bool:
    """Tells if this is a ``torch.nn.Module``."""
    loaded = sys.modules.get("torch")
    return loaded is not None and isinstance(value, loaded.nn.Module)


def is_torch_dtype(value: Any) -> bool:
    return type(value).__module__ == "torch" and type(value).__name__ == "dtype"


def torch_dtype(dtype: Any) -> Any:
    """Returns torch's element type for one of NumPy or torch."""
    if is_torch_dtype(dtype):
        return dtype
    name = np.dtype(dtype).name
    found = getattr(torch(), name, None)
    if found is None or not np.dtype(dtype).isnative:
        name = np.dtype(dtype).str
        raise PipelineError(f"torch has no element type for NumPy's {name}: read the field without ToTensor()")
    return found


def numpy_dtype(dtype: Any) -> np.dtype:
    """Returns NumPy's element type for one of NumPy or torch."""
    if not is_torch_dtype(dtype):
        return np.dtype(dtype)
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name)
    except TypeError:
        raise ConfigError(f"NumPy has no element type for torch.{name}") from None


def dtype_name(dtype: Any) -> str:
    """Returns the name of an element type, such as ``float16``."""
    return str(dtype).removeprefix("torch.") if is_torch_dtype(dtype) else np.dtype(dtype).name


def cpu() -> Any:
    """Returns ``torch.device("cpu")``; its name if torch is not installed."""
    try:
        import torch
    except ImportError:
        return "cpu"
    return torch.device("cpu")


def is_cpu(device: Any) -> bool:
    return str(device) == "cpu"
