"""A scripted endpoint: OpenAI's chat completions as it is told to send them."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock


@dataclass
class Script:
    """What the endpoint sends: a text in pieces, or raw bytes; and what it was sent."""

    text: str = ""
    raw: bytes | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    drips: bool = False  # sends comments, and never a chunk
    drips_head: bool = False  # sends a head that never ends
    head_piece: bytes = b"x"  # of such a head, again and again
    requests: list[Any] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    url: str = ""
    hook: Callable[[], object] = lambda: None  # called when a request came
    go: threading.Event = field(default_factory=threading.Event)

    def prompt(self) -> str:
        return str(self.requests[-1]["messages"][-1]["content"])

    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.status != 200:
            return json.dumps({"error": {"message": "no", "type": "x"}}).encode()
        pieces = [self.text[at : at + 7] for at in range(0, len(self.text), 7)]
        lines = [_chunk({"content": piece}) for piece in pieces]
        return "".join([*lines, "data: [DONE]\n\n"]).encode()


def _chunk(delta: dict[str, Any]) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"


@contextmanager
def served(script: Script) -> Iterator[Script]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            script.requests.append(json.loads(self.rfile.read(length)))
            script.keys.append(self.headers.get("Authorization", ""))
            script.hook()
            if script.hangs:
                script.go.wait(20)
                return
            if script.drips:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while not script.go.wait(0.05):
                        self.wfile.write(b": still here\n\n")
                return
            if script.drips_head:
                with contextlib.suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
                    while not script.go.wait(0.05):
                        self.wfile.write(script.head_piece)
                return
            body = script.body()
            self.send_response(script.status)
            for name, value in script.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        # It is plain HTTP: reading all authorities' certificates takes longer than an exchange.
        with mock.patch.object(ssl.SSLContext, "load_verify_locations"):
            yield script
    finally:
        script.go.set()
        server.shutdown()
        thread.join()
        server.server_close()
