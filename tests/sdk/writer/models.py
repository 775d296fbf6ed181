"""Programs that offer language models, as far as their list of names goes."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def offering(*bodies: Any, wait: float = 0.0, drips: float = 0.0) -> Iterator[list[int]]:
    """Serve each body, JSON or bytes, as the list of models of a program; yield the ports.

    ``drips`` is how long it waits after each byte.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(_served(body, wait, drips)) for body in bodies]


@contextmanager
def _served(body: Any, wait: float, drips: float) -> Iterator[int]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(wait)
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):  # who asked does not wait
                for at in range(0, len(content), size := len(content) if not drips else 1):
                    self.wfile.write(content[at : at + size])
                    time.sleep(drips)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def listed(*names: str, owner: str = "library") -> dict[str, Any]:
    """A list of models as OpenAI's endpoint gives it."""
    entries = [{"id": name, "object": "model", "owned_by": owner} for name in names]
    return {"object": "list", "data": entries}
