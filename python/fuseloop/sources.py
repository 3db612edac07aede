"""Datasets with options, streams, and datasets whose samples Python makes.

>>> import fuseloop as fl
>>> from fuseloop import ops, sources
>>> photos = sources.folder(example_dataset(), links="within")
>>> stream = sources.Stream(photos).shuffle(16).repeat(2)
>>> loader = fl.Loader(stream, batch_size=8, image=[ops.Resize((32, 32))])
>>> sum(len(batch) for batch in loader) > 0
True
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import _arrow, _fuseloop
from ._fuseloop import Dataset
from ._manifest import check_split, opened
from ._values import Array, Rows, Spec, _is_image_file, _names, fields_of
from .errors import ConfigError, _warn
from .loader import _bytes, _class_pairs, _whole
from .write import _adapted, _class_list, _specs_of

__all__ = [
    "Array",
    "RemoteStats",
    "Stream",
    "beton",
    "coco",
    "concat",
    "folder",
    "from_arrays",
    "from_datasets",
    "from_generator",
    "from_python",
    "lerobot",
    "masks",
    "mds",
    "open",
    "remote_stats",
    "set_remote",
    "table",
    "tar",
    "tfrecord",
    "voc",
    "yolo",
    "zip",
]

_PathLike = str | os.PathLike[str]
_Classes = Sequence[str] | Mapping[int, str] | _PathLike


def _remade(core: Dataset, remake: Callable[..., Dataset], *arguments: Any) -> Dataset:
    """Returns a dataset that is pickled as a call."""
    return Dataset(core, (remake, arguments))


# Datasets by name


def open(name: _PathLike | Sequence[_PathLike | Dataset], *, split: str | None = None) -> Dataset | Stream:
    """Opens the dataset of this name: a ``.beton`` file, a folder or a table of images, the files of MNIST or CIFAR,
    tar shards, TFRecord files, Parquet files and folders of the Hugging Face Hub, an address. The name tells the format.
    Shards that are packed as a whole are a :class:`Stream`.

    Several files are one dataset: by braces (``"train-{000..015}.beton"``), a pattern (``"train-*.beton"``), or a list
    of names, whose formats may differ if their fields do not. A list of shards means what their names mean with ``::``
    between them. By the names of their classes, one number must mean one class in all files.

    ``split`` opens this split of a dataset that has several: ``"train"``, of several configurations ``"en/train"``.
    """
    dataset = opened(name, split)
    return Stream(dataset) if dataset.is_stream else dataset


def beton(path: _PathLike, custom_fields: Mapping[str, tuple[int, int]] | None = None) -> Dataset:
    """Opens a ``.beton`` file, whatever it is called.

    Args:
        path: The file.
        custom_fields: The size and the alignment of the rows of fields that their author brought a class for, by
            name. Their values are the bytes of their rows.
    """
    name, rows = os.fspath(path), dict(custom_fields or {})
    return _remade(_fuseloop.open_beton(name, rows), beton, name, rows)


def folder(
    path: _PathLike,
    *,
    label: Literal["auto", "folder", "file_name", "none"] | None = "auto",
    split: str | None = None,
    classes: _Classes | None = None,
    links: Literal["follow", "within", "refuse"] = "follow",
    listing: _PathLike | None = None,
) -> Dataset:
    """Opens a folder of images, of audio files or of video files, or the files that match a pattern.

    The files are the field ``image``, or ``audio``: bytes, which ``arrays={"audio": fuseloop.Audio(16_000)}`` of a loader
    decodes, or ``video``, of which ``clips=fuseloop.Clips.random(16)`` of a loader has frames.

    Args:
        path: The folder, whose sub-folders are the classes; a pattern such as ``"photos/**/*.jpg"``; or a table, for
            which :func:`table` has more options.
        label: Where the labels come from: ``"folder"`` from the folders that the images are in, ``"file_name"`` from
            the names of the files before the first ``_``; None for images without labels. By default from class
            folders, and what would be a guess is an error: folders that are splits, or one class for all.
        split: Opens this folder in the folder, such as ``"train"``.
        classes: The numbers of the classes: their names in the order of their numbers, the names by their numbers such
            as :attr:`fuseloop.Loader.classes`, or a file with one name per line. A class of another name is an error.
            By default classes are numbered in the order of their names, so that a validation set without one of the
            classes would number the others differently.
        links: Which symbolic links are followed: all, those within the folder, none. A line of a table whose file lies
            behind another is a damaged sample.
        listing: The listing that :func:`fuseloop.write.index` wrote, if it is not next to the folder.
    """
    if label is not None and label not in ("auto", "folder", "file_name", "none"):
        raise ConfigError(
            f"label is {label!r}, expected 'folder', 'file_name' or None; for a column of a table, see sources.table"
        )
    options = {"label": label or "none", "split": split, "links": links, **_class_options(classes)}
    options["listing"] = None if listing is None else os.fspath(listing)
    return _folder(os.fspath(path), options)


def _folder(path: str, options: dict[str, Any]) -> Dataset:
    return _remade(_fuseloop.open_folder(path, options), _folder, path, options)


def _class_options(classes: _Classes | None) -> dict[str, Any]:
    """Returns the numbers and the names of classes, or their file."""
    if classes is None:
        return {}
    if isinstance(classes, (str, os.PathLike)):
        return {"classes_file": os.fspath(classes)}
    return {"classes": _class_pairs("classes", classes)}


def table(
    path_or_frame: Any,
    *,
    image: str | None = None,
    label: str | None = "auto",
    root: _PathLike | None = None,
    suffix: str | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    missing: Literal["damage", "nan"] = "damage",
    classes: _Classes | None = None,
    links: Literal["follow", "within", "refuse"] = "follow",
) -> Dataset:
    """Opens a table of images: a ``.csv``, ``.tsv`` or ``.jsonl`` file, or a data frame of pandas or polars.

    Each line is a sample. The image is the file that its path names, and each other column is a field: integers,
    floats, bytes of texts, or JSON. A line that is damaged, such as one with an empty label, is a damaged sample, for
    which ``on_damaged`` of the loader says what happens; :meth:`Dataset.verify` lists them with file and line.

    Args:
        path_or_frame: The file, the data frame, or a mapping of names to columns.
        image: The column of the paths. By default the one that is called ``file_name``, ``path``, ``filename`` and the
            like, else the first.
        label: The column that becomes the field ``label``; None for none. Texts are names of classes, which are
            numbered in their order. By default the column ``label``, or else the only one of whole numbers, with a
            warning unless it is called like a class.
        root: The folder that paths are relative to. By default that of the file, or the current one for a data frame.
            One of the first files must exist.
        suffix: The ending that the paths lack, such as ``".jpg"``. By default it is looked for once.
        delimiter: The character between columns. By default a comma, in a ``.tsv`` a tab, or the only other one that the
            first line has instead.
        quotes: Whether values in double quotes are read without them. By default they are, but not in a ``.tsv``.
        missing: A missing number is damage of its sample, or ``"nan"`` in a column of floats.
        classes: The numbers of the classes, as for :func:`folder`. A label of another name is a damaged sample.
        links: Which symbolic links paths may lead to or through: all, those within the folder that paths are relative to,
            none. A line whose file lies behind another is a damaged sample.

    >>> import fuseloop as fl
    >>> photos = example_dataset()
    >>> ids = sorted(path.relative_to(photos).with_suffix("").as_posix() for path in photos.rglob("*.png"))[:3]
    >>> frame = {"id": ids, "breed": ["dog", "cat", "dog"]}
    >>> table = fl.sources.table(frame, image="id", label="breed", root=photos, suffix=".png")
    >>> table.fields, table.classes
    ({'image': 'image', 'label': 'int'}, {0: 'cat', 1: 'dog'})
    """
    if missing not in ("damage", "nan"):
        raise ConfigError(f"missing is {missing!r}, expected 'damage' or 'nan'")
    if delimiter is not None and len(delimiter) != 1:
        raise ConfigError(f"delimiter is {delimiter!r}, expected one character")
    options: dict[str, Any] = {
        "image": image,
        "label": "none" if label is None else label,
        "label_is_column": label not in (None, "auto"),
        "root": None if root is None else os.fspath(root),
        "suffix": suffix,
        "delimiter": delimiter,
        "quotes": quotes,
        "missing_as_nan": missing == "nan",
        "links": links,
        **_class_options(classes),
    }
    if isinstance(path_or_frame, (str, os.PathLike)):
        return _folder(os.fspath(path_or_frame), options)
    name = f"a {type(path_or_frame).__name__}"
    return _columns(name, _frame_columns(path_or_frame), options)


def _columns(name: str, columns: list[tuple[str, str]], options: dict[str, Any]) -> Dataset:
    return _remade(_fuseloop.open_columns(name, columns, options), _columns, name, columns, options)


def _frame_columns(frame: Any) -> list[tuple[str, str]]:
    """Returns the columns of a data frame: their names, and their values as JSON."""
    names = list(frame) if isinstance(frame, Mapping) else getattr(frame, "columns", None)
    if names is None or not hasattr(frame, "__getitem__"):
        raise ConfigError(
            f"{type(frame).__name__} is no table: expected a path, a data frame of pandas or polars, or a mapping of names "
            "to columns"
        )
    columns = []
    for name in names:
        column = frame[name]
        values = column.tolist() if hasattr(column, "tolist") else list(column)
        cells = [_cell(str(name), row, value) for row, value in enumerate(values)]
        columns.append((str(name), json.dumps(cells)))
    return columns


def _cell(name: str, row: int, value: Any) -> Any:
    """Returns a value of a data frame as JSON has it: None where it is missing."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType") or isinstance(value, float) and value != value:
        return None
    if isinstance(value, (bool, int, str, list, dict)):
        return value
    if isinstance(value, float):
        if value in (float("inf"), float("-inf")):
            raise ConfigError(f"column {name}, row {row}: {value}, expected a finite number")
        return value
    raise ConfigError(f"column {name}, row {row}: {value!r}, expected a number, a text, a list or a dict")


def coco(
    images: _PathLike,
    annotations: _PathLike,
    *,
    keep_category_ids: bool = False,
    skip_crowds: bool = False,
    without_empty: bool = False,
) -> Dataset:
    """Opens images and a JSON file of COCO's format with the boxes, classes, masks and keypoints of their objects.

    A folder in COCO's layout is opened by its name, without this function: it is for images in another folder, and for
    these options.

    Args:
        images: The folder that the paths in the file are relative to.
        annotations: The file, such as ``"instances_train2017.json"``.
        keep_category_ids: Classes keep the numbers of the file: COCO's 80 categories have ids from 1 to 90. By default they
            are numbered from 0, in the order of their ids.
        skip_crowds: Leaves out objects with ``iscrowd``, which are regions of many.
        without_empty: Leaves out images in which no box has both sides longer than 1 pixel, as torchvision's references do
            for training.

    >>> train = fl.sources.coco("train2017", "annotations/instances_train2017.json", skip_crowds=True)  # doctest: +SKIP
    """
    names = {"keep_category_ids": keep_category_ids, "skip_crowds": skip_crowds, "without_empty": without_empty}
    options = {name: bool(value) for name, value in names.items()}
    return _annotated("coco", [_path("images", images), _path("annotations", annotations)], options)


def voc(
    path: _PathLike,
    *,
    image_set: str | None = None,
    classes: Sequence[str] | None = None,
    keep_coordinates: bool = False,
) -> Dataset:
    """Opens a folder in Pascal VOC's format: images, and an XML file of the same name for each.

    Args:
        path: The folder, with ``JPEGImages`` and ``Annotations``, with ``images`` and ``annotations``, or with both kinds of
            files.
        image_set: Opens the images that a file in ``ImageSets/Main`` lists, in its order: ``"train"`` is ``train.txt``. By
            default all images that have annotations.
        classes: The names of the classes, in the order of their numbers. By default those of the objects, in the order of
            their names, which differ between two sets if one lacks a class.
        keep_coordinates: Boxes have the numbers of the file, as in torchvision. By default 1 is subtracted from ``xmin``
            and ``ymin``, as in Detectron2: the file counts pixels from 1.

    >>> train = fl.sources.voc("VOCdevkit/VOC2012", image_set="train")  # doctest: +SKIP
    """
    if image_set is not None and not isinstance(image_set, str):
        raise ConfigError(f"image_set is {image_set!r}, expected a name, such as 'train'")
    options = {"image_set": image_set, "classes": _name_list(classes), "keep_coordinates": bool(keep_coordinates)}
    return _annotated("voc", [_path("path", path)], options)


def yolo(
    path: _PathLike,
    *,
    classes: Sequence[str] | None = None,
    keypoints: tuple[int, int] | None = None,
    exif_orientation: bool = True,
) -> Dataset:
    """Opens a folder in YOLO's format, as Ultralytics and Roboflow write it: images, and a text file of the same name for
    each.

    Args:
        path: A folder with ``images`` and ``labels``, or a folder of images below ``images``
            (``"coco128/images/train2017"``).
        classes: The names of the classes, in the order of their numbers. By default those of ``data.yaml`` or
            ``classes.txt``.
        keypoints: The number of keypoints of each object, and of the values of each: 2, or 3 with the visibility. By default
            ``kpt_shape`` of ``data.yaml``.
        exif_orientation: Labels are fractions of the upright picture, as for Ultralytics; False takes them as fractions of the
            stored pixels. A loader of images that are turned needs the same ``exif_orientation``.

    >>> train = fl.sources.yolo("helmets/images/train", classes=["helmet", "vest"])  # doctest: +SKIP
    """
    if keypoints is not None:
        if not isinstance(keypoints, (tuple, list)) or len(keypoints) != 2:
            raise ConfigError(f"keypoints is {keypoints!r}, expected their number and that of their values: (17, 3)")
        keypoints = (_whole("keypoints", keypoints[0], 1), _whole("keypoints: values", keypoints[1], 1))
    options = {"classes": _name_list(classes), "keypoints": keypoints, "exif_orientation": bool(exif_orientation)}
    return _annotated("yolo", [_path("path", path)], options)


def masks(images: _PathLike, masks: _PathLike) -> Dataset:
    """Opens the images in a folder, and for each the mask of the same name in another folder, such as ``images/a/1.jpg`` and
    ``masks/a/1.png``. The fields are ``image`` and ``mask``, whose values are numbers of classes.

    A folder with ``images`` and ``masks``, or with ``JPEGImages`` and ``Annotations``, is opened by its name, without this
    function: it is for folders with other names, and for one of several resolutions, as DAVIS 2016 has them.

    Args:
        images: The folder of the images.
        masks: The folder of the masks: PNGs, lossless WebPs or TIFFs.

    >>> davis = fl.sources.masks("DAVIS/JPEGImages/480p", "DAVIS/Annotations/480p")  # doctest: +SKIP
    """
    return _annotated("masks", [_path("images", images), _path("masks", masks)], {})


def _annotated(kind: str, paths: list[str], options: dict[str, Any]) -> Dataset:
    return _remade(_fuseloop.open_annotated(kind, paths, options), _annotated, kind, paths, options)


def _path(name: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(f"{name} is {path!r}, expected a path")
    return os.fspath(path)


def _name_list(classes: Any) -> list[str] | None:
    """Returns the names of classes in the order of their numbers."""
    if classes is None:
        return None
    if isinstance(classes, Mapping):
        classes = [classes.get(number) for number in range(len(classes))]
    if isinstance(classes, str) or not isinstance(classes, Sequence) or not all(isinstance(name, str) for name in classes):
        raise ConfigError(f"classes is {classes!r}, expected names in the order of their numbers, from 0")
    return list(classes)


def tar(name: str, fields: Mapping[str, tuple[str, str]] | None = None) -> Dataset | Stream:
    """Opens tar shards of WebDataset, such as ``"train-{000..255}.tar"``.

    Args:
        name: The shards. Packed ones (``.tar.gz``, ``.tar.zst``) are a :class:`Stream`.
        fields: For each field the extensions that may have it, and its kind: ``{"image": ("jpg;png", "image"), "label":
            ("cls", "int")}``. Kinds are ``"image"``, ``"int"``, ``"float"``, ``"bytes"``, ``"json"`` and ``"array"``.
            By default each extension of the first sample is a field.
    """
    wanted = []
    for field, request in (fields or {}).items():
        if not isinstance(request, tuple) or len(request) != 2:
            raise ConfigError(
                f"field {field}: {request!r}, expected extensions and a kind, such as ('jpg;png', 'image')"
            )
        wanted.append((field, *map(str, request)))
    return _named(_fuseloop.open_tar, tar, name, wanted, fields, (".tar.gz", ".tgz", ".tar.zst"))


def tfrecord(name: str, features: Mapping[str, str | tuple[str, int]] | None = None) -> Dataset | Stream:
    """Opens TFRecord files of ``tf.train.Example``, such as ``"train-*-of-01024"``.

    Args:
        name: The files. Packed ones (``.gz``) are a :class:`Stream`.
        features: The features that are read, and their types: ``"image"``, ``"bytes"``, ``"int"``, ``"float"``;
            ``("ints", 4)`` and ``("floats", 4)`` for arrays; ``"ints"`` and ``"floats"`` for any number of values, as
            bytes. By default those of the first record.
    """
    wanted = []
    for feature, kind in (features or {}).items():
        word, count = (kind, None) if isinstance(kind, str) else kind
        wanted.append((feature, word, None if count is None else _whole(f"feature {feature}", count, 1)))
    return _named(_fuseloop.open_tfrecord, tfrecord, name, wanted, features, (".gz",))


def lerobot(
    path: _PathLike,
    *,
    delta_timestamps: Mapping[str, Sequence[float]] | None = None,
    episodes: Sequence[int] | None = None,
    tolerance_s: float = 1e-4,
) -> Dataset:
    """Opens a dataset of LeRobot, version 3: a folder with ``meta/info.json``. A sample is a row, which is a frame of an
    episode.

    Cameras are fields of images, ``[N, C, H, W]`` in a batch, and the columns of the Parquet files fields of arrays and
    numbers; ``task`` is the text of the task, as bytes. The names are the keys of the features. With ``delta_timestamps``
    the frames of a camera are ``[N, T, C, H, W]``, arrays ``[N, T, D]``, numbers ``[N, T]``, and ``KEY_is_pad`` is
    ``[N, T]``: 1 where a time is outside of the episode, and its first or last row is taken. Ops draw once for all
    frames that a sample has of a camera. A loader leaves fields out by ``without``, and then does not decode their files.

    Args:
        path: The folder.
        delta_timestamps: The seconds before (less than 0) or after a row at which a feature has its frames or values,
            as for ``LeRobotDataset``. They are multiples of the time of a frame. A feature without them has the value of
            the row.
        episodes: The episodes that are read, in the order of the dataset; by default all. Files of other episodes may be
            missing.
        tolerance_s: The seconds by which these times may differ from multiples of the time of a frame, and frames from
            the times of their rows.

    >>> import fuseloop as fl
    >>> from fuseloop import ops
    >>> top = "observation.images.top"
    >>> robot = fl.sources.lerobot(example_robot(), delta_timestamps={top: [-0.1, 0.0], "action": [0.0, 0.1, 0.2]})
    >>> loader = fl.Loader(robot, batch_size=4, without=["observation.still"], ops={top: [ops.ToChannelsFirst()]})
    >>> batch = next(iter(loader))
    >>> batch[top].numpy().shape, batch["action"].numpy().shape, batch["action_is_pad"].numpy().shape
    ((4, 2, 3, 32, 48), (4, 3, 2), (4, 3))
    """
    deltas = []
    for key, seconds in dict(delta_timestamps or {}).items():
        if isinstance(seconds, str) or not isinstance(seconds, Iterable):
            raise ConfigError(f"delta_timestamps of {key} are {seconds!r}, expected a list of seconds")
        try:
            deltas.append((str(key), [float(each) for each in seconds]))
        except (TypeError, ValueError):
            raise ConfigError(f"delta_timestamps of {key} are {seconds!r}, expected a list of seconds") from None
    chosen = None if episodes is None else [_whole("episodes: a number", number) for number in episodes]
    return _lerobot(os.fspath(path), deltas, chosen, float(tolerance_s))


def _lerobot(
    path: str, deltas: list[tuple[str, list[float]]], episodes: list[int] | None, tolerance_s: float
) -> Dataset:
    arguments = (path, deltas, episodes, tolerance_s)
    return _remade(_fuseloop.open_lerobot(*arguments), _lerobot, *arguments)


def mds(path: _PathLike, *, split: str | None = None, cache_bytes: int | str | None = None) -> Dataset:
    """Opens the MDS shards of mosaicml-streaming: a folder with ``index.json``, or its address.

    Each column is a field; a list of images is a field for each of them, such as ``frames_0`` and ``frames_1``. Samples are
    read in any order, which is that of the loader and not that of ``StreamingDataset``.

    Args:
        path: The folder, ``index.json`` itself, or an address, such as ``"s3://bucket/train"``.
        split: Opens this folder in the folder, such as ``"train"``.
        cache_bytes: The bytes that shards packed with zstd or gzip may take unpacked, such as ``"8GiB"``; 2 GiB by default.
            Beyond them, the shard that was read least recently is given up, and unpacked again when it is needed.
    """
    if split is not None:
        check_split(split)
        path = f"{os.fspath(path).rstrip('/')}/{split}"
    name = os.fspath(path)
    most = None if cache_bytes is None else _bytes("cache_bytes", cache_bytes)
    return _mds(name, most)


def _mds(name: str, cache_bytes: int | None) -> Dataset:
    return _remade(_fuseloop.open_mds(name, cache_bytes), _mds, name, cache_bytes)


def _named(
    call: Callable[..., Dataset],
    remake: Callable[..., Dataset],
    name: str,
    wanted: list[Any],
    given: Any,
    packed: tuple[str, ...],
) -> Dataset | Stream:
    text = os.fspath(name)
    last = [part for part in text.split("::") if part] or [text]
    is_packed = last[-1].lower().endswith(packed)
    core = call(text, wanted, is_packed)
    recipe = (remake, (text, given))
    return Dataset.__new__(Stream, core, recipe) if is_packed else Dataset(core, recipe)


def _opened(dataset: Any) -> Dataset:
    if isinstance(dataset, (str, os.PathLike)):
        return opened(dataset)
    if _arrow.class_of(dataset) is not None:
        return from_datasets(dataset)
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"a dataset is a path or a fuseloop.Dataset, not {type(dataset).__name__}: see from_python for datasets of "
            "other libraries"
        )
    return dataset


def _all_opened(datasets: Iterable[Any]) -> list[Dataset]:
    if isinstance(datasets, (str, os.PathLike, Dataset)):
        raise ConfigError(f"{datasets!r} is one dataset, expected a list of them")
    return [_opened(dataset) for dataset in datasets]


def concat(datasets: Iterable[_PathLike | Dataset]) -> Dataset:
    """Joins datasets with the same fields one after another. Their samples are read in any order: for streams, see
    :meth:`Stream.concat`. Names of tar shards or TFRecord files are one dataset, as with ``::`` between them.

    By the names of their classes, one number must mean one class in all of them: open folders and tables with the same
    ``classes``."""
    if not isinstance(datasets, (str, os.PathLike, Dataset)):
        datasets = list(datasets)
        names = [os.fspath(name) for name in datasets if isinstance(name, (str, os.PathLike))]
        shards = _fuseloop.shards(names) if len(names) == len(datasets) > 1 else None
        if shards is not None:
            recipe = (concat, (names,))
            return Dataset.__new__(Stream, shards, recipe) if shards.is_stream else Dataset(shards, recipe)
    parts = _all_opened(datasets)
    return _remade(_fuseloop.join(parts), concat, parts)


def zip(*datasets: _PathLike | Dataset) -> Stream:
    """Joins the samples of datasets side by side, to the end of the shortest. No two may have a field of the same
    name."""
    return _stream("zip", _all_opened(datasets), {})


# Streams


def _stream(op: str, parts: Sequence[Dataset], options: dict[str, Any]) -> Stream:
    core = _fuseloop.stream(op, list(parts), options)
    return Dataset.__new__(Stream, core, (_stream, (op, list(parts), options)))


class Stream(Dataset):
    """Samples in sequence, as in tf.data: each method returns another stream.

    Where samples can be read in any order, a stream has references to them: the loader's threads read them, and a
    shuffle buffer holds no images. A stream of functions is pickled if the functions are, so no lambda may be among
    them.

    Args:
        dataset: The dataset whose samples are streamed, in its order.

    >>> from fuseloop import sources
    >>> stream = sources.Stream(example_dataset()).skip(4).take(10).with_epoch(100)
    """

    def __new__(cls, dataset: _PathLike | Dataset) -> Stream:
        return _stream("of", [_opened(dataset)], {})

    def _then(self, op: str, **options: Any) -> Stream:
        return _stream(op, [self], options)

    def shuffle(self, buffer_size: int) -> Stream:
        """Shuffles in a buffer of this many items, in a different order in each pass."""
        return self._then("shuffle", buffer_size=_whole("buffer_size", buffer_size))

    def repeat(self, times: int | None = None) -> Stream:
        """Repeats the stream; None repeats it without end."""
        return self._then("repeat", times=None if times is None else _whole("times", times))

    def take(self, items: int) -> Stream:
        """Yields at most the first items."""
        return self._then("take", items=_whole("items", items))

    def skip(self, items: int) -> Stream:
        """Leaves out the first items."""
        return self._then("skip", items=_whole("items", items))

    def with_epoch(self, items: int) -> Stream:
        """Yields exactly this many items in every epoch: the stream is cut or repeated."""
        return self._then("with_epoch", items=_whole("items", items))

    def prefetch(self, items: int) -> Stream:
        """Reads up to this many items ahead, on a thread."""
        return self._then("prefetch", items=_whole("items", items))

    def filter(self, keep: Callable[[dict[str, Any]], object]) -> Stream:
        """Yields only the items for which ``keep`` is true. It gets the values by field, and is called for one item
        after another."""
        return self._then("filter", function=_function("keep", keep))

    def map(self, function: Callable[[dict[str, Any]], Any], fields: Mapping[str, Any] | None = None) -> Stream:
        """Replaces each item by the result of ``function``, which gets the values by field and returns such values. It
        may be called several times for an item, by several threads, and must return the same each time.

        ``fields`` are the fields of the result, as in :func:`fuseloop.write.write`; by default those of the stream.
        """
        specs = _specs_by_name(self) if fields is None else fields_of(dict(fields), ())
        given = None if fields is None else specs
        return self._then("map", function=_Mapped(_function("function", function), specs), fields=given)

    def cache_in_memory(self, max_bytes: int | str) -> Stream:
        """Keeps the items of the first whole pass in memory, if they take at most ``max_bytes``, such as ``"8GiB"``."""
        return self._then("cache_in_memory", max_bytes=_bytes("max_bytes", max_bytes))

    def cache_file(self, path: _PathLike, max_bytes: int | str) -> Stream:
        """Keeps the items of the first whole pass in a file, if they take at most ``max_bytes``."""
        return self._then("cache_file", path=os.fspath(path), max_bytes=_bytes("max_bytes", max_bytes))

    def zip(self, *others: _PathLike | Dataset) -> Stream:
        """Joins the items of this stream and others side by side, to the end of the shortest."""
        return _stream("zip", [self, *_all_opened(others)], {})

    def concat(self, *others: _PathLike | Dataset) -> Stream:
        """Continues with other streams."""
        return _stream("concat", [self, *_all_opened(others)], {})

    @staticmethod
    def mix(
        streams: Iterable[_PathLike | Dataset],
        weights: Iterable[float] | None = None,
        *,
        end: Literal["first", "last"] = "first",
    ) -> Stream:
        """Draws each item from one of several streams, by weight; by default all weigh the same. The mix ends with the
        first stream that ends, or with the last."""
        parts = _all_opened(streams)
        shares = [1.0] * len(parts) if weights is None else [float(weight) for weight in weights]
        if len(shares) != len(parts):
            raise ConfigError(f"{len(shares)} weights for {len(parts)} streams")
        if end not in ("first", "last"):
            raise ConfigError(f"end is {end!r}, expected 'first' or 'last'")
        return _stream("mix", parts, {"weights": shares, "end": end})

    @staticmethod
    def interleave(
        streams: Iterable[_PathLike | Dataset],
        *,
        cycle_length: int = 4,
        block_length: int = 1,
        threads: int = 0,
        deterministic: bool = True,
        shuffle: bool = False,
    ) -> Stream:
        """Takes items of a few streams in turn.

        Args:
            streams: The streams, such as one for each shard.
            cycle_length: The number of streams that are open at a time.
            block_length: The number of items that are taken from one before the next has its turn.
            threads: The number of threads that read ahead.
            deterministic: Keeps the order whatever the threads do.
            shuffle: Takes the streams in another order in each pass.
        """
        options = {
            "cycle_length": _whole("cycle_length", cycle_length, 1),
            "block_length": _whole("block_length", block_length, 1),
            "threads": _whole("threads", threads),
            "deterministic": bool(deterministic),
            "shuffle": bool(shuffle),
        }
        return _stream("interleave", _all_opened(streams), options)


def _function(name: str, function: Any) -> Any:
    if not callable(function):
        raise ConfigError(f"{name} is {function!r}, expected a function")
    return function


def _specs_by_name(dataset: Dataset) -> list[Spec]:
    """Returns the fields of a dataset."""
    return fields_of(_specs_of(dataset), ())


class _Mapped:
    """Calls a function of a stream, and makes a row of its result."""

    def __init__(self, function: Callable[[dict[str, Any]], Any], specs: Sequence[Spec]) -> None:
        self._function = function
        self._rows = Rows(specs, read_files=True)

    def __call__(self, values: dict[str, Any]) -> tuple[Any, ...]:
        return self._rows(self._function(values), None)


# Samples from Python


class _Indexed:
    """Reads a row of a dataset of Python."""

    def __init__(self, dataset: Any, rows: Rows) -> None:
        self._dataset, self._rows = dataset, rows

    def __call__(self, index: int) -> tuple[Any, ...]:
        return self._rows(self._dataset[index], index)


def from_python(
    dataset: Any, fields: Mapping[str, Any] | Sequence[str] | None = None, *, name: str | None = None
) -> Dataset:
    """Reads samples from a dataset of Python: of torch, of torchvision, or any object with ``__len__`` and
    ``__getitem__``.

    The loader's threads call ``dataset[i]``, one at a time unless it releases the interpreter's lock, and decode and
    augment in parallel. JPEG files that PIL has opened but not decoded are decoded by the loader, which is faster. For
    training of several epochs, :func:`fuseloop.write.write` is faster still.

    Args:
        dataset: The dataset. The same index must give the same sample: random augmentations belong into the ops.
        fields: The fields, as in :func:`fuseloop.write.write`; by default the first sample tells them.
        name: What errors call the dataset; by default the name of its class.

    >>> import numpy as np
    >>> import fuseloop as fl
    >>> squares = [(np.full((8, 8, 3), n, np.uint8), n) for n in range(10)]
    >>> dataset = fl.sources.from_python(squares)
    >>> loader = fl.Loader(dataset, batch_size=5, image=[fl.ops.Resize((8, 8))])
    >>> [batch["label"].numpy().tolist() for batch in loader]
    [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    """
    if isinstance(dataset, Dataset):
        return dataset
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")) or isinstance(dataset, Mapping):
        raise ConfigError(
            f"{type(dataset).__name__} is no dataset with __len__ and __getitem__: see from_generator, or "
            "fuseloop.write.write for an iterable"
        )
    adapted, names, classes = _adapted(dataset, fields)
    count = len(adapted)
    if count == 0 and not isinstance(names, Mapping):
        raise ConfigError("there are no samples, and fields= does not say what they would be")
    is_typed = isinstance(names, Mapping) and None not in names.values()
    specs = fields_of(names, () if is_typed else adapted[0])
    row = _Indexed(adapted, Rows(specs, read_files=True, all_names=fields is None))
    label = type(dataset).__name__ if name is None else name
    core = _fuseloop.python_dataset(row, specs, count, label, _class_list(classes, specs))
    return _remade(core, _from_python, dataset, fields, name)


def _from_python(dataset: Any, fields: Any, name: str | None) -> Dataset:
    return from_python(dataset, fields, name=name)


def from_arrays(*, classes: Sequence[str] | None = None, **arrays: Any) -> Dataset:
    """Takes arrays in memory as a dataset: the samples are along the first axis of each. Unlike with :func:`from_python`,
    no call of Python reads a sample. ``fl.Loader((x, y), ...)`` and ``fl.Loader({"image": x, "label": y}, ...)`` do the
    same.

    The arrays are not copied, and the dataset keeps them alive. Do not write to them while a loader reads them: a sample
    may then have old values, new ones, or some of each. Where a sample's elements do not lie in the order of rows, or
    their bytes are swapped, the array is copied once, with a warning. Numbers are copied: 8 bytes a sample.

    Args:
        classes: The names of the classes, in the order of their numbers.
        arrays: An array of NumPy, a tensor of torch on the CPU, a list of bytes, or what NumPy makes an array of, for each
            field. Whole numbers and floats ``[N]`` are numbers, such as labels; bytes ``[N, H, W, 3]`` are RGB images;
            a list of the bytes of JPEG, PNG and other image files are images, and of other bytes or texts are bytes; all
            others are arrays.

    >>> import numpy as np
    >>> import fuseloop as fl
    >>> images, labels = np.zeros((10, 8, 8, 3), np.uint8), np.arange(10)
    >>> dataset = fl.sources.from_arrays(image=images, label=labels)
    >>> loader = fl.Loader(dataset, batch_size=5, image=[fl.ops.Resize((4, 4))])
    >>> [batch["label"].numpy().tolist() for batch in loader]
    [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    """
    return _from_arrays(arrays, _name_list(classes))


def _from_arrays(arrays: dict[str, Any], classes: list[str] | None) -> Dataset:
    columns = [(name, *_column(name, given)) for name, given in arrays.items()]
    pairs = None if classes is None else list(enumerate(classes))
    return _remade(_fuseloop.arrays_dataset(columns, pairs), _from_arrays, arrays, classes)


def from_datasets(dataset: Any, *, split: str | None = None) -> Dataset:
    """Takes a ``datasets.Dataset`` of Hugging Face as a dataset. Unlike with :func:`from_python`, no call of Python reads a
    sample: columns are read in the memory of Arrow that ``datasets`` has mapped. ``fl.Loader(ds, ...)`` does the same.

    Fields and values are those of the same rows in Parquet: features ``Image`` are images, ``ClassLabel`` are numbers with
    names, ``objects`` with ``bbox`` are boxes. An image without bytes is read from its path. ``select``, ``shuffle``,
    ``filter`` and ``train_test_split`` are followed, and so are the ``columns`` of ``set_format``; its type is not needed. A
    transform (``set_transform``) is refused: ops of the loader replace it.

    Args:
        dataset: The ``datasets.Dataset``, or a ``DatasetDict``.
        split: The split of a ``DatasetDict`` that has several.

    >>> cats = fl.sources.from_datasets(datasets.load_dataset("org/cats"), split="train")  # doctest: +SKIP
    """
    one = _arrow.one_split(dataset, split)
    return _remade(_arrow.opened(one), from_datasets, one)


def _in_memory(given: Any) -> Dataset | None:
    """Returns the dataset of arrays by their names, or of one or several whose kinds name them; None for other things."""
    if isinstance(given, Mapping):
        is_named = all(isinstance(name, str) for name in given)
        return _from_arrays(dict(given), None) if is_named and any(map(_is_column, given.values())) else None
    arrays = given if isinstance(given, tuple) else (given,)
    if not any(map(_is_column, arrays)):
        return None
    names = _names([_word(array) for array in arrays])
    return _from_arrays({name: arrays[n] for n, name in enumerate(names)}, None)


def _is_array(given: Any) -> bool:
    """True for an array of NumPy and a tensor of torch."""
    return any(
        base.__name__ in ("ndarray", "Tensor") and base.__module__.partition(".")[0] in ("numpy", "torch")
        for base in type(given).__mro__
    )


def _is_column(given: Any) -> bool:
    """True for the values of a field: an array, or a list of bytes."""
    return _is_array(given) or _is_list_of_bytes(given)


def _is_list_of_bytes(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and isinstance(given[0], (bytes, bytearray))


def _word(given: Any) -> str:
    """Returns the kind of values that have no name: image, int (which is called label), float, bytes or array."""
    if _is_list_of_bytes(given):
        return "image" if _is_image_file(bytes(given[0][:18])) else "bytes"
    axes = getattr(given, "ndim", 1)
    if axes > 1:
        return "image" if axes > 2 else "array"
    return "float" if "float" in str(getattr(given, "dtype", type(next(iter(given), 0)).__name__)) else "int"


# What ops read, and what images are often stored as by mistake.
_IMAGE_DTYPES = ("uint8", "uint16", "int16", "float16", "float32", "bool")


def _column(name: str, given: Any) -> tuple[str, str, Any]:
    """Returns the kind of a column, the type of its elements, and its values."""
    import numpy

    if isinstance(given, numpy.ndarray) and given.dtype.kind == "O":
        given = given.tolist()
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], (bytes, bytearray, str)):
        return _bytes_column(name, given)
    array = _numpy_array(name, given)
    if array.ndim == 0 or array.dtype.kind not in "biufc":
        raise ConfigError(f"{name} has {array.ndim} axes of {array.dtype}, expected numbers with at least 1 axis")
    if array.ndim == 1 and array.dtype.kind != "c":
        if array.dtype.kind == "u" and array.size and int(array.max()) >= 1 << 63:
            raise ConfigError(f"{name}: {array.max()} is over the largest int64, which numbers are")
        is_float = array.dtype.kind == "f"
        return "floats" if is_float else "ints", "", numpy.ascontiguousarray(array, "=f8" if is_float else "=i8")
    is_picture = array.ndim == 4 and (array.shape[-1] in (1, 3, 4) or array.shape[1] in (1, 3, 4))
    if (is_picture or name == "image" and array.ndim > 2) and array.dtype.name not in _IMAGE_DTYPES:
        whole = array.dtype.kind in "iu"
        if isinstance(given, numpy.ndarray):
            kind, cure = "ndarray", f"{name}.astype('{'uint8' if whole else 'float32'}')"
        else:
            kind, cure = type(given).__name__, f"{name}.to(torch.uint8)" if whole else f"{name}.float()"
        raise ConfigError(
            f"{name}: {kind} of {array.dtype} and shape {array.shape}, expected images of uint8 (0 to 255), uint16, int16, "
            f"float16 or float32: convert them once, such as {cure}"
        )
    native = array.dtype.newbyteorder("<")
    if len(array) and (array.dtype != native or not array[0].flags.c_contiguous):
        _warn(
            f"{name} is copied ({array.nbytes} bytes): the elements of a sample do not lie in the order of rows, or their "
            f"bytes are swapped. numpy.ascontiguousarray(x, x.dtype.newbyteorder('<')) makes such an array once"
        )
        array = numpy.ascontiguousarray(array, native)
    return "array", native.str, array


def _bytes_column(name: str, values: Sequence[Any]) -> tuple[str, str, Any]:
    """Returns the column of a list of bytes or texts. Bytes stay where they are; others are copied."""
    of_bytes = [value.encode() if isinstance(value, str) else value for value in values]
    wrong = next((n for n, value in enumerate(of_bytes) if not isinstance(value, (bytes, bytearray))), None)
    if wrong is not None:
        raise ConfigError(f"{name}[{wrong}] is of type {type(of_bytes[wrong]).__name__}, expected bytes as the first")
    is_files = any(_is_image_file(bytes(value[:18])) for value in of_bytes[:8])
    return "files" if is_files else "bytes", "", of_bytes


def _numpy_array(name: str, given: Any) -> Any:
    import numpy

    if isinstance(given, numpy.ma.MaskedArray):
        raise ConfigError(f"{name} is a masked array, whose mask would be lost: give {name}.filled(VALUE)")
    if not _is_array(given) or isinstance(given, numpy.ndarray):
        try:
            return numpy.asarray(given)
        except ValueError as error:
            raise ConfigError(
                f"{name}: NumPy makes no array of it ({error}): give images of several sizes as a list of the bytes of "
                "their files, or see from_python"
            ) from None
    if given.device.type != "cpu":
        raise ConfigError(f"{name} is on {given.device}, expected a tensor on the CPU: give {name}.cpu()")
    try:
        return given.detach().numpy()
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f"{name}: a tensor of {given.dtype} is no array of NumPy ({error}): give {name}.float()") from None


class _Generated:
    """Makes the row of a sample of an epoch."""

    def __init__(self, function: Callable[[int, int], Any], rows: Rows) -> None:
        self._function, self._rows = function, rows

    def __call__(self, epoch: int, sample: int) -> tuple[Any, ...]:
        return self._rows(self._function(epoch, sample), sample)


def from_generator(
    f: Callable[[int, int], Any],
    fields: Mapping[str, Any] | Sequence[str] | None,
    samples: int,
    *,
    producers: int = 4,
    capacity: int = 64,
    name: str = "generator",
) -> Dataset:
    """Makes samples by a function, ahead of the loader.

    Args:
        f: Returns the sample of an epoch and a number: ``f(epoch, sample)``. Batches are the same for any number of
            producers if its result depends on these two alone.
        fields: The fields, as in :func:`fuseloop.write.write`; if None, ``f(0, 0)`` tells them.
        samples: The number of samples of an epoch.
        producers: The number of threads that call ``f``.
        capacity: The most samples that are made and not yet taken.
        name: What errors call the dataset.
    """
    function, count = _function("f", f), _whole("samples", samples, 1)
    threads = (_whole("producers", producers, 1), _whole("capacity", capacity, 1))
    is_typed = isinstance(fields, Mapping) and None not in fields.values()
    specs = fields_of(fields, () if is_typed else function(0, 0))
    row = _Generated(function, Rows(specs, read_files=True, all_names=fields is None))
    core = _fuseloop.generated_dataset(row, specs, count, threads, name)
    return _remade(core, _from_generator, f, fields, count, threads, name)


def _from_generator(f: Any, fields: Any, samples: int, threads: tuple[int, int], name: str) -> Dataset:
    producers, capacity = threads
    return from_generator(f, fields, samples, producers=producers, capacity=capacity, name=name)


# Remote objects


def set_remote(
    *,
    max_requests: int | None = None,
    requests_per_second: int | None = None,
    retry_budget: float | None = None,
    hedge_budget: float | None = None,
    cache_dir: _PathLike | None = None,
    cache_bytes: int | str | None = None,
) -> None:
    """Sets how this process reads remote objects that are opened from now on.

    An argument that is left out has the value of its variable in the environment, such as ``FUSELOOP_MAX_REQUESTS``, which
    also reaches the processes that this one starts. Budgets are per host: per bucket, or per host of a web address.

    Args:
        max_requests: Maximum number of requests in flight to a host, by default without a maximum.
        requests_per_second: Maximum number of requests per second to a host, by default without a maximum.
        retry_budget: The number of retries per request, by default 0.2. The first hundred retries, and one per second,
            are always allowed.
        hedge_budget: The number of hedges per request, by default 0: a range that takes longer than 95 % of recent ones
            is requested a second time, the first answer is used, and the other request is cancelled.
        cache_dir: The folder of a cache that all processes of a machine may share, by default none.
        cache_bytes: Maximum size of the cache, such as ``"500GB"``.

    >>> import fuseloop as fl
    >>> fl.sources.set_remote(max_requests=32, hedge_budget=0.05)
    """
    given: dict[str, Any] = {}
    if max_requests is not None:
        given["max_requests"] = _whole("max_requests", max_requests, 1)
    if requests_per_second is not None:
        given["requests_per_second"] = _whole("requests_per_second", requests_per_second, 1)
    for name, budget in (("retry_budget", retry_budget), ("hedge_budget", hedge_budget)):
        if budget is not None:
            if not isinstance(budget, (int, float)) or not 0 <= budget <= 1:
                raise ConfigError(f"{name} is {budget!r}, expected a share from 0 to 1")
            given[name] = float(budget)
    if cache_dir is not None:
        given["cache_dir"] = os.fspath(cache_dir)
    if cache_bytes is not None:
        given["cache_bytes"] = _bytes("cache_bytes", cache_bytes)
    _fuseloop.set_remote(given)


@dataclass(frozen=True)
class RemoteStats:
    """What this process has requested of remote objects so far.

    Attributes:
        requests: The number of requests, retries and hedges included.
        bytes: The number of bytes of objects that arrived and were used.
        retries: The number of requests that were sent again because one failed.
        hedges: The number of second requests for ranges that were late.
        hedges_won: The number of hedges whose answer came first.
        cached_bytes: The number of bytes read from the folder of the cache.
        awaited_blocks: The number of blocks that another process, or another thread, fetched while this one waited.
    """

    requests: int
    bytes: int
    retries: int
    hedges: int
    hedges_won: int
    cached_bytes: int
    awaited_blocks: int


def remote_stats() -> RemoteStats:
    """Returns what this process has requested of remote objects so far.

    >>> import fuseloop as fl
    >>> fl.sources.remote_stats().hedges
    0
    """
    return RemoteStats(**_fuseloop.remote_stats())
