"""A tiny random model that quotes, in a folder, and small evaluation files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from drt_engine.config.model import preset
from drt_engine.decoder.saved import save_decoder
from drt_engine.model.drt import DRT
from drt_engine.model.weights import save_model
from drt_engine.runtime import Runtime
from drt_engine.text.tokenizer import Tokenizer
from drt_lab.train.tokenizer import train_tokenizer
from tests.engine.decoder.tiny import tiny_decoder, tiny_tokenizer

LAKE = (
    "The ferry of Brackmere leaves at seven. Its captain is Ida Holm, who keeps bees. "
    "The mill burned in 1811 and was built again of stone. Nobody fishes after dark."
)
MINE = (
    "The mine of Ostwick gave copper for ninety years. A flood closed the lowest gallery. "
    "Its bell now hangs in the chapel beside the tannery. Goats graze over the shafts."
)
WriteLines = Callable[[str, Sequence[dict[str, Any]]], Path]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random model with all that `drt-small-en` can do."""
    folder = tmp_path_factory.mktemp("model")
    corpus = folder / "corpus.txt"
    corpus.write_text(f"{LAKE}\n{MINE}\n" * 4)
    tokenizer = Tokenizer.load(train_tokenizer([corpus], folder, 500))
    config = preset(
        "drt-tiny",
        vocab=tokenizer.vocab_size,
        chunk=16,
        landmark_query="state+landmark",
        normalised_scores=True,
        lexical_scores=True,
        question_states=True,
        quote_head=True,
        reread=True,
        reread_margin=2,
    )
    torch.manual_seed(0)
    save_model(DRT(config), tokenizer, folder, dtype=torch.float32)
    return folder


@pytest.fixture
def writing_runtime(model_folder: Path, tmp_path: Path) -> Runtime:
    """The model with a decoder, which writes."""
    folder = tmp_path / "writing"
    shutil.copytree(model_folder, folder)
    save_decoder(tiny_decoder(), tiny_tokenizer(), folder / "decoder", dtype=torch.float32)
    return Runtime.load(folder, device="cpu", threads=1, dtype="fp32")


@pytest.fixture(scope="session")
def runtime(model_folder: Path) -> Runtime:
    """The model, computing in fp32."""
    return Runtime.load(model_folder, device="cpu", threads=1, dtype="fp32")


@pytest.fixture
def write_lines(tmp_path: Path) -> WriteLines:
    """Writes records as JSON lines."""

    def write(name: str, records: Sequence[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    return write


def question(
    number: int, doc_id: str, text: str, answer: str | None, document: str, *, source: str = "A"
) -> dict[str, Any]:
    """A question record; the answer is found in the document, or None is unanswerable."""
    start = document.index(answer) if answer else 0
    return {
        "id": str(number),
        "source": source,
        "license": "x",
        "doc_id": doc_id,
        "question": text,
        "answers": [answer] if answer else [],
        "evidence": [[start, start + len(answer)]] if answer else [],
        "kind": "extractive" if answer else "unanswerable",
    }


@pytest.fixture
def qa_files(write_lines: WriteLines) -> dict[str, object]:
    """Options qa and docs: six questions of two sources on two documents."""
    documents = [
        {"doc_id": "lake", "title": "Lake", "text": LAKE},
        {"doc_id": "mine", "title": "", "text": MINE},
    ]
    questions = [
        question(0, "lake", "Who is the captain of the ferry?", "Ida Holm", LAKE),
        question(1, "lake", "When did the mill burn?", "1811", LAKE),
        question(2, "lake", "How deep is the water?", None, LAKE),
        question(3, "mine", "What did the mine give?", "copper", MINE, source="B"),
        question(4, "mine", "What closed the gallery?", "A flood", MINE, source="B"),
        question(5, "mine", "Who owned the mine?", None, MINE, source="B"),
    ]
    paths = write_lines("qa.jsonl", questions), write_lines("docs.jsonl", documents)
    return {"qa": str(paths[0]), "docs": str(paths[1])}
