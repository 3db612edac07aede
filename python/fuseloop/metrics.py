"""Metrics of loaders for Prometheus and OpenTelemetry.

:class:`Collector` is a collector of ``prometheus_client``, :func:`instrument` makes instruments of OpenTelemetry. Both read
a loader's counters when they are asked, so that batches cost nothing more. The names are those of the Rust library, with
the labels ``loader`` and ``rank``; ``docs/grafana.json`` is a board for them.

>>> import fuseloop as fl
>>> from prometheus_client import start_http_server
>>> loader = fl.Loader(example_dataset(), batch_size=4, image=[fl.ops.RandomResizedCrop(32)])
>>> collector = fl.metrics.Collector({"train": loader})
>>> start_http_server(9400, addr="127.0.0.1")  # doctest: +SKIP
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .errors import FuseloopError
from .loader import Loader, Stats

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as _Family

__all__ = ["METRICS", "Collector", "Metric", "instrument"]


class Metric(NamedTuple):
    """The declaration of a metric. ``kind`` is ``"counter"``, ``"gauge"`` or ``"histogram"``; ``unit`` is ``"1"`` for
    counts, ``"s"`` for seconds or ``"By"`` for bytes."""

    name: str
    kind: str
    unit: str
    help: str


# The same table is in src/loader/metrics.rs, whose test compares them.
METRICS = (
    Metric("fuseloop_samples_total", "counter", "1", "Samples delivered."),
    Metric("fuseloop_batches_total", "counter", "1", "Batches delivered."),
    Metric("fuseloop_damaged_samples_total", "counter", "1", "Rows left out or replaced because their samples are damaged."),
    Metric("fuseloop_stalls_total", "counter", "1", "Batches that came so late that a warning names the cause."),
    Metric("fuseloop_consumer_wait_seconds_total", "counter", "s", "Time that the program waited for batches."),
    Metric("fuseloop_phase_seconds_total", "counter", "s", "Time of all workers in each phase, waiting included."),
    Metric("fuseloop_batch_wait_seconds", "histogram", "s", "Time that the program waited for a batch."),
    Metric("fuseloop_batches_ready", "gauge", "1", "Batches that are finished and not yet delivered."),
    Metric("fuseloop_workers", "gauge", "1", "Threads that prepare batches."),
    Metric("fuseloop_batch_memory_bytes", "gauge", "By", "Memory of all batches: in preparation, ready, held by the program, and free for reuse."),
)

Loaders: TypeAlias = Loader[Any] | Mapping[str, Loader[Any]]


class Collector:
    """Shows loaders to Prometheus, and registers itself in a registry of ``prometheus_client``.

    ``start_http_server`` of ``prometheus_client`` serves the registry, and so do its applications for WSGI and ASGI.
    Loaders are not kept alive; one that is closed or gone is not shown any more. Each rank has its own process and its own
    server.

    Args:
        loaders: A loader, which is called like its dataset, or loaders by their names. All loaders of a registry belong
            into one collector.
        registry: The registry; by default ``prometheus_client.REGISTRY``.

    >>> import fuseloop as fl
    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> loader = fl.Loader(example_dataset(), batch_size=4, image=[fl.ops.RandomResizedCrop(32)])
    >>> registry = CollectorRegistry()
    >>> collector = fl.metrics.Collector({"train": loader}, registry)
    >>> batches = [batch for batch in loader]
    >>> print(generate_latest(registry).decode().splitlines()[2])
    fuseloop_samples_total{loader="train",rank="0"} 24.0
    """

    def __init__(self, loaders: Loaders, registry: CollectorRegistry | None = None) -> None:
        try:
            import prometheus_client
        except ImportError as error:
            raise ImportError("fuseloop.metrics.Collector needs prometheus_client: pip install prometheus_client") from error
        self._watched = _Watched(loaders)
        self._registry = prometheus_client.REGISTRY if registry is None else registry
        self._registry.register(self)

    def describe(self) -> Iterable[_Family]:
        """Names the metrics, which a registry asks for when the collector is registered."""
        return [_family(metric) for metric in METRICS]

    def collect(self) -> Iterator[_Family]:
        """Reads all loaders."""
        readings = list(self._watched.readings())
        for metric in METRICS:
            family = _family(metric)
            for reading in readings:
                reading.add_to(family, metric)
            yield family

    def close(self) -> None:
        """Takes the collector out of its registry."""
        self._registry.unregister(self)


def instrument(loaders: Loaders, meter_provider: MeterProvider | None = None) -> None:
    """Makes observable instruments of OpenTelemetry, which the readers of a meter provider read.

    The names are those of :data:`METRICS`. There is no histogram: OpenTelemetry has none that is observed.
    Loaders are not kept alive.

    Args:
        loaders: A loader, which is called like its dataset, or loaders by their names.
        meter_provider: By default that of the program: ``opentelemetry.metrics.get_meter_provider()``.

    >>> import fuseloop as fl
    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    >>> loader = fl.Loader(example_dataset(), batch_size=4, image=[fl.ops.RandomResizedCrop(32)])
    >>> reader = InMemoryMetricReader()  # or a PeriodicExportingMetricReader with an OTLPMetricExporter
    >>> fl.metrics.instrument({"train": loader}, MeterProvider([reader]))
    """
    try:
        from opentelemetry import metrics as api
    except ImportError as error:
        raise ImportError("fuseloop.metrics.instrument needs OpenTelemetry: pip install opentelemetry-sdk") from error
    watched = _Watched(loaders)

    def observe(metric: Metric) -> list[Observation]:
        values = (value for reading in watched.readings() for value in reading.values(metric))
        return [api.Observation(value, labels) for value, labels in values]

    meter = api.get_meter("fuseloop", meter_provider=meter_provider)
    for metric in METRICS:
        if metric.kind == "histogram":
            continue

        def callback(_: CallbackOptions, metric: Metric = metric) -> list[Observation]:
            return observe(metric)

        create = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        # Exporters to Prometheus make a name from the unit, too: the name of a gauge of "1" would end in "_ratio".
        create(metric.name, [callback], "" if metric.unit == "1" else metric.unit, metric.help)


class _Watched:
    """Loaders and their names, without keeping them alive."""

    def __init__(self, loaders: Loaders) -> None:
        named = {loaders.dataset.name: loaders} if isinstance(loaders, Loader) else dict(loaders)
        self._loaders = {str(name): weakref.ref(loader) for name, loader in named.items()}

    def readings(self) -> Iterator[_Reading]:
        for name, found in self._loaders.items():
            loader = found()
            # A process forked from the loader's has none of its threads.
            if loader is None or loader._process != os.getpid():
                continue
            try:
                rank = loader._core().rank()
                yield _Reading({"loader": name, "rank": str(rank)}, loader.stats(), loader._found_damage()[1])
            except FuseloopError:  # it is closed
                continue


class _Reading(NamedTuple):
    """The counters of a loader."""

    labels: dict[str, str]
    stats: Stats
    damaged: int

    def values(self, metric: Metric) -> Iterator[tuple[float, dict[str, str]]]:
        """Returns the values of a metric that is no histogram, and their labels."""
        stats = self.stats
        if metric.name == "fuseloop_phase_seconds_total":
            for phase, seconds in stats.phases.items():
                if phase != "wait for a batch":  # the consumer's, which no worker is in
                    yield seconds, {**self.labels, "phase": phase}
            return
        value = {
            "fuseloop_samples_total": stats.samples,
            "fuseloop_batches_total": stats.batches,
            "fuseloop_damaged_samples_total": self.damaged,
            "fuseloop_stalls_total": stats.stalls,
            "fuseloop_consumer_wait_seconds_total": stats.consumer_waited,
            "fuseloop_batches_ready": stats.batches_ready,
            "fuseloop_workers": stats.workers,
            "fuseloop_batch_memory_bytes": stats.batch_bytes,
        }[metric.name]
        if value is not None:
            yield value, self.labels

    def add_to(self, family: Any, metric: Metric) -> None:
        """Adds what the loader has of a metric to its family of prometheus_client."""
        if metric.kind != "histogram":
            for value, labels in self.values(metric):
                family.add_metric(list(labels.values()), value)
        elif self.stats.waits:
            buckets = [(f"{bound:g}", count) for bound, count in self.stats.waits]
            buckets.append(("+Inf", max(self.stats.batches, self.stats.waits[-1][1])))
            family.add_metric(list(self.labels.values()), buckets, self.stats.consumer_waited)


def _family(metric: Metric) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    families = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    labels = ["loader", "rank", *(["phase"] if metric.name == "fuseloop_phase_seconds_total" else [])]
    return families[metric.kind](metric.name, metric.help, labels=labels)
