"""What matters in the model and its training: short runs at equal steps, each changing one thing.

`python examples/study.py` trains every variant of `configs/study.toml` that `runs/study` has not
yet, and prints the table; `python examples/study.py base "no W_e"` only these. Every variant sees
the same batches and is measured on the same validation questions, so differences mean more than
the numbers do; `base, seed 2` shows how much chance makes.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.model.drt import DRT
from drt_engine.model.weights import load_model
from drt_lab.config.load import load_config
from drt_lab.config.train import QuestionsConfig, TrainConfig
from drt_lab.train.answering.batch import QuestionBatch
from drt_lab.train.answering.losses import span_loss
from drt_lab.train.answering.prompt_pass import PromptPass, encode_pool
from drt_lab.train.run import start, train
from drt_lab.train.tasks.base import TaskSetup
from drt_lab.train.tasks.questions import QuestionsTask

CONFIG = Path(__file__).parent / "configs" / "study.toml"
RUNS = Path("runs/study")
BATCHES = 30
READ = 4  # chunks that are read at validation, whatever training read

VARIANTS: dict[str, tuple[str, ...]] = {
    "base": (),
    "no warm start": ("start.warm_start=", "start.tokenizer=runs/study/tokenizer.json"),
    "query without W_e": ("model.landmark_query=state",),
    "GCA into the MLP only": ("model.gca_output=mlp",),
    "plain softmax in GCA": ("model.gca_softmax=plain",),
    "no Gumbel noise": ("run.gumbel=false",),
    "evidence loss 0": ("questions.retrieval_loss=0.0",),
    "evidence loss 1.2": ("questions.retrieval_loss=1.2",),
    "no BM25 in the score": ("model.lexical_scores=false", "model.lexical_neighbours=0.0"),
    "landmark token, no mean": ("model.landmark_pooling=token",),
    "no lower stack": ("model.lower_layers=0",),
    "4 lower layers": ("model.lower_layers=4",),
    "2 groups": ("model.groups=2",),
    "1 chunk read in training": ("questions.retrieved=1",),
    "4 chunks read in training": ("questions.retrieved=4",),
    "no encoder states in the prompt": ("model.question_states=false",),
    "no margins when re-reading": ("model.reread_margin=0",),
    "3 layers that only re-read": ("model.reread_layers=3",),
    "late interaction": ("model.late_interaction=true",),
    "clozes in half of the steps": (
        "questions.share=0.5",
        "cloze.share=0.5",
        'cloze.corpus=["data/corpus/books-000.jsonl.xz", "data/corpus/docs-000.jsonl.xz"]',
        "cloze.questions=8",
        "cloze.more=8",
        "cloze.windows=1",
        "cloze.retrieved=2",
    ),
    "base, seed 2": ("run.seed=2",),
}


def folder_of(name: str) -> Path:
    """Where the run of a variant lies."""
    return RUNS / name.replace(" ", "-").replace(",", "")


def study(name: str) -> dict[str, float]:
    """Train and measure one variant, or read what was measured before."""
    folder = folder_of(name)
    result = folder / "result.json"
    if result.exists():
        return json.loads(result.read_text("utf-8"))  # type: ignore[no-any-return]
    overrides = [*(o for o in VARIANTS[name] if not o.endswith("=")), f"run.out={folder}"]
    config = load_config(TrainConfig, _without_warm_start(name), overrides)
    began = time.process_time()
    train(_without_warm_start(name), overrides)
    seconds = (time.process_time() - began) / config.optim.steps
    model, _ = load_model(folder / "model")
    found = {**measure(model, config.questions), "CPU s a step": seconds}
    result.write_text(json.dumps(found), encoding="utf-8")
    for part in ("state", "model"):
        shutil.rmtree(folder / part)
    return found


def _without_warm_start(name: str) -> Path:
    """The configuration of a variant, as a file of its own where it starts from nothing."""
    if "start.warm_start=" not in VARIANTS[name]:
        return CONFIG
    _, tokenizer = start(load_config(TrainConfig, CONFIG))
    RUNS.mkdir(parents=True, exist_ok=True)
    tokenizer.save(RUNS / "tokenizer.json")
    lines = CONFIG.read_text("utf-8").splitlines(keepends=True)
    path = RUNS / "from-nothing.toml"
    path.write_text("".join(x for x in lines if not x.startswith("warm_start")), "utf-8")
    return path


def batches(model: DRT, config: QuestionsConfig) -> Iterator[QuestionBatch]:
    """The same validation questions for every variant."""
    qa, docs = (
        tuple(p.with_name(p.name.replace("train", "valid")) for p in paths)
        for paths in (config.qa, config.docs)
    )
    _, tokenizer = start(load_config(TrainConfig, CONFIG))
    changes = {"share": 1.0, "questions": 8, "more": 0, "hidden": 0.0, "read": True}
    validation = TrainConfig(questions=replace(config, qa=qa, docs=docs, **changes))
    task = QuestionsTask(TaskSetup(validation, model.config, tokenizer))
    for number in range(BATCHES):
        yield task.draw(random.Random(number))


@torch.no_grad()
def measure(model: DRT, config: QuestionsConfig) -> dict[str, float]:
    """Losses and hits of a model, evidence put among what is read where it was not retrieved."""
    sums: dict[str, float] = {}
    for batch in batches(model, config):
        run = PromptPass(model, batch, encode_pool(model, batch), count=READ, generator=None)
        reread = run.run(reread=True)
        values = {"re-reading loss": span_loss(reread.logits, reread.slots, batch).item()}
        values["re-read spans right"] = _right(
            reread.logits.start, reread.logits.end, reread.slots, batch
        )
        stored = run.run(reread=False)
        values["stored loss"] = span_loss(stored.logits, stored.slots, batch).item()
        for key, scores in (("top 1", run.scores[0]), ("top 1, landmarks", run.scores[1])):
            best = batch.gold.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]
            values[key] = best[batch.gold.any(dim=1)].float().mean().item()
        for key, value in values.items():
            sums[key] = sums.get(key, 0.0) + value / BATCHES
    return sums


def _right(start: Tensor, end: Tensor, slots: Tensor, batch: QuestionBatch) -> float:
    """The share of the quotable questions whose likeliest start and end are both evidence's."""
    quoted = batch.answerable == 1
    right = quoted.clone()
    for part, side in ((start, 0), (end, 1)):
        place = slots.flatten(1).gather(1, part.flatten(1).argmax(dim=1, keepdim=True))
        right &= (place == batch.spans[:, :, side]).any(dim=1)
    return float(right.sum() / quoted.sum().clamp(min=1))


def main() -> None:
    """Study the variants named on the command line, or all; print the table."""
    names = sys.argv[1:] or list(VARIANTS)
    for number, name in enumerate(names):
        found = study(name)
        if not number:
            print("| | " + " | ".join(found) + " |\n|" + " --- |" * (len(found) + 1))
        cells = " | ".join(f"{value:.3f}" for value in found.values())
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
