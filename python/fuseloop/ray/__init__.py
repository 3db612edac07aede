"""Training data on a Ray cluster: batches made by actors on other machines, and datasets written and read by tasks.

The actors of a loader make the batches of one rank, in the order and with the bits of :class:`fuseloop.Loader`::

    loader = fl.ray.TorchLoader("/data/train", 256, actors=16, ranks="env", order="random", image=[...])

Each task of ``write_dataset`` and ``convert`` writes whole shards into a folder that all machines share. The driver
writes ``manifest.json``, which a loader opens as one dataset::

    ds = ray.data.read_images("/data/raw", include_paths=True)
    fl.ray.write_dataset(ds, "/data/train", {"image": "image", "path": "bytes"}, rows_per_shard=20_000)
    loader = fl.torch.Loader("/data/train/manifest.json", 256, ranks="env", order="random")
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError("fuseloop.ray needs Ray: pip install 'ray[data]'") from error

__all__ = [
    "FuseloopDatasink",
    "Loader",
    "RemoteBatch",
    "RemoteRaggedTensor",
    "RemoteTensor",
    "TorchLoader",
    "convert",
    "read",
    "write_dataset",
]

if TYPE_CHECKING:
    from ._batch import RemoteBatch, RemoteRaggedTensor, RemoteTensor
    from ._datasets import FuseloopDatasink, convert, read, write_dataset
    from ._loader import Loader
    from ._torch import TorchLoader
else:
    # An actor imports this module, and needs neither Ray Data nor PyTorch.
    _HOME = dict.fromkeys(["FuseloopDatasink", "convert", "read", "write_dataset"], "_datasets")
    _HOME |= dict.fromkeys(["RemoteBatch", "RemoteRaggedTensor", "RemoteTensor"], "_batch")
    _HOME |= {"Loader": "_loader", "TorchLoader": "_torch"}

    def __getattr__(name: str) -> Any:
        import importlib

        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        try:
            found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        except ImportError as error:  # no Ray Data, or no PyTorch
            raise AttributeError(str(error), name=name, obj=sys.modules[__name__]) from error
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
