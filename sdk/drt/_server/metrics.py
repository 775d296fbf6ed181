"""Counters and timings of the server, in Prometheus' text format.

Where ``PROMETHEUS_MULTIPROC_DIR`` names a folder, processes that serve together count into its
files, and each shows the numbers of all: counts, timings and what waits are sums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A client may send any word as the method, and each that is counted takes memory.
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class Metrics:
    """The numbers of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._is_shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        self._waiting: list[tuple[Gauge, Callable[[], int]]] = []
        self._sizes: list[tuple[Gauge, Callable[[], int]]] = []
        if not self._is_shared:
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
        self._queue = self._gauge("drt_questions_waiting", "Questions that wait for the model.")
        self._clients = self._gauge("drt_clients_waiting", "Clients whose questions wait.")
        self._waits = self._histogram(
            "drt_question_wait_seconds", "Seconds that a question waited for the model."
        )
        self._answers = self._histogram(
            "drt_answer_seconds", "Seconds of the model for a question or other work."
        )
        self._refused = Counter(
            "drt_questions_refused",
            "Questions that were refused because they would have waited too long.",
            registry=self._registry,
        )
        self._library = self._gauge(
            "drt_library_bytes", "Bytes of the library's files.", "mostrecent"
        )
        self._free = self._gauge(
            "drt_disk_free_bytes", "Free bytes of the library's disk.", "mostrecent"
        )
        self._tokens = Counter(
            "drt_tokens_ingested", "Tokens of documents that were read.", registry=self._registry
        )

    def _gauge(
        self, name: str, text: str, mode: Literal["livesum", "mostrecent"] = "livesum"
    ) -> Gauge:
        return Gauge(name, text, registry=self._registry, multiprocess_mode=mode)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, buckets=BUCKETS, registry=self._registry)

    def watch(
        self,
        *,
        waiting: Callable[[], int],
        clients: Callable[[], int],
        library_bytes: Callable[[], int],
        free_bytes: Callable[[], int],
    ) -> None:
        """Show the queue, the library and its disk as they are when they are asked for."""
        self._waiting = [(self._queue, waiting), (self._clients, clients)]
        self._sizes = [(self._library, library_bytes), (self._free, free_bytes)]

    def note_wait(self, seconds: float) -> None:
        """Count how long a question waited for its turn."""
        self._waits.observe(seconds)
        if self._is_shared:  # another process may be asked how many wait here
            _look(self._waiting)

    def note_answer(self, seconds: float) -> None:
        """Count how long the model worked on a question."""
        self._answers.observe(seconds)

    def count_refused(self) -> None:
        """Count a question that was refused."""
        self._refused.inc()

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
        _look(self._waiting + self._sizes)
        if not self._is_shared:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def _look(gauges: Iterable[tuple[Gauge, Callable[[], int]]]) -> None:
    for gauge, value in gauges:
        gauge.set(value())
