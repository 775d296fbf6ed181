"""The questions written for drt: well-formed, and joined with the corpus that they are about."""

from __future__ import annotations

import importlib.util
import json
import lzma
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from drt_engine.config.model import ANSWER_TYPES
from drt_lab.data.schema import CorpusDocument, read_questions

FOLDER = Path(__file__).parents[3] / "examples" / "questions"
TEXT = "Rules of the house. The fee is [ten](url) crowns, at noon.\nNobody runs."


def load_join() -> ModuleType:
    spec = importlib.util.spec_from_file_location("join", FOLDER / "join.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_are_well_formed_and_no_question_is_asked_twice() -> None:
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    asked = Counter((row["doc_id"], row["question"].lower()) for row in rows)
    assert max(asked.values()) == 1
    for row in rows:
        assert row["type"] in {*ANSWER_TYPES, "paraphrase", "twohop", "table", "none"}
        assert row["question"].strip() == row["question"] != ""
        assert (row.get("yes_no") in ("yes", "no")) == (row["type"] == "yesno")
        edges = [edge for span in row["spans"] for edge in span]
        assert edges and edges == sorted(edges), row  # spans are in order and do not overlap
        assert all(start < end for start, end in row["spans"])


def test_joined_questions_are_slices_of_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fee, running = TEXT.index("ten"), TEXT.index("Nobody")
    rows = [
        {
            "doc_id": "a",
            "type": "number",
            "question": "What is the fee?",
            "spans": [[fee, fee + 3]],
        },
        {"doc_id": "a", "type": "yesno", "yes_no": "no", "question": "May I run?"}
        | {"spans": [[running, running + 11]]},
        {"doc_id": "a", "type": "none", "question": "Who pays?", "spans": [[fee, fee + 3]]},
        {"doc_id": "gone", "type": "who", "question": "Who?", "spans": [[0, 1]]},
    ]
    document = {"id": "a", "title": "Rules", "source": "ours", "license": "CC0", "text": TEXT}
    with lzma.open(tmp_path / "docs-000.jsonl.xz", "wt", encoding="utf-8") as file:
        file.write(json.dumps(document) + "\n")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    join, out = load_join(), tmp_path / "out.jsonl"
    monkeypatch.setattr(join, "QUESTIONS", tmp_path / "rows.jsonl")
    monkeypatch.setattr("sys.argv", ["join.py", str(tmp_path), str(out)])
    join.main()
    assert capsys.readouterr().out.startswith("3 questions, 1 on documents that are not in")
    number, yesno, none = read_questions(out)
    assert (number.answers, number.kind, number.type) == (("ten",), "extractive", "number")
    assert (yesno.answers, yesno.yes_no) == (("Nobody runs",), "no")
    assert (none.answers, none.evidence, none.kind) == ((), (), "unanswerable")
    written = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    support = [TEXT[a:b] for a, b in written[0]["support"]]
    assert support == ["The fee is [ten](url) crowns, at noon."]


def test_a_span_outside_of_its_document_is_named() -> None:
    document = CorpusDocument("a", "Rules", "ours", "CC0", TEXT)
    row = {"doc_id": "a", "type": "who", "question": "Who?", "spans": [[0, 1000]]}
    with pytest.raises(SystemExit, match=r"a: 'Who\?' has a span outside of the text"):
        load_join().joined(row, document)
