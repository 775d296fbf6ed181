"""A file is read again when its reader gives another text: its number has to be raised then."""

from __future__ import annotations

import hashlib
from pathlib import Path

from drt_engine.documents import Source, open_document
from drt_engine.ingest import identity

SAMPLES = {
    "a.txt": "A heading\n=========\n\n1. First item\n2. Second item\n\nLast  words, bro-\nken.\n",
    "a.md": "# Title\n\nText with *marks* and `code`.\n\n| a | b |\n| - | - |\n| 1 |   |\n\n"
    "- x\n  - y\n",
    "a.rst": "Title\n=====\n\n.. note:: Take care.\n\n:Field: value\n\n::\n\n    code\n",
    "a.html": "<title>T</title><h1>H</h1><p hidden>no</p><p>Yes<sup>2</sup> <s>old</s></p>"
    "<table><tr><th>n<th>v<tr><td>a<td>1</table><ul><li>x<li>y</ul>",
    "a.csv": "name,value\nfirst,1\nsecond,\n",
    "a.tex": "\\documentclass{article}\\begin{document}\\section{One}Text~\\cite{x} $a^2$."
    "\\begin{itemize}\\item p\\item q\\end{itemize}\\end{document}",
    "a.eml": "From: A <a@b.example>\nSubject: S\nDate: Mon, 3 Mar 2025 09:12:00 +0100\n\n"
    "> old\n\nNew.\n",
    "a.json": '{"name": "n", "list": [1, {"deep": null}]}',
    "a.ini": "[part]\nkey = value\n",
    "a.py": 'def f(x):\n    """Return x."""\n    return x\n',
    "a.1": ".TH A 1\n.SH NAME\na \\- does\n.SH OPTIONS\n.TP\n.B \\-x\nMeans x.\n",
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\nWords.\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\nMore.\n",
    "a.log": "2025-03-03 09:12:00 INFO started\n2025-03-03 09:12:01 ERROR failed\n  at line 1\n",
}
NUMBER = "7:"  # raise both where a reader changes what it gives for one of the samples
TEXTS = "4cc786ab571da899"


def test_another_text_has_another_number(tmp_path: Path) -> None:
    texts = hashlib.sha256()
    for name, content in sorted(SAMPLES.items()):
        (tmp_path / name).write_text(content, encoding="utf-8")
        with open_document(Source.from_path(tmp_path / name)) as document:
            for block in document.blocks:
                texts.update(f"{name}\0{block.text}\0{block.section}\0".encode())
            texts.update(f"{document.title}\0{document.author}\0{document.date}\0".encode())
    assert (identity._READERS, texts.hexdigest()[:16]) == (NUMBER, TEXTS)
