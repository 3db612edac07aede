"""The studio in a notebook: its server is the command, which is replaced by a script here."""

import os
import re
import sys
from pathlib import Path

import pytest

import fuseloop as fl

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/studio.md"

SERVER = """#!{python}
import sys, time
if "missing" in sys.argv:
    sys.exit("error: missing: no such dataset")
print("studio: http://127.0.0.1:9/" + "-".join(sys.argv[1:]) + "/", flush=True)
time.sleep(600)
"""


@pytest.fixture
def command(tmp_path):
    path = tmp_path / "fuseloop"
    path.write_text(SERVER.format(python=sys.executable))
    path.chmod(0o755)
    return path


def test_a_notebook_shows_the_page_in_a_frame(command):
    with fl.studio("photos", "list.toml", command=command, height=500) as studio:
        assert studio.url == "http://127.0.0.1:9/studio-photos---pipeline-list.toml/"
        assert f'<iframe src="{studio.url}"' in studio._repr_html_()
        assert "height: 500px" in studio._repr_html_()
        assert repr(studio) == f"Studio({studio.url!r})"
        process = studio._process
        assert process.poll() is None
    assert process.poll() is not None
    studio.close()
    assert repr(studio) == "Studio(closed)"


def test_a_server_ends_with_its_object(command):
    studio = fl.studio("photos", command=command)
    process = studio._process
    del studio
    assert process.poll() is not None


def test_an_error_of_the_command_is_raised(command, tmp_path, monkeypatch):
    with pytest.raises(fl.ConfigError, match="error: missing: no such dataset"):
        fl.studio("missing", command=command)
    with pytest.raises(fl.ConfigError, match="No such file"):
        fl.studio("photos", command=tmp_path / "nothing")
    monkeypatch.setenv("PATH", os.fspath(tmp_path / "empty"))
    monkeypatch.setenv("CARGO_HOME", os.fspath(tmp_path / "cargo"))
    monkeypatch.setattr(sys, "executable", os.fspath(tmp_path / "empty" / "python"))
    with pytest.raises(fl.ConfigError, match="`cargo install --locked --path fuseloop/cli`.*command=") as error:
        fl.studio("photos")
    assert "git clone" in str(error.value)


def test_the_command_is_found_where_cargo_installs_it(command, tmp_path, monkeypatch):
    (tmp_path / "cargo").mkdir()
    monkeypatch.setenv("PATH", os.fspath(tmp_path / "empty"))
    monkeypatch.setenv("CARGO_HOME", os.fspath(tmp_path / "cargo"))
    monkeypatch.setattr(sys, "executable", os.fspath(tmp_path / "empty" / "python"))
    (tmp_path / "cargo" / "bin").mkdir()
    command.rename(tmp_path / "cargo" / "bin" / "fuseloop")
    with fl.studio("photos") as studio:
        assert studio.url.endswith("/studio-photos/")


def test_the_example_runs(command, monkeypatch):
    if not PAGE.exists():
        pytest.skip("no sources beside the tests")
    monkeypatch.setenv("PATH", os.fspath(command.parent))
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), {})  # noqa: S102
