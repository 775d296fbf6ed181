"""`drt library`, `drt session`, `drt chat` and `drt trace`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import HANDBOOK, Drt
from tests.sdk.fakes import FakeEngine


@pytest.fixture
def read(drt: Drt, handbook: Path, engine: FakeEngine) -> Drt:
    """`drt` on a library that holds the handbook, with the model not yet loaded again."""
    drt("ingest", handbook)
    engine.loads.clear()
    return drt


def test_listing_needs_no_model(read: Drt, engine: FakeEngine, handbook: Path) -> None:
    listed = read("library", "list")
    assert "handbook.txt" in listed.out and str(handbook) in listed.out
    (document,) = read("library", "list", "--json").json["documents"]
    assert document["characters"] == len(HANDBOOK)
    assert engine.loads == []


def test_an_empty_library_says_where_it_looked(drt: Drt, tmp_path: Path) -> None:
    result = drt("library", "list")
    assert (result.code, result.out) == (0, "")
    assert str(tmp_path / "library") in result.err
    assert drt("library", "stats").code == 1
    assert drt("session", "list", "--json").json == {"sessions": []}


def test_show_prints_the_text_that_citations_count_in(read: Drt) -> None:
    assert read("library", "show", "handbook.txt", "--text").out == HANDBOOK
    cut = read("library", "show", "handbook.txt", "--text", "--start", 11, "--end", 17)
    assert cut.out == "period"
    assert "characters" in read("library", "show", "handbook.txt").out
    assert read("library", "show", "nobook").code == 1


def test_check_stats_and_remove(read: Drt, tmp_path: Path) -> None:
    assert read("library", "check", "--json").json == {"findings": []}
    assert read("library", "check").code == 0
    assert read("library", "stats", "--json").json["documents"] == 1
    assert "documents" in read("library", "stats").out
    segment = next((tmp_path / "library" / "segments").iterdir())
    segment.write_bytes(segment.read_bytes()[:-9])
    damaged = read("library", "check")
    assert damaged.code == 1 and damaged.out.startswith("error: ")
    assert read("library", "remove", "handbook.txt").out.startswith("removed  ")
    assert read("library", "list", "--json").json["documents"] == []


def test_a_backup_is_restored(read: Drt, tmp_path: Path) -> None:
    copied = read("library", "backup", tmp_path / "monday")
    assert copied.code == 0 and copied.out.startswith("backed up  1 document  ")
    again = read(
        "library", "backup", tmp_path / "tuesday", "--earlier", tmp_path / "monday", "--json"
    )
    assert again.json["documents"] == 1 and again.json["linked_bytes"] > 0
    refused = read("library", "restore", tmp_path / "monday")
    assert refused.code == 1 and "is there already" in refused.err
    (tmp_path / "library").rename(tmp_path / "lost")
    restored = read("library", "restore", tmp_path / "tuesday")
    assert restored.code == 0 and restored.out.startswith("restored  1 document  ")
    assert read("library", "show", "handbook.txt", "--text").out == HANDBOOK
    assert read("library", "backup", tmp_path / "wednesday", "--no-check").code == 0
    damaged = next((tmp_path / "library" / "segments").iterdir())
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    lost = read("library", "backup", tmp_path / "thursday")
    assert lost.code == 1 and "check --repair" in lost.err
    assert not (tmp_path / "thursday").exists()


def test_sessions_are_shown_renamed_exported_and_deleted(read: Drt, tmp_path: Path) -> None:
    read("ask", "--session", "review", "Which period?")
    read("ask", "--session", "review", "Which zeppelin?")
    assert "review  2 turns" in read("session", "list").out
    shown = read("session", "show", "review").out.splitlines()
    assert shown[:2] == ["> Which period?", "period"]
    assert "The document does not say." in shown
    assert read("session", "rename", "review", "audit").code == 0
    assert read("session", "export", "audit").out.startswith("# audit\n\n## Which period?\n")
    file = tmp_path / "audit.md"
    read("session", "export", "audit", "--output", file)
    assert file.read_text(encoding="utf-8") == read("session", "export", "audit").out
    assert read("session", "delete", "audit").code == 2, "deleted unasked"
    assert read("session", "delete", "audit", "--yes").code == 0
    assert read("session", "show", "audit").code == 1


def test_chat_answers_and_knows_its_commands(read: Drt) -> None:
    lines = "/quote\n\nWhich period?\n/sources\n/quote\n?!\n/nothing\n/help\n/quit\nWhich keeper?\n"
    result = read("chat", "--session", "talk", stdin=lines)
    assert result.code == 0
    assert '"period"' in result.out and '"keeper"' not in result.out
    assert "The notice «period» is thirty days. The keeper" in result.out
    assert "/sources " in result.out
    for sentence in ("nothing was asked yet", "no words", "no command /nothing"):
        assert sentence in result.err
    again = read("chat", "--session", "talk", stdin="Which keeper?\n")
    assert again.code == 0, "the end of input ends the conversation"
    assert "turns so far: 1." in again.err
    assert read("session", "list", "--json").json["sessions"][0]["turns"] == 2


def test_an_unnamed_chat_is_not_kept(read: Drt) -> None:
    read("chat", stdin="Which period?\n")
    assert read("session", "list", "--json").json == {"sessions": []}


def test_trace_as_text_and_json(read: Drt) -> None:
    assert read("trace", "Which period?").out.startswith("question: Which period?")
    trace = read("trace", "--json", "Which period?").json
    assert list(trace) == ["question", "groups", "tokens", "documents", "answer"]
    assert trace["groups"][0]["entries"][0]["probability"] == 0.5


def test_a_library_is_exported_imported_and_compacted(read: Drt, tmp_path: Path) -> None:
    file = tmp_path / "all.drtlib"
    assert read("library", "export", file).out.startswith("exported  ")
    again = read("library", "import", file)
    assert (again.code, again.out) == (0, "") and "already" in again.err
    copy = ("--library", tmp_path / "copy")
    assert "handbook.txt" in read("library", *copy, "import", file).out
    assert read("library", *copy, "show", "handbook.txt", "--text").out == HANDBOOK
    assert read("library", *copy, "check", "--repair", "--json").json == {"findings": []}
    assert read("library", *copy, "remove", "--forget", "handbook.txt").out.startswith("forgotten")
    assert read("library", *copy, "compact").out.endswith("bytes freed\n")
    file.write_bytes(file.read_bytes()[:-7])
    broken = read("library", "import", file)
    assert broken.code == 1 and "is damaged" in broken.err


def test_forgetting_reaches_what_show_remembers_and_the_log(
    read: Drt, handbook: Path, tmp_path: Path
) -> None:
    def left() -> str:
        state = tmp_path / "state"
        return "".join(path.read_bytes().decode("latin-1") for path in state.rglob("*.*"))

    read("ask", "--session", "review", "Which period applies?")
    (row,) = read("library", "list", "--json").json["documents"]
    assert "Which period applies?" in left() and row["id"] in left()
    assert read("library", "remove", "--forget", row["id"]).code == 0
    assert "Which period applies?" not in left() and row["id"] not in left()
    assert read("session", "list", "--json").json == {"sessions": []}
    assert "no answer is remembered" in read("show", "1").err


def test_forgetting_that_was_killed_is_finished_by_the_same_command(
    read: Drt, handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read("ask", "Which period applies?")
    with monkeypatch.context() as patch:  # the document is gone, its bytes are not
        patch.setattr("drt_engine.store.upkeep.compaction.forget", lambda *_: None)
        assert read("library", "remove", "--forget", handbook).code == 0
    assert "deletes its last bytes" in read("library", "check").out
    again = read("library", "remove", "--forget", handbook)
    assert again.code == 1 and "no document" in again.err
    assert read("library", "check", "--json").json == {"findings": []}

    def end(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    read("ingest", handbook)
    read("ask", "Which period applies?")
    with monkeypatch.context() as patch:
        patch.setattr("drt_engine.store.Store.forget_document", end)
        assert read("library", "remove", "--forget", handbook).code == 130
    state = "".join(path.read_text("latin-1") for path in (tmp_path / "state").rglob("*.*"))
    assert "Which period applies?" not in state
    assert read("library", "remove", "--forget", handbook).code == 0


def test_conversations_are_searched(read: Drt) -> None:
    read("ask", "--session", "review", "Which period?")
    assert read("session", "search", "period", "which").out.startswith("review, turn 1\n")
    (turn,) = read("session", "search", "--json", "period").json["turns"]
    assert (turn["session"], turn["turn"], turn["answer"]) == ("review", 1, "period")
    nothing = read("session", "search", "zeppelin")
    assert (nothing.code, nothing.out) == (0, "")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("library", "rm"), "remove"),
        (("library", "info"), "show"),
        (("library", "lst"), "list"),
        (("session", "rm"), "delete"),
        (("config", "remove"), "unset"),
        (("model", "show"), "info"),
    ],
)
def test_a_command_that_is_not_there_is_answered_with_the_one_that_was_meant(
    drt: Drt, words: tuple[str, str], meant: str
) -> None:
    result = drt(*words, "x")
    assert result.code == 2
    assert f"There is no command '{' '.join(words)}'; did you mean '{meant}'?" in result.err


def test_a_command_that_is_like_no_other(drt: Drt) -> None:
    err = drt("library", "xyzzy").err
    assert "There is no command 'library xyzzy'; `drt library --help` lists them." in err


def test_a_day_in_words_is_wrong_usage(drt: Drt, handbook: Path) -> None:
    drt("ingest", handbook)
    for words in (("library", "list"), ("ask", "Which period?"), ("search", "period")):
        result = drt(*words, "--since", "yesterday")
        assert result.code == 2 and "'yesterday' is not a date, expected YYYY" in result.err


def test_what_was_removed_comes_back_until_it_is_compacted(read: Drt) -> None:
    read("library", "tag", "handbook.txt", "+work")
    (document,) = read("library", "list", "--json").json["documents"]
    removed = read("library", "remove", "handbook.txt")
    assert f"To undo: drt library undo-remove {document['id']}" in removed.err
    assert read("library", "list", "--json").json["documents"] == []
    assert read("library", "list", "--removed", "--json").json["documents"] == [document]
    assert read("library", "list", "--removed", "--tag", "work").code == 2
    back = read("library", "undo-remove", "handbook.txt")
    assert back.out == f"back  {document['id']}  handbook.txt\n"
    assert read("library", "list", "--json").json["documents"] == [document]
    read("library", "remove", "handbook.txt")
    assert read("library", "compact").code == 0
    assert "can be brought back" in read("library", "list", "--removed").err
    gone = read("library", "undo-remove", "handbook.txt")
    assert gone.code == 1 and "compact" in gone.err


def test_a_removed_document_can_be_forgotten(read: Drt) -> None:
    read("library", "remove", "handbook.txt")
    assert "undo-remove" not in read("library", "remove", "--forget", "handbook.txt").err
    assert read("library", "list", "--removed", "--json").json["documents"] == []
    assert read("library", "undo-remove", "handbook.txt").code == 1
