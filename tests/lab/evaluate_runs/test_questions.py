"""Retrieval, answers and calibration over a tiny model: shapes, groups, and rigged results."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.answer.result import AnswerResult
from drt_engine.documents import Source
from drt_engine.errors import ConfigError, FingerprintMismatch
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.ingest.temporary import library_of, open_library
from drt_engine.model.calibration import Calibration, Signals
from drt_engine.results import Citation, Trace
from drt_engine.retrieval.reader_pass import PassageLogits
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from drt_lab.evaluate import calibrate, qa
from drt_lab.evaluate.library import overlaps, sample
from drt_lab.evaluate.report import EvalReport
from drt_lab.evaluate.run import evaluate
from tests.engine.answer.test_reading import reading_runtime
from tests.lab.evaluate_runs.conftest import LAKE, MINE, WriteLines, question
from tests.sampling import sampled

KEYS = ["task", "data", "n", "metrics", "baselines", "seconds", "model"]
GOLD = {
    "Who is the captain of the ferry?": ("Ida Holm", 0.9),
    "When did the mill burn?": ("in 1811", 0.4),
    "How deep is the water?": ("seven", 0.2),
    "What did the mine give?": ("copper", 0.8),
    "What closed the gallery?": ("the bell", 0.7),
    "Who owned the mine?": ("goats", 0.6),
}


def _result(quote: str, confidence: float) -> AnswerResult:
    citation = Citation("d", "t", "s", 0, len(quote), quote, None, None, 1.0, quote)
    found = confidence >= 0.5
    signals = Signals(10 * confidence)
    trace = Trace("q", ())
    return AnswerResult(quote, found, confidence, "quote", (citation,), 1, trace, signals)


@pytest.fixture
def rigged(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Answers by heart; the list says which were asked with re-reading."""
    asked: list[bool] = []

    def fake(runtime: Runtime, store: Store, text: str, options: Any) -> AnswerResult:
        asked.append(options.reread)
        return _result(*GOLD[text])

    monkeypatch.setattr(qa, "ask", fake)
    return asked


def test_documents_are_stored_to_the_character(runtime: Runtime) -> None:
    texts = ["A café,\n\n\tand naïve 東京 🙂 e\u0301nd. ", LAKE]
    with library_of(runtime, texts, name="two") as (store, rows):
        assert ["".join(store.iter_text(row.id)) for row in rows] == texts
        assert [row.characters for row in rows] == [len(text) for text in texts]
    with pytest.raises(ConfigError, match="'odd' is not stored as it was given"):
        library_of(runtime, ["one\r\ntwo"], name="odd").__enter__()


def test_overlap_and_sample() -> None:
    assert overlaps(10, "abc", [(12, 20)]) and overlaps(10, "abc", [(0, 3), (0, 11)])
    assert not overlaps(10, "abc", [(13, 20)]) and not overlaps(10, "abc", [(0, 10)])
    drawn = sample(range(100), 7)
    assert drawn == sorted(set(drawn)) == sample(range(100), 7) and len(drawn) == 7
    assert sample(range(3), 7) == [0, 1, 2]


@pytest.mark.few(1)
@pytest.mark.parametrize("task", sampled(["qa", "retrieval", "calibrate"], {1}, thorough={0, 2}))
def test_documents_and_questions_may_be_in_several_files(
    runtime: Runtime,
    write_lines: WriteLines,
    rigged: list[bool],
    tmp_path: Path,
    task: str,
) -> None:
    texts = {"lake": LAKE, "mine": MINE}
    docs = [
        write_lines(f"{name}.jsonl", [{"doc_id": name, "title": "", "text": text}])
        for name, text in texts.items()
    ]
    lake = [
        question(0, "lake", "Who is the captain of the ferry?", "Ida Holm", LAKE),
        question(1, "lake", "How deep is the water?", None, LAKE),
    ]
    mine = [
        question(2, "mine", "What did the mine give?", "copper", MINE),
        question(3, "mine", "Who owned the mine?", None, MINE),
    ]
    both = write_lines("both.jsonl", lake + mine)
    apart = [write_lines("a.jsonl", lake), write_lines("b.jsonl", mine)]
    out = {"out": tmp_path} if task == "calibrate" else {}
    whole = evaluate(runtime, task, {"qa": both, "docs": docs, **out})
    spread = evaluate(runtime, task, {"qa": tuple(apart), "docs": [str(d) for d in docs], **out})
    assert whole["n"] == spread["n"] == (2 if task == "retrieval" else 4)
    assert whole["metrics"] == spread["metrics"]
    assert (whole["data"], spread["data"]) == ("both.jsonl", "a.jsonl, b.jsonl")
    with pytest.raises(ConfigError, match="'mine' is not in the documents file"):
        evaluate(runtime, task, {"qa": both, "docs": docs[0], **out})
    with pytest.raises(ConfigError, match=r"mine\.jsonl: the document 'mine' is given twice"):
        evaluate(runtime, task, {"qa": both, "docs": [*docs, docs[1]], **out})


def test_retrieval_reports_three_retrievers_by_source(
    runtime: Runtime, qa_files: dict[str, object]
) -> None:
    result = evaluate(runtime, "retrieval", qa_files)
    assert list(result) == KEYS and result["task"] == "retrieval" and result["n"] == 4
    assert list(result["metrics"]) == ["A", "B", "all"]
    every = result["metrics"]["all"]
    assert list(every) == ["n", "landmark", "lexical", "hybrid"]
    assert every["n"] == 4
    for name in ("landmark", "lexical", "hybrid"):
        assert 0 <= every[name]["hit@1"] <= every[name]["hit@8"] <= 1
    # A word of each question stands only in the chunk of its evidence or just beside it.
    assert every["lexical"]["hit@8"] >= 0.5
    assert result["baselines"]["bm25"]["A"]["lexical"] == result["metrics"]["A"]["lexical"]
    assert "hybrid hit@8" in EvalReport(**result).as_table()
    json.dumps(result, allow_nan=False)


def test_answers_are_grouped_by_type_where_the_data_tells(
    runtime: Runtime, write_lines: WriteLines
) -> None:
    rows = [
        question(0, "lake", "Who is the captain of the ferry?", "Ida Holm", LAKE) | {"type": "who"},
        question(1, "lake", "When did the mill burn?", "1811", LAKE) | {"type": "when"},
        question(2, "lake", "How deep is the water?", None, LAKE) | {"type": "none"},
    ]
    # A corpus file calls the id of a document otherwise.
    docs = write_lines("corpus.jsonl", [{"id": "lake", "title": "Lake", "text": LAKE}])
    options = {"qa": str(write_lines("typed.jsonl", rows)), "docs": str(docs)}
    result = evaluate(runtime, "qa", options)
    assert list(result["metrics"]) == ["type none", "type when", "type who", "A", "all"]
    assert result["metrics"]["type who"]["n_extractive"] == 1


def test_calibration_takes_further_questions(
    runtime: Runtime, qa_files: dict[str, object], tmp_path: Path, rigged: list[bool]
) -> None:
    options = qa_files | {"out": str(tmp_path)}
    once = evaluate(runtime, "calibrate", options)
    pair = (str(qa_files["qa"]), str(qa_files["docs"]))
    twice = evaluate(runtime, "calibrate", options | {"also": (pair,)})
    assert twice["n"] == 2 * once["n"]
    with pytest.raises(ConfigError, match="also must name pairs"):
        evaluate(runtime, "calibrate", options | {"also": (pair[:1],)})


@pytest.mark.thorough
def test_questions_about_files_are_fitted_on_too(
    runtime: Runtime,
    qa_files: dict[str, object],
    tmp_path: Path,
    write_lines: WriteLines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "lake.txt").write_text(LAKE)
    asked = {"file": "lake.txt", "type": "who", "question": "Who is the captain of the ferry?"}
    lines = [{**asked, "answer": "Ida"}, {**asked, "question": "Who?", "answer": None}]
    seen: list[calibrate.Judged] = []
    judged = calibrate.judged_question

    def judged_question(*arguments: Any) -> calibrate.Judged:
        seen.append(judged(*arguments))
        return seen[-1]

    monkeypatch.setattr(calibrate, "judged_question", judged_question)
    pair = (str(write_lines("files.jsonl", lines)), str(folder))
    options = qa_files | {"out": str(tmp_path), "quotes_only": True}
    result = evaluate(runtime, "calibrate", options | {"files": (pair,)})
    assert result["n"] == evaluate(runtime, "calibrate", options)["n"] + 2
    assert [(j.kind, j.document, j.type) for j in seen[:2]] == [
        ("extractive", "lake.txt", "who"),
        ("unanswerable", "lake.txt", "who"),
    ]
    assert seen[0].candidates and not any(
        right for forms in seen[1].candidates for _, right in forms
    )
    with pytest.raises(ConfigError, match="files must name pairs"):
        evaluate(runtime, "calibrate", options | {"files": ((pair[0], pair[0]),)})


def test_retrieval_of_one_retriever_source_and_limit(
    runtime: Runtime, qa_files: dict[str, object]
) -> None:
    options = qa_files | {"retriever": "landmark", "source": "B", "limit": 1}
    result = evaluate(runtime, "retrieval", options)
    assert list(result["metrics"]) == ["B", "all"] and result["n"] == 1
    assert list(result["metrics"]["all"]) == ["n", "landmark"]


def test_a_model_without_a_reader_judges_nothing(
    runtime: Runtime, qa_files: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="has no reader, expected one that judges"):
        evaluate(runtime, "retrieval", qa_files | {"judged": True})


@pytest.mark.thorough
def test_the_reader_orders_what_hybrid_retrieval_found(
    qa_files: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passage with the most evidence comes first, also where it was retrieved last."""

    def last_has_most(self: PassageLogits) -> torch.Tensor:
        return torch.arange(len(self.null), dtype=torch.float32) * 100

    monkeypatch.setattr(PassageLogits, "evidence", last_has_most)
    model = reading_runtime()
    result = evaluate(model, "retrieval", qa_files | {"retriever": "hybrid", "judged": True})
    every = result["metrics"]["all"]
    assert list(every) == ["n", "hybrid", "judged"]
    assert every["judged"]["hit@8"] == every["hybrid"]["hit@8"] == 1
    assert every["judged"]["hit@1"] < every["hybrid"]["hit@1"]


def test_answers_of_the_model_have_the_documented_shape(
    runtime: Runtime, qa_files: dict[str, object]
) -> None:
    options = qa_files | {"both": True, "given_chunk": True, "limit": 2}
    result = evaluate(runtime, "qa", options)
    assert list(result) == KEYS and result["n"] == 4
    assert list(result["metrics"]) == ["A", "B", "all"]
    keys = ["f1", "em", "f1_abstractive", "f1_found", "found_auroc", "found_auroc_within"]
    keys += ["found_accuracy", "n_answerable", "n_unanswerable", "n_extractive"]
    assert list(result["metrics"]["all"]) == keys
    assert list(result["baselines"]) == ["stored", "given chunk", "bm25 sentence"]
    assert list(result["baselines"]["stored"]["A"]) == keys
    json.dumps(result, allow_nan=False)


def test_answers_are_scored_whether_found_or_not(
    runtime: Runtime, qa_files: dict[str, object], rigged: list[bool]
) -> None:
    result = evaluate(runtime, "qa", qa_files)
    first, second = result["metrics"]["A"], result["metrics"]["B"]
    # "in 1811" for "1811": two thirds; it is below the threshold.
    assert first["f1"] == pytest.approx((1 + 2 / 3) / 2) and first["em"] == 0.5
    assert first["f1_found"] == 0.5
    assert first["found_auroc"] == 1.0 and first["found_accuracy"] == pytest.approx(2 / 3)
    assert (second["f1"], second["found_accuracy"]) == (0.5, pytest.approx(2 / 3))
    every = result["metrics"]["all"]
    assert (every["n_answerable"], every["n_unanswerable"]) == (4, 2)
    assert every["found_auroc"] == pytest.approx(7 / 8)
    assert rigged == [True] * 6
    sentence = result["baselines"]["bm25 sentence"]["B"]
    assert 0 < sentence["f1"] < 1 and sentence["em"] == 0


def test_stored_answers_are_asked_without_rereading(
    runtime: Runtime, qa_files: dict[str, object], rigged: list[bool]
) -> None:
    evaluate(runtime, "qa", qa_files | {"both": True, "source": "A"})
    assert rigged == [True, False] * 3
    rigged.clear()
    evaluate(runtime, "qa", qa_files | {"reread": False, "source": "A"})
    assert rigged == [False] * 3


def test_the_given_chunk_is_all_there_is(
    runtime: Runtime, qa_files: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def fake(runtime: Runtime, store: Store, text: str, options: Any) -> AnswerResult:
        seen.append("".join("".join(store.iter_text(row.id)) for row in store.documents()))
        return _result("x", 0.9)

    monkeypatch.setattr(qa, "ask", fake)
    evaluate(runtime, "qa", qa_files | {"given_chunk": True, "source": "B"})
    given = [text for text in seen if text != MINE]
    assert len(given) == 2 and "copper" in given[0] and "A flood" in given[1]
    assert all(text in MINE for text in given)


def test_calibration_is_fitted_and_read_back(
    runtime: Runtime, qa_files: dict[str, object], rigged: list[bool], tmp_path: Path
) -> None:
    result = evaluate(runtime, "calibrate", qa_files | {"out": str(tmp_path)})
    assert list(result["metrics"])[:2] == ["reread", "stored"]
    assert sorted(rigged) == [False] * 6 + [True] * 6
    written = json.loads((tmp_path / "calibration.json").read_text())
    assert written.keys() == {"reread", "stored"}
    assert written["reread"].keys() == {
        "scale", "shift", "threshold", "retrieval", "relevance", "null", "each", "quote",
        "verdict", "enough"
    }  # fmt: skip
    assert result["metrics"]["reread"]["threshold"] == written["reread"]["threshold"]
    assert result["metrics"]["reread"]["found_auroc"] == pytest.approx(7 / 8)
    assert not (tmp_path / "calibration.json.part").exists()


def test_the_confidence_is_kept_where_quotes_alone_are_fitted(
    runtime: Runtime, qa_files: dict[str, object], rigged: list[bool], tmp_path: Path
) -> None:
    own = {"reread": Calibration(scale=0.3, shift=1.0), "stored": Calibration(threshold=0.2)}
    model = replace(runtime, calibration=own)
    options = qa_files | {"out": str(tmp_path), "quotes_only": True}
    result = evaluate(model, "calibrate", options)
    written = json.loads((tmp_path / "calibration.json").read_text())
    for name, kept in own.items():
        assert Calibration.from_dict(written[name] | {"quote": None, "verdict": None}) == kept
    assert not result["metrics"].keys() & {"reread", "stored"}
    assert sorted(rigged) == [False] * 6 + [True] * 6


def test_one_calibration_is_fitted_and_the_others_kept(
    runtime: Runtime, qa_files: dict[str, object], rigged: list[bool], tmp_path: Path
) -> None:
    own = {"reread": Calibration(scale=0.3, shift=1.0, enough=2.0), "stored": Calibration()}
    model = replace(runtime, calibration=own)
    options = qa_files | {"out": str(tmp_path), "only": "stored"}
    evaluate(model, "calibrate", options)
    written = json.loads((tmp_path / "calibration.json").read_text())
    assert Calibration.from_dict(written["reread"]) == own["reread"]
    assert Calibration.from_dict(written["stored"]) != own["stored"]
    assert rigged == [False] * 6
    with pytest.raises(ConfigError, match="only is 'decoder', expected reread or stored"):
        evaluate(model, "calibrate", options | {"only": "decoder"})


def test_the_reliability_is_reported_and_drawn(
    runtime: Runtime, qa_files: dict[str, object], rigged: list[bool], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "reliability.svg"
    result = evaluate(runtime, "calibrate", qa_files | {"out": str(tmp_path), "plot": str(plot)})
    bins = {k: v for k, v in result["metrics"].items() if k.startswith("stored ")}
    assert list(bins)[0] == "stored 0.00-0.10" and list(bins)[-1] == "stored 0.90-1.00"
    assert len(bins) == 10 and sum(b["n"] for b in bins.values()) == 6
    known = [b for b in bins.values() if b["n"]]
    assert sum(b["observed"] * b["n"] for b in known) == 4  # of the six, four are answerable
    error = sum(abs(b["predicted"] - b["observed"]) * b["n"] for b in known) / 6
    assert result["metrics"]["stored"]["calibration_error"] == pytest.approx(error)
    table = EvalReport(**result).as_table().splitlines()
    assert sum(line.startswith("group") for line in table) == 2
    assert table[4].split() == ["group", "system", "predicted", "observed", "noise", "n"]
    assert "<svg" in plot.read_text()


def test_a_plot_that_cannot_be_drawn_is_a_sentence_before_anything_is_asked(
    runtime: Runtime,
    qa_files: dict[str, object],
    rigged: list[bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = qa_files | {"out": str(tmp_path)}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    with pytest.raises(ConfigError, match="nowhere is not a folder, expected one to write a.png"):
        evaluate(runtime, "calibrate", options | {"plot": "nowhere/a.png"})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'drawn by matplotlib, .*`pip install "drt-assistant'):
        evaluate(runtime, "calibrate", options | {"plot": "a.png"})
    assert rigged == []


def span_only(*scores: float) -> list[Signals]:
    return [Signals(score) for score in scores]


def test_confidence_is_at_even_odds() -> None:
    few = span_only(-3.0, -1.0, 0.5, -0.5, 1.0, 3.0)
    labels = [False, False, False, True, True, True]
    fit = calibrate.calibrate(few, labels, name="reread")
    assert fit.scale > 0 and fit.threshold == calibrate.THRESHOLD
    assert fit.shift == pytest.approx(0.0, abs=1e-6)  # the two kinds mirror each other
    assert fit.confidence(Signals(0.0)) == pytest.approx(0.5)
    # Eight times as many answerable questions with the same scores: the same confidence.
    many = calibrate.calibrate(few[:3] * 20 + few[3:] * 160, labels[:3] * 20 + labels[3:] * 160,
                               name="reread")  # fmt: skip
    assert many.shift == pytest.approx(0.0, abs=0.3)


def test_every_signal_counts_for_what_it_tells() -> None:
    rng = random.Random(2)
    labels = [i % 2 == 0 for i in range(400)]
    signals = [
        Signals(rng.gauss(0, 1), rng.gauss(2.0 * yes, 1), 0.0, rng.gauss(-1.0 * yes, 1))
        for yes in labels
    ]
    fit = calibrate.calibrate(signals, labels, name="reread")
    assert fit.retrieval == pytest.approx(2.0, abs=0.4)
    assert fit.null == pytest.approx(-1.0, abs=0.4)
    assert abs(fit.scale) < 0.3 and fit.relevance == 0.0


def test_signals_that_say_nothing_are_refused() -> None:
    noise = span_only(2.0, 0.0, 1.0, 3.0) * 5
    with pytest.raises(ConfigError, match=r"stored: .*AUROC 0\.50"):
        calibrate.calibrate(noise * 2, [True] * 20 + [False] * 20, name="stored")
    with pytest.raises(ConfigError, match="all questions are of one kind"):
        calibrate.calibrate(span_only(1.0, 2.0), [True, True], name="reread")


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("speed", {}, "no evaluation is called 'speed'; there are qa, files, retrieval"),
        ("qa", {"limt": 3}, "unknown key qa.limt; did you mean 'limit'"),
        ("qa", {"limit": 0}, "limit is 0, expected 1 or more"),
        ("qa", {"retriever": "both"}, "qa.retriever is 'both'"),
        ("qa", {"both": True, "reread": False}, "without reread = false"),
        ("qa", {"source": "C"}, "no case of source 'C' can be asked; the sources are A, B"),
        ("retrieval", {"limit": -1}, "limit is -1"),
        ("calibrate", {"out": "nowhere"}, "nowhere is not a folder"),
    ],
)
def test_wrong_options_end_in_a_sentence(
    runtime: Runtime, qa_files: dict[str, object], task: str, options: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(runtime, task, qa_files | options)


def test_records_are_kept_as_asked(
    runtime: Runtime, qa_files: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    make = qa.library_of

    def noted(runtime: Runtime, texts: list[str], **how: Any) -> Any:
        kept.append(runtime.layout.encoding)
        return make(runtime, texts, **how)

    monkeypatch.setattr(qa, "library_of", noted)
    for records in (None, "int8", "bf16"):
        options = qa_files | {"source": "A", "limit": 1}
        evaluate(runtime, "qa", options if records is None else options | {"records": records})
    assert kept == ["int8", "int8", "bf16"]
    with pytest.raises(ConfigError, match=r"qa.records is 'fp32', expected one of \('int8', 'bf1"):
        evaluate(runtime, "qa", qa_files | {"records": "fp32"})
    with pytest.raises(ConfigError, match="unknown key calibrate.records"):
        evaluate(runtime, "calibrate", qa_files | {"records": "bf16"})


def test_a_library_is_only_opened_for_records_of_its_kind(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "lake.txt"
    file.write_text(LAKE)
    found = {}
    for records in ("int8", "bf16"):
        one = Runtime.load(runtime.folder, device="cpu", threads=1, dtype="fp32", records=records)
        with open_library(one, tmp_path / records) as store:
            ingest_source(one, store, Source.from_path(file))
            assert store.layout == one.layout
            found[records] = store.read_chunks(store.chunk_ids()).keys
    assert (found["int8"] - found["bf16"]).abs().max() > 1e-4
    torch.testing.assert_close(found["int8"], found["bf16"], rtol=0.02, atol=0.02)
    with pytest.raises(FingerprintMismatch, match="as bf16, expected int8: open it with records="):
        open_library(runtime, tmp_path / "bf16")


def test_files_must_be_named(runtime: Runtime, qa_files: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="'docs'"):
        evaluate(runtime, "qa", {"qa": qa_files["qa"]})
