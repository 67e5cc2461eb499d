"""GET /metrics: call counts, durations and the figures of the store for Prometheus."""

import os
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest, multiprocess
from prometheus_client import Gauge as LiveGauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from kho.kernel import Call, Operation, Principal, TooManyRequests
from kho.kernel.capability import Gauge
from kho.kernel.registry import Outcome


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("operation", "door")
        self._calls = Counter("kho_calls", "Calls, by outcome.", (*labels, "code"), registry=self._registry)
        self._seconds = Histogram("kho_call_seconds", "Time to an answer.", labels, registry=self._registry)
        self.sessions = LiveGauge(
            "kho_mcp_sessions", "Open sessions of MCP.", registry=self._registry, multiprocess_mode="livesum"
        )
        self._refused = Counter(
            "kho_refused", "Requests and streams that a limit refused, by limit.", ("limit",), registry=self._registry
        )
        self._children: dict[tuple[str, str, str], tuple[Any, Any]] = {}
        self.content_type = CONTENT_TYPE_LATEST.encode()

    def observe(self, operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
        # A tenant's own operations, such as its boards' tools, are counted together: their names are its own.
        name = f"{operation.capability}.live" if operation.tenant else operation.name
        key = (name, call.door, outcome.error.code if outcome.error else "OK")
        children = self._children.get(key)
        if children is None:  # looking up a child by its labels costs more than incrementing it
            children = self._children[key] = (self._calls.labels(*key), self._seconds.labels(*key[:2]))
        children[0].inc()
        children[1].observe(seconds)

    def refused(self, principal: Principal, error: TooManyRequests) -> None:
        self._refused.labels(error.details["limit"]).inc()

    def render(self, measured: Iterable[tuple[Gauge, float]] = ()) -> bytes:
        """Render all metrics. What was `measured` is the same for all workers, so it is not a per-worker gauge:
        Prometheus would add those up."""
        now = CollectorRegistry()
        ProcessCollector(registry=now)  # memory, processor time and open files of this process (Linux)
        for gauge, value in measured:
            now.register(_Measured(gauge, value))
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry) + generate_latest(now)
        multiprocess.MultiProcessCollector(now)  # several workers share a folder of counters
        return generate_latest(now)


class _Measured(Collector):
    def __init__(self, gauge: Gauge, value: float) -> None:
        self._family = GaugeMetricFamily(gauge.name, gauge.help, value)

    def collect(self) -> Iterable[Metric]:
        return [self._family]
