"""Clips of videos: folders of frames as samples, in the words of Python."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import picture, png

import fuseloop as fl
from fuseloop import ops, write


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three videos of two classes, of 12, 9 and 2 frames."""
    root = tmp_path_factory.mktemp("clips")
    for number, (name, frames) in enumerate({"ride/v1": 12, "ride/v2": 9, "walk/v3": 2}.items()):
        (root / name).mkdir(parents=True)
        for frame in range(frames):
            (root / name / f"img_{frame + 1}.png").write_bytes(png(picture(100 * number + frame, 40, 56)))
    return root


LIST = [ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(0.5), ops.ToChannelsFirst()]


def loader(videos: Path, clips: fl.Clips, **settings) -> fl.Loader:
    return fl.Loader(videos, batch_size=3, video=LIST, clips=clips, **settings)


@pytest.mark.filterwarnings("error")
def test_a_batch_has_clips_labels_and_times(videos: Path) -> None:
    batch = next(iter(loader(videos, fl.Clips.random(4, stride=2, source_fps=10), seed=3)))
    assert batch["video"].numpy().shape == (3, 4, 3, 24, 24)
    assert batch["label"].numpy().tolist() == [0, 0, 1]
    pts = batch["pts"].numpy()
    assert pts.dtype == np.float64 and pts.shape == (3, 4)
    np.testing.assert_allclose(np.diff(pts[:2]), 0.2)
    assert pts[2].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "clips, shape",
    [
        (fl.Clips.random(4, layout="NCTHW"), (3, 3, 4, 24, 24)),
        (fl.Clips.random(4, fps=0.5, source_fps=1), (3, 4, 3, 24, 24)),
        (fl.Clips.regular(4, clips=2, on_short="wrap"), (3, 2, 4, 3, 24, 24)),
        (fl.Clips.segments(4), (3, 4, 3, 24, 24)),
        (fl.Clips.segments(4, middle=True, per_frame=True), (3, 4, 3, 24, 24)),
        (fl.Clips.all(4, range=(0, 8), source_fps=1), (3, 4, 3, 24, 24)),
    ],
)
def test_samplers_have_their_shapes(videos: Path, clips: fl.Clips, shape: tuple[int, ...]) -> None:
    assert next(iter(loader(videos, clips)))["video"].numpy().shape == shape


def test_every_clip_is_a_sample_with_the_index_of_its_video(videos: Path) -> None:
    found = [batch["video_index"].numpy().tolist() for batch in loader(videos, fl.Clips.all(4))]
    assert found == [[0, 0, 0], [1, 1, 1], [2]]


def test_clips_are_the_same_for_any_number_of_workers_and_after_a_resume(videos: Path) -> None:
    def rows(epoch) -> list[bytes]:
        return [batch["video"].numpy().tobytes() for batch in epoch]

    def one(workers: int) -> fl.Loader:
        return loader(videos, fl.Clips.random(4), order="random", indices=[0, 1] * 3, workers=workers)

    first = rows(one(1))
    assert rows(one(3)) == first and len(first) == 2
    half = one(2)
    epoch = iter(half)
    next(epoch)
    rest = one(1)
    rest.load_state_dict(half.state_dict())
    assert rows(rest) == first[1:]


def test_torch_gives_tensors(videos: Path) -> None:
    pytest.importorskip("torch")
    import fuseloop.torch

    clips = fl.Clips.random(frames=4, stride=2)
    video, label, pts = next(iter(fuseloop.torch.Loader(videos, batch_size=2, video=LIST, clips=clips)))
    assert video.shape == (2, 4, 3, 24, 24) and label.tolist() == [0, 0] and pts.shape == (2, 4)


def test_mistakes_are_named(videos: Path) -> None:
    with pytest.raises(fl.errors.ConfigError, match="expected a fuseloop.Clips"):
        loader(videos, 16)  # type: ignore[arg-type]
    with pytest.raises(fl.errors.ConfigError, match="choose them by `indices`"):
        loader(videos, fl.Clips.random(4), filter=lambda column: column["label"] < 1)
    with pytest.raises(fl.errors.FuseloopError, match="a stride of 0 frames"):
        loader(videos, fl.Clips.random(4, stride=0))
    with pytest.raises(fl.errors.FuseloopError, match="expected"):
        loader(videos, fl.Clips.random(4, on_short="loop"))  # type: ignore[arg-type]
    with pytest.raises(fl.errors.FuseloopError, match="given with `stride`"):
        loader(videos, fl.Clips.random(4, stride=2, fps=5))
    with pytest.raises(fl.errors.FuseloopError, match="set `source_fps`"):
        loader(videos, fl.Clips.random(4, fps=5))
    with pytest.raises(fl.errors.FuseloopError, match="`middle` is for segments"):
        loader(videos, fl.Clips("random", 4, middle=True))
    with pytest.raises(fl.errors.FuseloopError, match="nearest frame"):
        loader(videos, fl.Clips("segments", 4, on_short="wrap"))


def test_the_frames_are_called_video(videos: Path) -> None:
    batch = next(iter(loader(videos, fl.Clips.regular(2))))
    assert list(batch.numpy()) == ["video", "label", "pts"]
    named = fl.Loader(videos, batch_size=3, image=LIST, clips=fl.Clips.regular(2, field="video"))
    assert (next(iter(named))["video"].numpy() == batch["video"].numpy()).all()


def test_jax_gives_a_dict_with_the_video(videos: Path) -> None:
    pytest.importorskip("jax")
    import fuseloop.jax

    batch = next(iter(fuseloop.jax.Loader(videos, batch_size=2, video=LIST, clips=fl.Clips.regular(2))))
    assert batch["video"].shape == (2, 2, 3, 24, 24) and batch["pts"].shape == (2, 2)


def test_clips_are_pickled_with_their_loader(videos: Path) -> None:
    one = loader(videos, fl.Clips.random(4, stride=2))
    other = pickle.loads(pickle.dumps(one))
    pairs = zip(one, other, strict=True)
    assert all((a["video"].numpy() == b["video"].numpy()).all() for a, b in pairs)


def test_masks_and_boxes_follow_each_frame(tmp_path: Path) -> None:
    fields = {
        "image": "image", "mask": "image", "bbox": "bytes", "label": "bytes", "video_index": "int", "pts": "float",
    }  # fmt: skip
    # Frame t has t % 3 boxes, of which the first one is painted into the mask.
    rows, expected = [], []
    for t in range(8):
        boxes = np.array([[4 + t, 6, 20, 16], [30, 20, 10 + t, 12]][: t % 3], "<f4").reshape(-1, 4)
        mask = np.zeros((48, 64, 3), np.uint8)
        for x, y, w, h in boxes[:1].astype(int):
            mask[y : y + h, x : x + w] = 5
        labels = np.arange(len(boxes), dtype="<i8") + t
        rows.append((mask + 100, mask, boxes.tobytes(), labels.tobytes(), 4, t / 10))
        expected.append((boxes, mask, labels))
    store = tmp_path / "tracks.beton"
    masks = {"mask": write.Image("mask")}
    write.write(rows, store, fields, image=write.Image("raw"), images=masks, progress=None)
    targets = {"mask": fl.Target.mask(255), "bbox": fl.Target.boxes("xywh"), "label": fl.Target.column()}

    def batch_of(size: int, **settings) -> fl.Batch:
        clips = fl.Clips.regular(4, stride=2)
        crop = [ops.RandomHorizontalFlip(1.0), ops.CenterCrop(size)]
        return next(iter(fl.Loader(store, 1, video=crop, clips=clips, targets={"video": targets}, **settings)))

    batch = batch_of(40)
    video, mask, boxes = batch["video"].numpy(), batch["mask"].numpy(), batch["bbox"]
    assert video.shape == (1, 4, 40, 40, 3) and mask.shape == (1, 4, 40, 40, 1)
    np.testing.assert_array_equal(video[..., :1], mask + 100)
    frames = np.round(batch["pts"].numpy()[0] * 10).astype(int).tolist()
    assert batch["bbox.length"].numpy().tolist() == [[frame % 3 for frame in frames]]
    assert len(boxes) == 1 and len(boxes[0]) == sum(frame % 3 for frame in frames)
    for t, frame in enumerate(frames):
        stored, painted, labels = expected[frame]
        # The middle of the mirror image.
        np.testing.assert_array_equal(mask[0, t, ..., 0], painted[4:44, ::-1][:, 12:52, 0])
        assert boxes.frame(0, t).shape == stored.shape
        assert batch["label"].frame(0, t).tolist() == labels.tolist()
        for (left, top, width, _), (x, y, w, _) in zip(boxes.frame(0, t).tolist(), stored.tolist(), strict=True):
            right = min(64 - x - 12, 40)
            assert (left, top, width) == (max(64 - x - w - 12, 0), y - 4, right - max(64 - x - w - 12, 0))
    with pytest.raises(IndexError, match="no frame 4 of row 0"):
        boxes.frame(0, 4)
    padded = batch_of(40, collate={"bbox": fl.Collate.pad(to=2, fill=-1)})["bbox"].numpy()
    assert padded.shape == (1, 4, 2, 4)
    again = tmp_path / "again.beton"
    write.convert(store, again, videos="frames", image=write.Image("raw"), progress=None)
    other = next(
        iter(
            fl.Loader(
                again, 1, video=[ops.RandomHorizontalFlip(1.0), ops.CenterCrop(40)],
                clips=fl.Clips.regular(4, stride=2), targets={"video": targets},
            )
        )
    )  # fmt: skip
    np.testing.assert_array_equal(other["mask"].numpy(), mask)
    np.testing.assert_array_equal(other["bbox"].values.numpy(), boxes.values.numpy())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Three video files of two classes, of 64 x 48 pixels and 20 frames."""
    golden = Path(__file__).parents[2] / "video/tests/golden/frames"
    for name in ["ride/high.mp4", "ride/high.mkv", "walk/baseline.mp4"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((golden / Path(name).name).read_bytes())
    return tmp_path


def test_video_files_are_read_as_folders_of_frames_are(files: Path) -> None:
    batch = next(iter(loader(files, fl.Clips.random(4, stride=2), seed=3)))
    assert batch["video"].numpy().shape == (3, 4, 3, 24, 24)
    assert batch["label"].numpy().tolist() == [0, 0, 1]
    np.testing.assert_allclose(np.diff(batch["pts"].numpy()), 0.08)
    again = next(iter(loader(files, fl.Clips.random(4, stride=2), seed=3, workers=3)))
    assert (again["video"].numpy() == batch["video"].numpy()).all()


def test_video_files_without_clips_are_refused(files: Path) -> None:
    with pytest.raises(fl.FuseloopError, match="choose them"):
        fl.Loader(files, batch_size=3)


def test_a_store_has_the_clips_of_its_videos(videos: Path, tmp_path: Path) -> None:
    store = tmp_path / "clips.beton"
    report = write.convert(videos, store, videos="frames", source_fps=10, progress=None)
    assert report.samples == 12 + 9 + 2
    folders = next(iter(loader(videos, fl.Clips.random(4, fps=5, source_fps=10), seed=3)))
    stored = next(iter(loader(store, fl.Clips.random(4, fps=5), seed=3)))
    for name in ("video", "label", "pts"):
        np.testing.assert_array_equal(stored[name].numpy(), folders[name].numpy())
    frames = next(iter(fl.Loader(store, batch_size=23, image=[ops.CenterCrop(24)])))
    assert frames["video_index"].numpy().tolist() == [0] * 12 + [1] * 9 + [2] * 2
    np.testing.assert_allclose(frames["pts"].numpy()[:12], np.arange(12) / 10)
    thin = tmp_path / "thin.beton"
    assert write.convert(store, thin, videos="frames", frame_stride=3, progress=None).samples == 4 + 3 + 1


def test_a_state_of_other_clips_names_the_setting(videos: Path) -> None:
    def one(stride: int) -> fl.Loader:
        return fl.Loader(videos, batch_size=1, clips=fl.Clips.random(4, stride=stride), video=LIST)

    running = one(2)
    batches = iter(running)
    next(batches)
    state = running.state_dict()
    with pytest.raises(fl.FuseloopError, match="`stride` was 2 and is 3"):
        one(3).load_state_dict(state)
    one(2).load_state_dict(state)
    images = fl.Loader(videos, batch_size=1, image=LIST)
    with pytest.raises(fl.FuseloopError, match="`clips` was sampler=random,frames=4,stride=2 and is not set"):
        images.load_state_dict(state)
    next(iter(images))
    with pytest.raises(fl.FuseloopError, match="`clips` was not set and is sampler=random,frames=4,stride=2"):
        one(2).load_state_dict(images.state_dict())


def test_the_only_bytes_that_are_videos_have_the_clips(files: Path, tmp_path: Path) -> None:
    stored = tmp_path / "files.beton"
    write.convert(files, stored, videos="files", progress=None)
    clips = fl.Clips.random(4)
    found, expected = (next(iter(loader(one, clips, seed=3))) for one in (stored, files))
    np.testing.assert_array_equal(found["video"].numpy(), expected["video"].numpy())


def test_damaged_videos_are_found_in_any_dataset_and_shown_as_such(tmp_path: Path) -> None:
    whole = (Path(__file__).parents[2] / "video/tests/golden/frames/motion_jpeg.avi").read_bytes()
    damaged = whole.replace(b"\xff\xd8\xff", b"\xff\x00\xff")
    stored = tmp_path / "movies.beton"
    write.write([(whole, 0), (damaged, 1)], stored, {"movie": "bytes", "label": "int"}, progress=None)
    report = fl.sources.open(stored).verify(progress=None)
    assert (report.video_files, report.damaged_samples, report.kinds) == (1, 1, {"video_damaged": 1})
    assert report.damaged[0].field == "movie" and "frame 0" in report.damaged[0].error
    assert fl.sources.open(stored).verify(video="movie", progress=None).kinds == report.kinds
    with pytest.raises(fl.errors.FuseloopError, match="only bytes can be video files"):
        fl.sources.open(stored).verify(video="label", progress=None)
    sheet = loader(stored, fl.Clips.random(2)).preview(2)
    assert sheet.damaged == [1] and sheet.height > 224
    table = tmp_path / "parts.csv"
    video = tmp_path / "whole.avi"
    video.write_bytes(whole)
    table.write_text(f"path,start,end\n{video},0,0.2\n{video},90,99\n{video},0.2,0.1\n")
    parts = fl.sources.open(table).verify(start_field="start", end_field="end", progress=None)
    assert parts.kinds == {"video_part": 2} and parts.good.tolist() == [0]


def test_folders_of_frames_are_converted_without_a_warning(videos: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        write.convert(videos, tmp_path / "frames.beton", videos="frames", progress=None)
        write.convert([videos, videos], tmp_path / "both.beton", videos="frames", progress=None)
    assert not [str(warning.message) for warning in found if "inside of the class folders" in str(warning.message)]
    with pytest.warns(fl.errors.FuseloopWarning, match="inside of the class folders"):
        write.convert(videos, tmp_path / "images.beton", progress=None)


def test_a_store_needs_videos_and_one_beton(videos: Path, tmp_path: Path) -> None:
    with pytest.raises(fl.errors.ConfigError, match="expected 'frames' or 'files'"):
        write.convert(videos, tmp_path / "x.beton", videos="clips")  # type: ignore[arg-type]
    with pytest.raises(fl.errors.FuseloopError, match="single .beton"):
        write.convert(videos, tmp_path / "x-{000}.tar", videos="frames", progress=None)
    with pytest.raises(fl.errors.FuseloopError, match="ask for frames"):
        write.convert(videos, tmp_path / "x.beton", frame_stride=2, progress=None)
    with pytest.raises(fl.errors.ConfigError, match="source_fps"):
        write.convert(videos, tmp_path / "x.beton", videos="frames", source_fps="10")  # type: ignore[arg-type]


def test_a_table_has_the_seconds_of_its_videos(videos: Path, tmp_path: Path) -> None:
    table = tmp_path / "frames.csv"
    frames = sorted((videos / "ride/v1").iterdir())
    lines = [f"{path},{number * 10},{number * 10 + 2}" for number, path in enumerate(frames)]
    table.write_text("path,start,end\n" + "\n".join(lines) + "\n")
    clips = fl.Clips.regular(2, start_field="start", end_field="end", source_fps=1)
    batch = next(iter(fl.Loader(table, batch_size=1, video=LIST, clips=clips)))
    assert batch["pts"].numpy().tolist() == [[0.0, 1.0]]
    with pytest.raises(fl.errors.FuseloopError, match="one of the two"):
        fl.Loader(table, batch_size=1, video=LIST, clips=fl.Clips.random(2, range=(0, 1), end_field="end", source_fps=1))
