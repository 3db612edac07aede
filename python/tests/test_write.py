"""Writing from Python: the same bytes however it is done, every kind of value, errors that name their sample."""

from __future__ import annotations

import collections
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import picture, run_python

import fuseloop as fl
from fuseloop import ops
from fuseloop.write import Array, Image, Reencoded, convert, index, recut, write

Sample = collections.namedtuple("Sample", "image label")


class Squares:
    """Samples of every kind, of their number alone. Processes import this module to read it."""

    def __init__(self, count: int = 300, raises: int = -1, dies: int = -1) -> None:
        self.count, self.raises, self.dies = count, raises, dies

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict:
        if index == self.raises:
            raise LookupError(f"nothing at {index}")
        if index == self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        rng = np.random.default_rng(index)
        return {
            "image": rng.integers(0, 255, (8 + index % 3, 9, 3), dtype=np.uint8),
            "label": index % 7,
            "weight": index / 3,
            "name": f"square {index}",
            "boxes": rng.normal(size=(2, 4)).astype(np.float32),
            "info": {"at": [index, None], "flag": index % 2 == 0},
            "flags": rng.integers(0, 2, 5).astype(bool),
        }


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def left(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# 36


def test_write_any_dataset(tmp_path: Path) -> None:
    digests = set()
    for workers in (0, 1, 4):
        out = tmp_path / f"{workers}.beton"
        report = write(Squares(), out, workers=workers, progress=None)
        assert (report.samples, report.skipped_count) == (300, 0)
        assert report.bytes == out.stat().st_size
        digests.add(digest(out))
    report = write((Squares()[k] for k in range(300)), tmp_path / "iterated.beton", progress=None, threads=1)
    digests.add(digest(tmp_path / "iterated.beton"))
    assert len(digests) == 1
    assert report.samples == 300


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_raises_ends_it(tmp_path: Path, workers: int) -> None:
    with pytest.raises(LookupError, match="nothing at 170") as caught:
        write(Squares(raises=170), tmp_path / "x.beton", workers=workers, progress=None)
    notes = "\n".join(caught.value.__notes__)
    assert "sample 170" in notes
    if workers:
        assert "in __getitem__" in notes and "worker 0" in notes
    assert left(tmp_path) == []


def test_a_worker_that_dies_is_named(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(fl.errors.SampleError, match="worker 1 was killed by SIGKILL at sample 100") as caught:
        write(Squares(dies=100), tmp_path / "x.beton", workers=4, progress=None)
    assert caught.value.sample == 100
    assert time.monotonic() - started < 60
    assert left(tmp_path) == []


def test_skip_lists_the_samples(tmp_path: Path) -> None:
    reports = [
        write(Squares(raises=5), tmp_path / f"{workers}.beton", workers=workers, on_damaged="skip", progress=None)
        for workers in (0, 2)
    ]
    assert reports[0] == reports[1]
    assert reports[0].samples == 299
    assert [(one.sample, one.path) for one in reports[0].skipped] == [(5, None)]
    assert reports[0].skipped[0].cause == "LookupError: nothing at 5"
    assert digest(tmp_path / "0.beton") == digest(tmp_path / "2.beton")


def test_a_damaged_image_is_fatal_or_left_out(tmp_path: Path) -> None:
    damaged = [(b"\xff\xd8\xff" + bytes([k]), k) for k in range(3)]
    samples = [(picture(1), 0), damaged[0], (picture(2), 2)]
    with pytest.raises(fl.errors.DecodeError, match="sample 1: field \"image\"") as caught:
        write(samples, tmp_path / "x.beton", progress=None)
    assert (caught.value.sample, caught.value.field) == (1, "image")
    report = write(samples, tmp_path / "x.beton", on_damaged="skip", progress=None)
    assert [one.sample for one in report.skipped] == [1]
    assert fl.Dataset.open(tmp_path / "x.beton").column("label").tolist() == [0, 2]


# Values


def test_every_kind_of_value_comes_back(tmp_path: Path) -> None:
    out = tmp_path / "x.beton"
    squares = Squares(70)
    write(squares, out, progress=None)
    dataset = fl.Dataset.open(out)
    assert dataset.fields == {
        "image": "image",
        "label": "int",
        "weight": "float",
        "name": "bytes",
        "boxes": "<f4 [2, 4]",
        "info": "json",
        "flags": "|b1 [5]",
    }
    for k in (0, 1, 69):
        wanted, found = squares[k], dataset[k]
        assert np.array_equal(found["image"], wanted["image"])
        assert np.array_equal(found["boxes"], wanted["boxes"]) and found["boxes"].dtype == np.float32
        assert np.array_equal(found["flags"], wanted["flags"]) and found["flags"].dtype == bool
        assert (found["label"], found["weight"], found["info"]) == (k % 7, k / 3, wanted["info"])
        assert found["name"] == f"square {k}".encode()
    loader = fl.Loader(out, 16, image=[ops.Resize((8, 8))], info=None, name=None, flags=None)
    rows = 0
    for batch in loader:
        for at, k in enumerate(batch.ids):
            wanted = squares[int(k)]
            assert batch["label"].numpy()[at] == wanted["label"]
            assert batch["weight"].numpy()[at] == wanted["weight"]
            assert np.array_equal(batch["boxes"].numpy()[at], wanted["boxes"])
            rows += 1
    assert rows == 70


def test_names_of_values_without_names(tmp_path: Path) -> None:
    cases = [
        ((picture(0), 3), {"image": "image", "label": "int"}),
        ((picture(0), picture(1)[:, :, 0], 3, 0.5, 4), ["image", "image2", "label", "float", "label2"]),
        (Sample(picture(0), 3), ["image", "label"]),
        (picture(0), ["image"]),
        (np.zeros((2, 2), np.int16), ["array"]),
        ({"b": 1, "a": 2.0}, ["b", "a"]),
    ]
    for k, (sample, names) in enumerate(cases):
        out = tmp_path / f"{k}.beton"
        write([sample], out, progress=None)
        found = fl.Dataset.open(out).fields
        assert list(found) == list(names)
        if isinstance(names, dict):
            assert found == names
    gray = fl.Dataset.open(tmp_path / "1.beton")[0]["image2"]
    assert np.array_equal(gray, np.repeat(picture(1)[:, :, :1], 3, axis=2))


def test_given_fields_choose_and_type(tmp_path: Path) -> None:
    fields = {"label": float, "pixels": Array("u1", (4, 3)), "text": bytes, "path": "image"}
    photo = tmp_path / "photo.jpg"
    write([picture(5)], tmp_path / "one.beton", image=Image(write_mode="jpg"), progress=None)
    photo.write_bytes(fl.Dataset.open(tmp_path / "one.beton")[0]["image"])
    sample = {"label": 3, "pixels": np.ones((4, 3), np.uint8), "text": bytearray(b"abc"), "path": photo, "more": 1}
    out = tmp_path / "x.beton"
    report = write([sample], out, fields, progress=None)
    assert report.passed_through == 1
    found = fl.Dataset.open(out)
    assert found.fields == {"label": "float", "pixels": "|u1 [4, 3]", "text": "bytes", "path": "image"}
    assert found[0]["label"] == 3.0 and found[0]["text"] == b"abc"
    assert found[0]["path"] == photo.read_bytes()


BAD = [
    ([(1, 2), (3,)], None, "sample 1 has 1 values, expected 2: label, label2"),
    ([{"a": 1}, {"b": 1}], ["a"], "sample 1 has no field a, only b"),
    ([{"a": 1}, {"a": 1, "b": 2}], None, "sample 1 has a field 'b' that the first sample has not"),
    ([{"lable": 1}], ["label"], "did you mean lable"),
    ([1, 2.5], None, "sample 1, field label: expected an int, found float 2.5"),
    ([1, 2**63], None, "sample 1, field label: 9223372036854775808 does not fit 64 bits"),
    ([0.5, "a"], None, "sample 1, field float: expected a float, found str 'a'"),
    (
        [np.zeros(3, np.float32), np.zeros(3)],
        None,
        r"sample 1, field array: expected an array of float32 and shape \(3,\), found ndarray of float64 and shape",
    ),
    ([np.zeros(3, np.int32), np.zeros(4, np.int32)], None, r"shape \(3,\), found ndarray of int32 and shape \(4,\)"),
    (
        [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4, 3))],
        None,
        "field image: expected an image, found ndarray of float64",
    ),
    (["text"], {"x": "image"}, "a path is given as pathlib.Path"),
    ([{1}], None, "a value of type set"),
    ([np.array(["a"])], None, "arrays of <U1 can't be stored"),
    ([{"x": {1, 2}}], {"x": "json"}, "sample 0, field x: no JSON: Object of type set"),
    ([1], {"x": "imgae"}, "did you mean 'image'"),
    ([1], {"x": Array("f4", (-1,))}, "a side is negative"),
    ([1], {"a name that is too long": int}, "a name that is too long"),
    ([], None, "there are no samples"),
    ({"a": 1}, None, "samples is a mapping"),
]


@pytest.mark.parametrize(("samples", "fields", "message"), BAD, ids=[case[2][:40] for case in BAD])
def test_bad_input_is_refused(tmp_path: Path, samples: list, fields: object, message: str) -> None:
    with pytest.raises(fl.errors.ConfigError, match=message):
        write(samples, tmp_path / "x.beton", fields, progress=None)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"page_size": 5000}, "page size 5000"),
        ({"workers": -1}, "workers"),
        ({"on_damaged": "leave"}, "'fail' or 'skip'"),
        ({"image": "jpg"}, "expected fuseloop.write.Image"),
        ({"image": Image(write_mode="png")}, "mode is 'png'"),
        ({"image": Image(jpeg_quality=101)}, "quality"),
        ({"image": Image(tile=3)}, "tile"),
        ({"images": {"label": Image()}}, "label"),
        ({"start_method": "thread", "workers": 1}, "start_method"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, arguments: dict, message: str) -> None:
    with pytest.raises(fl.errors.ConfigError, match=message):
        write([(picture(0), 1)], tmp_path / "x.beton", progress=None, **arguments)
    assert left(tmp_path) == []


def test_workers_need_a_dataset_that_can_be_sent(tmp_path: Path) -> None:
    with pytest.raises(fl.errors.ConfigError, match="__getitem__"):
        write(iter([1]), tmp_path / "x.beton", workers=2, progress=None)

    class Local(Squares):
        pass

    with pytest.raises(fl.errors.ConfigError, match="can't be sent to other processes"):
        write(Local(), tmp_path / "x.beton", workers=2, progress=None)
    assert left(tmp_path) == []


def test_a_sample_larger_than_a_page_names_the_cure(tmp_path: Path) -> None:
    samples = [np.zeros((64, 64, 3), np.uint8)]
    with pytest.raises(fl.errors.FuseloopError, match="a page size of 16384 would do"):
        write(samples, tmp_path / "x.beton", page_size="8KiB", progress=None)
    assert write(samples, tmp_path / "x.beton", page_size="16KiB", progress=None).pages == 1


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "x.beton"
    write([1, 2], out, progress=None)
    before = out.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write([3], out, progress=None)
    with pytest.raises(LookupError):
        write(Squares(raises=100), out, overwrite=True, progress=None)
    assert out.read_bytes() == before
    assert write([3], out, overwrite=True, progress=None).samples == 1
    assert left(tmp_path) == ["x.beton"]


# Progress and Ctrl-C


def test_progress_is_told_and_may_end_it(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    write(Squares(), tmp_path / "x.beton", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (300, 300)
    assert [done for done, _ in told] == sorted(done for done, _ in told)

    def stop(done: int, total: int | None) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        write(Squares(), tmp_path / "y.beton", progress=stop)
    assert left(tmp_path) == ["x.beton"]


@pytest.mark.parametrize("what", ["samples", "workers", "encoding", "convert"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, what: str) -> None:
    code = f"""
        import sys, time
        import numpy as np
        from fuseloop.write import Image, convert, write

        class Slow:
            def __len__(self):
                return 100_000
            def __getitem__(self, index):
                time.sleep(0.001)
                if index == 200:
                    print("ready", flush=True)
                return np.zeros((16, 16, 3), np.uint8), index

        def large():
            # The threads that encode have much more to do than the one that makes samples.
            pixels = np.random.default_rng(0).integers(0, 255, (1500, 1500, 3), dtype=np.uint8)
            for k in range(100_000):
                if k == 20:
                    print("ready", flush=True)
                yield pixels

        if __name__ == "__main__":
            what, out = "{what}", sys.argv[1]
            try:
                if what == "encoding":
                    write(large(), out, image=Image(write_mode="jpg"), progress=None)
                elif what == "convert":
                    ready = lambda done, total: print("ready", flush=True) if done else None
                    convert(sys.argv[2], out, max_samples=1_000_000, progress=ready)
                else:
                    write(Slow(), out, workers=2 if what == "workers" else 0, progress=None)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    work = tmp_path / "work"
    work.mkdir()
    source = tmp_path / "source.beton"
    if what == "convert":
        write(((k, np.zeros(3000)) for k in range(30_000)), source, progress=None)
    environment = {**os.environ, "PYTHONPATH": str(Path(fl.__file__).resolve().parent.parent)}
    out = work / ("x-{000}.tar" if what == "convert" else "x.beton")
    command = [sys.executable, str(script), str(out), str(source)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    started = time.monotonic()
    # All processes of a terminal get the signal.
    os.killpg(process.pid, signal.SIGINT)
    lines, _ = process.communicate(timeout=30)
    assert lines.splitlines()[-1] == "interrupted"
    # 100 ms of ours, the rest is the end of an interpreter on a machine that is not idle.
    assert time.monotonic() - started < 5
    assert process.returncode == 0
    assert left(work) == []


@pytest.mark.parametrize(
    "call",
    [
        "fl.Dataset.open(src)",
        "fl.sources.folder(src, links='follow')",
        "write.convert(src, out, progress=None)",
        "write.recut(src, out, progress=None)",
        "write.index(src, progress=None)",
    ],
)
def test_ctrl_c_while_a_folder_is_listed(tmp_path: Path, call: str) -> None:
    """The links of the folder make billions of paths."""
    for n in range(30):
        step = tmp_path / "src" / "class" / str(n)
        step.mkdir(parents=True)
        for name in ("x", "y"):
            (step / name).symlink_to(f"../{n + 1}")
    (tmp_path / "src" / "class" / "30").mkdir()
    code = f"""
        import os, signal, threading, time
        from pathlib import Path
        import fuseloop as fl
        from fuseloop import write
        def interrupt():
            global sent
            time.sleep(0.3)
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        src, out = {str(tmp_path / "src")!r}, {str(tmp_path / "out.beton")!r}
        threading.Thread(target=interrupt).start()
        try:
            {call}
        except KeyboardInterrupt:
            waited = time.monotonic() - sent
        time.sleep(0.1)
        threads = [Path(f"/proc/self/task/{{task}}/comm").read_text() for task in os.listdir("/proc/self/task")]
        print(waited < 2, any(name.startswith("fuseloop") for name in threads))
    """
    done = run_python(textwrap.dedent(code))
    assert done.stdout.split() == ["True", "False"], done.stderr
    assert left(tmp_path) == ["src"]


# Folders and other datasets


def test_a_folder_is_written_with_its_classes(photos: Path, tmp_path: Path) -> None:
    report = convert(photos, tmp_path / "x.beton", progress=None)
    assert (report.samples, report.files) == (24, 1)
    assert (tmp_path / "x.beton.classes.json").exists()
    assert fl.Dataset.open(tmp_path / "x.beton").classes == {0: "bee", 1: "cow"}
    assert write(photos, tmp_path / "y.beton", progress=None) == report
    assert digest(tmp_path / "x.beton") == digest(tmp_path / "y.beton")
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "missing", tmp_path / "z.beton", progress=None)


def test_datasets_are_joined_split_and_selected_from(tmp_path: Path) -> None:
    src = tmp_path / "src.beton"
    write(list(range(100)), src, progress=None)
    parts = [tmp_path / f"src-{k}.beton" for k in range(2)]
    for part, indices in zip(parts, [range(90), range(90, 100)]):
        assert convert(src, part, indices=indices, progress=None).samples == len(indices)
    with pytest.raises(FileExistsError):
        convert(src, tmp_path / "src-{0}.beton", shards=2, progress=None)
    assert convert(src, tmp_path / "p-{0}.beton", shards=4, progress=None).files == 4
    counts = [len(fl.Dataset.open(tmp_path / f"p-{k}.beton")) for k in range(4)]
    assert counts == [25] * 4
    assert convert(parts, tmp_path / "again.beton", progress=None).samples == 100
    assert digest(tmp_path / "again.beton") == digest(src)
    convert(src, tmp_path / "few.beton", indices=[7, 3, 3], progress=None)
    assert fl.Dataset.open(tmp_path / "few.beton").column("label").tolist() == [7, 3, 3]
    with pytest.raises(fl.errors.ConfigError, match="sample 100 does not exist"):
        convert(src, tmp_path / "none.beton", indices=[100], progress=None)


def test_names_of_other_programs_have_a_hint() -> None:
    from fuseloop import write as module

    for name, hint in [("concat", "'all.beton'"), ("subset", "indices=range"), ("unpack", "planes"), ("folder", "folder,")]:
        with pytest.raises(AttributeError, match=f"write.convert.*{hint}"):
            getattr(module, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        module.nothing  # noqa: B018


def test_wrong_arguments_are_errors_of_the_package(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.beton"
    for call, message in [
        (lambda: Image(jpeg_quality=True)._options(), "jpeg_quality is True, expected a whole number"),
        (lambda: convert(photos, out, image=Image(jpeg_quality=True)), "jpeg_quality is True"),
        (lambda: convert(photos, out, image=Image(smart_threshold=9)), "smart_threshold is only for write_mode='smart'"),
        (lambda: convert(photos, out, image=Image("jpg", compress_probability=1)), "only for write_mode='proportion'"),
        (lambda: convert(photos, out, image=Image("proportion", compress_probability="x")), "expected a number from 0 to 1"),
        (lambda: convert(5, out), "source is 5, expected a path"),
        (lambda: convert(photos, 5), "the output is 5, expected a path"),
        (lambda: convert(photos, out, indices=5), "indices is 5, expected the numbers of samples"),
        (lambda: convert(photos, out, indices=["a"]), "indices is 'a', expected a whole number"),
        (lambda: convert(photos, out, rename=["a"]), "expected a mapping of old names to new ones"),
        (lambda: convert(photos, out, images=5), "images is 5, expected a mapping"),
        (lambda: recut(5, out), "src is 5, expected a path"),
        (lambda: recut(photos, None), "the output is None, expected a path"),
        (lambda: index(5), "name is 5, expected a path"),
        (lambda: write([1], 5), "the output is 5, expected a path"),
        (lambda: write(5, out), "samples is 5, expected a dataset"),
    ]:
        with pytest.raises(fl.ConfigError, match=message):
            call()
    assert left(tmp_path) == []


def test_convert_recut_index(photos: Path, tmp_path: Path) -> None:
    report = convert(photos, tmp_path / "x-{000}.tar", shards=2, progress=None)
    assert (report.samples, report.files, report.resumed) == (24, 2, 0)
    assert index(f"{tmp_path}/x-{{000..001}}.tar", progress=None).shards == 2
    assert (tmp_path / "x-000.tar.fidx").exists()
    shards = f"{tmp_path}/x-{{000..001}}.tar"
    separate = fl.Dataset.open(shards).fingerprint
    joined = index(shards, join=True, progress=None)
    size = (tmp_path / "joined.fjdx").stat().st_size
    assert (joined.shards, joined.samples, joined.bytes) == (2, 24, size)
    assert fl.Dataset.open(shards).fingerprint == separate
    with pytest.raises(fl.ConfigError, match="join=True is for tar"):
        index(photos, join=True)
    with pytest.raises(FileExistsError):
        convert(photos, tmp_path / "x-{000}.tar", shards=2, progress=None)
    convert(f"{tmp_path}/x-{{000..001}}.tar", tmp_path / "x.beton", image=Image(write_mode="jpg"), progress=None)
    again = convert(tmp_path / "x.beton", tmp_path / "tiled.beton", image=Image(tile=16), progress=None)
    assert again.samples == 24 and again.recut > 0
    names = ["x", "planes", "back"]
    _, planes, back = paths = [tmp_path / f"{name}.beton" for name in names]
    as_planes = Image(bit_planes=True)
    assert convert(tmp_path / "x.beton", planes, image=as_planes, progress=None).not_recut_count == 0
    assert convert(planes, back, progress=None).samples == 24
    fields = fl.Dataset.open(planes).info().fields
    [name] = [field.name for field in fields if field.kind == "image"]
    jpegs = [[sample[name] for sample in fl.Dataset.open(path)] for path in paths]
    assert jpegs[0] == jpegs[1] == jpegs[2] and jpegs[0][0][:2] == b"\xff\xd8"
    assert [field.stats["bit_planes"] for field in fields if field.kind == "image"] == [24]
    with pytest.raises(fl.errors.ConfigError, match="bit planes are stored in .beton files"):
        convert(photos, tmp_path / "planes", image=as_planes, progress=None)
    with pytest.raises(fl.errors.ConfigError, match="a file, expected a folder: convert"):
        recut(tmp_path / "x.beton", tmp_path / "y.beton", progress=None)
    wide = recut(photos, tmp_path / "copy", progress=None)
    assert wide.copied == 24
    with pytest.raises(fl.errors.OutputExistsError, match="copy.* is not empty"):
        recut(photos, tmp_path / "copy", progress=None)
    assert recut(photos, tmp_path / "copy", progress=None, overwrite=True).copied == 24
    with pytest.raises(fl.errors.OutputExistsError, match="tiled.beton\" already exists.*`overwrite=True`"):
        convert(tmp_path / "x.beton", tmp_path / "tiled.beton", image=Image(tile=16), progress=None)
    convert(tmp_path / "x.beton", tmp_path / "tiled.beton", image=Image(tile=16), progress=None, overwrite=True)
    assert index(tmp_path / "copy", progress=None).samples == 24
    for rank in range(3):
        convert(photos, tmp_path / "r-{0}.tar", shards=4, ranks=fl.Ranks(rank, 3), progress=None)
    convert(photos, tmp_path / "o-{0}.tar", shards=4, progress=None)
    assert [digest(tmp_path / f"r-{k}.tar") for k in range(4)] == [digest(tmp_path / f"o-{k}.tar") for k in range(4)]
    with pytest.raises(fl.errors.ConfigError, match="set shards"):
        convert(photos, tmp_path / "q-{0}.tar", ranks=fl.Ranks(0, 3), progress=None)
    renamed = convert(photos, tmp_path / "y.beton", rename={"label": "class"}, progress=None)
    assert ("label", "class") in renamed.renamed


def test_masks_of_pil(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    classes = np.arange(48, dtype=np.uint8).reshape(6, 8) % 3
    palette = pil.fromarray(classes)
    palette.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0])
    bits = pil.fromarray(classes > 0)
    assert (palette.mode, bits.mode) == ("P", "1")
    path = tmp_path / "x.beton"
    masks = {name: Image(write_mode="mask") for name in ("image2", "image3")}
    write([(picture(0), palette, bits)], path, images=masks, progress=None)
    sample = fl.Dataset.open(path)[0]
    assert all((sample["image2"][..., channel] == classes).all() for channel in range(3))
    assert (sample["image3"][..., 0] == (classes > 0)).all()
    # A loader reads them as the masks that they are.
    batch = next(iter(fl.Loader(path, batch_size=1, order="sequential"))).numpy()
    assert (batch["image2"][0, ..., 0] == classes).all() and batch["image2"].shape == (1, 6, 8, 1)
    # As images, they have the colours of the palette.
    write([(palette, 0)], path, progress=None, overwrite=True)
    assert (fl.Dataset.open(path)[0]["image"] == np.asarray(palette.convert("RGB"))).all()
    with pytest.raises(fl.errors.FuseloopError, match="has the colour"):
        write([(palette.convert("RGB"), 0)], tmp_path / "y.beton", image=Image(write_mode="mask"), progress=None)


def test_options_of_images(tmp_path: Path) -> None:
    samples = [(picture(k), picture(k), k) for k in range(8)]
    jpg = Image(write_mode="jpg", jpeg_quality=50)
    report = write(samples, tmp_path / "x.beton", images={"image2": jpg}, progress=None)
    assert [(one.before, one.after, one.images) for one in report.reencoded if one.is_lossy] == [("raw", "jpeg", 8)]
    cases = [
        ("raw", "jpeg", "8 images stored as jpeg instead of raw"),
        ("jpeg", "jpeg", "8 images encoded again as jpeg"),
        ("raw", "raw", "8 images made smaller, as raw pixels"),
    ]
    for before, after, words in cases:
        assert str(Reencoded(before, after, True, 8)) == f"{words}, with loss"
    found = fl.Dataset.open(tmp_path / "x.beton")[0]
    assert isinstance(found["image"], np.ndarray) and found["image2"][:2] == b"\xff\xd8"
    write(samples, tmp_path / "small.beton", image=Image(max_resolution=16), progress=None)
    assert fl.Dataset.open(tmp_path / "small.beton")[0]["image"].shape == (12, 16, 3)


def test_a_dataset_of_ours_is_written_with_its_fields(tmp_path: Path) -> None:
    write(Squares(20), tmp_path / "x.beton", progress=None)
    write(fl.Dataset.open(tmp_path / "x.beton"), tmp_path / "y.beton", progress=None)
    assert digest(tmp_path / "x.beton") == digest(tmp_path / "y.beton")


def test_a_hugging_face_dataset_is_not_decoded(tmp_path: Path) -> None:
    """Its parts that matter, under their names: images are cast to their files."""
    write([picture(3)], tmp_path / "one.beton", image=Image(write_mode="jpg"), progress=None)
    jpeg = fl.Dataset.open(tmp_path / "one.beton")[0]["image"]

    class Image_:
        def __init__(self, decode: bool = True) -> None:
            self.decode = decode

    class ClassLabel:
        names = ["no", "yes"]

    class Table:
        def __init__(self, feature: object) -> None:
            self.features = {"image": feature, "label": ClassLabel()}

        def cast_column(self, name: str, feature: object) -> Table:
            assert name == "image"
            return Table(feature)

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> dict:
            assert not self.features["image"].decode
            return {"image": {"bytes": jpeg, "path": None}, "label": index}

    Image_.__name__, Table.__module__ = "Image", "datasets.arrow_dataset"
    out = tmp_path / "x.beton"
    assert write(Table(Image_()), out, progress=None).passed_through == 2
    dataset = fl.Dataset.open(out)
    assert dataset[1]["image"] == jpeg and dataset.classes == {0: "no", 1: "yes"}


def test_images_of_pil(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    pil.fromarray(picture(1)).save(file, "JPEG")
    path = tmp_path / "a.jpg"
    path.write_bytes(file.getvalue())
    opened, changed, in_memory = pil.open(path), pil.open(path), pil.open(io.BytesIO(file.getvalue()))
    changed.putpixel((0, 0), (255, 0, 0))
    drafted = pil.open(path)
    drafted.draft("RGB", (32, 24))
    gray, alpha = pil.fromarray(picture(2)[:, :, 0]), pil.fromarray(picture(2)).convert("RGBA")
    images = [opened, changed, in_memory, drafted, gray, alpha]
    report = write(images, tmp_path / "x.beton", progress=None)
    dataset = fl.Dataset.open(tmp_path / "x.beton")
    assert report.passed_through == 2
    assert dataset[0]["image"] == dataset[2]["image"] == file.getvalue()
    assert dataset[1]["image"][0, 0].tolist() == [255, 0, 0]
    assert dataset[3]["image"].shape == (24, 32, 3)
    assert np.array_equal(dataset[5]["image"], picture(2))
    with pytest.raises(fl.errors.ConfigError, match="more than 8 bits"):
        write([pil.fromarray(np.zeros((4, 4), np.int32))], tmp_path / "y.beton", progress=None)


def test_an_image_folder_of_torchvision_passes_its_files(photos: Path, tmp_path: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    plain = torchvision.datasets.ImageFolder(str(photos))
    write(plain, tmp_path / "x.beton", progress=None)
    convert(photos, tmp_path / "y.beton", progress=None)
    assert digest(tmp_path / "x.beton") == digest(tmp_path / "y.beton")
    assert fl.Dataset.open(tmp_path / "x.beton").classes == {0: "bee", 1: "cow"}
    small = torchvision.datasets.ImageFolder(str(photos), transform=lambda image: image.resize((8, 6)))
    write(small, tmp_path / "z.beton", progress=None)
    assert fl.Dataset.open(tmp_path / "z.beton")[0]["image"].shape == (6, 8, 3)


def test_torch_values(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    sample = (torch.ones(2, 3, dtype=torch.int16), torch.tensor(5), torch.tensor(0.5))
    write([sample], tmp_path / "x.beton", progress=None)
    found = fl.Dataset.open(tmp_path / "x.beton")
    assert found.fields == {"tensor": "<i2 [2, 3]", "label": "int", "float": "float"}
    assert found[0]["tensor"].tolist() == [[1] * 3] * 2
    with pytest.raises(fl.errors.ConfigError, match="bfloat16"):
        write([torch.ones(2, dtype=torch.bfloat16)], tmp_path / "y.beton", progress=None)

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

        def __len__(self):
            return 5

    loader = torch.utils.data.DataLoader(Endless(), batch_size=None)
    for k, samples in enumerate([Endless(), loader]):
        assert write(samples, tmp_path / f"s{k}.beton", progress=None).samples == 5
    with pytest.raises(fl.errors.ConfigError, match="batch_size=None"):
        write(torch.utils.data.DataLoader(Endless(), batch_size=2), tmp_path / "b.beton", progress=None)


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom fuseloop.write import write\nwrite(range(300), sys.argv[1], workers=2, progress=None)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(fl.__file__).resolve().parent.parent)}
    command = [sys.executable, str(script), str(tmp_path / "x.beton")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode != 0 and '__name__ == "__main__"' in done.stderr


def test_writing_needs_no_torch() -> None:
    code = "import sys, fuseloop.write, fuseloop.sources; print({'torch', 'PIL', 'tqdm'} & set(sys.modules))"
    done = run_python(code)
    assert done.stdout == "set()\n", done.stderr


def test_json_is_as_ffcv_stores_it(tmp_path: Path) -> None:
    write([{"j": {"ä": [1.5, True]}}], tmp_path / "x.beton", {"j": "json"}, progress=None)
    assert json.dumps({"ä": [1.5, True]}).encode() + b"\0" in (tmp_path / "x.beton").read_bytes()


def test_an_address_is_refused_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Untouched:
        def __len__(self) -> int:
            raise AssertionError("the samples were asked for")

        def __getitem__(self, index: int) -> dict:
            raise AssertionError("a sample was read")

    def sheet(out: str) -> None:
        from fuseloop._preview import Sheet

        Sheet.__new__(Sheet).save(out)

    def ffcv(out: str) -> None:
        from fuseloop.ffcv.fields import IntField
        from fuseloop.ffcv.writer import DatasetWriter

        DatasetWriter(out, {"label": IntField()})

    calls = [
        lambda out: write(Untouched(), out),
        lambda out: convert("none", out),
        lambda out: recut("none", out),
        lambda out: convert(["none", "none"], out, indices=[0]),
        sheet,
        ffcv,
    ]
    for call in calls:
        for out in ("s3://bucket/x.beton", "gs://bucket/x.beton", "https://host/x.beton", Path("s3://bucket/x.beton")):
            with pytest.raises(fl.ConfigError, match="only local files and folders are written: write to a local path"):
                call(out)
        with pytest.raises(fl.ConfigError, match="give the path itself, /data/x.beton"):
            call("file:///data/x.beton")
    assert not list(tmp_path.iterdir())


def test_pages_grow_to_the_largest_sample(tmp_path: Path) -> None:
    rows = [(np.full((20, 30, 3), 7, np.uint8), 1), (np.full((1500, 2000, 3), 9, np.uint8), 2)]
    write(rows, tmp_path / "x.beton", ["image", "label"], progress=None)
    header = (tmp_path / "x.beton").read_bytes()[:8]
    assert int.from_bytes(header[4:8], "little") == 16 << 20
    from fuseloop.ffcv.reader import Reader

    assert Reader(tmp_path / "x.beton").page_size == 16 << 20
    dataset = fl.Dataset.open(tmp_path / "x.beton")
    assert [dataset[k]["label"] for k in range(2)] == [1, 2]
    with pytest.raises(fl.FuseloopError, match="a page size of 16777216 would do"):
        write(rows, tmp_path / "y.beton", ["image", "label"], progress=None, page_size="8MiB")


def test_what_is_too_large_is_refused_before_it_is_copied(tmp_path: Path) -> None:
    import resource

    huge = np.broadcast_to(np.uint8(7), (60_000, 60_000, 3))  # 10 GB, of which one byte exists
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for value, kind in [(huge, "image"), (huge[:, :, 0], "image"), (huge[:, :, 0].reshape(-1)[:1], "bytes")]:
        if kind == "bytes":
            value = np.broadcast_to(np.uint8(7), (2 << 30,))
        with pytest.raises(fl.ConfigError, match=r"sample 0, field x: .*; the limit is [\d,]+: ") as caught:
            write([{"x": value}], tmp_path / "x.beton", {"x": kind}, progress=None)
        assert (caught.value.sample, caught.value.field) == (0, "x")
        dataset = fl.sources.from_python([{"x": value}], {"x": kind})
        with pytest.raises(fl.FuseloopError, match="the limit is"):
            dataset[0]
    array = np.broadcast_to(np.float32(7), (20_000, 20_000))
    with pytest.raises(fl.ConfigError, match="a value of 1,600,000,000 bytes; the limit is 1,073,741,824"):
        write([{"x": array}], tmp_path / "x.beton", {"x": Array("float32", array.shape)}, progress=None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert left(tmp_path) == []


def test_reports_have_a_text_and_a_short_repr(photos: Path, tmp_path: Path) -> None:
    broken = tmp_path / "photos"
    (broken / "bee").mkdir(parents=True)
    for k, file in enumerate(sorted((photos / "bee").iterdir())):
        content = file.read_bytes()
        (broken / "bee" / file.name).write_bytes(content if k else content[:200])
    (broken / "bee" / "notes.txt").write_text("no image")
    made = convert(broken, tmp_path / "a.beton", on_damaged="skip", progress=None)
    assert repr(made).startswith("WriteReport(11 samples in 1 file, ") and repr(made).endswith(", 1 left out)")
    assert "\n" not in repr(made)
    text = str(made)
    assert "11 images stored as raw instead of png, without loss" in text and "left out: 1\n" in text and "000.png" in text
    assert "notes.txt" in text
    converted = convert(tmp_path / "a.beton", tmp_path / "b.tar", progress=None)
    assert repr(converted).startswith("WriteReport(11 samples in ") and str(converted).startswith("11 samples in ")
    indexed = index(str(tmp_path / "b.tar"), progress=None)
    assert repr(indexed).startswith("IndexReport(11 samples in 1 shard, an index of ")
    recutted = recut(broken, tmp_path / "recut", progress=None, on_damaged="skip")
    assert repr(recutted).startswith("RecutFolderReport(0 JPEGs re-cut, ")
