"""Batches as arrays of JAX.

>>> import fuseloop as fl
>>> from fuseloop import ops
>>> loader = fl.jax.Loader(example_dataset(), batch_size=4, image=[ops.Resize((32, 32)), ops.Normalize.imagenet()])
>>> for batch in loader:
...     pass
>>> batch["image"].shape, batch["image"].dtype.name, batch["label"].dtype.name
((4, 32, 32, 3), 'float32', 'int32')
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

try:
    import jax
except ImportError as error:
    raise ImportError("fuseloop.jax needs JAX: pip install jax") from error

import numpy as np

from . import loader as _loader
from ._fuseloop import Batch, Dataset, RaggedTensor, Tensor
from .errors import ConfigError, SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal

    from ._op import Op, OpList
    from .loader import (
        Audio,
        Cache,
        ClassBalanced,
        Clips,
        Collate,
        DataMixture,
        ImageList,
        ProcessCache,
        QuasiRandom,
        Ranks,
        RepeatedAugment,
        Target,
        View,
        Weighted,
        _HubDataset,
        _Sampler,
    )

__all__ = ["Loader"]

Shardings: TypeAlias = jax.sharding.Sharding | Mapping[str, jax.sharding.Sharding]


class Loader(_loader.Loader[dict[str, Any]]):
    """A loader whose batches are dicts from the names of the outputs to arrays of JAX.

    Without a sharding, arrays are on the default device of JAX, or on the GPU of ``ToDevice``. On the CPU they share
    the memory of the batch. Numbers of 64 bits become such of 32, unless ``jax_enable_x64`` is set; a whole number that
    does not fit is an error. A ragged output is a tuple of its values and of the offsets of its rows, a list output a
    list of arrays.

    Args:
        dataset: See :class:`fuseloop.Loader`, as for all other arguments.
        batch_size: The number of samples of a batch, in this process.
        sharding: Where the arrays lie: a ``jax.sharding.Sharding`` for all outputs, or one for each by its name; an
            output without one stays on the default device. The batches of all processes become one array, by
            ``jax.make_array_from_process_local_data``: give each process its ``ranks``, and take ``drop_last=True``
            if the last batch can't be divided between the devices.
        **options: All arguments of :class:`fuseloop.Loader`.
    """

    _own_arguments = frozenset({"sharding"})

    if TYPE_CHECKING:
        # Signatures of __init__, written by tools/generate.py.
        def __init__(
            self,
            dataset: str | os.PathLike[str] | Dataset | Sequence[Any] | Mapping[str, Any] | _HubDataset,
            /,
            batch_size: int = 64,
            *,
            sharding: Shardings | None = None,
            split: str | None = None,
            ops: Mapping[str, OpList | None] | None = None,
            without: Iterable[str] = (),
            views: Mapping[str, View] | None = None,
            share_draws: Mapping[str, str] | None = None,
            component_ops: Mapping[tuple[int, str], Iterable[Op]] | None = None,
            collate: Mapping[str, Collate] | None = None,
            clips: Clips | None = None,
            image_lists: Mapping[str, ImageList | int] | None = None,
            masks: Iterable[str] = (),
            read_mode: Mapping[str, Literal["rgb", "gray", "gray16", "rgb_alpha", "index"]] | None = None,
            targets: Mapping[str, Mapping[str, Target]] | Literal["auto"] | None = None,
            axes: Mapping[str, str] | None = None,
            arrays: Mapping[str, tuple[Any, Sequence[int]] | Audio] | None = None,
            order: Literal["sequential", "random", "permuted", "quasi_random", "bucketed"] | QuasiRandom | Weighted | ClassBalanced | RepeatedAugment | DataMixture | _Sampler = "sequential",
            seed: int = 0,
            indices: Any = None,
            filter: Callable[[Mapping[str, np.ndarray]], Any] | None = None,
            drop_last: bool = False,
            ranks: Ranks | Literal["env"] | None = None,
            workers: int | None = None,
            batches_ahead: int = 3,
            memory_limit: int | str | None = None,
            timeout: float | None = None,
            unordered: bool = False,
            on_damaged: Literal["fail", "skip", "substitute"] = "fail",
            cache: Cache | None = None,
            process_cache: ProcessCache | bool | None = None,
            in_memory: bool | None = None,
            number_rule: Literal["fused", "exact", "relaxed"] = "fused",
            exif_orientation: bool | None = None,
            expect_classes: Sequence[str] | Mapping[int, str] | None = None,
            scaled_decode: bool = False,
            device: str | None = None,
            device_batches: int | None = None,
            pin_memory: bool | int = False,
            recompile: bool | None = None,
            copy: bool = False,
            **fields: OpList | None,
        ) -> None: ...
        # End of the signatures.
    else:

        def __init__(self, dataset, /, batch_size=64, *, sharding=None, **options):
            super().__init__(dataset, batch_size, **options)
            self._set_sharding(sharding)

    @classmethod
    def from_spec(
        cls,
        pipeline: str | os.PathLike[str],
        dataset: str | os.PathLike[str] | Dataset,
        /,
        *,
        sharding: Shardings | None = None,
        **changes: Any,
    ) -> Self:
        """See :meth:`fuseloop.Loader.from_spec`."""
        loader = super().from_spec(pipeline, dataset, **changes)
        loader._set_sharding(sharding)
        return loader

    def _set_sharding(self, sharding: Shardings | None) -> None:
        outputs = [spec.name for spec in self.tensors]
        given = sharding if isinstance(sharding, Mapping) else dict.fromkeys(outputs, sharding)
        for name, one in given.items():
            if name not in outputs:
                from difflib import get_close_matches

                near = get_close_matches(name, outputs, 1)
                error = ConfigError(
                    f"sharding: no output {name}; "
                    + (f"did you mean {near[0]}?" if near else f"the outputs are {', '.join(outputs)}")
                )
                error.hint = near[0] if near else None
                raise error
            if one is not None and not isinstance(one, jax.sharding.Sharding):
                raise ConfigError(f"sharding of {name}: {one!r}, expected a jax.sharding.Sharding")
        self._shardings = given
        self._arguments["sharding"] = sharding

    def _converted(self, batch: Batch) -> dict[str, Any]:
        arrays = {name: self._array(name, tensor) for name, tensor in batch.items()}
        if self._marks_padding():
            arrays["batch.mask"] = jax.numpy.asarray(batch.mask)
        return arrays

    def _array(self, name: str, tensor: Any) -> Any:
        sharding = self._shardings.get(name)
        if isinstance(tensor, RaggedTensor):
            return self._put(name, tensor.values, sharding), jax.numpy.asarray(tensor.offsets.astype(np.int32))
        if isinstance(tensor, Tensor):
            return self._put(name, tensor, sharding)
        return [self._put(name, row, sharding) for row in tensor]

    def _put(self, name: str, tensor: Tensor, sharding: jax.sharding.Sharding | None) -> jax.Array:
        if sharding is None:
            return _array(tensor, self._copy)
        array = _on_host(tensor)
        try:
            return jax.make_array_from_process_local_data(sharding, array)
        except ValueError as error:
            found = ConfigError(
                f"{name}: the batch of shape {list(array.shape)} can't be divided as {sharding} says ({error}): choose "
                "a batch_size that the number of devices divides, and drop_last=True"
            )
            found.field = name
            raise found from error


_NARROW = {"int64": "int32", "float64": "float32"}


def _array(tensor: Tensor, copy: bool = False) -> jax.Array:
    """Returns a tensor as an array: one on a GPU stays there, one in host memory goes to the default device of JAX. If
    that is the CPU, it shares the memory of the batch."""
    if _narrow_type(tensor) is None and not copy and (tensor.device != "cpu" or _is_cpu_default()):
        return jax.dlpack.from_dlpack(tensor)
    return jax.numpy.array(_on_host(tensor), copy=copy)


def _narrow_type(tensor: Tensor) -> str | None:
    return None if jax.config.jax_enable_x64 else _NARROW.get(tensor.dtype)  # type: ignore[attr-defined]


def _on_host(tensor: Tensor) -> np.ndarray:
    narrow = _narrow_type(tensor)
    return tensor.numpy() if narrow is None else _narrowed(tensor.name, tensor.numpy(), narrow)


def _is_cpu_default() -> bool:
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    platform = jax.default_backend() if device is None else getattr(device, "platform", device)
    return platform == "cpu"


def _narrowed(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "int32" and array.size:
        limits = np.iinfo(np.int32)
        least, most = int(array.min()), int(array.max())
        if least < limits.min or most > limits.max:
            error = SampleError(
                f"{name} has {least if least < limits.min else most}, which is beyond the numbers of 32 bits that JAX "
                "takes: set jax_enable_x64, or leave the output out"
            )
            error.field = name
            raise error
    return array.astype(dtype)
