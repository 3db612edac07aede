"""Writes the dataset of tests/golden/lerobot, and the frames and values that LeRobot selects of it.

pip install lerobot==0.4.4 --no-deps; pip install datasets pandas pyarrow pillow av; python3 scripts/lerobot_goldens.py

The dataset has three episodes of 7, 5 and 6 rows at 10 frames per second, two cameras and a feature of images. The first
two episodes are in one file of data, and in one video file of the first camera; all are in one of the second. The frame of
row n is gray of the level 30 + 10 n for the first camera, and 220 - 10 n for the second; images have the level 5 n.

expected.json has the rows that the methods of `LeRobotDataset` select, taken from its source without PyTorch, and the frames
of the video files that are nearest to the times of these rows, which are found by PyAV: as numbers of frames in the whole
dataset, told by their levels.
"""

import ast
import io
import json
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import av
import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

OUT = Path(__file__).parent.parent / "tests/golden/lerobot"
FPS, HEIGHT, WIDTH = 10, 32, 48
LENGTHS = [7, 5, 6]
STARTS = [0, 7, 12]
TOP, WRIST, STILL = "observation.images.top", "observation.images.wrist", "observation.still"
# The file of each episode: those of the data, and those of the cameras.
DATA_FILES, FILES = [0, 0, 1], {TOP: [0, 0, 1], WRIST: [0, 0, 0]}
LEVELS = {TOP: lambda row: 30 + 10 * row, WRIST: lambda row: 220 - 10 * row}
TASKS = ["Push the T.", "Put it back: «done»"]
DELTAS = {
    TOP: [-0.2, -0.1, 0.0],
    WRIST: [0.0, 0.5],
    STILL: [0.1, -0.1],
    "action": [0.0, 0.1, 0.2, 1.0],
    "reward": [-0.1, 0.0],
    "task_index": [0.1],
}


def video(path: Path, levels: list[int], options: list[str]) -> None:
    frames = b"".join(bytes([level]) * (3 * HEIGHT * WIDTH) for level in levels)
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}", "-r", str(FPS), "-i", "-"]
    to = ["-c:v", "libx264", "-crf", "10", "-pix_fmt", "yuv420p", *options, str(path)]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *source, *to], input=frames, check=True)


def joined(parts: list[Path], out: Path) -> None:
    """Joins videos as LeRobot does: packets are copied."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("".join(f"file '{part}'\n" for part in parts))
        listed.flush()
        command = ["ffmpeg", "-v", "error", "-y", "-f", "concat", "-safe", "0", "-i", listed.name, "-c", "copy", str(out)]
        subprocess.run(command, check=True)


def write_videos() -> None:
    options = {TOP: ["-g", "3", "-bf", "0"], WRIST: ["-g", "4", "-bf", "2"]}
    for key, files in FILES.items():
        for file in sorted(set(files)):
            out = OUT / f"videos/{key}/chunk-000/file-{file:03d}.mp4"
            out.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                parts = []
                for episode in (episode for episode in range(3) if files[episode] == file):
                    rows = range(STARTS[episode], STARTS[episode] + LENGTHS[episode])
                    parts.append(Path(folder, f"{episode}.mp4"))
                    video(parts[-1], [LEVELS[key](row) for row in rows], options[key])
                joined(parts, out)


def columns(rows: range) -> dict:
    episodes = [max(episode for episode in range(3) if STARTS[episode] <= row) for row in rows]
    places = [row - STARTS[episode] for row, episode in zip(rows, episodes)]

    def png(row: int) -> bytes:
        file = io.BytesIO()
        Image.new("RGB", (12, 8), (5 * row,) * 3).save(file, "PNG")
        return file.getvalue()

    return {
        "observation.state": [[row + 0.5, -row, 0.25] for row in rows],
        "action": [[row, row / 8] for row in rows],
        "reward": [row / 4 for row in rows],
        "next.done": [place == LENGTHS[episode] - 1 for place, episode in zip(places, episodes)],
        STILL: [{"bytes": png(row), "path": None} for row in rows],
        "timestamp": [place / FPS for place in places],
        "frame_index": places,
        "episode_index": episodes,
        "index": list(rows),
        "task_index": [episode % 2 for episode in episodes],
    }


def write_tables() -> None:
    floats = datasets.Value("float32")
    ints = ["frame_index", "episode_index", "index", "task_index"]
    features = datasets.Features(
        {
            "observation.state": datasets.List(floats, length=3),
            "action": datasets.List(floats, length=2),
            "reward": floats,
            "next.done": datasets.Value("bool"),
            STILL: datasets.Image(),
            "timestamp": floats,
            **{name: datasets.Value("int64") for name in ints},
        }
    )
    for file in sorted(set(DATA_FILES)):
        own = [episode for episode in range(3) if DATA_FILES[episode] == file]
        rows = range(STARTS[own[0]], STARTS[own[-1]] + LENGTHS[own[-1]])
        table = datasets.Dataset.from_dict(columns(rows), features=features).with_format("arrow")[:]
        path = OUT / f"data/chunk-000/file-{file:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, table.schema, compression="snappy", use_dictionary=True) as writer:
            for episode in own:
                writer.write_table(table.slice(STARTS[episode] - rows[0], LENGTHS[episode]))
    episodes = {
        "episode_index": [0, 1, 2],
        "tasks": [[TASKS[episode % 2]] for episode in range(3)],
        "length": LENGTHS,
        "data/chunk_index": [0, 0, 0],
        "data/file_index": DATA_FILES,
        "dataset_from_index": STARTS,
        "dataset_to_index": [start + length for start, length in zip(STARTS, LENGTHS)],
        "stats/action/mean": [[0.5, 1.0]] * 3,
        "meta/episodes/chunk_index": [0, 0, 0],
        "meta/episodes/file_index": [0, 0, 0],
    }
    for key, files in FILES.items():
        first = [min(STARTS[other] for other in range(3) if files[other] == files[episode]) for episode in range(3)]
        start = [(STARTS[episode] - first[episode]) / FPS for episode in range(3)]
        episodes |= {
            f"videos/{key}/chunk_index": [0, 0, 0],
            f"videos/{key}/file_index": files,
            f"videos/{key}/from_timestamp": start,
            f"videos/{key}/to_timestamp": [begin + length / FPS for begin, length in zip(start, LENGTHS)],
        }
    path = OUT / "meta/episodes/chunk-000/file-000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pydict(episodes), path, compression="snappy")
    pd.DataFrame({"task_index": [0, 1]}, index=TASKS).to_parquet(OUT / "meta/tasks.parquet")
    camera = {"dtype": "video", "shape": [HEIGHT, WIDTH, 3], "names": ["height", "width", "channels"]}
    camera["info"] = {"video.fps": FPS, "video.codec": "h264", "video.is_depth_map": False}

    def feature(dtype: str, shape: list[int], names: object = None) -> dict:
        return {"dtype": dtype, "shape": shape, "names": names}

    info = {
        "codebase_version": "v3.0",
        "robot_type": "none",
        "total_episodes": 3,
        "total_frames": sum(LENGTHS),
        "total_tasks": 2,
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": "0:3"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": {
            TOP: camera,
            WRIST: camera,
            "observation.state": feature("float32", [3], {"motors": ["x", "y", "z"]}),
            "action": feature("float32", [2]),
            "reward": feature("float32", [1]),
            "next.done": feature("bool", [1]),
            STILL: feature("image", [8, 12, 3], ["height", "width", "channels"]),
            "timestamp": feature("float32", [1]),
            **{name: feature("int64", [1]) for name in ints},
        },
    }
    (OUT / "meta/info.json").write_text(json.dumps(info, indent=1) + "\n")


def lerobot_functions() -> dict:
    """Returns the functions of LeRobot that select rows, without the modules that need PyTorch."""
    package = Path(find_spec("lerobot").origin).parent / "datasets"
    wanted = {"check_delta_timestamps", "get_delta_indices", "_get_query_indices"}
    found = {}
    scope = {"torch": SimpleNamespace(BoolTensor=list, Tensor=list)}
    for file in ["utils.py", "lerobot_dataset.py"]:
        for node in ast.walk(ast.parse((package / file).read_text())):
            if isinstance(node, ast.FunctionDef) and node.name in wanted:
                exec(compile(ast.Module([node], []), file, "exec"), scope)
                found[node.name] = scope[node.name]
    assert found.keys() == wanted, found.keys()
    return found


def nearest(path: Path, times: list[float], key: str) -> list[int]:
    """Returns the rows whose frames are nearest to times of a video file."""
    with av.open(str(path)) as container:
        frames = [(float(frame.time), frame.to_ndarray(format="rgb24").mean()) for frame in container.decode(video=0)]
    found = []
    for time in times:
        distance, level = min((abs(own - time), level) for own, level in frames)
        assert distance <= 1e-4, (path, time, distance)
        row = round((level - 30) / 10 if key == TOP else (220 - level) / 10)
        assert abs(LEVELS[key](row) - level) < 3, level
        found.append(row)
    return found


def write_expected() -> None:
    functions = lerobot_functions()
    functions["check_delta_timestamps"](DELTAS, FPS, 1e-4)
    tables = [pq.read_table(path) for path in sorted(OUT.glob("data/*/*.parquet"))]
    rows = {name: sum((table[name].to_pylist() for table in tables), []) for name in columns(range(1))}
    episodes = pq.read_table(OUT / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    indices = functions["get_delta_indices"](DELTAS, FPS)
    dataset = SimpleNamespace(meta=SimpleNamespace(episodes=episodes), delta_indices=indices)
    samples = []
    for index in range(sum(LENGTHS)):
        episode = episodes[rows["episode_index"][index]]
        query, padding = functions["_get_query_indices"](dataset, index, episode["episode_index"])
        sample = {"rows": query, "is_pad": padding, "frames": {}, "alone": {}}
        for key, files in FILES.items():
            number = episode[f"videos/{key}/file_index"]
            path = OUT / f"videos/{key}/chunk-000/file-{number:03d}.mp4"
            start = episode[f"videos/{key}/from_timestamp"]
            times = [start + rows["timestamp"][row] for row in query[key]]
            sample["frames"][key] = nearest(path, times, key)
            sample["alone"][key] = nearest(path, [start + rows["timestamp"][index]], key)
        sample["action"] = [rows["action"][row] for row in query["action"]]
        sample["reward"] = [rows["reward"][row] for row in query["reward"]]
        sample["task_index"] = [rows["task_index"][row] for row in query["task_index"]]
        sample["task"] = TASKS[rows["task_index"][index]]
        sample["state"] = rows["observation.state"][index]
        sample["timestamp"] = float(np.float32(rows["timestamp"][index]))
        samples.append(sample)
    expected = {"deltas": DELTAS, "samples": samples}
    lines = ",\n".join(json.dumps(sample) for sample in samples)
    text = json.dumps(expected | {"samples": []}).replace('"samples": []', f'"samples": [\n{lines}\n]')
    (OUT / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    write_videos()
    write_tables()
    write_expected()
