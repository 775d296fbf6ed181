"""One log record for each request, as text or as a line of JSON.

Holds route patterns and no paths, questions or names of documents: logs are kept longer than those.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

_log = logging.getLogger("drt.server.access")


def log_request(**fields: Any) -> None:
    """Log one answered request with these fields."""
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    _log.info("request %s", text, extra={"fields": fields})


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a request's fields stand beside time, level and message."""
        fields: dict[str, Any] | None = getattr(record, "fields", None)
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if fields is None else "request",
            **(fields or {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


@contextlib.contextmanager
def logging_to_stderr(kind: str) -> Iterator[None]:
    """Write the server's records to standard error as ``text`` or ``json`` while the block runs."""
    if kind == "off":
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(JsonFormatter() if kind == "json" else text)
    loggers = [logging.getLogger(name) for name in ("drt", "uvicorn.error")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
