"""What every request passes first: names, origins, token, sizes and times; and what it counts.

Web pages of others must not reach a server on this machine: a page's own origin is refused, and a
name that was pointed here (DNS rebinding) is unknown. Addresses need no such list, since a browser
sends the name that its page was loaded from.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import re
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access_log import log_request
from .errors import error_body
from .pages import FILES
from .questions import client
from .responses import EVENTS, event

if TYPE_CHECKING:
    from .metrics import Metrics
    from .options import ServeOptions

BODY_BYTES = 1 << 20  # of everything but an upload
UPLOAD = ("POST", "/v1/documents")
OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", *FILES})
BODY_SECONDS = 15.0  # before a body must have come,
BODY_RATE = 16 * 1024  # and bytes for which it gets a second more
DISCARD_SECONDS = 3.0  # for the rest of a body that was refused,
DISCARD_BYTES = 1 << 30  # and its bytes, which are kept nowhere
CLIENT_CHARACTERS = 200  # of a name in a proxy's header
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


# A name or an address, and a port: what a browser takes out of an address as its host.
_HOST = re.compile(
    r"(?:(?P<name>[\w-]+(?:\.[\w-]+)*\.?)|\[(?P<address>[\da-fA-F:.]+)\])(?::(?P<port>\d{1,5})?)?",
    re.ASCII,
)


_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, options: ServeOptions, metrics: Metrics) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics
        self._token = None if options.token is None else options.token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or hand it on with its limits."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = Headers(scope=scope)
        asker = _client(scope, headers, self._options.client_header)
        client.set(asker)
        response = _Response(send, headers, self._options.allowed_origins)
        try:
            is_upload = (scope["method"], scope["path"]) == UPLOAD
            limit = self._options.max_upload if is_upload else BODY_BYTES
            body = response.body = _Body(receive, limit, headers)
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, response.send)
                return
            seconds = None if is_upload else self._options.timeout
            await self._within(seconds, scope, body, response)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            elapsed = time.perf_counter() - began
            self._metrics.count_request(route, scope["method"], response.status, elapsed)
            if self._options.access_log != "off":
                log_request(
                    request_id=response.request_id,
                    client=asker,
                    method=scope["method"],
                    route=route,
                    status=response.status,
                    seconds=round(elapsed, 4),
                )

    async def _within(
        self, seconds: float | None, scope: Scope, body: _Body, response: _Response
    ) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._app(scope, body.receive, response.send)
        except TimeoutError:
            message = f"the request took more than {seconds:g} s and was given up; try it again."
            error = error_body(message, "timeout", 504)
            if not response.status:
                await JSONResponse(error, 504)(scope, body.receive, response.send)
            elif response.streams:
                last = event("error", error).encode()
                await response.send({"type": "http.response.body", "body": last})

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_our_name(host):
            return _refuse(421, f"{host!r} is not a name of this server; --allow-host adds one.")
        origin = headers.get("origin")
        if origin is not None and not self._is_our_page(origin, host):
            return _refuse(403, f"pages of {origin!r} may not use this server.")
        is_open = scope["path"] in OPEN
        if headers.get("sec-fetch-site") == "cross-site" and origin is None and not is_open:
            return _refuse(403, "other pages may not use this server.")
        if scope["method"] == "OPTIONS" and origin is not None:
            return JSONResponse({})  # with the headers that allow the origin
        if self._token is not None and not is_open:
            authorization = headers.get("authorization", "")
            kind, _, token = authorization.partition(" ")
            matches = hmac.compare_digest(token.strip().encode(), self._token)
            if kind.lower() != "bearer" or not matches:
                refusal = _refuse(401, "a token is needed: Authorization: Bearer TOKEN.")
                refusal.headers["WWW-Authenticate"] = "Bearer"
                return refusal
        return None

    def _is_our_name(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None or int(match["port"] or 0) > 0xFFFF:
            return False
        name = (match["name"] or match["address"]).lower()
        if name == "localhost" or name.endswith(".localhost") or name == self._options.host:
            return True
        if name in map(str.lower, self._options.allowed_hosts):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _is_our_page(self, origin: str, host: str) -> bool:
        if origin in self._options.allowed_origins:
            return True
        return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


def _client(scope: Scope, headers: Headers, name: str | None) -> str:
    """Return who asks: what a proxy says in its header, else the address."""
    named = headers.get(name, "") if name is not None else ""
    if named.strip():
        return named.split(",")[-1].strip()[:CLIENT_CHARACTERS]  # the nearest proxy wrote the last
    return str((scope.get("client") or ("",))[0])


def _refuse(status: int, message: str) -> JSONResponse:
    return JSONResponse(error_body(message, "refused", status), status)


class _Body:
    """A request's body that may not be too long, nor come too slowly."""

    def __init__(self, receive: Receive, limit: int, headers: Headers) -> None:
        self._receive = receive
        self._limit = limit
        self._bytes = 0
        self._began = time.monotonic()
        self._complete = False
        self._is_sent = "content-length" in headers or "transfer-encoding" in headers
        self._waits = headers.get("expect", "").lower() == "100-continue"

    async def discard(self) -> None:
        """Receive what is still under way of a refused body, for a short time.

        A client that sends gets no response from a connection that is closed meanwhile.
        """
        if not self._is_sent or (self._waits and not self._bytes):  # until it is told to send
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self._complete and self._bytes < DISCARD_BYTES:
                    message = await self._receive()
                    self._bytes += len(message.get("body", b""))
                    self._complete = not message.get("more_body", False)

    async def receive(self) -> Message:
        if self._complete:  # from here on it only waits for the client to leave
            return await self._receive()
        left = self._began + BODY_SECONDS + self._bytes / BODY_RATE - time.monotonic()
        try:
            async with asyncio.timeout(max(left, 0)):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the request's body came too slowly; send it again.") from None
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._bytes > self._limit:
                raise HTTPException(
                    413, f"the body has more than {self._limit:,} bytes, which is the limit here."
                )
        return message


class _Response:
    """A response to which headers are added; ``status`` is 0 until it starts."""

    def __init__(self, send: Send, request: Headers, allowed_origins: tuple[str, ...]) -> None:
        self._send = send
        self._origin = request.get("origin")
        self._asked_headers = request.get("access-control-request-headers")
        self._allowed_origins = allowed_origins
        self.body: _Body | None = None
        self.status = 0
        asked = request.get("x-request-id", "")
        self.request_id = asked if _REQUEST_ID.fullmatch(asked) else uuid.uuid4().hex
        self.streams = False  # whether it is open for more events

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.body is not None:
                await self.body.discard()
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            self.streams = headers.get("content-type", "").startswith(EVENTS)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-ID"] = self.request_id
            if self._origin in self._allowed_origins:
                self._allow_origin(headers)
        elif not message.get("more_body", False):
            self.streams = False
        await self._send(message)

    def _allow_origin(self, headers: MutableHeaders) -> None:
        assert self._origin is not None
        headers["Access-Control-Allow-Origin"] = self._origin
        headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        headers["Vary"] = "Origin"
        headers["Access-Control-Allow-Methods"] = "GET, POST, PATCH, DELETE"
        headers["Access-Control-Allow-Headers"] = "authorization, content-type, accept"
