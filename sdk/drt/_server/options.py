"""How a library is served: addresses, token and limits. Imports nothing of the extra."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from .._errors import ConfigError
from .._writer.results import WriterOptions

MIB = 1 << 20
SHORTEST_TOKEN = 16
ACCESS_LOGS = ("off", "text", "json")


@dataclass(frozen=True)
class ServeOptions:
    """How a library is served.

    host, port: where to listen; port 0 takes a free one. Other addresses than this machine's own
    need a token. token: what clients must send as ``Authorization: Bearer``. allowed_hosts: names
    that clients may call the server by, besides localhost and addresses. allowed_origins: other web
    pages that may use it, such as ``https://notes.example``. max_upload: bytes of an upload.
    timeout: seconds that a request may take, uploads excepted. queue: questions that may wait.
    max_wait: seconds that a question may wait for its turn; one that would wait longer is refused
    with the time to ask again. client_header: a request header by which clients are told apart,
    such as ``X-Forwarded-For`` where a proxy sets it; by default by their addresses. max_library:
    bytes of the library above which uploads are refused. keep_pdfs: bytes of uploaded PDFs that are
    kept beside the library, to show their pages; the oldest are deleted first, 0 keeps none.
    access_log: whether and how each request is logged. traces: whether requests are traced with
    OpenTelemetry, whose variables say where to. read_only: whether uploads and removals are
    refused. at_once: questions that are answered at the same time, each on its share of the threads
    of the model.
    writer: the language model that writes where a request asks for it; it gets at most
    half of ``timeout``.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_upload: int = 256 * MIB
    timeout: float = 120.0
    queue: int = 256
    max_wait: float = 10.0
    client_header: str | None = None
    max_library: int | None = None
    keep_pdfs: int = 1 << 30
    access_log: str = "off"
    traces: bool = False
    read_only: bool = False
    at_once: int = 1
    writer: WriterOptions | None = None

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not _plain(self.token)):
            raise ConfigError(
                f"the token has {len(self.token)} characters, expected {SHORTEST_TOKEN} or more,"
                " printable and without spaces; `openssl rand -hex 24` makes one."
            )
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"{self.host} can be reached from other machines, which needs a token; set one, or"
                " listen on 127.0.0.1."
            )
        for name in ("max_upload", "timeout", "queue", "max_wait", "max_library", "at_once"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} is {value}, expected more than 0.")
        if self.keep_pdfs < 0:
            raise ConfigError(f"keep_pdfs is {self.keep_pdfs}, expected 0 or more.")
        if self.access_log not in ACCESS_LOGS:
            raise ConfigError(
                f"access_log is {self.access_log!r}, expected {', '.join(ACCESS_LOGS)}."
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _plain(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token


ServeOptions.__module__ = "drt"  # where users import it from
