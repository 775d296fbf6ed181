"""What chunks of a text retrieve for the next, against the decoder, which reads token by token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drt import schema
from drt_engine.errors import ConfigError, EmptyDocument, UnreadableDocument
from drt_engine.generate.decode import Decoder
from drt_engine.model.drt import DRT
from drt_engine.model.protocol import LanguageModel
from drt_engine.retrieval.sources import StreamSource
from drt_lab.lm.build import make_model as make_language_model
from drt_lab.lm.drt_state import DRTState
from drt_lab.lm.runtime import LanguageRuntime
from drt_lab.stream_trace import stream_page, stream_text, trace_stream
from tests.engine.model.factories import make_model, tiny
from tests.fakes import byte_tokenizer
from tests.schemas import validate

TOKENIZER = byte_tokenizer()
TEXT = "The <b>pilot</b> counts the boats & tells the keeper, who signs the log. "


def runtime_of(model: LanguageModel) -> LanguageRuntime:
    return LanguageRuntime("tiny", model, TOKENIZER, torch.float32, torch.device("cpu"))


@pytest.fixture
def runtime() -> LanguageRuntime:
    return runtime_of(make_model(tiny(vocab=TOKENIZER.vocab_size, groups=2)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "log.txt"
    path.write_text(TEXT)
    return path


def test_chunks_read_what_the_decoder_retrieves(runtime: LanguageRuntime, file: Path) -> None:
    trace = trace_stream(runtime, file)
    assert "".join(chunk["text"] for chunk in trace["chunks"]) == TEXT
    model = runtime.model
    decoder = Decoder(model, StreamSource(model.config.retrieved))  # type: ignore[arg-type]
    ids = TOKENIZER.encode(TEXT).ids
    with torch.inference_mode():
        for number, chunk in enumerate(trace["chunks"]):
            for group, retrieval in enumerate(decoder.retrievals):
                expected = () if retrieval is None else retrieval.chunk_ids
                read = [-1 - entry["chunk"] for entry in chunk["reads"][group]]
                assert read == list(expected)
            decoder.feed(ids[number * 8 : number * 8 + 8])
            decoder.close()


def vectors(chunks: Tensor, valid: Tensor) -> Tensor:
    """Unit vectors that depend on the ids of a chunk alone."""
    angle = (chunks * valid).sum(dim=-1, keepdim=True) + chunks[..., :1]
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


@pytest.mark.few(1)
@pytest.mark.parametrize("architecture", ["drt", "rpt"])
@pytest.mark.parametrize("retriever", ["fixed", "random"])
def test_chunks_read_what_another_retriever_chooses(
    architecture: str, retriever: str, file: Path
) -> None:
    torch.manual_seed(0)
    config = tiny(vocab=TOKENIZER.vocab_size, architecture=architecture, retriever=retriever)
    model = make_language_model(config).eval()
    assert isinstance(model, DRT)
    model.chunk_vectors = vectors
    trace = trace_stream(runtime_of(model), file)
    state, ids = DRTState(model, dtype=torch.float32), TOKENIZER.encode(TEXT).ids
    with torch.inference_mode():
        for number, chunk in enumerate(trace["chunks"]):
            state.prefill(ids[number * config.chunk : (number + 1) * config.chunk])
            (retrieval,) = state._decoder.retrievals
            expected = () if retrieval is None else retrieval.chunk_ids
            assert [-1 - entry["chunk"] for entry in chunk["reads"][0]] == list(expected)
    assert number > 6


def test_the_views_of_a_trace(runtime: LanguageRuntime, file: Path) -> None:
    trace = trace_stream(runtime, file, tokens=30)
    validate(json.loads(json.dumps(trace)), schema("trace-stream"))
    assert (trace["tokens"], len(trace["chunks"])) == (30, 4)
    assert trace["chunks"][-1]["text"] == TEXT[24:30]
    assert "group 2" in stream_text(trace)
    page = stream_page(trace)
    assert "<b>pilot" not in page and "&lt;b&gt;" in page
    assert page.count("<section id=") == 4


def test_what_cannot_be_traced(runtime: LanguageRuntime, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    base = make_language_model(tiny(vocab=TOKENIZER.vocab_size, architecture="base"))
    with pytest.raises(EmptyDocument, match="has no tokens"):
        trace_stream(runtime, tmp_path / "empty.txt")
    with pytest.raises(UnreadableDocument, match="is no UTF-8 text"):
        trace_stream(runtime, tmp_path / "binary.txt")
    with pytest.raises(ConfigError, match="architecture 'base', which retrieves nothing"):
        trace_stream(runtime_of(base), tmp_path / "empty.txt")
