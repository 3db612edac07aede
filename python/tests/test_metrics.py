"""Metrics of loaders, as Prometheus and OpenTelemetry read them, and batches that come late."""

from __future__ import annotations

import gc
import time
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run_python

import fuseloop as fl
from fuseloop import ops


def finished(photos: Path, **options: Any) -> fl.Loader[Any]:
    """Returns a loader of 24 images, after an epoch of 6 batches."""
    loader = fl.Loader(photos, batch_size=4, workers=2, image=[ops.RandomResizedCrop(16)], **options)
    for _ in loader:
        pass
    return loader


def exposed(registry: Any) -> dict[str, dict[tuple[str, ...], float]]:
    """Reads the text that a registry gives to Prometheus: for each name the labels, after the loader and the rank, and
    the values."""
    prometheus_client = pytest.importorskip("prometheus_client")
    parser = pytest.importorskip("prometheus_client.parser")
    text = prometheus_client.generate_latest(registry).decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sample.labels.pop(name) for name in ("loader", "rank")) + tuple(sample.labels.values())
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_prometheus_reads_every_metric(photos: Path) -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    loader = finished(photos)
    registry = prometheus_client.CollectorRegistry()
    collector = fl.metrics.Collector({"train": loader}, registry)
    found, stats = exposed(registry), loader.stats()
    labels = ("train", "0")
    assert found["fuseloop_samples_total"] == {labels: 24}
    assert found["fuseloop_batches_total"] == {labels: 6}
    assert found["fuseloop_damaged_samples_total"] == {labels: 0}
    assert found["fuseloop_stalls_total"] == {labels: 0}
    assert found["fuseloop_workers"] == {labels: 2}
    assert found["fuseloop_batches_ready"] == {labels: 0}
    assert found["fuseloop_batch_memory_bytes"][labels] >= 4 * 16 * 16 * 3
    assert found["fuseloop_consumer_wait_seconds_total"][labels] == pytest.approx(stats.consumer_waited, abs=1e-6)
    phases = {phase for _, _, phase in found["fuseloop_phase_seconds_total"]}
    assert phases == set(stats.phases) - {"wait for a batch"}
    decoded = found["fuseloop_phase_seconds_total"][(*labels, "decode")]
    assert 0 < decoded <= stats.phases["decode"]
    buckets = found["fuseloop_batch_wait_seconds_bucket"]
    counts = [count for (_, _, _), count in buckets.items()]
    assert counts == sorted(counts) and buckets[(*labels, "+Inf")] == 6
    assert found["fuseloop_batch_wait_seconds_count"] == {labels: 6}
    known = {metric.name for metric in fl.metrics.METRICS}
    ends = ("_bucket", "_count", "_sum")
    names = {name for name in found if not name.startswith("fuseloop_batch_wait_seconds")}
    assert names | {"fuseloop_batch_wait_seconds"} == known and all(f"fuseloop_batch_wait_seconds{end}" in found for end in ends)
    collector.close()
    assert exposed(registry) == {}


def test_a_server_serves_the_text(photos: Path) -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    loader = finished(photos)
    registry = prometheus_client.CollectorRegistry()
    fl.metrics.Collector(loader, registry)
    server, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as response:
            text = response.read().decode()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert "# HELP fuseloop_samples_total Samples delivered.\n# TYPE fuseloop_samples_total counter\n" in text
    assert f'fuseloop_samples_total{{loader="{loader.dataset.name}",rank="0"}} 24.0\n' in text


def test_loaders_are_told_apart_and_not_kept(photos: Path) -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    train = finished(photos, ranks=fl.Ranks(1, 2))
    val, gone = finished(photos), finished(photos)
    registry = prometheus_client.CollectorRegistry()
    fl.metrics.Collector({"train": train, "val": val, "gone": gone}, registry)
    assert set(exposed(registry)["fuseloop_samples_total"]) == {("train", "1"), ("val", "0"), ("gone", "0")}
    val.close()
    del gone
    gc.collect()
    assert exposed(registry)["fuseloop_samples_total"] == {("train", "1"): 12}


def test_opentelemetry_observes(photos: Path) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    loader = finished(photos)
    reader = export.InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    fl.metrics.instrument({"train": loader}, provider)
    data = reader.get_metrics_data()
    found = {one.name: one for one in data.resource_metrics[0].scope_metrics[0].metrics}
    assert set(found) == {metric.name for metric in fl.metrics.METRICS if metric.kind != "histogram"}
    [point] = found["fuseloop_samples_total"].data.data_points
    assert point.value == 24 and dict(point.attributes) == {"loader": "train", "rank": "0"}
    assert found["fuseloop_samples_total"].data.is_monotonic
    assert found["fuseloop_consumer_wait_seconds_total"].unit == "s"
    phases = {point.attributes["phase"]: point.value for point in found["fuseloop_phase_seconds_total"].data.data_points}
    assert phases["decode"] > 0 and "wait for a batch" not in phases
    for _ in loader:
        pass
    data = reader.get_metrics_data()
    found = {one.name: one for one in data.resource_metrics[0].scope_metrics[0].metrics}
    assert found["fuseloop_samples_total"].data.data_points[0].value == 48
    provider.shutdown()


def test_damaged_samples_are_counted(tmp_path: Path, photos: Path) -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    images = [path.read_bytes() for path in sorted((photos / "bee").iterdir())]
    folder = tmp_path / "photos" / "bee"
    folder.mkdir(parents=True)
    for number, image in enumerate(images):
        (folder / f"{number:03}.png").write_bytes(image[:60] if number in (3, 7) else image)
    loader = fl.Loader(folder.parent, batch_size=4, on_damaged="substitute", image=[ops.RandomResizedCrop(16)])
    for _ in loader:
        pass
    registry = prometheus_client.CollectorRegistry()
    fl.metrics.Collector({"train": loader}, registry)
    assert exposed(registry)["fuseloop_damaged_samples_total"] == {("train", "0"): 2}


def test_what_is_missing_is_named() -> None:
    done = run_python(
        """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("opentelemetry", "prometheus_client"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import fuseloop as fl
assert len(fl.metrics.METRICS) == 10
for call, cure in ((fl.metrics.Collector, "pip install prometheus_client"), (fl.metrics.instrument, "pip install opentelemetry-sdk")):
    try:
        call({})
    except ImportError as error:
        assert cure in str(error), error
    else:
        raise AssertionError(cure)
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_late_batch_is_a_warning_with_its_cause() -> None:
    loaders: list[fl.Loader[Any]] = []

    def nap(image: Any, sample: int) -> None:
        end = time.monotonic() + 60
        while sample == 29 and not loaders[0].stats().stalls and time.monotonic() < end:
            time.sleep(0.01)

    images = np.full((32, 8, 8, 3), 7, np.uint8)
    loader = fl.Loader((images,), batch_size=2, workers=2, image=[ops.Lambda(nap, per_sample=True)])
    loaders.append(loader)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in loader:
            pass
    late = [one for one in caught if "the program has waited" in str(one.message)]
    assert len(late) == 1 and late[0].category is fl.FuseloopWarning, [str(one.message) for one in caught]
    text = str(late[0].message)
    assert "epoch 0, batch 14: the program has waited " in text
    assert "running the ops on sample 29" in text and "a function in the list of ops may wait" in text
    assert loader.stats().stalls == 1
    loader.close()
