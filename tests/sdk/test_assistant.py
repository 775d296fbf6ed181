"""Reading, asking and summarising through the SDK, with a fake model."""

from __future__ import annotations

import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from drt import (
    Assistant,
    DocumentError,
    DrtError,
    EmptyDocumentError,
    IngestProgress,
    LibraryBusyError,
    LibraryError,
    LibraryModelMismatchError,
    NotFoundError,
    QuestionError,
    UnreadableDocumentError,
    _engine,
    default_library,
)
from drt_engine import errors
from tests.sdk.conftest import HANDBOOK
from tests.sdk.fakes import FakeEngine


def test_reading_a_file_gives_its_document_and_again_does_nothing(
    assistant: Assistant, handbook: Path
) -> None:
    first = assistant.ingest(handbook)
    assert (first.title, first.characters, first.new) == ("handbook.txt", len(HANDBOOK), True)
    again = assistant.ingest(str(handbook))
    assert (again.id, again.new) == (first.id, False)
    assert [one.id for one in assistant.library.documents()] == [first.id]


def test_progress_comes_as_the_sdks_own_type(assistant: Assistant, handbook: Path) -> None:
    steps: list[IngestProgress] = []
    assistant.ingest(handbook, progress=steps.append)
    (step,) = steps
    assert (step.tokens_per_second, step.fraction) == (4.0, 0.5)


def test_progress_has_no_rate_before_time_has_passed() -> None:
    step = IngestProgress(source="-", characters=0, total_characters=0, tokens=5, seconds=0.0)
    assert (step.tokens_per_second, step.fraction) == (0.0, 1.0)


def test_a_bad_file_among_many_stops_no_other(
    assistant: Assistant, handbook: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    missing = tmp_path / "missing.txt"
    report = assistant.ingest_many([empty, missing, handbook])
    assert [one.title for one in report.documents] == ["handbook.txt"]
    assert [source for source, _ in report.failures] == [str(empty), str(missing)]
    assert all(
        str(path) in text for path, (_, text) in zip([empty, missing], report.failures, strict=True)
    )
    assert report.tokens == report.documents[0].tokens


def test_unknown_files_in_a_folder_are_counted(
    assistant: Assistant, handbook: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "picture.bin").write_bytes(bytes(range(256)))
    handbook.rename(folder / "handbook.txt")
    report = assistant.ingest_many(str(folder))
    assert (len(report.documents), report.skipped, report.failures) == (1, 1, ())


@pytest.mark.thorough
def test_what_was_passed_over_is_told(assistant: Assistant, tmp_path: Path) -> None:
    letter = tmp_path / "letter.eml"
    letter.write_text(
        "From: a@example.org\nSubject: Paint\nDate: Mon, 2 Mar 2020 10:00:00 +0000\n"
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
        "--X\nContent-Type: text/plain\n\nThe tower is red.\n"
        "--X\nContent-Type: image/png; name=red.png\n"
        "Content-Disposition: attachment; filename=red.png\n\nnothing\n--X--\n"
    )
    with zipfile.ZipFile(tmp_path / "box.zip", "w") as box:
        box.writestr("../out.txt", "It leads out.")
        box.writestr("in.txt", "It stays in.")
    report = assistant.ingest_many([tmp_path, tmp_path / "box.zip"])
    (told,) = [one for one in report.documents if one.title == "Paint"]
    assert "red.png" in told.skipped[0] and len(told.skipped) == 1
    assert (told.author, told.date) == ("a@example.org", "2020-03-02")
    assert len(report.notes) == 1 and "out.txt (its path leads out" in report.notes[0]
    values = report.to_dict()
    assert values["notes"] == list(report.notes)
    assert [one["skipped"] for one in values["documents"] if one["title"] == "Paint"] == [
        list(told.skipped)
    ]
    assert all(one.skipped == () for one in assistant.library.documents())
    again = assistant.library.show(told.id)  # read from the catalogue, as another process would
    assert (again.author, again.date) == (told.author, told.date)
    assert again.to_dict()["author"] == "a@example.org" and again.to_dict()["date"] == "2020-03-02"


def test_a_folder_without_documents_is_a_failure(assistant: Assistant, tmp_path: Path) -> None:
    folder = tmp_path / "nothing"
    folder.mkdir()
    report = assistant.ingest_many([folder])
    assert report.documents == ()
    assert report.failures[0][0] == str(folder)


def test_ingest_refuses_several_documents(
    assistant: Assistant, handbook: Path, tmp_path: Path
) -> None:
    (tmp_path / "second.txt").write_text("Another text.")
    with pytest.raises(DocumentError, match="several documents.*ingest_many"):
        assistant.ingest(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("empty.txt", b"", EmptyDocumentError),
        ("binary.txt", bytes(range(256)) * 8, UnreadableDocumentError),
        ("missing.txt", None, UnreadableDocumentError),
    ],
)
def test_what_cannot_be_read_raises_its_error(
    assistant: Assistant,
    tmp_path: Path,
    name: str,
    content: bytes | None,
    expected: type[DrtError],
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(expected, match=name):
        assistant.ingest(tmp_path / name)


def test_a_missing_file_does_not_load_the_model(
    assistant: Assistant, engine: FakeEngine, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableDocumentError):
        assistant.ingest(tmp_path / "missing.txt")
    assert engine.loads == []


def test_a_quote_is_the_documents_own_text(assistant: Assistant, handbook: Path) -> None:
    document = assistant.ingest(handbook)
    answer = assistant.ask("Which period?")
    citation = answer.citations[0]
    assert answer.found and answer.text == citation.quote == "period"
    assert assistant.library.text(document, citation.start, citation.end) == citation.quote
    assert citation.sentence == citation.context == "The notice period is thirty days."
    assert answer.question == "Which period?"


def test_not_found_has_no_text_and_the_closest_passage(
    assistant: Assistant, handbook: Path
) -> None:
    assistant.ingest(handbook)
    answer = assistant.ask("Which zeppelin?")
    assert (answer.found, answer.text, len(answer.citations)) == (False, "", 1)
    assert answer.state == "none"
    likely = assistant.ask("Which zeppelin is likely?")
    assert (likely.state, likely.found, likely.text) == ("likely", False, "")
    assert [citation.likely for citation in likely.citations] == [True, True]
    assert likely.second_passage == f"Then. {likely.citations[1].sentence}"
    assert [citation.likely for citation in answer.citations] == [False]


def test_answer_json_is_the_documented_one(assistant: Assistant, handbook: Path) -> None:
    document = assistant.ingest(handbook)
    answer = assistant.ask("Which period?")
    (citation,) = answer.citations
    assert answer.to_dict() == {
        "question": "Which period?",
        "answer": "period",
        "found": True,
        "state": "answer",
        "confidence": 0.75,
        "quote_probability": 0.5,
        "mode": "quote",
        "origin": "table",
        "verdict": None,
        "hint": "",
        "sentence": "The notice period is thirty days.",
        "passage": "Before. The notice period is thirty days. After.",
        "second_passage": "",
        "citations": [
            {
                "document": document.id,
                "title": "handbook.txt",
                "source": str(handbook),
                "start": 11,
                "end": 17,
                "quote": "period",
                "page": 3,
                "section": "Part > Terms",
                "line": None,
                "source_start": None,
                "source_end": None,
                "span_start": None,
                "span_end": None,
                "probability": 0.5,
                "metadata": None,
                "likely": False,
                "library": None,
                "more_items": 0,
                "page_label": None,
                "sentence": "The notice period is thirty days.",
                "handle": citation.handle,
            }
        ],
        "tokens_read": document.tokens,
        "seconds": answer.seconds,
        "model": "fake",
        "unread_libraries": [],
        "scan": None,
    }
    order = ["question", "answer", "found", "state", "confidence", "quote_probability", "mode"]
    order += ["origin", "verdict", "hint", "sentence", "passage", "second_passage", "citations"]
    order += ["tokens_read"]
    assert list(answer.to_dict()) == [*order, "seconds", "model", "unread_libraries", "scan"]


@pytest.mark.few(1)
@pytest.mark.parametrize("named", ["id", "title", "source", "info"])
def test_documents_can_be_named_in_every_way(
    assistant: Assistant, engine: FakeEngine, handbook: Path, named: str
) -> None:
    document = assistant.ingest(handbook)
    name = document if named == "info" else getattr(document, named)
    assistant.ask("Which period?", documents=name, top_k=3, reread=False)
    assert engine.asked[-1] == {
        "question": "Which period?",
        "documents": (document.id,),
        "top_k": 3,
        "reread": False,
    }


def test_an_unknown_document_is_not_found(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    with pytest.raises(NotFoundError, match="nobook"):
        assistant.ask("Which period?", documents=["nobook"])


def test_a_library_without_documents_cannot_be_asked(
    assistant: Assistant, engine: FakeEngine, handbook: Path
) -> None:
    with pytest.raises(QuestionError, match="holds no documents"):
        assistant.ask("Which period?")
    assert engine.loads == [], "the model was loaded to say so"
    assistant.library.path.mkdir()
    assistant.library.remove(assistant.ingest(handbook))
    with pytest.raises(QuestionError, match="no document to ask"):
        list(assistant.stream("Which period?"))


def test_a_question_without_words_is_refused(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    with pytest.raises(QuestionError, match="no words"):
        assistant.ask("?!")


def test_a_stream_ends_with_the_whole_answer(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    stream = assistant.stream("Which period?")
    assert stream.answer is None
    assert list(stream) == ["per", "iod"]
    assert stream.answer is not None and stream.answer.text == "period"
    assert list(stream) == []


def test_errors_inside_a_stream_are_the_sdks(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    with pytest.raises(QuestionError):
        list(assistant.stream("?"))


def test_a_trace_shows_what_was_retrieved(assistant: Assistant, handbook: Path) -> None:
    document = assistant.ingest(handbook)
    trace = assistant.trace("Which period?")
    assert trace.groups[0].entries[0].document == document.id
    assert trace.as_text().startswith("question: Which period?")
    entry = trace.to_dict()["groups"][0]["entries"][0]
    shown = ["chunk", "document", "title", "start", "text", "score", "probability", "source"]
    assert list(entry) == [
        *shown,
        "page",
        "section",
        "landmark",
        "lexical",
        "late",
        "mass",
        "pointer",
        "end",
        "handle",
    ]
    assert entry["end"] == entry["start"] + len(entry["text"])
    values = trace.to_dict()
    assert list(values) == ["question", "groups", "tokens", "documents", "answer"]
    assert values["answer"]["answer"] == "period" and values["tokens"][-1]["text"] == "period"
    assert trace.as_html().startswith("<!doctype html>")
    plain = assistant.ask("Which period?").trace
    assert plain is not None and plain.tokens == () and plain.answer is None


def test_summaries_take_a_document_a_name_or_a_file(
    assistant: Assistant, engine: FakeEngine, handbook: Path
) -> None:
    by_file = assistant.summarize(handbook, length="medium", focus="notice")
    given = {"length": "medium", "mode": "auto", "focus": "notice"}
    assert engine.calls[-1][1] == {**given, "words": None, "section": None, "since": None}
    assert by_file.text == "The notice period is thirty days."
    document = assistant.library.documents()[0]
    assert assistant.summarize(document).sentences == by_file.sentences
    assert assistant.summarize(document.title).to_dict()["summary"] == by_file.text


def test_a_document_is_parsed_before_the_model_is_loaded(
    assistant: Assistant, engine: FakeEngine, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []
    text, read = object(), engine.ingest
    step = IngestProgress(str(handbook), 0, 0, 0, 0.1, page=1, pages=1)

    def identify(source: Any, tokenizer: object, progress: Any) -> object:
        progress(step)
        loaded.append(len(engine.loads))
        return text

    def ingest(*arguments: Any, **options: Any) -> Any:
        assert options["text"] is text
        return read(*arguments, **options)

    monkeypatch.setattr(_engine, "identify", identify)
    monkeypatch.setattr(_engine, "ingest_source", ingest)
    steps: list[IngestProgress] = []
    assistant.ingest(handbook, progress=steps.append)
    assert loaded == [0] and steps[0] == step and steps[1].fraction > 0
    assert (step.fraction, len(engine.loads)) == (0.0, 1)

    def fail(*_: object) -> None:
        raise errors.EmptyDocument("it holds no words")

    monkeypatch.setattr(_engine, "identify", fail)
    with Assistant(assistant.library.path.with_name("other")) as other:
        with pytest.raises(EmptyDocumentError):
            other.ingest(handbook)
        assert len(engine.loads) == 1


def test_the_model_is_loaded_once_and_late(
    engine: FakeEngine, handbook: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"model": "other", "device": "cpu", "threads": 2, "dtype": "bf16"}
    with Assistant(tmp_path / "l", **options) as assistant:
        assert engine.loads == []
        assistant.ingest(handbook)
        assistant.ask("Which period?")
    assert engine.loads == [options]


def test_a_closed_assistant_says_so(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    stream = assistant.stream("Which period?")
    assistant.close()
    assistant.close()
    for use in (lambda: assistant.ask("Which period?"), lambda: next(stream)):
        with pytest.raises(LibraryError, match="closed"):
            use()


def test_close_waits_for_another_threads_work(
    assistant: Assistant, engine: FakeEngine, handbook: Path
) -> None:
    assistant.ingest(handbook)
    reading, go_on = threading.Event(), threading.Event()
    answered: list[str] = []

    def slow(step: IngestProgress) -> None:
        reading.set()
        assert go_on.wait(10)

    def work() -> None:
        answered.append(assistant.ingest(second, progress=slow).title)

    second = handbook.with_name("second.txt")
    second.write_text("Another text to read.")
    thread = threading.Thread(target=work)
    thread.start()
    assert reading.wait(10)
    closing = threading.Thread(target=assistant.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    thread.join(10)
    closing.join(10)
    assert answered == ["second.txt"] and not closing.is_alive()


def test_threads_can_share_an_assistant(assistant: Assistant, handbook: Path) -> None:
    assistant.ingest(handbook)
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(assistant.ask("Which period?").text))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert texts == ["period"] * 4


def test_another_model_is_refused_with_both_named(
    assistant: Assistant, engine: FakeEngine, handbook: Path
) -> None:
    assistant.ingest(handbook)
    engine.fingerprint = "fake-2"
    with (
        Assistant(assistant.library.path) as other,
        pytest.raises(LibraryModelMismatchError, match=r"fake-1.*fake-2"),
    ):
        other.ask("Which period?")
    assert len(assistant.library.documents()) == 1


def test_a_second_writer_gives_up_with_a_sentence(
    assistant: Assistant, engine: FakeEngine, handbook: Path
) -> None:
    second = handbook.with_name("second.txt")
    second.write_text("Another text to read.")
    outcome: list[str] = []

    def write_too(step: IngestProgress) -> None:
        with Assistant(assistant.library.path, lock_timeout=0.0) as other:
            with pytest.raises(LibraryBusyError) as caught:
                other.ingest(second)
            outcome.append(str(caught.value))

    assistant.ingest(handbook, progress=write_too)
    assert len(outcome) == 1 and str(assistant.library.path) in outcome[0]


def test_an_interrupted_reading_leaves_a_library_that_opens(
    assistant: Assistant, handbook: Path
) -> None:
    def interrupt(step: IngestProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assistant.ingest(handbook, progress=interrupt)
    assert assistant.library.documents() == []


def test_a_full_disk_keeps_its_sentence(
    assistant: Assistant, engine: FakeEngine, handbook: Path
) -> None:
    engine.raises["ingest"] = errors.StorageFull("no room is left on the disk; free some.")
    with pytest.raises(LibraryError, match="no room"):
        assistant.ingest_many([handbook])


def test_the_default_library_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRT_LIBRARY", str(tmp_path / "mine"))
    assert default_library() == Assistant().library.path == tmp_path / "mine"
    monkeypatch.delenv("DRT_LIBRARY")
    assert default_library().parts[-2:] == ("drt", "library")


def test_reprs_say_what_they_are(assistant: Assistant) -> None:
    assert "notes.library" in repr(assistant)
    assert "notes.library" in repr(assistant.library)
    assert repr(assistant.session("review")) == "Session('review', turns=0)"
