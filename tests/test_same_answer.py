"""The same answer however it is reached: cold or warm, resumed, one of many, with small caches, out
of another library with the same documents, or beside other readers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import torch

from drt import Answer, AskOptions, Assistant
from drt_engine.store.segments import landmark_files, open_files, reader
from tests.model_folder import LETTERS, MANUAL, model_folder
from tests.sampling import sampled

HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook.md"


@dataclass(frozen=True)
class Case:
    """A model, a library read with it, and what is asked."""

    model: str | Path
    library: Path
    questions: tuple[str, ...]
    modes: tuple[AskOptions, ...]

    def open(self, library: Path | None = None, *, threads: int = 1) -> Assistant:
        return Assistant(library or self.library, model=self.model, threads=threads)

    def unbroken(self) -> list[Answer]:
        """One assistant, one question after the other: what all others must equal."""
        with self.open() as assistant:
            return asked(assistant, self)

    def heads(self) -> Iterator[tuple[str, AskOptions]]:
        for options in self.modes:
            for question in self.questions:
                yield question, options


def asked(assistant: Assistant, case: Case) -> list[Answer]:
    return [timeless(assistant.ask(one, **options)) for one, options in case.heads()]


def timeless(answer: Answer) -> Answer:
    return replace(answer, seconds=0.0, trace=None)


# the ways; each gives the answers to every question in every mode


def cold(case: Case, folder: Path) -> list[Answer]:
    answers = []
    for question, options in case.heads():
        with case.open() as assistant:
            answers.append(timeless(assistant.ask(question, **options)))
    return answers


def warm(case: Case, folder: Path) -> list[Answer]:
    with case.open() as assistant:
        for question in reversed(case.questions):
            assistant.ask(question)
        return asked(assistant, case)


def one_of_many(case: Case, folder: Path) -> list[Answer]:
    with case.open() as assistant:
        return [
            timeless(answer)
            for options in case.modes
            for answer in assistant.ask_many(case.questions, **options)
        ]


def streamed(case: Case, folder: Path) -> list[Answer]:
    answers = []
    with case.open() as assistant:
        for question, options in case.heads():
            pieces = assistant.stream(question, **options)
            text = "".join(pieces)
            assert pieces.answer is not None and text == pieces.answer.text
            answers.append(timeless(pieces.answer))
    return answers


def small_caches(case: Case, folder: Path) -> list[Answer]:
    """As little of the library in memory as it can do with."""
    limits = {
        **{"MAX_COPIED_BYTES": 0, "SMALL_CHUNKS": 1},
        **{"SCAN_ROWS": 3, "_JOINED_ROWS": 2},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_files, "MAX_OPEN", 1)
        for name, value in limits.items():
            patch.setattr(reader, name, value)
        return case.unbroken()


def all_copied(case: Case, folder: Path) -> list[Answer]:
    """All landmarks copied into memory, where by default large segments are mapped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "SMALL_CHUNKS", 1 << 30)
        return case.unbroken()


def moved(case: Case, folder: Path) -> list[Answer]:
    """Out of an archive, compacted, and with all landmarks on a shelf."""
    with case.open() as assistant:
        assistant.library.export_archive(folder / "all.drtlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 1)
        with case.open(folder / "moved") as assistant:
            assistant.library.import_archive(folder / "all.drtlib")
            assistant.library.compact()
            return asked(assistant, case)


def one_assistant_two_threads(case: Case, folder: Path) -> list[Answer]:
    with case.open() as assistant:
        return together([partial(asked, assistant, case)] * 2)


def two_assistants_two_threads(case: Case, folder: Path) -> list[Answer]:
    with case.open() as one, case.open() as other:
        return together([partial(asked, one, case), partial(asked, other, case)])


def together(works: Sequence[Callable[[], list[Answer]]]) -> list[Answer]:
    """Do these at once; they must agree."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], list[Answer]]) -> list[Answer]:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        first, *others = pool.map(run, works)
    assert all(other == first for other in others)
    return first


WAYS = [
    *(cold, one_of_many, small_caches, moved, two_assistants_two_threads),
    *(warm, streamed, all_copied, one_assistant_two_threads),
]
FEW = sampled(WAYS[:5], {0, 2}, thorough={4})  # the others take the same paths with a tiny model


def conversation(case: Case, name: str, options: AskOptions, *, resumed: bool) -> list[Answer]:
    """All questions as turns of one session, which is read from the disk again before each."""
    answers, opened = [], case.open()
    session = opened.session(name)
    for question in case.questions:
        answers.append(timeless(session.ask(question, **options)))
        if resumed:
            opened.close()
            opened = case.open()
            session = opened.session(name)
    opened.close()
    return answers


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Case, list[Answer]]]:
    folder = tmp_path_factory.mktemp("same")
    files = {"manual.md": MANUAL, "letters.txt": LETTERS}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    case = Case(
        model_folder(),
        folder / "library",
        ("Who keeps the key?", "What does it say of a ticket?"),
        ({"threshold": 0.0}, {"threshold": 0.0, "mode": "free", "max_tokens": 4}),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        with case.open() as assistant:
            assistant.ingest_many([folder / name for name in files])
        yield case, case.unbroken()
        assert_whole(case)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Case, list[Answer]]]:
    case = Case(
        "drt-small-en",
        tmp_path_factory.mktemp("same") / "library",
        (
            "How much notice must a member give after the ship has sailed?",
            "Who wrote to the manager of the Lissom Biscuit Works?",
            "And when did he write it?",
        ),
        ({}, {"mode": "free", "max_tokens": 12, "threshold": 0.0}),
    )
    with case.open() as assistant:
        assistant.ingest(HANDBOOK)
    yield case, case.unbroken()
    assert_whole(case)


def assert_whole(case: Case) -> None:
    with case.open() as assistant:
        assert [one for one in assistant.library.check() if one.severity == "error"] == []


@pytest.mark.few(1)
@pytest.mark.parametrize("way", FEW, ids=lambda way: way.__name__)
def test_every_way_gives_the_same(
    tiny: tuple[Case, list[Answer]], tmp_path: Path, way: Callable[[Case, Path], list[Answer]]
) -> None:
    case, wanted = tiny
    assert way(case, tmp_path) == wanted
    assert len(set(wanted)) == len(wanted)  # it would be easy to give always the same


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_gives_the_same_with_the_shipped_model(
    shipped: tuple[Case, list[Answer]], tmp_path: Path, way: Callable[[Case, Path], list[Answer]]
) -> None:
    case, wanted = shipped
    assert way(case, tmp_path) == wanted
    assert "sixty days" in wanted[0].text


@pytest.mark.thorough
@pytest.mark.parametrize("mode", sampled([0, 1], {1}), ids=["quote", "free"])
def test_a_resumed_session_gives_the_same(tiny: tuple[Case, list[Answer]], mode: int) -> None:
    resume_equals_going_on(tiny, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0, 1], ids=["quote", "free"])
def test_a_resumed_session_gives_the_same_with_the_shipped_model(
    shipped: tuple[Case, list[Answer]], mode: int
) -> None:
    resume_equals_going_on(shipped, mode)


def resume_equals_going_on(made: tuple[Case, list[Answer]], mode: int) -> None:
    case, wanted = made
    options = case.modes[mode]
    unbroken = conversation(case, f"unbroken {mode}", options, resumed=False)
    assert conversation(case, f"resumed {mode}", options, resumed=True) == unbroken
    if options.get("mode") != "free":  # which also reads its own question's chunks in a session
        assert unbroken[0] == wanted[0]  # nothing was said before it


@pytest.mark.slow
def test_processor_threads_change_no_greedy_answer(shipped: tuple[Case, list[Answer]]) -> None:
    """Sums may be made in another order, so probabilities may differ in their last bits."""
    case, wanted = shipped
    before = torch.get_num_threads()
    try:
        with case.open(threads=2) as assistant:
            answers = asked(assistant, case)
    finally:
        torch.set_num_threads(before)
    for answer, other in zip(answers, wanted, strict=True):
        assert (answer.text, answer.found) == (other.text, other.found)
        assert [(c.document, c.start, c.end) for c in answer.citations] == [
            (c.document, c.start, c.end) for c in other.citations
        ]
        assert answer.confidence == pytest.approx(other.confidence, rel=1e-2)


@pytest.mark.thorough
def test_a_writer_beside_changes_no_answer(tiny: tuple[Case, list[Answer]], tmp_path: Path) -> None:
    """Only the rarity of words, which BM25 counts, is that of all documents."""
    case, _ = tiny
    file, written, done = tmp_path / "other.txt", 0, threading.Event()
    with case.open() as writer, case.open() as assistant:
        ids = [row.id for row in assistant.library.documents()]
        modes = tuple({**one, "documents": ids, "retriever": "landmark"} for one in case.modes)
        case = replace(case, modes=modes)  # type: ignore[arg-type]
        wanted = asked(assistant, case)

        def write() -> None:
            nonlocal written
            while not done.is_set():
                file.write_text(f"The bell of ship {written} is heard in fog.", "utf-8")
                writer.library.remove(writer.ingest(file))
                written += 1

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                while written < 2:
                    assert asked(assistant, case) == wanted
            finally:
                done.set()
                writing.result()
