"""Batches in page-locked memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import fake_driver, run_python

import fuseloop as fl
from fuseloop import ops


def test_without_a_gpu_it_warns_once(same_size: Path, tmp_path: Path) -> None:
    (tmp_path / "pinned.toml").write_text("batch_size = 8\npin_memory = 0\nwithout = ['image']\n")
    code = f"""
import warnings
import fuseloop as fl
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    resize = [fl.ops.Resize((32, 32))]
    loader = fl.Loader({str(same_size)!r}, 8, pin_memory=True, image=resize)
    assert not caught
    plain = fl.Loader({str(same_size)!r}, 8, image=resize)
    for epoch in range(2):
        for one, other in zip(loader, plain):
            assert (one["image"].numpy() == other["image"].numpy()).all()
    list(fl.Loader.from_spec({str(tmp_path / "pinned.toml")!r}, {str(same_size)!r}))
    assert "page-locked" in str(caught[1].message)
print(len(caught), caught[0].message)
"""
    ran = run_python(code, LD_LIBRARY_PATH="", CUDA_VISIBLE_DEVICES="")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("2 pin_memory: batches are not page-locked: "), ran.stdout


@pytest.mark.parametrize("fails", [False, True])
def test_pinned_on_the_fake_driver(same_size: Path, tmp_path: Path, fails: bool) -> None:
    library = fake_driver()
    if library is None:
        pytest.skip("the fake driver was not built: cargo test builds it")
    (tmp_path / "libcuda.so.1").symlink_to(library)
    code = f"""
import ctypes, gc, warnings
import fuseloop as fl
driver = ctypes.CDLL("libcuda.so.1")
def report():
    text = ctypes.create_string_buffer(1 << 16)
    driver.fake_cuda_report(text, len(text))
    return dict(line.split(" ", 1) for line in text.value.decode().splitlines())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    loader = fl.Loader({str(same_size)!r}, 8, pin_memory=1, image=[fl.ops.Resize((32, 32))])
    assert report()["contexts"] == "0"
    batches = list(loader)
    print(report()["registered"], *[warning.message for warning in caught])
    images = batches[0]["image"].numpy()
    assert batches[0]["image"].device == "cpu"
    loader.close()
    del loader, batches
    gc.collect()
    print(report()["registered"], images.sum() > 0)
    del images
    print(report()["registered"])
"""
    settings = {"FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_FAIL": "cuMemHostRegister_v2:*:2" if fails else ""}
    ran = run_python(code, LD_LIBRARY_PATH=str(tmp_path), **{name: value for name, value in settings.items() if value})
    assert ran.returncode == 0, ran.stderr
    first, second, third = ran.stdout.strip().split("\n")
    if fails:
        assert first.startswith("0 pin_memory: batches are not page-locked: the system refuses")
        assert (second, third) == ("0 True", "0")
    else:
        assert int(first) >= 10, "the images and labels of five batches"
        assert (second, third) == ("2 True", "0"), "a view holds the locks of its batch"


def test_mistakes_say_what_to_do(same_size: Path) -> None:
    with pytest.raises(fl.ConfigError, match="use one of the two"):
        fl.Loader(same_size, pin_memory=True, copy=True)
    with pytest.raises(fl.ConfigError, match="pin_memory is 'yes', expected a whole number"):
        fl.Loader(same_size, pin_memory="yes")  # type: ignore[arg-type]


def test_streams_hold_a_batch_until_its_copies_are_done(same_size: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of a GPU that is late: no batch is used again before its event is done."""
    torch = pytest.importorskip("torch")
    events: list[Any] = []

    class Event:
        done = False

        def record(self) -> None:
            events.append(self)

        def query(self) -> bool:
            return self.done

        def synchronize(self) -> None:
            self.done = True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = fl.torch.Loader(same_size, 4, pin_memory=0, image=[ops.Resize((64, 64))], batches_ahead=1, workers=1)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        late = [images.data_ptr() for images, _ in loader]
        assert len(set(late)) == len(late) == 10
        assert len(events) == 9, "one for each batch, when the next is asked for"
        for event in events:
            event.done = True
        reused = [images.data_ptr() for images, _ in loader]
        assert set(reused) & set(late)
        loader.close()
        assert all(event.done for event in events)
        assert len(events) == 20
    plain = fl.Loader(same_size, 4, image=[ops.Resize((64, 64))])
    again = fl.torch.Loader(same_size, 4, image=[ops.Resize((64, 64))])
    for batch, (images, _) in zip(plain, again):
        np.testing.assert_array_equal(batch["image"].numpy(), images.numpy())
