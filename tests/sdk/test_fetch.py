"""Addresses: only public ones, checked at every hop, within time and size."""

from __future__ import annotations

import contextlib
import ipaddress
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from drt import Assistant, ConfigError, MissingExtraError, UnreadableDocumentError, _engine
from drt._web import fetch as _fetch
from drt._web.fetch import fetch, is_public
from tests.sdk.fakes import FakeEngine
from tests.tables import each_row

pytest.importorskip("httpx")
PAGE = b"<html><title>Leave</title><body><p>The notice period is thirty days.</p></body></html>"


@dataclass
class Site:
    """A web site of the test: what each path answers."""

    port: int = 0
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    drips: float = 0.0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def redirect(self, path: str, location: str) -> None:
        self.answers[path] = (302, {"Location": location}, b"")


@contextmanager
def served() -> Iterator[Site]:
    site = Site(answers={"/": (200, {}, PAGE)})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.hosts.append(self.headers["Host"])
            status, headers, body = site.answers.get(self.path, (404, {}, b"no"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                step = 1 if site.drips else max(1, len(body))
                for at in range(0, len(body), step):
                    self.wfile.write(body[at : at + step])
                    time.sleep(site.drips)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    with served() as one:
        yield one


def names(**numbers: str) -> Callable[[str, int], list[str]]:
    """A name service that says each name's numbers once: a second question is a mistake."""
    left = {name.replace("_", "."): [number] for name, number in numbers.items()}
    return lambda host, _: left.pop(host, [host])


@each_row(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("2001:4860:4860::8888", True),
        ("127.0.0.1", False), ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False),
        ("255.255.255.255", False), ("192.0.0.8", False), ("::1", False), ("::", False),
        ("fe80::1", False), ("fd00::1", False), ("fec0::1", False), ("ff0e::1", False),
        ("::ffff:127.0.0.1", False), ("64:ff9b::7f00:1", False), ("64:ff9b::808:808", True),
        ("2002:7f00:1::", False), ("2001:db8::1", False), ("64:ff9b:1::1", False),
    ],
)  # fmt: skip
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


def test_an_address_is_fetched_under_its_name(site: Site) -> None:
    resolve = names(notes_test="127.0.0.1")
    url = site.url("/#part", host="notes.test")
    got = fetch(url, private=True, resolve=resolve)
    assert got.data == PAGE and got.url == site.url("/", host="notes.test")
    assert site.hosts == [f"notes.test:{site.port}"]  # though connected by number


@pytest.mark.few(2)
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "notes.test", "0", "0x7f.1"])
def test_private_addresses_are_refused_before_a_connection(site: Site, host: str) -> None:
    resolve = names(notes_test="10.0.0.7", localhost="127.0.0.1", **{"0": "0.0.0.0"})
    with pytest.raises(UnreadableDocumentError, match="not a public address|not known|not an"):
        fetch(site.url(host=host), resolve=resolve if host != "0x7f.1" else None)
    assert site.hosts == []


def test_one_private_number_of_a_name_is_enough_to_refuse(site: Site) -> None:
    with pytest.raises(UnreadableDocumentError, match="10.0.0.7"):
        fetch(site.url(host="a.test"), resolve=lambda *_: ["8.8.8.8", "10.0.0.7"])


@pytest.mark.thorough
def test_redirections_are_checked_anew(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.redirect("/there", "/")
    assert fetch(site.url("/there"), private=True).data == PAGE
    # the first hop is allowed here, as a public one would be, and the second is not
    monkeypatch.setattr(_fetch, "is_public", lambda address: str(address) == "127.0.0.1")
    for inside in ("http://127.0.0.2/", "http://[::1]/", "http://169.254.169.254/latest"):
        site.redirect("/out", inside)
        with pytest.raises(UnreadableDocumentError, match="not a public address"):
            fetch(site.url("/out"))
    for wrong, words in (
        ("file:///etc/passwd", "only http and https"),
        ("ftp://127.0.0.1/", "only http and https"),
        ("http://user:pass@127.0.0.1/", "without a password"),
        ("/round", "more than 5 times"),
    ):
        site.redirect("/round", wrong)
        with pytest.raises(UnreadableDocumentError, match=words):
            fetch(site.url("/round"))
    with pytest.raises(UnreadableDocumentError, match="without encryption"):
        _fetch._next("https://a.test/", "http://a.test/", "https://a.test/")


def test_a_name_is_asked_for_once_a_hop(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second answer, which the connection would go to, is never asked for."""
    monkeypatch.setattr(_fetch, "is_public", lambda address: str(address) == "127.0.0.1")
    answers = iter([["127.0.0.1"], ["10.0.0.7"]])
    url = site.url(host="rebinds.test")
    assert fetch(url, resolve=lambda *_: next(answers)).data == PAGE
    with pytest.raises(UnreadableDocumentError, match="10.0.0.7"):
        fetch(url, resolve=lambda *_: next(answers))


@pytest.mark.thorough
def test_time_and_size_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fetch, "MOST_BYTES", 100)
    with pytest.raises(UnreadableDocumentError, match="MiB"):
        site.answers["/long"] = (200, {}, b"x" * 101)
        fetch(site.url("/long"), private=True)
    monkeypatch.undo()
    site.drips = 0.05
    began = time.monotonic()
    with pytest.raises(UnreadableDocumentError, match="within 0.3 s"):
        fetch(site.url(), private=True, seconds=0.3)
    assert time.monotonic() - began < 2
    site.drips = 0.0
    for path, words in (("/nowhere", "status 404"), ("/empty", "is empty")):
        site.answers["/empty"] = (200, {}, b"")
        with pytest.raises(UnreadableDocumentError, match=words):
            fetch(site.url(path), private=True)
    with pytest.raises(UnreadableDocumentError, match="cannot be reached"):
        fetch("http://127.0.0.1:9/", private=True)


@pytest.fixture
def assistant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Assistant]:
    FakeEngine().install(lambda name, value: monkeypatch.setitem(vars(_engine), name, value))
    with Assistant(tmp_path / "library") as opened:
        yield opened


@pytest.mark.thorough
def test_a_page_is_read_with_its_address_as_the_source(assistant: Assistant, site: Site) -> None:
    document = assistant.ingest_address(site.url(), private=True, tags="web")
    assert (document.source, document.title, document.tags) == (site.url(), "Leave", ("web",))
    citation = assistant.ask("Which period?").citations[0]
    assert citation.source == site.url() and citation.quote == "period"
    assert not assistant.ingest_address(site.url(), private=True).new
    site.answers["/"] = (200, {}, PAGE.replace(b"thirty", b"sixty"))
    assert assistant.ingest_address(site.url(), private=True).new
    assert len(assistant.library.documents()) == 1
    with pytest.raises(UnreadableDocumentError, match="not a public address"):
        assistant.ingest_address(site.url())
    with pytest.raises(ConfigError, match="not an address"):
        assistant.ingest_address("notes.txt")
    with pytest.raises(Exception, match="is an address"):  # nothing is fetched unasked
        assistant.ingest(site.url())


def test_without_its_extra_the_sentence_names_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(MissingExtraError, match="drt-assistant\\[fetch\\]"):
        fetch(site.url())
