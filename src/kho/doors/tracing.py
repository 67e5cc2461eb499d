"""OpenTelemetry spans, when an endpoint is configured (needs the extra otel)."""

import time

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from kho.kernel import Call, Operation
from kho.kernel.registry import Observer, Outcome


def exporter(endpoint: str) -> Observer:
    """Return an observer that sends one span per call. The SDK's own spans of MCP messages use the same exporter."""
    provider = TracerProvider(resource=Resource.create({"service.name": "kho"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("kho")

    def observe(operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
        ended = time.time_ns()
        span = tracer.start_span(operation.name, start_time=ended - int(seconds * 1e9))
        span.set_attributes({"kho.door": call.door, "kho.tenant": call.tenant, "kho.request_id": call.request_id})
        if outcome.error is not None:
            span.set_attribute("error.type", outcome.error.code)
            span.set_status(trace.StatusCode.ERROR, outcome.error.code)
        span.end(ended)

    return observe
