"""The writer's endpoint: its stream, and what can go wrong with it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import openai

from .._server.options import is_loopback
from .prompt import bounded
from .results import WriterError, WriterOptions

BODY_BYTES = 16 << 20  # of a response: chunks of text are small, their JSON is not


def texts(options: WriterOptions, messages: list[dict[str, str]]) -> Iterator[str]:
    """Yield the pieces of the writer's text; raises ``WriterError``."""
    line = _Line()
    timer = threading.Timer(options.timeout, line.cut)
    timer.daemon = True
    timer.start()
    try:
        with _client(options, line) as client:
            stream: Any = client.chat.completions.create(
                model=options.model,
                messages=messages,  # type: ignore[arg-type]  # plain dicts are what is sent
                stream=True,
                temperature=0,
            )
            yield from bounded(map(_piece, stream), options)
    except Exception as error:  # a client raises its transport's, too
        if line.is_cut:
            raise _late(options) from error
        if isinstance(error, WriterError):
            raise
        raise WriterError(_reason(error, options)) from error
    finally:
        timer.cancel()
        line.close()
    if line.is_cut:
        raise _late(options)


class _Line:
    """The connection of one exchange, which can be cut from another thread, and counts its bytes.

    Limits of single reads do not end a head or comments that come byte by byte. Shutting the
    socket down does, and wakes the thread that reads from it, which closing it would not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._bytes = 0
        self.is_cut = False

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take the socket when it is connected; a copy, since TLS replaces the first one."""
        if event != "connection.connect_tcp.complete":
            return
        with self._lock:
            self._socket = info["return_value"].get_extra_info("socket").dup()
            self._shut_down()

    def count(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces of a body; raises ``WriterError`` where they are too many bytes."""
        for piece in pieces:
            self._bytes += len(piece)
            if self._bytes > BODY_BYTES:
                raise WriterError(f"it sent more than {BODY_BYTES >> 20} MiB")
            yield piece

    def cut(self) -> None:
        """End the exchange, in whatever state it is."""
        with self._lock:
            self.is_cut = True
            self._shut_down()

    def close(self) -> None:
        """Close the copy of the socket."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _shut_down(self) -> None:
        if self.is_cut and self._socket is not None:
            with contextlib.suppress(OSError):  # the other side has ended it
                self._socket.shutdown(socket.SHUT_RDWR)


def _client(options: WriterOptions, line: _Line) -> openai.OpenAI:
    """Return a client that sends to the named address only.

    Proxies of the environment are used for other machines; this one's own addresses need none.
    """

    def watch(request: Any) -> None:
        request.extensions["trace"] = line.trace

    def limit(response: Any) -> None:
        # All ways to read a response go through its iter_bytes, those of errors as well.
        iter_bytes = response.iter_bytes
        response.iter_bytes = lambda *size: line.count(iter_bytes(*size))

    return openai.OpenAI(
        base_url=options.url,
        api_key=options.key or "none",
        organization="",
        project="",
        timeout=options.timeout,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(
            follow_redirects=False,
            trust_env=not is_loopback(urlsplit(options.url).hostname or ""),
            event_hooks={"request": [watch], "response": [limit]},
        ),
    )


def _late(options: WriterOptions) -> WriterError:
    return WriterError(f"it did not finish within {options.timeout:g} s")


def _piece(chunk: object) -> str:
    """Return a chunk's text; endpoints send chunks without choices, too."""
    choices = getattr(chunk, "choices", None)
    delta = getattr(choices[0], "delta", None) if isinstance(choices, list) and choices else None
    content = getattr(delta, "content", None)
    return content if isinstance(content, str) else ""


def _reason(error: Exception, options: WriterOptions) -> str:
    if isinstance(error, openai.APITimeoutError):
        return f"it did not answer within {options.timeout:g} s"
    if isinstance(error, openai.APIConnectionError):
        return "it cannot be reached"
    if isinstance(error, openai.RateLimitError):
        return "it refuses more requests for now (429)"
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return f"it does not accept the key ({error.status_code})"
    if isinstance(error, openai.NotFoundError):
        return f"it knows no model {options.model!r}, or has no chat completions there (404)"
    if isinstance(error, openai.APIStatusError):
        return f"it answered with status {error.status_code}"
    if "timed out" in str(error).lower():
        return f"it did not answer within {options.timeout:g} s"
    return "it did not send a stream of chat completions"
