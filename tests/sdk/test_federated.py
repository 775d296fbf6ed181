"""Several libraries asked as one give the answers of one library that holds all documents."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drt import (
    Answer,
    Assistant,
    Library,
    LibraryError,
    LibraryModelMismatchError,
    NotFoundError,
    passage,
)
from drt_engine.store.catalogue import database
from tests.model_folder import LETTERS, MANUAL, model_folder
from tests.sampling import sampled
from tests.tables import each_row

TEXTS = {
    "manual.md": MANUAL,
    "letters.txt": LETTERS,
    "rules.md": MANUAL.replace("whale oil", "paraffin").replace("Vera Holm", "Olga Brandt"),
    "farm.txt": "Title: Farm\n\nThe harvest of 1903 was rich. " + LETTERS.replace("1902", "1901"),
    "table.csv": "name,crowns\nAnna,3\nJonas,9\nVera,12\n",
    "storm.txt": "In the storm of May the bell of the northern lighthouse broke.\n" * 9,
}
QUESTIONS = [
    "Who keeps the key of the store?",
    "When does the bell ring in fog?",
    "How many crowns does Jonas have?",
    "Who is the author of manual.md?",
    "What is the notice period for a keeper?",
    "zebra",
]
FEW = [QUESTIONS[number] for number in (0, 2, 3, 5)]  # of each kind one


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The library of all, its parts (two or three), one that overlaps, and all in another order."""
    root = tmp_path_factory.mktemp("federated")
    names = list(TEXTS)
    parts = {
        "whole": names,
        "a": names[:2],
        "b": names[2:4],
        "c": names[4:],
        "bc": names[2:],
        "overlap": [names[1], *names[4:]],
        "turned": [*names[2:], *names[:2]],
    }
    for name, text in TEXTS.items():
        (root / name).write_text(text)

    class Libraries(dict[str, Path]):
        def __missing__(self, name: str) -> Path:
            path = self[name] = root / name
            with Assistant(path, model=model_folder(), device="cpu", dtype="fp32") as one:
                for file in parts[name]:
                    one.ingest(root / file, tags=[file[0]])
            return path

    return Libraries()  # each is read when it is first asked for


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((dtype, parts), marks=[] if fast else pytest.mark.slow, id=f"{dtype}-{parts}")
        for dtype, parts, fast in (
            ("fp32", ("whole", "a", "b", "overlap"), True),  # with parts of b in it, too
            ("fp32", ("whole", "a", "b", "c"), False),
            ("bf16", ("whole", "a", "b", "overlap"), False),
            ("fp32", ("whole", "a", "bc"), False),
            ("bf16", ("turned", "bc", "a"), False),
        )
    ],
)
def pair(
    request: pytest.FixtureRequest, folders: dict[str, Path]
) -> Iterator[tuple[Assistant, Assistant]]:
    """One library, and several with the same documents in the same order."""
    dtype, (whole, *parts) = request.param
    how: dict[str, Any] = {"model": model_folder(), "device": "cpu", "threads": 1, "dtype": dtype}
    with (
        Assistant(folders[whole], **how) as one,
        Assistant([folders[name] for name in parts], **how) as many,
    ):
        yield one, many


def plain(result: Any) -> dict[str, Any]:
    """What must be equal: all but the time, and what only several libraries have."""
    values: dict[str, Any] = result.to_dict() | {"seconds": 0}
    assert values["unread_libraries"] == []
    places = [p for key in ("citations", "hits", "sentences") for p in values.get(key, ())]
    places += [p for group in values.get("answers", ()) for p in group["citations"]]
    for place in places:
        del place["library"]
    if isinstance(result, Answer) and result.trace is not None:
        values["trace"] = [
            [replace(entry, chunk=0) for entry in group.entries] for group in result.trace.groups
        ]
    return values


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    sampled(
        [
            {},
            {"retriever": "landmark"},
            {"retriever": "lexical"},
            {"reread": False, "top_k": 3},
            {"types": ["md"]},
            {"tags": ["r"], "section": "Fog"},
            {"documents": ["letters.txt", "storm.txt", "manual.md"], "since": "2000"},
            {"mode": "free", "max_tokens": 4},
        ],
        {0},
        thorough={5, 7},
    ),
    ids=str,
)
def test_answers_are_those_of_one_library(
    pair: tuple[Assistant, Assistant], options: dict[str, Any]
) -> None:
    one, many = pair
    for question in FEW if not options else QUESTIONS[::3]:
        assert plain(many.ask(question, **options)) == plain(one.ask(question, **options))
    if options.get("mode") != "free":
        every = many.ask_all(QUESTIONS[0], threshold=0.0, **options)
        assert plain(every) == plain(one.ask_all(QUESTIONS[0], threshold=0.0, **options))
    options = {
        key: options[key] for key in options.keys() - {"reread", "top_k", "mode", "max_tokens"}
    }
    assert plain(many.search("bell of the store", **options)) == plain(
        one.search("bell of the store", **options)
    )


@pytest.mark.thorough
def test_streams_summaries_conversations_and_handles_are_the_same(
    pair: tuple[Assistant, Assistant],
) -> None:
    one, many = pair
    streams = [each.stream(QUESTIONS[0]) for each in pair]
    assert list(streams[0]) == list(streams[1])
    assert streams[0].answer is not None and streams[1].answer is not None
    assert plain(streams[0].answer) == plain(streams[1].answer)
    documents = ["letters.txt", "storm.txt"]
    assert plain(many.summarize(documents)) == plain(one.summarize(documents))
    for question in (*QUESTIONS[:2], "Summarize letters.txt", "Summarize it"):
        answers = [plain(each.session("talk").ask(question)) for each in pair]
        assert answers[0] == answers[1]
    assert many.session("talk").turns == one.session("talk").turns
    for each in pair:
        each.library.delete_session("talk")
    answer = many.ask(QUESTIONS[4])
    for citation in answer.citations:
        shown = passage(many.library, citation.handle)
        assert shown == passage(one.library, citation.handle)
        owner = Library(citation.library)
        assert owner.show(citation.document).id == citation.document
    assert many.trace(QUESTIONS[0]).as_text() != ""
    assert [d.id for d in many.library.documents()] == [d.id for d in one.library.documents()]
    assert many.library.stats()["documents"] >= len(TEXTS)


@pytest.mark.thorough
def test_a_read_only_share_answers(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = tmp_path / "share"
    shutil.copytree(folders["a"], share)
    writable = database.is_writable  # as root, nothing is read-only by its rights
    monkeypatch.setattr(
        database, "is_writable", lambda path: share not in path.parents and writable(path)
    )
    with Assistant([folders["bc"], share], model=model_folder(), device="cpu") as many:
        answer = many.ask(QUESTIONS[0], documents="letters.txt")
    assert answer.unread_libraries == () and answer.citations[0].library == str(share)


@pytest.mark.thorough
def test_an_answer_without_a_library_says_so(folders: dict[str, Path], tmp_path: Path) -> None:
    damaged, gone = tmp_path / "damaged", tmp_path / "gone"
    shutil.copytree(folders["b"], damaged)
    for file in (damaged / "segments").iterdir():
        file.write_bytes(b"no segment")
    paths = [folders["a"], damaged, gone]
    how: dict[str, Any] = {"model": model_folder(), "device": "cpu", "dtype": "fp32"}
    with Assistant(paths, **how) as many, Assistant(folders["a"], **how) as one:
        for ask in (many.ask, many.ask_all, many.search):
            result = ask(QUESTIONS[0])
            entries = result.to_dict()["unread_libraries"]
            assert [entry["library"] for entry in entries] == [str(damaged), str(gone)]
            assert "there is no library" in entries[1]["reason"]
        stream = many.stream(QUESTIONS[0])
        text = "".join(stream)
        assert stream.answer is not None and len(stream.answer.unread_libraries) == 2
        assert text == one.ask(QUESTIONS[0]).text
        hits = many.search("key", retriever="lexical").hits
        assert [hit.text for hit in hits] == [
            hit.text for hit in one.search("key", retriever="lexical").hits
        ]
    with Assistant(paths[:2], **how) as again:  # damage that shows while an answer is streamed
        stream = again.stream(QUESTIONS[0])
        assert "".join(stream) == text
    for some in (paths[:2], paths[::2]):
        with Assistant(some, require_all=True, **how) as many, pytest.raises(LibraryError):
            many.ask(QUESTIONS[0])
    with pytest.raises(LibraryError, match="none of the 2 libraries"):
        Library([gone, tmp_path / "nothing"]).documents()


@pytest.mark.thorough
def test_several_libraries_cannot_be_changed(folders: dict[str, Path], tmp_path: Path) -> None:
    library = Library([folders["a"], folders["b"]])
    (tmp_path / "new.txt").write_text("A new text of the island.")
    with Assistant(library.paths, model=model_folder(), device="cpu") as many:
        changes = [
            lambda: many.ingest(tmp_path / "new.txt"),
            lambda: many.ingest_many(tmp_path / "new.txt"),
            lambda: next(many.watch(tmp_path)),
            lambda: library.remove("manual.md"),
            lambda: library.tag("manual.md", add="x"),
            lambda: library.compact(),
            lambda: library.check(),
            lambda: library.repair(),
            lambda: library.rebuild(),
            lambda: library.export_archive(tmp_path / "x"),
            lambda: library.import_archive(tmp_path / "x"),
        ]
        for change in changes:
            with pytest.raises(LibraryError, match="cannot be changed; name one of them"):
                change()
    assert not (tmp_path / "x").exists()


@each_row("text", ["", "notes", "{}"])
def test_a_file_that_is_no_list_is_called_so_where_it_would_be_changed(
    text: str, tmp_path: Path
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(LibraryError, match="neither a library's folder nor a whole list"):
        Library(file).compact()
    assert file.read_text() == text


@pytest.mark.thorough
def test_a_list_file_is_asked_like_its_libraries(folders: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    listed = Library.federate(file, [folders["a"], folders["bc"]])
    assert [d.id for d in listed.documents()] == [
        d.id for d in Library([folders["a"], folders["bc"]]).documents()
    ]
    assert listed.show("storm.txt").title == "storm.txt"
    with pytest.raises(NotFoundError, match="no document 'none'"):
        listed.show("none")
    with pytest.raises(LibraryError, match="there is no library"):
        Library.federate(tmp_path / "other.json", [folders["a"], tmp_path / "gone"])
    assert not (tmp_path / "other.json").exists()
    strange = tmp_path / "strange"
    with Assistant(strange, model=model_folder(seed=1), device="cpu") as other:
        (tmp_path / "new.txt").write_text("A new text of the island.")
        other.ingest(tmp_path / "new.txt")
    with pytest.raises(LibraryModelMismatchError, match="made with different models"):
        Library.federate(file, [folders["a"], strange])
    assert len(listed.documents()) == len(TEXTS)
