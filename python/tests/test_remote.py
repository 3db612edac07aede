"""The options of remote objects, and the counts of requests, over a web server of Python with ranges."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops, sources
from fuseloop.write import Image, write


class Handler(BaseHTTPRequestHandler):
    """Serves one object by ranges."""

    content = b""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def is_missing(self) -> bool:
        """Answers for all other names, such as those of the class names beside the dataset."""
        if self.path == "/a.beton":
            return False
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()
        return True

    def do_HEAD(self) -> None:
        if self.is_missing():
            return
        self.send_response(200)
        self.send_header("content-length", str(len(self.content)))
        self.send_header("etag", '"1"')
        self.end_headers()

    def do_GET(self) -> None:
        if self.is_missing():
            return
        first, last = (int(end) for end in self.headers["range"].removeprefix("bytes=").split("-"))
        part = self.content[first : last + 1]
        self.send_response(206)
        self.send_header("content-length", str(len(part)))
        self.send_header("content-range", f"bytes {first}-{first + len(part) - 1}/{len(self.content)}")
        self.send_header("etag", '"1"')
        self.end_headers()
        self.wfile.write(part)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    pixels = np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3)
    samples = [(pixels, k) for k in range(40)]
    path = tmp_path / "a.beton"
    write(samples, path, {"image": "image", "label": "int"}, image=Image("raw"), progress=None)

    class WithContent(Handler):
        content = path.read_bytes()

    server = ThreadingHTTPServer(("127.0.0.1", 0), WithContent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/a.beton"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def unset() -> Iterator[None]:
    yield
    sources.set_remote()


def labels(url: str) -> list[int]:
    loader = fl.Loader(url, batch_size=8, image=[ops.ToChannelsFirst()])
    return [int(label) for batch in loader for label in batch["label"].numpy().ravel()]


def test_a_cache_is_read_instead_of_the_server(url: str, tmp_path: Path) -> None:
    sources.set_remote(cache_dir=tmp_path / "cache", cache_bytes="100MB", max_requests=4, hedge_budget=0.05)
    before = sources.remote_stats()
    assert sorted(labels(url)) == list(range(40))
    first = sources.remote_stats()
    assert first.bytes > before.bytes
    assert sorted(labels(url)) == list(range(40))
    second = sources.remote_stats()
    assert second.bytes == first.bytes
    assert second.cached_bytes > first.cached_bytes


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_requests": 0}, "max_requests is 0, expected 1 or more"),
        ({"requests_per_second": 0.5}, "requests_per_second is 0.5, expected a whole number"),
        ({"hedge_budget": 1.5}, "hedge_budget is 1.5, expected a share from 0 to 1"),
        ({"retry_budget": float("nan")}, "retry_budget is nan, expected a share from 0 to 1"),
        ({"cache_dir": "x"}, "cache_dir without cache_bytes: set both"),
        ({"cache_bytes": 5}, "cache_bytes without cache_dir: set both"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FUSELOOP_CACHE_DIR", "FUSELOOP_CACHE_BYTES"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(fl.ConfigError) as error:
        sources.set_remote(**given)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSELOOP_MAX_REQUESTS", "many")
    with pytest.raises(fl.ConfigError, match='FUSELOOP_MAX_REQUESTS is "many", expected a number of 1 or more'):
        sources.set_remote()
    monkeypatch.undo()
