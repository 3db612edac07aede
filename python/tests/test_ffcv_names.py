"""fuseloop.ffcv has every public name of FFCV 1.0.2, with its parameters and defaults."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import fuseloop.ffcv as ffcv  # noqa: E402

ffcv.install()

pytestmark = pytest.mark.torch

NAMES = json.loads((Path(__file__).parent / "golden" / "ffcv_names.json").read_text())

# Parts of FFCV's own engine, which scripts do not use.
INTERNAL_MODULES = {
    "ffcv.libffcv": "the functions of its C library",
    "ffcv.memory_allocator": "how its writer cuts pages",
    "ffcv.memory_managers.process_cache.context": "its threads that read pages",
    "ffcv.memory_managers.process_cache.page_reader": "its threads that read pages",
    "ffcv.memory_managers.process_cache.schedule": "its threads that read pages",
    "ffcv.pipeline.graph": "its generator of Python code",
    "ffcv.utils": "helpers",
}
INTERNAL_NAMES = {
    ("ffcv.loader.epoch_iterator", "IS_CUDA"),
    ("ffcv.loader.epoch_iterator", "QUASIRANDOM_ERROR_MSG"),
    ("ffcv.loader.epoch_iterator", "select_buffer"),
    ("ffcv.memory_managers.process_cache", "ProcessCacheContext"),
    ("ffcv.pipeline.pipeline", "BAD_COLLATION_MESSAGE"),
    ("ffcv.transforms.normalize", "ch_dtype_from_numpy"),
    ("ffcv.traversal_order.quasi_random", "generate_order_inner"),
    ("ffcv.writer", "count_samples_in_shard"),
    ("ffcv.writer", "from_shard"),
    ("ffcv.writer", "handle_sample"),
    ("ffcv.writer", "worker_job_indexed_dataset"),
    ("ffcv.writer", "worker_job_webdataset"),
}
INTERNAL_METHODS = {
    ("EpochIterator", "__init__"),
    ("EpochIterator", "run"),
    ("EpochIterator", "run_pipeline"),
    ("Field", "encode"),  # Its declaration there names other parameters than its implementations have.
    ("Loader", "generate_code"),
    ("MemoryManager", "compile_reader"),  # The same.
    ("DatasetWriter", "prepare"),
    ("DatasetWriter", "finalize"),
    ("NormalizeImage", "generate_code_cpu"),
    ("NormalizeImage", "generate_code_gpu"),
    ("QuasiRandom", "prepare_data_structures"),
}


sys.path.insert(0, str(Path(__file__).parent / "golden"))
from ffcv_names import parameters as shown  # noqa: E402


def agrees(own, theirs):
    """Tells if a function takes everything that FFCV's does: the same names, positions and defaults."""
    if any(name.startswith("*") for name in theirs):
        return own == theirs
    for mine, wanted in zip(own, theirs):
        name, _, default = wanted.partition("=")
        if mine.partition("=")[0] != name or (default and default != "..." and mine != wanted):
            return False
        if bool(default) and "=" not in mine:
            return False
    return len(own) >= len(theirs) and all("=" in name for name in own[len(theirs) :])


def public_names():
    for module, names in NAMES.items():
        if module not in INTERNAL_MODULES:
            for name in names:
                if (module, name) not in INTERNAL_NAMES:
                    yield module, name


def test_ffcv_names_all_there():
    assert len(list(public_names())) > 120
    missing, different = [], []
    for module, name in public_names():
        try:
            own = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            missing.append(f"{module}.{name}")
            continue
        theirs = NAMES[module][name]
        if isinstance(theirs, list):
            if not agrees(shown(own), theirs):
                different.append(f"{module}.{name}{shown(own)} is {theirs} there")
        for method, wanted in (theirs or {}).items() if isinstance(theirs, dict) else ():
            if (name, method) in INTERNAL_METHODS:
                continue
            code = inspect.getattr_static(own, method, None)
            code = code.__func__ if isinstance(code, (staticmethod, classmethod)) else code
            if code is None and method not in getattr(own, "__annotations__", {}):
                missing.append(f"{module}.{name}.{method}")
            elif wanted is not None and not agrees(shown(code), wanted):
                different.append(f"{module}.{name}.{method}{shown(code)} is {wanted} there")
    assert (missing, different) == ([], [])


def test_all_modules_of_a_script_resolve():
    code = """
from ffcv import Loader, DatasetWriter
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, SimpleRGBImageDecoder
from ffcv.loader import OrderOption
from ffcv.loader.loader import Loader, ORDER_TYPE
from ffcv.memory_managers import OSCacheManager, ProcessCacheManager
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.pipeline.state import State
from ffcv.reader import Reader
from ffcv.transforms import ToTensor, ToDevice, Squeeze, NormalizeImage, RandomHorizontalFlip, ToTorchImage
from ffcv.transforms.common import Squeeze
from ffcv.transforms.ops import ToTensor
from ffcv.traversal_order.base import TraversalOrder
from ffcv.types import ALLOC_TABLE_TYPE, HeaderType, get_metadata_type
from ffcv.writer import DatasetWriter
"""
    names: dict = {}
    exec(code, names)  # noqa: S102, the imports of scripts
    assert names["Loader"] is ffcv.Loader and names["DatasetWriter"] is ffcv.DatasetWriter
    assert issubclass(names["SimpleRGBImageDecoder"], names["Operation"])
