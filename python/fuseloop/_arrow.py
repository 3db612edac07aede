"""Datasets of Hugging Face's ``datasets``, as the columns of Arrow that they have in memory."""

from __future__ import annotations

from typing import Any

from . import _fuseloop
from ._fuseloop import Dataset
from .errors import ConfigError

_CLASSES = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")


def class_of(given: Any) -> str | None:
    """Returns the name of the class of ``datasets`` that something is of; None for other things."""
    bases = type(given).__mro__
    return next((base.__name__ for base in bases if _is_of_datasets(base) and base.__name__ in _CLASSES), None)


def _is_of_datasets(base: type) -> bool:
    return base.__module__.partition(".")[0] == "datasets"


def one_split(given: Any, split: str | None) -> Any:
    """Returns the ``datasets.Dataset`` that is meant: the split of this name, or the only one."""
    kind = class_of(given)
    if kind is None:
        raise ConfigError(
            f"{type(given).__name__} is no datasets.Dataset: see from_python for other datasets of Python, and open for the "
            "files of the Hub"
        )
    if kind.startswith("Iterable"):
        raise ConfigError(
            f"Python reads a datasets.{kind} sample by sample, in sequence: load it without streaming=True, or write it once "
            "with fuseloop.write.write(ds, 'train.beton')"
        )
    if kind == "Dataset":
        if split is not None:
            raise ConfigError(f"split={split!r} is of a DatasetDict, and this datasets.Dataset is one split: leave it out")
        return given
    names = list(given)
    if not names:
        raise ConfigError("the DatasetDict has no splits: give it one, such as DatasetDict({'train': ds}), or give ds itself")
    chosen = names[0] if split is None and len(names) == 1 else split
    if chosen not in names:
        raise ConfigError(
            f"the DatasetDict has {f'no split {split!r}' if split is not None else 'several splits'}; available: "
            f"{', '.join(names)}: name one, such as split={names[0]!r}"
        )
    return given[chosen]


def opened(dataset: Any) -> Dataset:
    """Returns a ``datasets.Dataset`` as a dataset whose samples no call of Python reads."""
    import pyarrow
    import pyarrow.parquet

    form = dataset.format
    if form["type"] == "custom":
        raise ConfigError(
            "the datasets.Dataset has a transform (set_transform), which Python would call for each sample: give ops to the "
            "loader instead and drop it with ds.with_format(None), or have Python read it with fuseloop.sources.from_python(ds)"
        )
    table = dataset.data.table
    chosen = [name for name in dataset.column_names if form["output_all_columns"] or name in form["columns"]]
    schema = pyarrow.schema([table.schema.field(name) for name in chosen], dataset.features.arrow_schema.metadata)
    empty = pyarrow.BufferOutputStream()
    try:
        pyarrow.parquet.write_table(schema.empty_table(), empty)
    except pyarrow.ArrowNotImplementedError as error:
        raise ConfigError(f"a column has a type that is not read ({error}): leave it out with ds.remove_columns") from None
    columns = [[_parts(array) for array in table.column(name).chunks] for name in chosen]
    indices = dataset._indices
    rows = None if indices is None else [_parts(array) for array in indices.column(0).chunks]
    name = " ".join(str(text) for text in (dataset.info.dataset_name, dataset.split) if text)
    files = [file["filename"] for file in dataset.cache_files]
    bytes_of_schema = empty.getvalue().to_pybytes()
    return _fuseloop.arrow_dataset(name or "datasets.Dataset", bytes_of_schema, columns, rows, files)


def _parts(array: Any) -> tuple[str, int, int, list[Any], list[tuple[str, Any]]]:
    """Returns the type of an array, its offset, its length, its own buffers, and its children by their names."""
    if hasattr(array, "storage"):  # of a type of a library, such as Array2D
        return _parts(array.storage)
    kind = array.type
    name = str(kind).partition("<")[0]
    own, children = None, []
    if name == "struct":
        # A field of a slice begins where the slice does.
        own, children = 1, [(kind.field(n).name, _parts(array.field(n))) for n in range(kind.num_fields)]
    elif name in ("list", "large_list", "fixed_size_list"):
        own, children = 2, [("", _parts(array.values))]
    if name == "fixed_size_list":
        name, own = f"{name}[{kind.list_size}]", 1
    return name, array.offset, len(array), array.buffers()[:own], children
