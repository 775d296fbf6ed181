"""Traces of requests with OpenTelemetry: a span of each, of its wait for the model, its answer.

Where they go is set by OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT. Spans
have routes, statuses and times; no question, document or address is in them.
"""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING

from opentelemetry import context as current
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from starlette.datastructures import Headers

from .._version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NANO = 1_000_000_000
_ERROR = 500


class Tracing:
    """Where the spans of one application go: an exporter, by default that of OTLP over HTTP."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
        # Variables of the user's, such as OTEL_SERVICE_NAME, win.
        resource = Resource.create({"service.name": "drt", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self._provider.get_tracer("drt", __version__)

    def note_work(self, asked: Context, entered: float, began: float, ended: float) -> None:
        """Add the spans of a question: seconds since the epoch, in the context that asked it."""
        parent = asked.run(current.get_current)
        for name, start, end in (("wait", entered, began), ("answer", began, ended)):
            span = self.tracer.start_span(name, parent, start_time=int(start * _NANO))
            span.end(int(end * _NANO))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


class Traced:
    """Middleware that makes a span of each request, in the trace that its client names."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app, self._tracer = app, tracing.tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on within its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        method = scope["method"]
        parent = extract(Headers(scope=scope))
        with self._tracer.start_as_current_span(method, parent, SpanKind.SERVER) as span:
            try:
                await self._app(scope, receive, note_status)
            finally:
                route = getattr(scope.get("route"), "path", "other")
                span.update_name(f"{method} {route}")
                span.set_attribute("http.request.method", method)
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)
                if status >= _ERROR:
                    span.set_status(Status(StatusCode.ERROR))
