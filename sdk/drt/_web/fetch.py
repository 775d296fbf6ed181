"""Fetches one address over HTTP, for somebody who asked for it, within limits of time and size.

Every hop of a redirection is checked anew, and connected to the very address that was checked, so
that neither a redirection nor a second answer of the name service leads into a private network.
Proxies, cookies and passwords of the environment are not used. Needs the extra ``fetch``.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from .._errors import ConfigError, MissingExtraError, UnreadableDocumentError
from .._version import __version__
from .line import Line, counted

if TYPE_CHECKING:
    import httpx

SECONDS = 60.0  # of all hops together
MOST_BYTES = 64 << 20
REDIRECTIONS = 5
_EMBEDDED = ipaddress.ip_network("64:ff9b::/96")  # IPv4 addresses behind a translator
_SPECIAL = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "64:ff9b:1::/48", "fec0::/10")))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True)
class Fetched:
    """What an address gave; ``url`` is the address that was asked for, without its fragment."""

    url: str
    data: bytes


def is_address(path: str) -> bool:
    """Return whether a path is an address of the web."""
    return path.lower().startswith(("http://", "https://"))


def fetch(
    url: str, *, private: bool = False, seconds: float = SECONDS, resolve: Resolve | None = None
) -> Fetched:
    """Return what is at an address; ``private`` allows addresses that are not public, too.

    Raises ``UnreadableDocumentError`` for what cannot be fetched, ``MissingExtraError`` without
    httpx.
    """
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError(
            f"{url} needs the package httpx to be fetched; install it with: pip install"
            ' "drt-assistant[fetch]"'
        ) from error
    asked = current = url.partition("#")[0]
    line = Line(seconds)
    try:
        with line, _client(httpx, seconds) as client:
            for _ in range(REDIRECTIONS + 1):
                request = _request(client, current, line, private, resolve or _resolve)
                response = client.send(request, stream=True)
                try:
                    if not response.has_redirect_location:
                        data = _body(response, url)
                        if line.is_cut:  # which looks like the end of a body without a length
                            raise _late(url, seconds)
                        return Fetched(asked, data)
                    current = _next(current, response.headers["location"], url)
                finally:
                    response.close()
    except httpx.HTTPError as error:
        if line.is_cut or isinstance(error, httpx.TimeoutException):
            raise _late(url, seconds) from error
        raise _failed(url, _reason(error)) from error
    raise _failed(url, f"it leads on more than {REDIRECTIONS} times")


def _client(httpx: Any, seconds: float) -> httpx.Client:
    headers = {"User-Agent": f"drt/{__version__}", "Accept": "text/html, application/pdf, */*"}
    return httpx.Client(  # type: ignore[no-any-return]
        headers=headers, timeout=min(seconds, 20.0), follow_redirects=False, trust_env=False
    )


def _request(
    client: httpx.Client, url: str, line: Line, private: bool, resolve: Resolve
) -> httpx.Request:
    """Return a request to a checked number of a host, with the host's name in it."""
    import httpx

    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise _failed(url, "it is not an address") from error
    if parts.scheme not in ("http", "https") or not parts.host or parts.userinfo:
        raise _failed(url, "only http and https without a password are fetched")
    host, port = parts.raw_host.decode(), parts.port or (443 if parts.scheme == "https" else 80)
    number = _checked(host, port, url, private, resolve)
    return client.build_request(
        "GET",
        parts.copy_with(host=number),
        headers={"Host": parts.netloc.decode()},
        extensions={"sni_hostname": host, "trace": line.trace},
    )


def _checked(host: str, port: int, url: str, private: bool, resolve: Resolve) -> str:
    """Return the number to connect to; all that a name has must be allowed."""
    try:
        numbers = list(resolve(host, port))
    except (OSError, UnicodeError) as error:
        raise _failed(url, "its host is not known") from error
    if not numbers:
        raise _failed(url, "its host is not known")
    for number in numbers:
        if not private and not is_public(ipaddress.ip_address(number.partition("%")[0])):
            raise UnreadableDocumentError(
                f"{url} is not fetched: {host} is not a public address ({number}); --fetch-private"
                " allows it, if it is one of yours."
            )
    return numbers[0]


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public internet, whatever it is embedded in."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _EMBEDDED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    is_special = any(address.version == n.version and address in n for n in _SPECIAL)
    return address.is_global and not address.is_multicast and not is_special


def _resolve(host: str, port: int) -> list[str]:
    """Return the numbers of a host, in the order of the system."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _next(current: str, location: str, url: str) -> str:
    """Return where a redirection leads; never from https to http."""
    following = urljoin(current, location).partition("#")[0]
    if urlsplit(current).scheme == "https" and urlsplit(following).scheme != "https":
        raise _failed(url, "it leads from https to an address without encryption")
    return following


def _body(response: httpx.Response, url: str) -> bytes:
    if response.status_code != 200:
        raise _failed(url, f"it answered with status {response.status_code}")
    too_much = _failed(url, f"it has more than {MOST_BYTES >> 20} MiB")
    data = b"".join(counted(response.iter_bytes(1 << 16), MOST_BYTES, too_much))
    if not data:
        raise _failed(url, "it is empty")
    return data


def _late(url: str, seconds: float) -> UnreadableDocumentError:
    return _failed(url, f"it did not answer within {seconds:g} s")


def _reason(error: Exception) -> str:
    import httpx

    if isinstance(error, httpx.ConnectError):
        return f"it cannot be reached ({str(error) or 'no connection'})"
    return f"the answer is broken ({type(error).__name__})"


def _failed(url: str, reason: str) -> UnreadableDocumentError:
    return UnreadableDocumentError(f"{url} cannot be fetched: {reason}.")


def expect_address(url: str) -> None:
    """Raise ``ConfigError`` for what is not an address."""
    if not is_address(url):
        raise ConfigError(f"{url!r} is not an address; expected https://...")
