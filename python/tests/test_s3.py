"""Datasets in a bucket: those of moto, an S3 server in this process, which boto3 fills."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import ops
from fuseloop.write import Image, write

boto3 = pytest.importorskip("boto3")
server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a server with the bucket ``data``, which the environment names to the loaders. The connection to a
    bucket stays open as long as the process, so all tests share the server."""
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy"):
            patch.delenv(name, raising=False)
        client = boto3.client("s3", endpoint_url=settings["AWS_ENDPOINT_URL"], region_name="us-east-1")
        client.create_bucket(Bucket="data")
        yield client
    moto.stop()


@pytest.fixture
def beton(tmp_path: Path) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (40, 48, 48, 3), np.uint8)
    path = tmp_path / "a.beton"
    samples = [(pixels, k) for k, pixels in enumerate(noise)]
    write(samples, path, {"image": "image", "label": "int"}, image=Image("raw"), progress=None)
    return path


def batches(dataset: str | Path, **settings: Any) -> list[tuple[bytes, bytes]]:
    lists = {"image": [ops.RandomResizedCrop(32)], "label": [ops.Convert("i64")]}
    loader = fl.Loader(dataset, batch_size=8, order="random", seed=3, ops=lists, **settings)
    return [(batch["image"].numpy().tobytes(), batch["label"].numpy().tobytes()) for batch in loader]


def test_a_beton_in_a_bucket_is_the_file(client: Any, beton: Path) -> None:
    client.put_object(Bucket="data", Key="sets/a b+c=ü.beton", Body=beton.read_bytes())
    url, expected = "s3://data/sets/a b+c=ü.beton", batches(beton)
    assert batches(url) == expected
    assert batches(url, process_cache=fl.ProcessCache("64MiB")) == expected
    loader = fl.Loader(url, batch_size=8, order="random", seed=3, image=[ops.RandomResizedCrop(32)])
    run = iter(loader)
    next(run)
    state = loader.state_dict()
    rest = [batch["image"].numpy().tobytes() for batch in run]
    local = fl.Loader(beton, batch_size=8, order="random", seed=3, image=[ops.RandomResizedCrop(32)])
    local.load_state_dict(state)
    assert [batch["image"].numpy().tobytes() for batch in local] == rest


def test_shards_in_a_bucket_are_the_files(client: Any, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (3, 10, 20, 20, 3), np.uint8)
    for shard, arrays in enumerate(noise):
        path = tmp_path / f"train-{shard}.tar"
        with tarfile.open(path, "w") as tar:
            for k, array in enumerate(arrays):
                file = io.BytesIO()
                np.save(file, array)
                for name, content in ((f"{shard}_{k}.npy", file.getvalue()), (f"{shard}_{k}.cls", b"%d" % k)):
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        client.upload_file(str(path), "data", path.name)

    def values(folder: str | Path) -> list[bytes]:
        loader = fl.Loader(f"{folder}/train-{{0..2}}.tar", batch_size=7, order="random", seed=1)
        return [batch[name].numpy().tobytes() for batch in loader for name in ("npy", "cls")]

    assert values("s3://data") == values(tmp_path)


def test_what_a_bucket_does_not_have(client: Any, beton: Path) -> None:
    with pytest.raises(fl.FuseloopError, match=r"s3://data/none\.beton: not found \(404\): check the name"):
        fl.Loader("s3://data/none.beton", batch_size=8)
    with pytest.raises(fl.FuseloopError, match=r"s3://other/a\.beton: not found \(404\)"):
        fl.Loader("s3://other/a.beton", batch_size=8)


def test_an_object_that_is_replaced_is_refused(client: Any, beton: Path) -> None:
    client.put_object(Bucket="data", Key="a.beton", Body=beton.read_bytes())
    loader = fl.Loader("s3://data/a.beton", batch_size=8, image=[ops.RandomResizedCrop(32)])
    changed = bytearray(beton.read_bytes())
    changed[-1] ^= 1
    client.put_object(Bucket="data", Key="a.beton", Body=bytes(changed))
    with pytest.raises(fl.FuseloopError, match="changed"):
        list(loader)
