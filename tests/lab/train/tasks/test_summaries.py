"""The summaries task: documents padded to a border, the loss on the summary alone."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from drt_engine.config.model import ARCHITECTURES
from drt_engine.errors import ConfigError
from drt_lab.config.train import SummariesConfig, TrainConfig
from drt_lab.lm.build import make_model as make_language_model
from drt_lab.lm.losses import stream_loss
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.summaries import SummariesTask
from tests.engine.model.factories import tiny
from tests.fakes import byte_tokenizer
from tests.lab.lm.test_training import CHANGES

TOKENIZER = byte_tokenizer()
DOCUMENTS = {"The ferry leaves at seven.": "A ferry.", "Bees hum.": "Of bees and of nothing else."}


def make_task(folder: Path, rows: Mapping[str, str] = DOCUMENTS, **options: int) -> SummariesTask:
    file = folder / "summaries.jsonl"
    shared = {"id": "1", "source": "x", "license": "x", "title": ""}
    file.write_text(
        "".join(json.dumps({**shared, "document": d, "summary": s}) + "\n" for d, s in rows.items())
    )
    section = SummariesConfig(share=1.0, data=(file,), **options)
    model = tiny(vocab=TOKENIZER.vocab_size, **special_ids())
    return SummariesTask(TaskSetup(TrainConfig(summaries=section), model, TOKENIZER))


def special_ids() -> dict[str, int]:
    return {
        name: getattr(TOKENIZER, name) for name in ("pad_id", "landmark_id", "answer_id", "end_id")
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_loss_is_that_of_the_summary_and_padding_changes_nothing(
    architecture: str, tmp_path: Path
) -> None:
    task = make_task(tmp_path, batch=8)
    torch.manual_seed(0)
    changes = {**special_ids(), **CHANGES.get(architecture, {}), "architecture": architecture}
    model = make_language_model(tiny(vocab=TOKENIZER.vocab_size, **changes)).eval()
    batch = task.draw(random.Random(1))
    # The shorter documents end before the longest: their summaries begin in earlier chunks.
    first = batch.predicts.any(dim=2).int().argmax(dim=1)
    assert len(set(first.tolist())) == 2
    losses = []
    for ids, valid, predicts in zip(batch.chunks, batch.valid, batch.predicts, strict=True):
        # What is predicted are the tokens of the summary and its end, after the answer token.
        tokens = ids[predicts].tolist()
        assert (tokens[0], tokens[-1]) == (TOKENIZER.answer_id, TOKENIZER.end_id)
        assert TOKENIZER.decode(tokens[1:-1]) in DOCUMENTS.values()
        end = int(valid.any(dim=1).sum())  # without the padding of other rows
        alone = stream_loss(model, ids[None, :end], valid[None, :end])
        targets = torch.zeros_like(alone[1])
        targets[..., :-1] = predicts[None, :end]
        losses += alone[0][targets[alone[1]]].tolist()
    loss, values = task.loss(model, batch, None)
    assert float(loss.detach()) == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    assert values["summary"] == float(loss.detach())
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


def test_documents_and_summaries_are_cut(tmp_path: Path) -> None:
    batch = make_task(tmp_path, {"a" * 999: "b" * 999}, chunks=3, longest=10, batch=1).draw(
        random.Random(1)
    )
    assert int((batch.valid & ~batch.predicts).sum()) == 3 * tiny().chunk
    assert int(batch.predicts.sum()) == 10


def test_what_cannot_be_trained_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"summaries.data holds no summaries"):
        make_task(tmp_path, {})
    with pytest.raises(ConfigError, match=r"summaries.longest 1, expected at least 1, 1 and 2"):
        SummariesConfig(longest=1)
