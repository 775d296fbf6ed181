"""`drt ask Q https://...` and `drt ingest https://...`: fetched where somebody said so."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt_cli import _addresses
from tests.cli.conftest import Drt
from tests.sdk.test_fetch import Site, served

pytest.importorskip("httpx")
QUESTION = "Which period?"


@pytest.fixture
def site() -> Iterator[Site]:
    with served() as one:
        yield one


def test_an_address_is_asked_with_a_yes(drt: Drt, handbook: Path, site: Site) -> None:
    refused = drt("ask", QUESTION, site.url())
    assert refused.code == 1 and "--fetch fetches it" in refused.err
    private = drt("ask", QUESTION, site.url(), "--fetch")
    assert private.code == 1 and "not a public address" in private.err and site.hosts == []
    allowed = drt("ask", QUESTION, site.url(), handbook, "--fetch", "--fetch-private", "--json")
    assert allowed.code == 0
    assert {one["source"] for one in allowed.json["citations"]} == {site.url(), str(handbook)}


@pytest.mark.thorough
def test_addresses_and_files_are_read_together(
    drt: Drt, handbook: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["ingest", site.url(), handbook, site.url("/gone"), "--fetch", "--fetch-private"]
    report = drt(*words, "--tag", "web", "--json")
    assert report.code == 3
    documents, failures = report.json["documents"], report.json["failures"]
    assert [one["source"] for one in documents] == [str(handbook), site.url()]
    assert all(one["tags"] == ["web"] for one in documents)
    assert failures[0]["source"] == site.url("/gone") and "404" in failures[0]["message"]
    assert drt("ingest", site.url(), "--fetch", "--watch").code == 2
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    assert drt("show", f"{documents[1]['id']}:0-5", "--open").code == 0
    assert opened == [site.url()]
    again = drt("ingest", site.url(), "--fetch", "--fetch-private")
    assert again.code == 0 and again.out.startswith("unchanged  ")


@pytest.mark.thorough
def test_a_terminal_is_asked(
    drt: Drt, site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: object) -> None:
        asked.append(text)
        if len(asked) == 1:
            raise _addresses.click.Abort

    monkeypatch.setattr(_addresses, "_is_terminal", lambda: True)
    monkeypatch.setattr(_addresses.click, "confirm", confirm)
    words = ["ask", QUESTION, site.url(), "--fetch-private"]
    assert drt(*words).code == 130 and site.hosts == []
    assert drt(*words).code == 0 and len(site.hosts) == 1
    assert asked[0] == f"  {site.url()}\nFetch this from the web?"
    drt("config", "set", "ask.fetch", "true")
    assert drt(*words).code == 0 and len(asked) == 2  # not asked any more
