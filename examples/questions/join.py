"""Join the questions of this folder with the corpus they are about, for training.

`python examples/questions/join.py DATA OUT` reads the corpus files of the folder DATA and writes
OUT, questions in the project's schema: answers and supporting sentences are slices of the corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drt_lab.data.schema import CorpusDocument, read_corpus

QUESTIONS = Path(__file__).with_name("questions.jsonl")
_SENTENCE_END = re.compile(r"[.!?][\"”)]?\s+(?=[A-Z\"“(\[])|\n")


def main() -> None:
    """Write the questions of all corpus files that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    rows_of = defaultdict(list)
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rows_of[row["doc_id"]].append(row)
    count = 0
    with options.out.open("w", encoding="utf-8") as out:
        for document in documents(options.data):
            for row in rows_of.pop(document.id, ()):
                out.write(json.dumps(joined(row, document), ensure_ascii=False) + "\n")
                count += 1
    missing = sum(map(len, rows_of.values()))
    print(f"{count} questions, {missing} on documents that are not in {options.data}")


def documents(folder: Path) -> Iterator[CorpusDocument]:
    """Yield the documents of the training files of a corpus folder."""
    for file in sorted(folder.glob("*-[0-9]*.jsonl.xz")):
        yield from read_corpus(file)


def joined(row: dict[str, Any], document: CorpusDocument) -> dict[str, Any]:
    """Return a question with the words of its spans.

    A question without an answer has the sentences that tempt instead (``near``).
    """
    spans, text = row["spans"], document.text
    if any(not 0 <= a < b <= len(text) for a, b in spans):
        raise SystemExit(f"{document.id}: {row['question']!r} has a span outside of the text")
    support = sorted({sentence(text, a, b) for a, b in spans})
    digest = hashlib.sha256((row["doc_id"] + row["question"]).encode()).hexdigest()[:10]
    question = {
        "id": f"drtw-{digest}",
        "source": "drt-written",
        "license": f"CC0-1.0 (questions); {document.license} (text)",
        "doc_id": row["doc_id"],
        "question": row["question"],
        "answers": [],
        "evidence": [],
        "kind": "unanswerable",
        "type": row["type"],
    }
    if row["type"] == "none":
        return {**question, "near": support}
    answers = {"answers": [text[a:b] for a, b in spans], "evidence": spans, "kind": "extractive"}
    verdict = {"yes_no": row["yes_no"]} if "yes_no" in row else {}
    return {**question, **answers, **verdict, "support": support}


def sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the sentence around a span, within its line."""
    begin = max(0, start - 2000)
    ends = (match.end() for match in _SENTENCE_END.finditer(text, begin, start))
    first = max(ends, default=begin)
    stop = _SENTENCE_END.search(text, max(start, end - 1))
    last = max(end, stop.start() + 1 if stop else len(text))
    return first, first + len(text[first:last].rstrip())


if __name__ == "__main__":
    main()
