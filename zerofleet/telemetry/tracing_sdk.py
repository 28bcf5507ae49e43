"""OpenTelemetry SDK that exports spans to a collector over OTLP (gRPC). Needs the extra `traces`.

The SDK reads the standard OpenTelemetry variables: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*`, `OTEL_SPAN_*`, `OTEL_TRACES_SAMPLER`, `OTEL_SDK_DISABLED`. A dedicated thread exports
spans from a bounded queue; while the collector is unreachable the oldest spans are dropped.
"""

from __future__ import annotations

import os
import socket
from importlib import metadata

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

__all__ = ["otlp_provider"]


def otlp_provider(service: str, processor: SpanProcessor | None = None) -> TracerProvider:
    """Return a provider that records the spans of a service; `processor` replaces the exporter in tests."""
    about = Resource.create(
        {
            "service.name": service,
            "service.namespace": "zerofleet",
            "service.version": metadata.version("zerofleet"),
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }
    )
    provider = TracerProvider(resource=about.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
    return provider
