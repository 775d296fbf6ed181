"""Counters and timings of the server, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A client may send any word as the method, and each that is counted takes memory.
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Metrics:
    """The numbers of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "drt_requests",
            "Requests that were answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "drt_request_seconds",
            "Seconds from a request to the end of its response.",
            ("route",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._queue = Gauge(
            "drt_questions_waiting", "Questions that wait for the model.", registry=self._registry
        )
        self._tokens = Counter(
            "drt_tokens_ingested", "Tokens of documents that were read.", registry=self._registry
        )

    def watch_queue(self, waiting: Callable[[], int]) -> None:
        """Show the length of the queue as it is when it is asked for."""
        self._queue.set_function(waiting)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        known = method if method in METHODS else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_tokens(self, tokens: int) -> None:
        """Count the tokens of a document that was read."""
        self._tokens.inc(tokens)

    def text(self) -> bytes:
        """Return all numbers."""
        return generate_latest(self._registry)
