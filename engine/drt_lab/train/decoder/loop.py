"""The training loop of a decoder: reading first, then choosing; resumable."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

import tokenizers
import torch

from drt_engine.decoder.low_rank import add_low_rank, low_rank_factors
from drt_engine.decoder.model import RetrievalDecoder
from drt_engine.decoder.saved import load_decoder, save_decoder
from drt_engine.errors import ConfigError
from drt_engine.model.packed import rounded
from drt_engine.progress import report
from drt_engine.runtime import choose_device
from drt_lab.data.schema import load_qa
from drt_lab.train.checkpoint import find_state, load_state, save_state
from drt_lab.train.decoder.batches import Batches, Example
from drt_lab.train.decoder.config import DecoderTraining
from drt_lab.train.decoder.evaluation import evaluate
from drt_lab.train.decoder.losses import batch_losses, batch_memory, evidence_of, with_others
from drt_lab.train.decoder.pretrained import config_of, read_gguf, tokenizer_of, weights_of
from drt_lab.train.decoder.summaries import load_summary_pairs
from drt_lab.train.interrupt import waiting_interrupt
from drt_lab.train.metrics import Metrics


def load_start(settings: DecoderTraining) -> tuple[RetrievalDecoder, tokenizers.Tokenizer]:
    """Return the model and the tokenizer that a training starts from."""
    if settings.start.is_dir():
        saved = load_decoder(settings.start, merge=settings.rank is None)
        return saved.model, saved.tokenizer
    fields, tensors = read_gguf(settings.start)
    config = config_of(fields, lower_layers=settings.lower_layers)
    model = RetrievalDecoder(config)
    weights = model.state_dict() | weights_of(tensors, config)
    model.load_state_dict(weights)
    return model, tokenizer_of(fields)


def train_decoder(settings: DecoderTraining) -> Path:
    """Train a decoder, from the last checkpoint where there is one; return the run's folder."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    settings.run.mkdir(parents=True, exist_ok=True)
    model, tokenizer = load_start(settings)
    questions, documents = load_qa(settings.questions, settings.documents)
    pairs, summarised = load_summary_pairs(settings.summaries)
    questions, documents = [*questions, *pairs], documents | summarised
    model.to(choose_device(settings.device))
    if model.device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    batches = Batches(questions, documents, tokenizer, model.config, settings)
    report(f"{len(batches.groups)} batches an epoch, {len(batches.held_out)} questions held out")
    _set_trained(model, settings)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.01)
    step = 0
    state = find_state(settings.run)
    if state is not None:
        step = int(load_state(state, model, optimizer)["step"])
        report(f"goes on at step {step}")
    metrics, saved_at = Metrics(settings.run), time.monotonic()
    limit = math.inf if settings.limit_minutes is None else 60 * settings.limit_minutes
    deadline = saved_at + limit
    with waiting_interrupt() as interrupted:
        while step < settings.steps and not interrupted() and time.monotonic() < deadline:
            if step % settings.evaluate_every == 0:
                _evaluate(model, batches, settings, metrics, step)
            for group in optimizer.param_groups:
                group["lr"] = settings.lr * _schedule(step, settings)
            metrics.add(**train_step(model, optimizer, batches, settings, step))
            step += 1
            if step % 20 == 0:
                row = metrics.write(step)
                report(
                    f"step {step}: loss {row['loss']:.3f}, evidence {row.get('evidence', 0):.2f}"
                )
            if time.monotonic() - saved_at > 60 * settings.save_minutes:
                save_state(settings.run / "state", model, optimizer, {"step": step})
                saved_at = time.monotonic()
    save_state(settings.run / "state", model, optimizer, {"step": step})
    if step == settings.steps:
        _evaluate(model, batches, settings, metrics, step)
    save_decoder(
        _finished(model, settings), tokenizer, settings.run / "model", pack=settings.packed
    )
    return settings.run


def _set_trained(model: RetrievalDecoder, settings: DecoderTraining) -> None:
    """Freeze what is not trained, in the types that it computes in."""
    if settings.packed:
        model.embedding.weight.data = rounded(model.embedding.weight.data)
    for part in (model.embedding, model.lower):
        part.requires_grad_(False)
    _add_low_rank(model, settings)
    if settings.precision == "bf16":
        for parameter in model.parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.bfloat16()


def _add_low_rank(model: RetrievalDecoder, settings: DecoderTraining) -> None:
    """Put what is trained beside the upper matrices, unless the start has it already."""
    if settings.rank is None:
        return
    factors = low_rank_factors(model)
    if not factors:
        add_low_rank(model, settings.rank)
        return
    rank = min(next(iter(factors.values())).shape)
    if rank != settings.rank:
        raise ConfigError(
            f"decoder.rank is {settings.rank}, but {settings.start} was trained with {rank};"
            f" set decoder.rank = {rank}"
        )


def _finished(model: RetrievalDecoder, settings: DecoderTraining) -> RetrievalDecoder:
    """Return the start with what was trained: frozen parts may have been in fewer bits."""
    finished, _ = load_start(settings)
    _add_low_rank(finished, settings)
    trained = {n: p.detach().cpu() for n, p in model.named_parameters() if p.requires_grad}
    finished.load_state_dict(finished.state_dict() | trained)
    return finished


def _autocast(model: RetrievalDecoder, settings: DecoderTraining) -> torch.autocast:
    return torch.autocast(model.device.type, torch.bfloat16, enabled=settings.precision == "bf16")


def _evaluate(
    model: RetrievalDecoder,
    batches: Batches,
    settings: DecoderTraining,
    metrics: Metrics,
    step: int,
) -> None:
    """Measure and report."""
    with _autocast(model, settings):
        row = evaluate(model, batches)
    report(f"step {step}: " + ", ".join(f"{k} {v:.3f}" for k, v in row.items()))
    metrics.write(step, **row)


def _schedule(step: int, settings: DecoderTraining) -> float:
    """Linear warm-up, then a cosine to ``final_lr``."""
    if step < settings.warm_up:
        return (step + 1) / settings.warm_up
    done = (step - settings.warm_up) / max(1, settings.steps - settings.warm_up)
    return settings.final_lr + (1 - settings.final_lr) * 0.5 * (1 + math.cos(math.pi * done))


def train_step(
    model: RetrievalDecoder,
    optimizer: torch.optim.AdamW,
    batches: Batches,
    settings: DecoderTraining,
    step: int,
) -> dict[str, float]:
    """Make one step; return its loss and the evidence's weight."""
    number, at = divmod(step, len(batches.groups))
    examples: Sequence[Example] = batches.epoch(number)[at]
    reads = step < settings.reading_steps
    if reads:
        examples = [e for e in examples if e.evidence] or examples
    order = random.Random(f"{settings.seed} {step}")
    summarises = not reads and order.random() < settings.summarising
    if summarises:
        examples = order.choice(batches.summaries)
    batch = batches.batch(examples)
    alone = None
    if reads:
        alone = evidence_of(batch)
    elif not summarises and order.random() < settings.judging:
        batch, alone = with_others(batch, batches.not_said, order)
    tokens = sum(len(e.answer) for e in batch.examples)
    optimizer.zero_grad(set_to_none=True)
    with _autocast(model, settings):
        memory = batch_memory(model, batches, batch, gradient=settings.memory_gradient)
        values = {"loss": 0.0, "evidence": 0.0}
        # Two halves by length: less padding.
        lengths = [len(e.prompt) + len(e.answer) for e in batch.examples]
        ordered = sorted(range(len(lengths)), key=lengths.__getitem__)
        middle = (len(ordered) + 1) // 2
        loss = torch.zeros((), device=model.device)
        for half in filter(None, (ordered[:middle], ordered[middle:])):
            losses, evidence = batch_losses(model, batch, half, memory, alone=alone)
            loss = loss + losses.sum() / tokens
            values["evidence"] += evidence * len(half) / len(ordered)
    loss.backward()
    values["loss"] = float(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return values
