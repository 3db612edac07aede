"""The way out of what users of other libraries write first: names of torch's DataLoader, of torchvision and of others,
and what stands for them here. Messages of errors are made of these tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._pixel_op import PixelFunction
from .errors import ConfigError

# Arguments of torch.utils.data.DataLoader, of datasets of torchvision and of FFCV's Loader.
ARGUMENTS = {
    "shuffle": "order='random' shuffles, in another order in each epoch",
    "sampler": "order= takes a sampler, an object with __iter__ and __len__; fuseloop.Weighted is a "
    "WeightedRandomSampler, and ranks='env' a DistributedSampler",
    "batch_sampler": "order= takes a sampler of samples, and batch_size= and drop_last= make batches of them",
    "num_workers": "workers= is the number of threads, by default one per core",
    "collate_fn": "collate={'image': fuseloop.Collate.pad()} says how samples of differing sizes become a batch, and "
    "after= of fuseloop.torch.Loader takes a function of the tensors of a batch",
    "worker_init_fn": "leave it out: there are no worker processes, and the random numbers of a sample follow from "
    "seed=, the epoch and the sample",
    "multiprocessing_context": "leave it out: there are no worker processes",
    "generator": "seed= is the number that all orders and random numbers follow from",
    "prefetch_factor": "batches_ahead= is the number of batches that are begun before they are asked for",
    "persistent_workers": "leave it out: the threads stay between epochs",
    "pin_memory_device": "pin_memory= takes the number of the GPU",
    "in_order": "unordered=True gives batches as they are ready",
    "transform": "the ops of a field stand under its name, image=[ops.Resize(256), ...]; ops.from_torchvision(transform), "
    "from_albumentations and from_timm make them of other libraries' transforms",
    "target_transform": "the ops of a label stand under its name, label=[ops.OneHot(10)]; fuseloop.ops.Lambda calls a "
    "function",
    "transforms": "the ops of a field stand under its name, image=[ops.Resize(256), ...]; ops.from_torchvision(transforms), "
    "from_albumentations and from_timm make them of other libraries' transforms",
    "pipelines": "fuseloop.ffcv.Loader takes FFCV's pipelines; here the ops of a field stand under its name, image=[...]",
    "os_cache": "process_cache=True is FFCV's os_cache=False",
    "distributed": "ranks='env' divides the samples between the processes",
    "rank": "ranks=fuseloop.Ranks(rank, world_size), or ranks='env'",
    "world": "ranks=fuseloop.Ranks(rank, world_size), or ranks='env'",
    "world_size": "ranks=fuseloop.Ranks(rank, world_size), or ranks='env'",
    "num_replicas": "ranks=fuseloop.Ranks(rank, world_size), or ranks='env'",
    "where": "filter= takes a function of the columns",
    "exclude": "without= takes the names of fields to leave out of the batches",
    "parts": "component_ops= takes the ops of one of several datasets: {(1, 'image'): [...]}",
    "num_threads": "workers= is the number of threads, by default one per core",
    "threads": "workers= is the number of threads, by default one per core",
    "prefetch": "batches_ahead= is the number of batches that are begun before they are asked for",
    "to_device": "ops.ToDevice('cuda:0') in the list of an output",
}

# Arguments of the functions of fuseloop.sources, which open a dataset with options, and their calls.
SOURCES = {
    "label": "folder(path, label=None)",
    "classes": "folder(path, classes=['cat', 'dog'])",
    "links": "folder(path, links='within')",
    "listing": "folder(path, listing='photos.index')",
    "root": "table(path, root='images')",
    "suffix": "table(path, suffix='.jpg')",
    "delimiter": "table(path, delimiter=';')",
    "quotes": "table(path, quotes=True)",
    "missing": "table(path, missing='nan')",
    "annotations": "coco(images, annotations='instances.json')",
    "keep_category_ids": "coco(images, annotations, keep_category_ids=True)",
    "skip_crowds": "coco(images, annotations, skip_crowds=True)",
    "without_empty": "coco(images, annotations, without_empty=True)",
    "image_set": "voc(path, image_set='train')",
    "keep_coordinates": "voc(path, keep_coordinates=True)",
    "keypoints": "yolo(path, keypoints=(17, 3))",
    "delta_timestamps": "lerobot(path, delta_timestamps={'action': [0.0, 0.1]})",
    "episodes": "lerobot(path, episodes=[0, 1])",
    "tolerance_s": "lerobot(path, tolerance_s=0.01)",
    "features": "tfrecord(name, features={'image': 'image'})",
    "custom_fields": "beton(path, custom_fields={'points': (24, 8)})",
}

# Words for what `fuseloop.write.convert` does, and how it does that.
WRITERS = {
    "folder": "write.convert(folder, 'train.beton')",
    "concat": "write.convert(['a.beton', 'b.beton'], 'all.beton')",
    "split": "write.convert('all.beton', 'part-{000}.beton', shards=4)",
    "subset": "write.convert('all.beton', 'few.beton', indices=range(1000))",
    "unpack": "write.convert('planes.beton', 'train.beton')",
}

# Names of torchvision.transforms and of FFCV that are no ops; the tables by which transforms become ops have further names.
OPS = {
    "ToTensor": "batches are tensors anyway: ops.ToChannelsFirst() is its order of the axes, and ops.Normalize scales to "
    "0 to 1",
    "ToImage": "batches are tensors anyway: ops.ToChannelsFirst() is its order of the axes",
    "PILToTensor": "batches are tensors anyway: ops.ToChannelsFirst() is its order of the axes",
    "ToPureTensor": "leave it out: batches are tensors anyway",
    "ToTensorV2": "batches are tensors anyway: ops.ToChannelsFirst() is its order of the axes",
    "ToDtype": "ops.Convert('float16') changes the type, and ops.Normalize scales to 0 to 1",
    "ConvertImageDtype": "ops.Convert('float16') changes the type, and ops.Normalize scales to 0 to 1",
    "Identity": "leave it out",
    "RGB": "leave it out: images are read as RGB unless read_mode= says otherwise",
    "AutoAugmentPolicy": "ops.AutoAugment takes the policy as a text: 'imagenet', 'cifar10' or 'svhn'",
    "InterpolationMode": "interpolation= takes a text: 'bilinear'",
    "Transform": "ops.Lambda calls a function of yours, and ops.pixel_op compiles one of a pixel; the class of ops is fuseloop.ops.Op",
    "NormalizeImage": "ops.Normalize",
    "ToTorchImage": "ops.ToChannelsFirst",
    "RandomTranslateCutout": "ops.RandomTranslate and ops.Cutout",
}

# Parameters that torchvision names otherwise, by op or for all.
PARAMS = {
    ("RandomApply", "transforms"): "ops",
    ("RandomChoice", "transforms"): "ops",
    ("RandomChoice", "p"): "weights",
    ("RandomOrder", "transforms"): "ops",
    ("Lambda", "lambd"): "f",
    ("Lambda", "types"): "the output whose list it is in says what it gets",
    ("RandomIoUCrop", "min_scale"): "use scale=(min_scale, max_scale)",
    ("RandomIoUCrop", "max_scale"): "use scale=(min_scale, max_scale)",
    ("RandomIoUCrop", "min_aspect_ratio"): "use aspect_ratio=(min_aspect_ratio, max_aspect_ratio)",
    ("RandomIoUCrop", "max_aspect_ratio"): "use aspect_ratio=(min_aspect_ratio, max_aspect_ratio)",
    ("ClampBoundingBoxes", "clamping_mode"): "fuseloop.Target.boxes(clamping=...) says it",
    ("CutMix", "num_classes"): "put ops.OneHot(num_classes) before the mix into the list of the label",
    ("MixUp", "num_classes"): "put ops.OneHot(num_classes) before the mix into the list of the label",
    ("", "labels_getter"): "leave it out: targets= of the loader says which fields belong together",
    ("", "inplace"): "leave it out: no op copies an image",
    ("", "antialias"): "interpolation= says it: 'bilinear', or 'bilinear-aliased' without antialiasing",
}

# Parameters of torchvision's ops in their order, where ours have another at one of the places.
ORDERS = {
    "RandAugment": ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill"),
    "RandomIoUCrop": ("min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio", "sampler_options", "trials"),
    "MixUp": ("alpha", "num_classes", "labels_getter"),
    "CutMix": ("alpha", "num_classes", "labels_getter"),
    "Normalize": ("mean", "std", "inplace"),
}


def argument(name: str) -> ConfigError:
    """Returns the error for an argument of another library's loader."""
    error = ConfigError(
        f"{name} is no argument of Loader: {ARGUMENTS[name]} (a field of this name goes into ops={{{name!r}: [...]}})"
    )
    error.hint = ARGUMENTS[name]
    return error


def source_option(name: str, value: Any) -> ConfigError:
    """Returns the error for an argument of a function that opens datasets."""
    call = f"fuseloop.sources.{SOURCES[name]}"
    error = ConfigError(
        f"{name}={_shown(value)} is no list of ops for a field {name}; an option of the dataset is given to the function "
        f"that opens it: Loader({call}, ...)"
    )
    error.hint = call
    return error


def by_name(setting: str, value: Any, example: str, of: str = "outputs") -> dict[Any, Any]:
    """Returns a setting that is a dict by the names of outputs or fields; empty for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{setting} is {_shown(value)}, expected a dict by the names of {of}: {setting}={example}")
    return dict(value)


def texts_by_name(setting: str, value: Any, example: str, of: str = "outputs") -> dict[str, str]:
    """Returns a setting that is a dict of texts by the names of outputs or fields."""
    texts = by_name(setting, value, example, of)
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ConfigError(f"{setting}: {name} is {_shown(text)}, expected a text: {setting}={example}")
    return texts


def arrays(value: Any) -> dict[str, dict[str, Any]]:
    """Returns the dtypes and shapes of fields of bytes that are arrays, or what their audio files are decoded to."""
    from .loader import Audio

    example = "{'points': ('float32', (-1, 3))}"
    found: dict[str, dict[str, Any]] = {}
    for name, pair in by_name("arrays", value, example, "fields").items():
        if isinstance(pair, Audio):
            numbers = {"sample_rate": pair.sample_rate, "num_channels": pair.num_channels}
            for key, number in numbers.items():
                if not hasattr(number, "__index__") or number.__index__() < 1:
                    wanted = "a whole number over 0, as in fuseloop.Audio(16000)"
                    raise ConfigError(f"arrays: {key} of {name} is {_shown(number)}, expected {wanted}")
            if not isinstance(pair.resample, bool):
                raise ConfigError(f"arrays: resample of {name} is {_shown(pair.resample)}, expected True or False")
            found[name] = {key: number.__index__() for key, number in numbers.items()} | {"resample": pair.resample}
            continue
        shape = pair[1] if isinstance(pair, (tuple, list)) and len(pair) == 2 else None
        if not isinstance(shape, Iterable) or isinstance(shape, str):
            raise ConfigError(f"arrays: {name} is {_shown(pair)}, expected a dtype and a shape: arrays={example}")
        sides = list(shape)
        if not all(hasattr(side, "__index__") for side in sides):
            raise ConfigError(f"arrays: the shape of {name} is {_shown(shape)}, expected whole numbers: arrays={example}")
        found[name] = {"dtype": pair[0], "shape": [side.__index__() for side in sides]}
    return found


def names(setting: str, value: Any) -> list[str]:
    """Returns a setting that is one name or several."""
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, Iterable):
        listed = list(listed)
        if all(isinstance(name, str) for name in listed):
            return listed
    raise ConfigError(f"{setting} is {_shown(value)}, expected the names of fields: {setting}=['mask']")


def no_filter(value: Any) -> ConfigError:
    """Returns the error for a choice of samples that is no function."""
    return ConfigError(
        f"filter is {_shown(value)}, expected a function of the columns: filter=lambda column: column['label'] < 10; "
        "indices= takes numbers of samples, numpy.flatnonzero(mask) those of a boolean mask"
    )


def indices(value: Any) -> Any:
    """Returns the numbers of samples, and refuses a boolean mask."""
    dtype = getattr(value, "dtype", None)
    is_mask = "bool" in str(dtype) if dtype is not None else isinstance(value, (list, tuple)) and any(
        isinstance(number, bool) for number in value
    )
    if is_mask:
        raise ConfigError(
            "indices is a boolean mask, expected numbers of samples: indices=numpy.flatnonzero(mask); filter= takes a "
            "function that returns a mask"
        )
    if isinstance(value, (str, bytes)) or value is not None and not isinstance(value, Iterable):
        raise ConfigError(f"indices is {_shown(value)}, expected numbers of samples: indices=range(1000)")
    return value


def missing_writer(name: str) -> AttributeError:
    """Returns the exception of a name that fuseloop.write does not have."""
    text = f"module 'fuseloop.write' has no attribute {name!r}"
    return AttributeError(f"{text}: {WRITERS[name]} does that" if name in WRITERS else text, name=name)


def no_column(name: str, known: list[str]) -> ConfigError:
    """Returns the error for a column that a batch of columns does not have."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    error = ConfigError(
        f"no column {name!r}, only {', '.join(known) or 'none'}" + (f": did you mean {near[0]!r}?" if near else "")
    )
    error.field, error.hint = name, near[0] if near else None
    return error


def missing_op(name: str) -> AttributeError:
    """Returns the error for an op that there is not."""
    from difflib import get_close_matches

    from . import ops

    said = OPS.get(name) or _in_tables(name)
    if said:
        return AttributeError(f"fuseloop.ops has no {name}: {said}", name=name, obj=ops)
    near = get_close_matches(name, ops.__all__, 1)
    cure = f"; did you mean {near[0]}?" if near and not name.startswith("_") else ""
    return AttributeError(f"module 'fuseloop.ops' has no attribute {name!r}{cure}", name=name, obj=ops)


def _in_tables(name: str) -> str | None:
    """Returns what stands for a class of torchvision, Albumentations or timm."""
    import re

    from . import _albumentations, _timm, _torchvision

    for module in (_torchvision, _albumentations, _timm):
        row, library = module.TABLE.get(name), module.__name__.rpartition("_")[2]
        if row is not None and row.made is None:
            return row.note.replace("`", "")
        if row is not None:
            ours = re.sub("`([A-Z][^`]*)`", r"ops.\1", row.ours).replace("`", "")
            return f"it becomes {ours} here, and ops.from_{library}(transform) converts it"
    return None


def parameter(op: str, name: str) -> str | None:
    """Returns what stands for a parameter of torchvision's."""
    found = PARAMS.get((op, name)) or PARAMS.get(("", name))
    return f"it is called {found} here" if found and found.isidentifier() else found


def position(op: str, known: tuple[str, ...], param: str | None, count: int) -> str | None:
    """Returns a hint for an op whose parameter is not valid, one of the first ``count``, which are given by position, if
    torchvision has another parameter there."""
    theirs = ORDERS.get(op, ())
    for place, (ours, name) in enumerate(zip(known, theirs)):
        if ours == param and ours != name and place < count:
            cure = f"{name}= is given by its name" if name in known else parameter(op, name)
            return f"torchvision has {name} at this place, which is {ours} here: {cure}"
    return None


def not_an_op(value: Any) -> ConfigError:
    """Returns the error for something in a list of ops that is none."""
    return ConfigError(f"{_shown(value)} is no op: {_cure(value)}")


def foreign_list(value: Any) -> ConfigError | None:
    """Returns the error for something that is called like a function of the epoch, and is none: a transform of another
    library, a module or a class."""
    module = type(value).__module__.partition(".")[0]
    is_module = any(base.__module__ == "torch.nn.modules.module" for base in type(value).__mro__)
    if isinstance(value, (type, PixelFunction)) or is_module or module in ("torchvision", "albumentations", "timm", "kornia"):
        return not_an_op(value)
    return None


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else " ".join(repr(value).split())
    return text if len(text) < 100 else f"{text[:96]} ..."


def _cure(value: Any) -> str:
    from . import ops
    from ._op import Op

    kind = value if isinstance(value, type) else type(value)
    library, name = kind.__module__.partition(".")[0], kind.__name__
    if isinstance(value, type) and issubclass(value, Op):
        return f"it is a class, whose ops are made by calling it: ops.{name}(...)"
    if library in ("torchvision", "albumentations", "timm"):
        return f"ops.from_{library}(transform) returns the ops for a transform of {library}"
    if any(base.__module__ == "torch.nn.modules.module" for base in kind.__mro__):
        return "after= of fuseloop.torch.Loader calls modules of PyTorch with each batch"
    if isinstance(value, str) and value in ops.__all__:
        return f"write ops.{value}(...)"
    if isinstance(value, Mapping):
        return "a table is an op in pipeline files alone"
    if isinstance(value, PixelFunction):
        return f"call it, {value.__name__}(), which makes an op"
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return "ops.Lambda(function) calls a function, with each batch or with each image"
    return "expected one of fuseloop.ops, or a list of such" + (
        "" if isinstance(value, Iterable) else f", not {type(value).__name__}"
    )
