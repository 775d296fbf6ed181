"""The page in a real browser: files, questions, the document at the quote, conversations."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, ReadingStep, WriterOptions
from drt._server.pages import FILES
from tests.engine.documents.helpers import make_pdf
from tests.sdk.fakes import FakeEngine
from tests.sdk.server.conftest import HANDBOOK, Client
from tests.sdk.server.test_process import running
from tests.sdk.writer.endpoint import Script, served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""


def test_the_page_is_files_of_its_own(client: Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    text = page.text
    for path in FILES.keys() - {"/"}:
        assert path[1:] in page.text and client.get(path).status_code == 200
        text += client.get(path).text
    assert "http://" not in text and "https://" not in text and "innerHTML" not in text


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as started:
        options = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}
        browser = started.chromium.launch(**options)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, assistant: Assistant) -> Iterator[Any]:
    """The page, of which no error may stay unseen."""
    problems: list[str] = []
    with running(assistant) as (address, _):
        opened = chromium.new_page()
        opened.set_default_timeout(60_000)
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.on("console", lambda m: problems.append(m.text) if _is_mistake(m) else None)
        opened.goto(address)
        yield opened
        opened.close()
    assert problems == []


def _is_mistake(message: Any) -> bool:
    """An error of the page; a status that it shows in words is none."""
    refused = "status of 4" in message.text and "/v1/" in message.location["url"]
    return message.type == "error" and not refused


def expect(locator: Any) -> Any:
    """What is to be true of it within a while: a page goes on after its first words."""
    from playwright.sync_api import expect as expected

    expected.set_options(timeout=60_000)
    return expected(locator)


def picture(page: Any, name: str) -> None:
    """Keep a screenshot where somebody wants to look at it."""
    if folder := os.environ.get("DRT_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def send(page: Any, name: str = "handbook.txt", text: str = HANDBOOK) -> None:
    file = {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    page.set_input_files("#files", [file])
    page.wait_for_selector(f"#documents li:has-text({name.partition('.')[0]!r})")


@pytest.mark.browser
def test_a_file_is_read_asked_and_opened_at_the_quote(page: Any) -> None:
    send(page)
    page.get_by_label("Question", exact=True).fill("Which\u2028 period?\U0001f680")
    page.keyboard.press("Enter")
    citation = page.locator("#turns .citation").first
    expect(citation.locator("mark")).to_have_text("period")
    expect(citation).to_contain_text("The notice period is thirty days.")
    citation.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer:visible")
    expect(page.locator("#viewer-text mark")).to_have_text("period")
    expect(page.locator("#viewer-text")).to_have_text(HANDBOOK)
    picture(page, "desktop")
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    assert page.evaluate("document.activeElement.className") == "citation"
    name = page.locator("#sessions").input_value()  # a conversation is called by its question
    assert name.startswith("Which period?\U0001f680, 2"), name
    page.get_by_label("Question", exact=True).fill("Which zeppelin?")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector("#turns li:nth-child(2) .citation")
    expect(page.locator("#turns li:nth-child(2)")).to_contain_text("does not say")
    page.reload()
    page.wait_for_selector("#sessions option:nth-child(2)", state="attached")
    page.get_by_label("Conversation").select_option(index=1)
    page.wait_for_selector("#turns li:nth-child(2)")
    expect(page.locator("#turns li").first).to_contain_text("right with a probability of 50%")


@pytest.mark.browser
def test_the_library_is_searched_and_documents_removed(page: Any) -> None:
    send(page)
    send(page, "letters.txt", "The coal comes on Tuesday.\n")
    page.get_by_label("Find a document").fill("letters")
    expect(page.locator("#documents li")).to_have_count(1)
    page.get_by_label("More for letters.txt").click()
    page.locator("#documents button[aria-label^=Remove]").click()
    page.locator("#documents button[aria-label^='Really remove']").click()
    page.wait_for_selector("#documents li", state="detached")
    page.get_by_label("Find a document").fill("")
    expect(page.locator("#documents li")).to_have_count(1)


@pytest.mark.browser
def test_a_removed_document_comes_back(page: Any, assistant: Assistant) -> None:
    send(page)
    send(page, "letters.txt", "The coal comes on Tuesday.\n")
    expect(page.locator("#removed")).to_be_hidden()
    for undo in ("Undo", "Bring back"):
        page.get_by_label("More for letters.txt").click()
        page.get_by_label("Remove letters.txt").click()
        page.get_by_label("Really remove letters.txt?").click()
        page.wait_for_selector("#undo:has-text('Removed letters.txt.')")
        assert page.evaluate("document.activeElement.textContent") == "Undo"
        if undo == "Undo":
            page.get_by_text("Removed documents (1)").click()  # it stays open
            picture(page, "removed")
        page.get_by_text(undo, exact=True).click()
        page.wait_for_selector("#undo:has-text('letters.txt is back.')")
        expect(page.locator("#documents li")).to_have_count(2)
        expect(page.locator("#removed")).to_be_hidden()
        assert page.evaluate("document.activeElement.textContent") == "letters.txt"
    (letters,) = (one for one in assistant.library.documents() if "letters" in one.source)
    assistant.library.remove(letters)  # by another process, for good
    page.get_by_label("More for letters.txt").click()
    page.get_by_label("Remove letters.txt").click()
    page.get_by_label("Really remove letters.txt?").click()
    page.wait_for_selector("#problem:has-text('no document')")


@pytest.mark.browser
def test_a_part_of_the_library_is_asked(page: Any, engine: FakeEngine) -> None:
    send(page)
    send(page, "letters.md", "# Letters\n\nThe period of the coal ends on Tuesday.\n")
    page.get_by_label("More for Letters").click()
    page.get_by_label("Change the tags of Letters").click()
    page.get_by_label("Tags, with commas").fill("mail")
    page.keyboard.press("Enter")
    page.wait_for_selector("#documents .tags:has-text('mail')")
    page.get_by_text("Ask a part of the library").click()
    page.get_by_label("Tag", exact=True).select_option("mail")
    page.wait_for_selector("#count:has-text('1 of 2 documents, asking those tagged mail')")
    page.get_by_label("Format").select_option(".md")
    page.get_by_label("Section that begins with").fill("Part")
    page.get_by_label("Page or pages").fill("3 - 5")
    ask(page)
    words = 'tagged mail, of the format .md, in sections that begin with "Part", on pages 3 to 5'
    page.wait_for_selector(f"#turns li:has-text('Asked of what is {words}.')")
    picture(page, "part")
    filters = engine.asked[-1]["filters"]
    assert (filters.tags, filters.types, filters.section) == (("mail",), (".md",), "Part")
    assert tuple(filters.pages) == (3, 5)
    page.get_by_text("Where it was found").click()
    page.wait_for_selector("#turns .strip span")
    assert engine.asked[-1]["record"] and engine.asked[-1]["filters"] == filters
    page.get_by_label("Page or pages").fill("three")
    page.keyboard.press("Tab")
    page.wait_for_selector("#problem:has-text('expected a page')")
    page.get_by_label("Page or pages").fill("")
    page.get_by_label("Format").select_option(".txt")  # no document is both
    page.wait_for_selector("#problem:has-text('mail')")
    page.get_by_role("button", name="Ask all of it").click()
    page.wait_for_selector("#count:text-is('2 of 2 documents')")
    ask(page)
    assert "filters" not in engine.asked[-1]


@pytest.mark.browser
def test_the_best_sentence_is_shown_while_it_reads(
    page: Any, engine: FakeEngine, watched: ReadingStep
) -> None:
    send(page)
    answering = threading.Event()
    answer = engine.ask

    def slow(*arguments: Any, **options: Any) -> Any:
        answering.wait(30)
        return answer(*arguments, **options)

    engine.ask = slow  # type: ignore[method-assign]
    page.get_by_label("Question", exact=True).fill("Which period?")
    page.keyboard.press("Enter")
    try:
        said = f"Reading 3 of 8 passages, here first: {watched.text} (Lease)"
        page.wait_for_selector(f"#turns li:has-text('{said}')")
        picture(page, "reading")
    finally:
        answering.set()
    page.locator("#turns .citation").first.wait_for()
    expect(page.locator("#turns")).not_to_contain_text("here first")


@pytest.mark.browser
def test_what_goes_wrong_is_shown_and_documents_are_only_text(page: Any) -> None:
    page.set_input_files("#files", [{"name": "e.txt", "mimeType": "text/plain", "buffer": b""}])
    page.wait_for_selector("#uploads li:has-text('empty')")
    send(
        page,
        "evil.txt",
        "The period <img src=x onerror=alert(1)> <script>alert(1)</script> ends.\n",
    )
    page.get_by_label("Question", exact=True).fill("Which period?")
    page.keyboard.press("Enter")
    page.locator("#turns .citation").first.click()
    page.wait_for_selector("#viewer-text:has-text('<script>')")
    expect(page.locator("#viewer-text img, #viewer-text script, #turns img")).to_have_count(0)


@pytest.mark.browser
def test_a_map_shows_where_it_was_found(page: Any) -> None:
    send(page)
    page.get_by_label("Question", exact=True).fill("Which period?")
    page.keyboard.press("Enter")
    page.locator("#turns .citation").first.wait_for()
    page.get_by_text("Where it was found").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#turns .strip span")
    assert page.locator("#turns .strip path").get_attribute("d").startswith("M0 42 L0 ")
    picture(page, "map")
    page.locator("#turns details .citation").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer:visible")


@pytest.mark.browser
def test_a_keyboard_stays_where_it_was(page: Any) -> None:
    send(page)
    send(page, "letters.txt", "The coal comes on Tuesday.\n")
    focused = "document.activeElement.id.split('-')[0]"
    page.locator("#documents input").first.focus()
    page.keyboard.press("Space")
    page.wait_for_selector("#count:has-text('asking 1')")
    assert page.evaluate(focused) == "choose"
    for part in ("open", "menu"):
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == part
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "summary"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.type("mail")
    page.keyboard.press("Enter")
    page.wait_for_selector("#documents .tags:has-text('mail')")
    page.locator("button:focus[id^=tags]").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "remove"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.locator("#undo button:focus").wait_for()
    expect(page.locator("#documents li")).to_have_count(1)


@pytest.mark.browser
def test_a_phone_and_a_dark_room(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    send(page)
    page.get_by_label("Question", exact=True).fill("Which period?")
    page.keyboard.press("Enter")
    page.locator("#turns .citation").first.click()
    page.wait_for_selector("#viewer:visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 24, 26)"
    picture(page, "phone")
    page.goto(page.url.partition("#")[0])


@pytest.mark.browser
def test_everything_has_a_name_for_screen_readers(page: Any) -> None:
    send(page)
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, select')].filter(node =>
            !(node.textContent.trim() || node.labels?.length || node.getAttribute('aria-label')))
            .map(node => node.id || node.outerHTML)"""
    )
    assert nameless == []


TREE = """
- link "Skip to the question"
- banner:
  - heading "drt" [level=1]
- region "Library":
  - heading "Library" [level=2]
  - button "Drop files here, or choose them"
  - list "Files being read"
  - searchbox "Find a document, by name or tag"
  - group: Ask a part of the library
  - status: 1 of 1 documents
  - list "Documents; arrow keys move between them":
    - listitem:
      - checkbox "Ask only handbook.txt"
      - button "handbook.txt"
      - group: More
  - status
- main:
  - combobox "Conversation"
  - list "Questions and answers":
    - listitem:
      - paragraph: Which period?
      - paragraph: Answer, right with a probability of 50%
      - button "The notice period is thirty days. handbook.txt, page 3, Part > Terms"
      - group: Where it was found
      - group: Copy or save
  - textbox "Question"
  - button "Ask"
  - alert
- region "handbook.txt":
  - heading "handbook.txt" [level=2]
  - button "Close"
  - paragraph: page 3, Part > Terms
  - status
  - region "Text of the document":
    - mark: period
"""


@pytest.mark.browser
def test_what_a_screen_reader_is_told(page: Any) -> None:
    send(page)
    ask(page)
    page.locator("#turns .citation").first.click()
    page.wait_for_selector("#viewer:visible")
    expect(page.locator("body")).to_match_aria_snapshot(TREE)


@pytest.mark.browser
def test_tags_are_changed_and_filtered_by(page: Any) -> None:
    send(page)
    send(page, "letters.txt", "The coal comes on Tuesday.\n")
    page.get_by_label("More for letters.txt").click()
    page.get_by_label("Change the tags of letters.txt").click()
    page.get_by_label("Tags, with commas").fill("mail, may")
    page.keyboard.press("Enter")
    page.wait_for_selector("#documents .tags:has-text('mail, may')")
    page.get_by_label("Find a document").fill("may")
    expect(page.locator("#documents li")).to_have_count(1)


PDF = make_pdf([["A page before."], ["The handbook begins.", "The notice period is thirty days."]])


def send_pdf(page: Any, name: str = "report.pdf") -> None:
    file = {"name": name, "mimeType": "application/pdf", "buffer": PDF}
    page.set_input_files("#files", [file])
    page.wait_for_selector(f"#documents li:has-text({name.partition('.')[0]!r})")


def ask(page: Any, question: str = "Which period?") -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")
    page.locator("#turns li .citation").last.wait_for()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_a_citation_opens_the_page_of_a_pdf(page: Any, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.emulate_media(color_scheme=scheme)
    send_pdf(page)
    ask(page)
    page.locator("#turns .citation").first.click()
    image = page.get_by_role("img", name="Page 2 of report.pdf, with the quote in yellow: period")
    image.wait_for()
    expect(page.locator("#viewer-problem")).to_have_text("Page 2 of 2")
    expect(page.get_by_role("button", name="Next page")).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.wait_for_timeout(500)  # it scrolls smoothly to the page
    picture(page, f"pdf-{width}-{scheme}")
    page.get_by_role("button", name="Page before").click()
    page.get_by_role("img", name="Page 1 of report.pdf", exact=True).wait_for()
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator("#viewer-text mark")).to_have_text("period")
    expect(image).to_be_hidden()
    page.keyboard.press("Escape")
    page.locator("#documents .title").click()  # a title opens its document
    page.get_by_role("img", name="Page 1 of report.pdf", exact=True).wait_for()


@pytest.mark.browser
def test_a_title_opens_its_text_and_a_lost_pdf_says_so(page: Any, assistant: Assistant) -> None:
    send(page)
    page.get_by_role("button", name="handbook.txt", exact=True).click()
    page.wait_for_selector("#viewer-text:has-text('The notice period is thirty days.')")
    expect(page.locator("#viewer-page")).to_be_hidden()
    expect(page.locator("#viewer-pages")).to_be_hidden()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "title"
    (document,) = assistant.library.documents()
    file = assistant.library.path.with_name("gone.pdf")
    file.write_bytes(PDF)
    gone = assistant.ingest(file)
    file.unlink()
    page.goto(page.url + f"#{gone.id}:0-4")
    page.reload()
    page.wait_for_selector("#viewer-problem:has-text('cannot be opened')")
    expect(page.locator("#viewer-text mark")).to_have_text("A pa")


@pytest.mark.browser
def test_an_answer_is_copied_and_saved(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    send(page)
    ask(page)
    page.get_by_text("Copy or save").click()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("## Which period?") and "The notice **period** is" in copied
    for label, ending, words in (
        ("Page to share (HTML)", "html", "<mark>period</mark>"),
        ("Obsidian", "md", "[[handbook.txt|handbook.txt, page 3]]"),
        ("BibTeX", "bib", "@misc{"),
        ("CSL-JSON", "json", '"type": "document"'),
    ):
        with page.expect_download() as saved:
            page.get_by_role("button", name=label, exact=True).click()
        assert saved.value.suggested_filename == f"answer.{ending}"
        assert words in Path(saved.value.path()).read_text(encoding="utf-8")
    picture(page, "export")


@pytest.mark.browser
def test_a_document_is_summarised(page: Any) -> None:
    send(page)
    page.get_by_label("More for handbook.txt").click()
    picture(page, "more")
    page.get_by_label("Summarise handbook.txt").click()
    page.wait_for_selector("#turns .citation")
    expect(page.locator("#turns")).to_contain_text("Summary of handbook.txt")
    picture(page, "summary")


@pytest.mark.browser
def test_files_that_are_being_read_are_named(page: Any) -> None:
    send(page)
    held: list[Any] = []

    def hold(route: Any) -> None:
        if route.request.method == "POST" and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/documents", hold)
    names = ["slow.txt", "later.txt"]
    page.set_input_files(
        "#files",
        [{"name": n, "mimeType": "text/plain", "buffer": f"{n} is long.".encode()} for n in names],
    )
    rows = page.locator("#uploads li:has(progress)")
    rows.nth(1).wait_for()
    assert (
        rows.nth(0).inner_text().endswith("sending")
        and "waiting" in rows.nth(1).inner_text()
        and rows.locator("progress").count() == 2
    )
    page.evaluate("attempt(() => ask('Which period?'))")
    page.wait_for_selector("#turns .citation")
    held[0].continue_()
    said = page.locator("#turns li").first.inner_text()
    assert "slow.txt (sending) and later.txt (waiting) were still being read" in said
    page.wait_for_selector("#documents li:has-text('later')")


@pytest.mark.browser
def test_the_list_of_documents_is_one_stop_of_the_tab_key(page: Any) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        send(page, name, f"The letter {name} is here.\n")
    reachable = "[...document.querySelectorAll('#documents [tabindex=\"0\"]')]"
    stops = f"{reachable}.map(node => node.closest('li').textContent)"
    assert len({row[:5] for row in page.evaluate(stops)}) == 1
    page.locator("#documents .title").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "b.txt"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")  # the end of the list
    assert page.evaluate("document.activeElement.textContent") == "c.txt"
    assert all("c.txt" in row for row in page.evaluate(stops))
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id").startswith("choose-")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.parentElement.id") == "part"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "filter"


@pytest.mark.browser
def test_what_a_writer_wrote_is_shown_with_its_support(chromium: Any, assistant: Assistant) -> None:
    text = "The notice period is thirty days [1]. Whales sing [1]."
    with served(Script(text=text)) as script:
        writer = WriterOptions(script.url, "some-model")
        with running(assistant, writer=writer) as (address, _):
            page = chromium.new_page()
            page.set_default_timeout(60_000)
            page.goto(address)
            send(page)
            page.get_by_label("Let some-model").check()
            page.get_by_label("Question", exact=True).fill("Which period?")
            page.keyboard.press("Enter")
            page.wait_for_selector(".written")
            expect(page.locator(".unsupported")).to_have_text("Whales sing [1].")
            expect(page.locator("#turns")).to_contain_text("some sentences are supported")
            expect(page.locator("#turns mark").first).to_be_visible()
            picture(page, "written")
            page.get_by_text("Copy or save").click()
            with page.expect_download() as saved:
                page.get_by_role("button", name="Page to share (HTML)").click()
            shared = Path(saved.value.path()).read_text(encoding="utf-8")
            assert 'class="unsupported">Whales sing [1].' in shared and "some-model" in shared
            page.set_viewport_size({"width": 360, "height": 740})
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            picture(page, "written-phone")
            script.status = 429
            page.get_by_label("Question", exact=True).fill("Which period?")
            page.keyboard.press("Enter")
            page.wait_for_selector("#turns li:nth-child(2) mark")
            expect(page.locator("#turns li:nth-child(2)")).to_contain_text("more requests")
            page.close()
