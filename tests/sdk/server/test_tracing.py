"""Spans of requests: their route and status, the wait and the answer below, in a client's trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, ConfigError, ServeOptions, asgi_app
from tests.sdk.server.conftest import Serve

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keep the spans in memory instead of sending them."""
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("starlette")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from drt._server import app
    from drt._server.tracing import Tracing

    memory = InMemorySpanExporter()
    monkeypatch.setattr(app, "_tracing", lambda: Tracing(memory))
    return memory


def test_a_question_has_a_span_with_its_wait_and_its_answer(
    serve: Serve, assistant: Assistant, handbook: Path, spans: Any
) -> None:
    assistant.ingest(handbook)
    client = serve(traces=True)
    parent = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    asked = client.post("/v1/ask", json={"question": "What is the notice period?"}, headers=parent)
    assert asked.status_code == 200
    client.get("/nowhere?words=secret")
    client.app.state.service.tracing._provider.force_flush()  # noqa: SLF001
    found = {span.name: span for span in spans.get_finished_spans()}
    request = found["POST /v1/ask"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert request.attributes["http.response.status_code"] == 200
    assert request.resource.attributes["service.name"] == "drt"
    for name in ("wait", "answer"):
        span = found[name]
        assert span.parent.span_id == request.context.span_id
        assert request.start_time - 50_000_000 <= span.start_time <= span.end_time
    assert found["wait"].end_time == found["answer"].start_time
    assert found["GET other"].attributes["http.response.status_code"] == 404
    text = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "notice" not in text and "secret" not in text and "handbook" not in text


def test_without_the_extra_it_is_a_sentence(
    assistant: Assistant, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette")
    assistant.ingest(handbook)
    monkeypatch.delitem(sys.modules, "drt._server.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"drt-assistant\[otel\]"):
        asgi_app(assistant, ServeOptions(traces=True))
