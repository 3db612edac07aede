"""The Python in the README and in the book runs."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import picture, png

import fuseloop as fl

ROOT = Path(__file__).resolve().parent.parent.parent
BOOK = [
    "gpu.md",
    "loading.md",
    "migration.md",
    "own_ops.md",
    "python.md",
    "python_frameworks.md",
    "python_writing.md",
    "resume_and_ranks.md",
    "sources.md",
    "targets.md",
    "transform.md",
    "video.md",
    "watching.md",
]
# Blocks that import one of these are left out where it is missing.
OPTIONAL = {"albumentations", "datasets", "fastapi", "opentelemetry", "prometheus_client", "timm", "torchvision", "transformers"}
PAGES = ["README.md", *(f"docs/{page}" for page in BOOK)]
AUDIO = ROOT / "tests" / "golden" / "audio"
MNIST = ROOT / "tests" / "golden" / "mnist_cifar" / "mnist"
VIDEO = ROOT / "video" / "tests" / "golden" / "frames" / "high.mp4"


def write_objects(path: Path) -> None:
    """Writes images with two objects each, as they are stored of COCO."""
    pixels = np.full((60, 80, 3), 90, np.uint8)
    boxes = np.array([[5, 5, 30, 20], [40, 10, 25, 40]], "<f4")
    masks = [[[x, y, x + w, y, x + w, y + h, x, y + h]] for x, y, w, h in boxes.tolist()]
    sample = (pixels, boxes.tobytes(), np.array([1, 2], "<i8").tobytes(), masks)
    fields = {"image": "image", "bbox": "bytes", "category_id": "bytes", "segmentation": "json"}
    fl.write.write([sample] * 8, path, fields, image=fl.write.Image("raw"), progress=None)
    objects = [
        {"name": "bbox", "as": "boxes", "format": "xywh"},
        {"name": "category_id", "as": "classes"},
        {"name": "segmentation", "as": "segmentation"},
    ]
    known = {"fuseloop": "objects", "version": 1, "fields": objects}
    path.with_name(f"{path.name}.objects.json").write_text(json.dumps(known, separators=(",", ":")))


def write_videos(root: Path, videos: list[str]) -> None:
    """Writes folders of frames."""
    for number, video in enumerate(videos):
        (root / video).mkdir(parents=True)
        for frame in range(6):
            pixels = picture(100 * number + frame, 120, 160)
            (root / video / f"img_{frame + 1:05}.png").write_bytes(png(pixels))


def write_masks(root: Path) -> None:
    """Writes a video as DAVIS has it: frames, and a mask of each."""
    for kind in ("JPEGImages", "Annotations"):
        (root / kind / "480p" / "bear").mkdir(parents=True)
    for frame in range(6):
        pixels = picture(frame, 120, 160)
        (root / "JPEGImages/480p/bear" / f"{frame:05}.png").write_bytes(png(pixels))
        (root / "Annotations/480p/bear" / f"{frame:05}.png").write_bytes(png(pixels[..., 0] // 100))


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(page: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (ROOT / page).exists():
        pytest.skip("no sources beside the tests")
    if page.endswith(("frameworks.md", "transform.md", "video.md")):
        pytest.importorskip("torch")
    (tmp_path / "photos").mkdir()
    for name in ("train", "more"):
        (tmp_path / "photos" / name).symlink_to(photos)
    (tmp_path / "mnist").symlink_to(MNIST)
    for word, golden in [("yes", "i16.flac"), ("no", "i24.flac")]:
        (tmp_path / "speech" / "train" / word).mkdir(parents=True)
        (tmp_path / "speech" / "train" / word / "1.flac").symlink_to(AUDIO / golden)
    write_objects(tmp_path / "coco.beton")
    write_videos(tmp_path, ["clips/ride/v_0001", "clips/walk/v_0007", "ucf101_frames/ride/v_ride_g08_c01"])
    write_masks(tmp_path / "DAVIS")
    (tmp_path / "videos.csv").write_text(f"path,label,start,end\n{VIDEO},3,0,0.4\n{VIDEO},8,0.4,0.8\n")
    (tmp_path / "ucfTrainTestlist").mkdir()
    (tmp_path / "ucfTrainTestlist" / "trainlist01.txt").write_text("ride/v_ride_g08_c01.avi 1\n")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    names: dict[str, object] = {"train": lambda *_: None}
    left_out = 0
    for block in blocks:
        packages = set(re.findall(r"^(?:import|from) (\w+)", block, re.M)) & OPTIONAL
        # The golden dataset of LeRobot is too small for that of the documentation: test_lerobot.py reads it.
        if any(importlib.util.find_spec(name) is None for name in packages) or '"pusht/"' in block:
            left_out += 1
            continue
        frameworks = [name for name in ("torch", "jax") if f"fl.{name}.Loader(" in block]
        if any(importlib.util.find_spec(name) is None for name in frameworks):
            block = re.sub(r"loader = fl\.\w+\.Loader\(.*", "", block, flags=re.S)
            left_out += 1
        exec(compile(block, page, "exec"), names)  # noqa: S102
    assert left_out < len(blocks) or page == "README.md"
