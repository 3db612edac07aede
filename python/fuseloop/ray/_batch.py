"""A batch that another process has made: its tensors are views of Ray's object store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._fuseloop import Batch, RaggedTensor, Tensor

__all__ = ["RemoteBatch", "RemoteRaggedTensor", "RemoteTensor", "SentBatch", "sent"]


class SentTensor(NamedTuple):
    """A tensor on its way: an array, and the type of its elements, since NumPy has no bfloat16 of its own."""

    dtype: str
    array: np.ndarray


class SentRagged(NamedTuple):
    """A ragged tensor on its way. ``frames`` is the number of frames of a sample: 1 where samples are no clips."""

    values: SentTensor
    offsets: np.ndarray
    frames: int


@dataclass(frozen=True)
class SentBatch:
    """A batch on its way: Ray copies the arrays into its object store, and the consumer reads them there."""

    tensors: list[tuple[str, SentTensor | SentRagged | list[SentTensor]]]
    samples: int
    epoch: int
    index: int
    fingerprint: str
    ids: np.ndarray
    mask: np.ndarray
    skipped: np.ndarray
    replaced: np.ndarray


def sent(batch: Batch) -> SentBatch:
    """Returns what is sent of a batch: arrays that share its memory."""
    tensors = [(name, _sent(batch, name, tensor)) for name, tensor in batch.items()]
    known = (batch.samples, batch.epoch, batch.index, batch.fingerprint)
    return SentBatch(tensors, *known, batch.ids, batch.mask, batch.skipped, batch.replaced)


def _sent(batch: Batch, name: str, tensor: Any) -> SentTensor | SentRagged | list[SentTensor]:
    if isinstance(tensor, RaggedTensor):
        lengths = f"{name}.length"
        frames = prod(batch[lengths].shape[1:]) if lengths in batch.keys() else 1  # noqa: SIM118
        return SentRagged(_sent_tensor(tensor.values), tensor.offsets, frames)
    if isinstance(tensor, Tensor):
        return _sent_tensor(tensor)
    return [_sent_tensor(row) for row in tensor]


def _sent_tensor(tensor: Tensor) -> SentTensor:
    array = tensor.numpy()
    return SentTensor(tensor.dtype, array.view(np.uint16) if tensor.dtype == "bfloat16" else array)


# What the consumer has


class RemoteTensor:
    """A tensor of a :class:`RemoteBatch`, with the methods of :class:`fuseloop.Tensor`. Its memory is a part of Ray's
    object store, which is only read: copy what is to be changed."""

    __slots__ = ("_array", "dtype", "name")

    device = "cpu"

    def __init__(self, name: str, tensor: SentTensor) -> None:
        self.name, self.dtype, self._array = name, tensor.dtype, tensor.array
        # A small result comes with the answer instead of through the store.
        self._array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy(copy=bool(copy))
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"RemoteTensor('{self.name}', {self.dtype} {list(self.shape)})"

    def numpy(self, copy: bool = False) -> np.ndarray:
        """Returns the tensor as an array, which shares its memory and is only read, unless ``copy`` is true."""
        array = self._array.copy() if copy else self._array
        if self.dtype != "bfloat16":
            return array
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError("NumPy has no bfloat16: install ml_dtypes, or take tensor.torch()") from error
        return array.view(ml_dtypes.bfloat16)

    def torch(self, copy: bool = True, pin_memory: bool = False) -> Any:
        """Returns a copy as a tensor of torch, in page-locked memory if ``pin_memory`` is true. There is no tensor that
        shares the memory, since torch has none that is only read."""
        import torch

        is_bfloat16 = self.dtype == "bfloat16"
        array = self._array.view(np.int16) if is_bfloat16 else self._array
        if pin_memory:
            made = torch.empty(array.shape, dtype=_torch_type(array.dtype), pin_memory=True)
            np.copyto(made.numpy(), array)
        else:
            made = torch.from_numpy(array.copy())
        return made.view(torch.bfloat16) if is_bfloat16 else made


def _torch_type(dtype: np.dtype) -> Any:
    import torch

    return torch.from_numpy(np.empty(0, dtype)).dtype


class RemoteRaggedTensor:
    """A tensor whose rows differ in length, with the methods of :class:`fuseloop.RaggedTensor`."""

    __slots__ = ("_frames", "_of_frames", "offsets", "values")

    def __init__(self, name: str, tensor: SentRagged, lengths: SentTensor | None) -> None:
        self.values, self.offsets, self._frames = RemoteTensor(name, tensor.values), tensor.offsets, tensor.frames
        counts = np.diff(tensor.offsets) if lengths is None else lengths.array.reshape(-1)
        self._of_frames = np.concatenate([[0], np.cumsum(counts)])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"RemoteRaggedTensor('{self.values.name}', rows={len(self)})"

    def __getitem__(self, index: int) -> np.ndarray:
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"no row {index} of {len(self)}")
        return self.values.numpy()[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    def row(self, i: int) -> np.ndarray:
        """Returns the row of a sample. The row of a clip has those of all of its frames."""
        return self[i]

    def frame(self, i: int, t: int) -> np.ndarray:
        """Returns the values of frame ``t`` of sample ``i``, which is a clip."""
        if not (0 <= i < len(self) and 0 <= t < self._frames):
            raise IndexError(f"no frame {t} of row {i}: there are {len(self)} rows of {self._frames} frames")
        at = i * self._frames + t
        return self.values.numpy()[self._of_frames[at] : self._of_frames[at + 1]]

    def numpy(self, copy: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Returns the values and the offsets as arrays."""
        return self.values.numpy(copy), self.offsets

    def torch(self, copy: bool = True, pin_memory: bool = False) -> Any:
        """Returns a nested tensor of torch, of the layout ``torch.jagged``."""
        import torch

        offsets = torch.from_numpy(self.offsets.copy())
        return torch.nested.nested_tensor_from_jagged(self.values.torch(pin_memory=pin_memory), offsets)


class RemoteBatch:
    """A batch that an actor has made: what :class:`fuseloop.Batch` has, and the same bits.

    It is a sequence of its tensors, in the order of the outputs, which is also read by name. While the batch, a tensor of
    it or an array that shares its memory lives, its place in the object store stays occupied.

    >>> images, labels = next(iter(loader))  # doctest: +SKIP
    >>> images.numpy().flags.writeable  # doctest: +SKIP
    False
    """

    __slots__ = ("_aliases", "_sent", "_tensors")

    def __init__(self, batch: SentBatch, aliases: Mapping[str, str]) -> None:
        self._sent: SentBatch | None = batch
        self._aliases = aliases
        lengths = dict(batch.tensors)
        self._tensors: dict[str, Any] = {}
        for name, tensor in batch.tensors:
            if isinstance(tensor, SentTensor):
                self._tensors[name] = RemoteTensor(name, tensor)
            elif isinstance(tensor, SentRagged):
                length = lengths.get(f"{name}.length")
                counts = length if isinstance(length, SentTensor) else None
                self._tensors[name] = RemoteRaggedTensor(name, tensor, counts)
            else:
                self._tensors[name] = [RemoteTensor(name, row) for row in tensor]

    def _held(self) -> SentBatch:
        if self._sent is None:
            raise RuntimeError("the batch was released")
        return self._sent

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self._held().samples

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self._held().epoch

    @property
    def index(self) -> int:
        """The number of the batch in its epoch, from 0."""
        return self._held().index

    @property
    def fingerprint(self) -> str:
        """See :attr:`fuseloop.Batch.fingerprint`."""
        return self._held().fingerprint

    @property
    def ids(self) -> np.ndarray:
        """The sample of each row: an array of int64."""
        return self._held().ids

    @property
    def mask(self) -> np.ndarray:
        """True for each row that counts, and false for one that only pads the batch."""
        return self._held().mask

    @property
    def skipped(self) -> np.ndarray:
        """The samples that were left out because they are damaged."""
        return self._held().skipped

    @property
    def replaced(self) -> np.ndarray:
        """The samples that are damaged and were replaced by others."""
        return self._held().replaced

    def keys(self) -> list[str]:
        """The names of the tensors, in the order of the outputs."""
        self._held()
        return list(self._tensors)

    def items(self) -> list[tuple[str, Any]]:
        """The tensors by name."""
        self._held()
        return list(self._tensors.items())

    def __len__(self) -> int:
        self._held()
        return len(self._tensors)

    def __iter__(self) -> Iterator[Any]:
        self._held()
        return iter(list(self._tensors.values()))

    def __getitem__(self, which: int | str) -> Any:
        self._held()
        if not isinstance(which, str):
            return list(self._tensors.values())[which]
        name = which if which in self._tensors else self._aliases.get(which, which)
        if name not in self._tensors:
            raise KeyError(f"no tensor '{which}' in this batch, which has {', '.join(self._tensors)}")
        return self._tensors[name]

    def __repr__(self) -> str:
        if self._sent is None:
            return "RemoteBatch(released)"
        return f"RemoteBatch(epoch {self.epoch}, batch {self.index}, {self.samples} samples: {', '.join(self._tensors)})"

    def numpy(self, copy: bool = False) -> dict[str, Any]:
        """Returns the tensors as arrays of NumPy, by name. They share the memory of the batch and are only read, unless
        ``copy`` is true."""
        return {name: _each(tensor, lambda one: one.numpy(copy)) for name, tensor in self.items()}

    def torch(self, copy: bool = True, pin_memory: bool = False) -> dict[str, Any]:
        """Returns copies of the tensors as those of torch, by name."""
        return {name: _each(tensor, lambda one: one.torch(pin_memory=pin_memory)) for name, tensor in self.items()}

    def release(self) -> None:
        """Drops the tensors. Arrays that share their memory stay valid."""
        self._sent, self._tensors = None, {}

    def __reduce__(self) -> Any:
        raise TypeError("a batch can't be pickled: pickle batch.numpy(copy=True)")


def _each(tensor: Any, call: Any) -> Any:
    return [call(row) for row in tensor] if isinstance(tensor, Sequence) else call(tensor)
