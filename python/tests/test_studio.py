"""The studio in a notebook, and the command that serves it."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import fuseloop as fl

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/studio.md"
LIST = '[fields]\nimage = ["Resize(32)"]\n'


def command(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fuseloop", *arguments], capture_output=True, text=True, timeout=60, **options
    )


def test_a_notebook_shows_the_page_in_a_frame(photos, tmp_path):
    (tmp_path / "list.toml").write_text(LIST)
    with fl.studio(photos, tmp_path / "list.toml", height=500) as studio:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\S*", studio.url)
        with urllib.request.urlopen(studio.url, timeout=30) as page:
            assert "<title>" in page.read().decode()
        assert f'<iframe src="{studio.url}"' in studio._repr_html_()
        assert "height: 500px" in studio._repr_html_()
        assert repr(studio) == f"Studio({studio.url!r})"
        process = studio._process
        assert process.poll() is None
    assert process.poll() is not None
    studio.close()
    assert repr(studio) == "Studio(closed)"


def test_a_server_ends_with_its_object(photos):
    studio = fl.studio(photos)
    process = studio._process
    del studio
    assert process.poll() is not None


def test_an_error_of_the_server_is_raised(tmp_path):
    with pytest.raises(fl.ConfigError, match="missing") as error:
        fl.studio(tmp_path / "missing")
    assert not str(error.value).startswith("error:")


def test_the_server_finds_the_package_where_this_interpreter_has_found_it(photos, tmp_path, monkeypatch):
    """A file of the name beside the notebook hides no module, and `sys.path` may have been changed."""
    (tmp_path / "numpy.py").write_text("raise ImportError('the wrong file')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with fl.studio(photos) as studio:
        assert studio.url


def test_the_command_runs_as_a_module(photos, tmp_path):
    done = command("info", os.fspath(photos))
    assert done.returncode == 0, done.stderr
    assert "samples" in done.stdout
    done = command("convert", os.fspath(photos), os.fspath(tmp_path / "photos.beton"))
    assert done.returncode == 0, done.stderr
    assert len(fl.sources.open(tmp_path / "photos.beton")) == len(fl.sources.open(photos))
    missing = command("info", os.fspath(tmp_path / "missing"))
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: ")
    unknown = command("inform")
    assert unknown.returncode == 2
    assert "inform" in unknown.stderr


def test_a_signal_ends_the_command_and_leaves_no_file(photos, tmp_path):
    """Beside the threads of NumPy, which are there before the command."""
    names = []
    for number in range(3000):
        (tmp_path / "many" / str(number % 7)).mkdir(parents=True, exist_ok=True)
        names.append(tmp_path / "many" / str(number % 7) / f"{number}.png")
        os.link(next(photos.rglob("*.png")), names[-1])
    arguments = [sys.executable, "-m", "fuseloop", "convert", tmp_path / "many", tmp_path / "out" / "many.beton"]
    (tmp_path / "out").mkdir()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not any((tmp_path / "out").iterdir()):
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in (-signal.SIGINT, 0)
    # The record by which the next conversion goes on may stay.
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names <= {"many.beton", "many.beton.fuseloop-convert.json"}


def test_the_example_runs(photos, tmp_path, monkeypatch):
    if not PAGE.exists():
        pytest.skip("no sources beside the tests")
    (tmp_path / "photos").symlink_to(photos)
    (tmp_path / "imagenet.toml").write_text(LIST)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), {})  # noqa: S102
