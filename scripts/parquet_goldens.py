"""Writes the Parquet files of tests/golden/parquet, and what pyarrow and `datasets` read from them.

pip install datasets==5.2.0 pyarrow pillow; python3 scripts/parquet_goldens.py
"""

import io
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Array2D, ClassLabel, Dataset, Features, List, Value
from datasets import Image as HubImage
from PIL import Image

OUT = Path(__file__).parent.parent / "tests/golden/parquet"
NAMES = ["bird", "cat", "dog"]
ROWS = 24
draw = random.Random(0)


def image(index: int) -> bytes:
    side = 8 + index % 3
    pixels = bytes(draw.randrange(256) for _ in range(side * side * 3))
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), pixels).save(file, "PNG" if index % 5 == 0 else "JPEG", quality=60)
    return file.getvalue()


IMAGES = [image(index) for index in range(ROWS)]


def shown(value):
    """Returns a value as JSON: bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: shown(inner) for key, inner in value.items()}
    return [shown(inner) for inner in value] if isinstance(value, list) else value


def plain() -> None:
    table = pa.table(
        {
            "jpg": pa.array([None if i == 7 else IMAGES[i] for i in range(ROWS)], pa.binary()),
            "class": pa.array([NAMES[i % 3] for i in range(ROWS)]).dictionary_encode(),
            "width": pa.array([8 + i % 3 for i in range(ROWS)], pa.int32()),
            "score": pa.array([None if i % 5 == 0 else i / 7 for i in range(ROWS)], pa.float64()),
            "flag": pa.array([i % 2 == 0 for i in range(ROWS)]),
            "small": pa.array([200 + i for i in range(ROWS)], pa.uint8()),
            "half": pa.array([i / 2 for i in range(ROWS)], pa.float16()),
            "time": pa.array([i * 1000 for i in range(ROWS)], pa.timestamp("us")),
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array([float(i) for i in range(4 * ROWS)], pa.float32()), 4),
            "tokens": pa.array([list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int64())),
            "grid": pa.array([None if i == 3 else [[i, 1], [2, 3], [4, 5]] for i in range(ROWS)], pa.list_(pa.list_(pa.int16()))),
            "ragged": pa.array([[[1] * j for j in range(i % 3)] for i in range(ROWS)], pa.list_(pa.list_(pa.int32()))),
            "tags": pa.array([["a", None][: i % 3] for i in range(ROWS)], pa.list_(pa.string())),
            "meta": pa.array([{"a": i, "b": str(i)} for i in range(ROWS)]),
            "extra": pa.array([[("k", i)] for i in range(ROWS)], pa.map_(pa.string(), pa.int64())),
        }
    )
    columns = {name: shown(table[name].to_pylist()) for name in table.column_names if name not in ("time", "extra")}
    columns["time"] = [i * 1000 for i in range(ROWS)]
    columns["extra"] = [{"k": i} for i in range(ROWS)]
    (OUT / "plain.json").write_text(json.dumps(columns, indent=0) + "\n")
    small = {"row_group_size": 10, "data_page_size": 256, "write_batch_size": 3}
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        pq.write_table(table, OUT / f"plain-{codec}.parquet", compression=codec, **small)
    lists = ["embedding.list.element", "tokens.list.element"]
    encodings = {"width": "DELTA_BINARY_PACKED", "score": "BYTE_STREAM_SPLIT", "jpg": "DELTA_LENGTH_BYTE_ARRAY"}
    encodings |= {"class": "DELTA_BYTE_ARRAY", lists[0]: "BYTE_STREAM_SPLIT", lists[1]: "DELTA_BINARY_PACKED"}
    decoded = table.set_column(1, "class", table["class"].cast(pa.string()))
    pq.write_table(
        decoded, OUT / "plain-v2.parquet", compression="snappy", use_dictionary=False, column_encoding=encodings,
        data_page_version="2.0", **small,
    )
    pq.write_table(table.slice(0, 0), OUT / "empty.parquet")


def hub() -> None:
    features = Features(
        {
            "image": HubImage(),
            "label": ClassLabel(names=NAMES),
            "caption": Value("string"),
            "objects": List({"bbox": List(Value("float32"), length=4), "category": ClassLabel(names=NAMES), "area": Value("float64")}),
            "depth": Array2D((2, 3), "uint8"),
        }
    )
    rows = [
        {
            "image": {"bytes": IMAGES[i], "path": f"{i:03d}.jpg"},
            "label": i % 3,
            "caption": f"photo number {i}",
            "objects": [{"bbox": [1.0, 2.0, 3.5, j], "category": j % 3, "area": 3.5 * j} for j in range(i % 4)],
            "depth": [[i, 1, 2], [3, 4, 5]],
        }
        for i in range(ROWS)
    ]
    dataset = Dataset.from_list(rows, features=features)
    data = OUT / "hub/data"
    data.mkdir(parents=True, exist_ok=True)
    for shard in range(2):
        part = dataset.select(range(shard * 10, shard * 10 + 10))
        part.to_parquet(data / f"train-{shard:05d}-of-00002.parquet", batch_size=4)
    dataset.select(range(20, ROWS)).to_parquet(data / "test-00000-of-00001.parquet")
    for row, file in zip(rows, IMAGES, strict=True):
        row["image"] = file.hex()
    (OUT / "hub.json").write_text(json.dumps(rows, indent=0) + "\n")


def lists() -> None:
    """Lists of images: those of `datasets`, and binary with nulls, of which a dictionary has each image once."""
    features = Features({"images": List(HubImage()), "label": ClassLabel(names=NAMES)})
    images = [[IMAGES[(i + j) % 8] for j in range(i % 4)] for i in range(10)]
    rows = [
        {"images": None if i == 5 else [{"bytes": file, "path": None} for file in images[i]], "label": i % 3}
        for i in range(10)
    ]
    Dataset.from_list(rows, features=features).to_parquet(OUT / "lists.parquet", batch_size=4)
    views = [[None] if i == 2 else images[i] for i in range(10)]
    table = pa.table({"views": pa.array(views, pa.list_(pa.binary()))})
    options = {"compression": "zstd", "data_page_version": "2.0", "row_group_size": 6, "data_page_size": 256}
    pq.write_table(table, OUT / "lists-binary.parquet", **options)
    images[5] = None
    views[2] = None
    (OUT / "lists.json").write_text(json.dumps({"images": shown_lists(images), "views": shown_lists(views)}, indent=0) + "\n")


def shown_lists(lists):
    return [None if files is None else [file.hex() for file in files] for files in lists]


OUT.mkdir(parents=True, exist_ok=True)
plain()
hub()
lists()
