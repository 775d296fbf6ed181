"""The decoder of the shipped model reads chunk memory of a text that nobody wrote for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import drt_engine
from drt_engine.decoder.model import Reading
from drt_engine.decoder.prompt import END, NOT_SAID, Task, control_id, encode, prompt_ids
from drt_engine.decoder.saved import load_decoder
from drt_engine.decoder.slices import best_slices, judged, open_answer

FOLDER = Path(drt_engine.__path__[0]) / "weights" / "drt-small-en" / "decoder"
CHUNKS = (
    "The lighthouse of Skerrow was built by Ada Munro in 1854. Its lamp burned colza oil, and two"
    " keepers trimmed it every four hours.",
    "The harbour is dredged each spring. Boats of more than nine metres moor at the outer wall.",
    "Post comes by the ferry on Tuesdays. The shop sells bread, rope and paraffin.",
)


@pytest.mark.thorough
@torch.no_grad()
def test_it_finds_the_chunk_and_the_words_in_it() -> None:
    saved = load_decoder(FOLDER)
    model, tokenizer = saved.model, saved.tokenizer
    rows = [encode(tokenizer, text)[: model.config.chunk] for text in CHUNKS]
    ids = torch.full((len(rows), model.config.chunk), model.config.end_id)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
    mask = torch.arange(model.config.chunk) < torch.tensor([[len(row)] for row in rows])
    memory = model.remember(model.lower_states(ids), mask)
    end = control_id(tokenizer, END)
    for number, question, answer in (
        (0, "Who built the lighthouse?", "Ada Munro"),
        (1, "Where do long boats moor?", "outer wall"),
        (2, "When does the post come?", "Tuesdays"),
    ):
        prompt = prompt_ids(tokenizer, question, Task.QUOTE)
        evidence = judged(model, memory, prompt, [*encode(tokenizer, NOT_SAID), end])
        assert int(evidence.argmax()) == number, question
        weights = torch.nn.functional.logsigmoid(evidence)[None].log_softmax(dim=-1)
        reading = Reading(memory, torch.arange(len(rows))[None], weights)
        slices = best_slices(
            model,
            open_answer(model, prompt, reading),
            rows,
            starts=[len(row) for row in rows],
            end_id=end,
        )
        assert answer in tokenizer.decode(list(slices[0].ids)), question
