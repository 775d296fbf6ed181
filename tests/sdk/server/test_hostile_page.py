"""Names and texts of markup in a real browser: on the page, in traces and in notebooks.

Each payload calls ``alert`` where it runs, asks ``evil.example`` for something where it is loaded,
and leaves an element where it is markup; each is told of. Policies report what they refuse.
"""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant
from tests.cli.hostile import MARKUP
from tests.model_folder import model_folder
from tests.sdk.server.test_page import chromium  # noqa: F401  a fixture
from tests.sdk.server.test_process import running

PAYLOADS = [text for text in MARKUP if "\0" not in text]
NAMES = [text for text in PAYLOADS if "/" not in text and len(text) < 200]  # those of files
QUESTION = "Which period has the keeper?"


def text(name: str, payload: str) -> str:
    """A document whose title, section, sentences, author and file name are payloads."""
    return (
        f"---\nauthor: {json.dumps(payload)}\n---\n\n# {payload} {name}\n\n## {payload}\n\n"
        f"The notice period of the keeper {payload} is thirty days {payload}.\n\n"
        f"| {payload} | period |\n| - | - |\n| keeper | {payload} |\n"
    )


def model() -> dict[str, Any]:
    """The options of a tiny model."""
    return {"model": model_folder(), "threads": 1, "dtype": "fp32"}


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two libraries with hostile names and contents."""
    found = []
    for number, name in enumerate(('"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)")):
        library = tmp_path / name
        with Assistant(library, **model()) as assistant:
            for at, payload in enumerate(PAYLOADS[number::2]):
                file = tmp_path / f"{NAMES[at % len(NAMES)]}{number}{at}.md"
                file.write_text(text(file.stem, payload), encoding="utf-8")
                assistant.ingest(file)
            for document, payload in zip(assistant.library.documents(), PAYLOADS, strict=False):
                tag = payload.replace(",", "").replace(" ", "/").strip("-\ufeff")[:60]
                assistant.library.tag(document, add=[tag] if tag else [])
        found.append(library)
    return found


def wait_until(page: Any, expression: str) -> None:
    """Wait for an expression to be true, without the ``eval`` that the page's policy refuses.

    Playwright's ``wait_for_function`` evaluates within the page once its first look was in vain.
    """
    end = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"waited in vain for {expression}"
        page.wait_for_timeout(50)


class Watch:
    """A page of a browser, and whatever happens on it that should not."""

    def __init__(self, browser: Any) -> None:
        self.page = browser.new_page()
        self.page.set_default_timeout(60_000)
        self.seen: list[str] = []
        self.expected = "\0"  # what the console may say
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        self.page.on("console", lambda said: self.seen.append(f"{said.type}: {said.text}"))
        self.page.on("request", self._request)
        self.page.on("framenavigated", self._navigated)
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation',"
            " event => console.error('violation ' + event.violatedDirective))"
        )

    def _dialog(self, dialog: Any) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        place = urllib.parse.urlsplit(request.url)
        if "evil" in (place.hostname or "") or place.path == "/x":
            self.seen.append(f"request: {request.url}")

    def _navigated(self, frame: Any) -> None:
        if "evil" in frame.url or frame.parent_frame is not None:
            self.seen.append(f"went to: {frame.url}")

    def close(self) -> None:
        """Close the page, which may ask for more, while its server is still there."""
        assert self.markup() == []
        self.page.close()

    def markup(self) -> list[str]:
        """The elements and attributes that only a payload can have made."""
        found: list[str] = self.page.evaluate(
            """[...document.querySelectorAll('*')].filter(node =>
                ['IMG', 'IFRAME', 'OBJECT', 'BASE', 'MATH', 'FORM', 'PLAINTEXT', 'NOSCRIPT',
                 'TEXTAREA'].includes(node.tagName) && !node.id && !node.closest('#documents')
                || [...node.attributes].some(attribute => attribute.name.startsWith('on'))
                || (node.getAttribute('href') || '').includes('javascript:'))
                .map(node => node.outerHTML.slice(0, 200))"""
        )
        return found


@pytest.fixture
def watch(chromium: Any) -> Iterator[Watch]:  # noqa: F811
    watched = Watch(chromium)
    yield watched
    if not watched.page.is_closed():
        watched.close()
    assert [line for line in watched.seen if watched.expected not in line] == []


def post(address: str, path: str, value: object) -> Any:
    request = urllib.request.Request(
        f"{address}/{path}", json.dumps(value).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def point_at_everything(page: Any) -> None:
    """Let the handlers of all elements run that a mouse or a keyboard reaches."""
    page.evaluate(
        """for (const node of document.querySelectorAll('body *'))
             for (const name of ['mouseover', 'mouseenter', 'focus', 'click'])
               if (name != 'click' || node.matches('summary'))
                 node.dispatchEvent(new Event(name, {bubbles: true}))"""
    )


@pytest.mark.browser
@pytest.mark.parametrize("several", [False, True], ids=["library", "federation"])
def test_hostile_names_are_text_on_the_page(
    watch: Watch, folders: list[Path], several: bool
) -> None:
    paths: Any = folders if several else folders[0]
    sessions = [payload for payload in PAYLOADS if payload.isprintable()][::4]
    patient = {"max_wait": 600.0}  # every map of every conversation is asked for at once
    with Assistant(paths, **model()) as assistant, running(assistant, **patient) as (address, _):
        for name in sessions:
            post(address, "v1/ask", {"question": f"{QUESTION} {name}", "session": name})
        page = watch.page
        page.goto(address)
        page.wait_for_selector("#documents li")
        titles = page.locator("#documents li button.title").all_inner_texts()
        documents = assistant.library.documents()
        assert [t.split() for t in titles] == [d.title.split() for d in documents]
        options = "[...document.querySelectorAll('#sessions option')].map(o => o.value)"
        wait_until(page, f"{options}.length == {1 + len(sessions)}")
        shown = page.evaluate(options)
        assert sorted(shown) == sorted(["", *sessions])
        for name in sessions:
            page.locator("#sessions").select_option(value=name)
            page.wait_for_selector(f"#turns .asked:has-text({json.dumps(name)})")
            page.locator("#turns .citation").first.click()
            page.wait_for_selector("#viewer:visible")
            point_at_everything(page)
            assert watch.markup() == []
            page.keyboard.press("Escape")
        page.get_by_label("Question", exact=True).fill(f"{QUESTION} {PAYLOADS[0]}")
        page.keyboard.press("Enter")
        page.get_by_text("Where it was found").last.click()
        page.wait_for_selector("#turns .strip span")
        point_at_everything(page)
        watch.close()


@pytest.mark.browser
def test_hostile_names_of_files_are_text_while_they_are_sent(
    watch: Watch, folders: list[Path]
) -> None:
    with (
        Assistant(folders[0], **model()) as assistant,
        running(assistant) as (address, _),
    ):
        page = watch.page
        page.goto(address)
        page.wait_for_selector("#documents li")
        row = "#documents li"
        for number, name in enumerate(NAMES[::2]):
            known = page.locator(row).count()
            content = text(f"sent {number}", name).encode()
            file = {"name": f"{name}.md", "mimeType": "text/plain", "buffer": content}
            page.set_input_files("#files", [file])
            page.locator(row).nth(known).wait_for()
            point_at_everything(page)
        page.set_input_files("#files", [file | {"buffer": b""}])
        page.wait_for_selector(f"#uploads li:has-text('empty'):has-text({json.dumps(name)})")
        watch.expected = "the server responded with a status of 400"
        watch.close()


@pytest.mark.browser
def test_hostile_texts_are_text_in_a_trace_and_in_a_notebook(
    watch: Watch, folders: list[Path], tmp_path: Path
) -> None:
    page, saved = watch.page, tmp_path / "trace.html"
    with Assistant(folders, **model()) as assistant:
        for payload in PAYLOADS[:4] + PAYLOADS[-2:]:
            question = f"{QUESTION} {payload}"
            saved.write_text(assistant.trace(question, threshold=0.0).as_html(), encoding="utf-8")
            page.goto(saved.as_uri())
            assert question.split()[:3] == page.locator("h1").inner_text().split()[:3]
            assert page.locator("[data-k]").count() > 3
            point_at_everything(page)
            assert watch.markup() == []
            answer = assistant.ask(question, threshold=0.0)
            page.set_content(answer._repr_html_())  # a notebook has no policy
            assert page.locator("body").inner_text().strip()
            point_at_everything(page)
            assert watch.markup() == []
