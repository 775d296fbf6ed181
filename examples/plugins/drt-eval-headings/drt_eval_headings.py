"""Measures whether the passage under a heading is found when its heading is searched for.

``drt eval headings folder=notes``: needs no questions, only Markdown files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from drt import Assistant, DocumentInfo

RETRIEVERS = ("hybrid", "lexical")


def evaluate(assistant: Assistant, folder: Path, top_k: int = 8) -> dict[str, Any]:
    """Read the Markdown files of a folder; return hit@1 and hit@k of each way to search."""
    report = assistant.ingest_many(sorted(folder.glob("*.md")))
    cases = [
        (document, heading)
        for document in report.documents
        for heading in re.findall(r"(?m)^#{2,6} +(.+?)\s*$", assistant.library.text(document))
    ]
    if not cases:
        raise ValueError(f"{folder} holds no Markdown file with headings")
    measured = {
        retriever: _hits(assistant, cases, top_k=top_k, retriever=retriever)
        for retriever in RETRIEVERS
    }
    baselines = {"lexical": {"all": measured["lexical"]}}
    metrics = {"all": measured["hybrid"]}
    return {"data": folder.name, "n": len(cases), "metrics": metrics, "baselines": baselines}


def _hits(
    assistant: Assistant, cases: list[tuple[DocumentInfo, str]], **options: Any
) -> dict[str, float]:
    first = among = 0
    for document, heading in cases:
        hits = assistant.search(heading, documents=document, **options).hits
        right = [heading in (hit.section or "") for hit in hits]
        first += right[:1] == [True]
        among += any(right)
    return {"hit@1": first / len(cases), f"hit@{options['top_k']}": among / len(cases)}
