"""Evaluations of language models on a GPU: what the CPU gives. Most run with ``-m gpu``.

Without a GPU, fake tensors (shape, type and device, no numbers) tell whether devices are mixed.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from drt_engine.model.drt import DRT
from drt_engine.model.gca_layer import ChunkMemory
from drt_lab.data.passkeys import PasskeyContext, PasskeyLayout
from drt_lab.evaluate.passkeys.evaluation import PasskeyEvaluation, _LongReader, evaluate_passkey
from drt_lab.evaluate.passkeys.long_context import LongContext
from drt_lab.evaluate.perplexity import PerplexityOptions, evaluate_perplexity
from drt_lab.evaluate.report import Groups
from drt_lab.evaluate.written_summaries import WrittenSummaries, evaluate_written_summaries
from drt_lab.lm.build import make_model
from drt_lab.lm.disk_memory import DiskMemory
from drt_lab.lm.runtime import LanguageRuntime
from drt_lab.stream_trace import trace_stream
from tests.engine.model.factories import tiny
from tests.fakes import byte_tokenizer

TOKENIZER = byte_tokenizer()
TEXT = "The pilot counts the boats and tells the keeper, who signs the log. " * 8


class NumberlessMemory(DiskMemory):
    """A memory whose rows have no numbers, since fake tensors have none to write."""

    def write(self, first: int, memory: ChunkMemory) -> None:
        self.chunks = max(self.chunks, first + len(memory.keys))

    def gather(self, chunks: Tensor) -> ChunkMemory:
        rows = {name: self._rows(name, 0, len(chunks)) for name in self._shapes}
        return ChunkMemory(mask=torch.ones(rows["keys"].shape[:2], dtype=torch.bool), **rows)

    def _rows(self, name: str, first: int, count: int) -> Tensor:
        return torch.empty(count, *self._shapes[name])


def test_passkeys_are_read_on_the_device_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where kernels are compiled, nothing is decided by the numbers of a tensor.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        with torch.device("meta"):  # that every build of PyTorch has; autocast does not know it
            model = make_model(tiny(vocab=48, groups=2))
        assert isinstance(model, DRT)
        memory = NumberlessMemory(tmp_path, model.config)
        predict = _LongReader(LongContext(model, memory))
        for seed in (1, 2):
            layout = PasskeyLayout(48, model.config.chunk)
            answer = predict(PasskeyContext(layout, 12, seed=seed, filler=0))
            assert answer.device.type == "cpu" and answer.shape == (3,)
    memory.close()


def on(runtime: LanguageRuntime, device: str) -> LanguageRuntime:
    return replace(runtime, model=runtime.model.to(device), device=torch.device(device))


def evaluate(runtime: LanguageRuntime, folder: Path) -> Groups:
    """Return the metrics of every evaluation of language models, but times and memory."""
    row = {"id": "1", "source": "A", "license": "x", "title": ""}
    corpus, summaries, file = (folder / name for name in ("c.jsonl", "s.jsonl", "t.txt"))
    corpus.write_text(json.dumps({**row, "text": TEXT}) + "\n")
    summaries.write_text(json.dumps({**row, "document": TEXT, "summary": "Boats."}) + "\n")
    file.write_text(TEXT)
    reports = {
        "passkey": evaluate_passkey(runtime, PasskeyEvaluation(lengths=(64, 256), cases=2)),
        "ppl": evaluate_perplexity(runtime, PerplexityOptions(corpus, length=200)),
        "positions": evaluate_perplexity(runtime, PerplexityOptions(corpus, lengths=(64, 200))),
        "summary-lm": evaluate_written_summaries(runtime, WrittenSummaries(summaries, write=True)),
    }
    out: Groups = {
        f"{task} {name}": {
            key: value
            for key, value in group.items()
            if key not in ("seconds", "resident MiB") and not key.startswith("rouge")
        }
        for task, report in reports.items()
        for name, group in report.metrics.items()
    }
    if isinstance(runtime.model, DRT):
        for chunk in trace_stream(runtime, file)["chunks"]:
            for group, entries in enumerate(chunk["reads"]):
                shares = {str(entry["chunk"]): entry["probability"] for entry in entries}
                out[f"trace {chunk['chunk']} {group}"] = shares
    return out


@pytest.mark.gpu
@pytest.mark.parametrize(
    "changes",
    [
        {"groups": 2},
        {"retriever": "random"},
        {"architecture": "rpt", "retriever": "random"},
        {"architecture": "base"},
        {"architecture": "block-recurrent"},
        {"architecture": "landmark"},
    ],
    ids=["DRT x2", "random", "RPT", "base LM", "Block-Recurrent", "Landmark"],
)
def test_every_evaluation_is_that_of_the_cpu(changes: dict[str, object], tmp_path: Path) -> None:
    ids = {
        name: getattr(TOKENIZER, name) for name in ("pad_id", "landmark_id", "answer_id", "end_id")
    }
    torch.manual_seed(0)
    model = make_model(tiny(vocab=TOKENIZER.vocab_size, **ids, **changes)).eval()
    runtime = LanguageRuntime("tiny", model, TOKENIZER, torch.float32, torch.device("cpu"))
    expected = evaluate(on(runtime, "cpu"), tmp_path)
    actual = evaluate(on(runtime, "cuda"), tmp_path)
    assert actual.keys() == expected.keys()
    for name, group in expected.items():
        assert actual[name] == pytest.approx(group, rel=1e-3, abs=1e-3), name
