"""What each chunk of a plain text retrieves for the next: a record, a listing and a page.

The case studies of the paper (arXiv 2410.01651), for any text: the chunks of a stream, and for each
group of upper layers the earlier chunks that its landmark retrieved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drt_engine.errors import ConfigError, EmptyDocument, UnreadableDocument
from drt_engine.model.chunking import insert_landmarks
from drt_engine.model.drt import DRT, Span
from drt_engine.trace.page import safe
from drt_lab.data.chunks import to_chunks
from drt_lab.lm.runtime import LanguageRuntime

_LINE = 96  # characters of a chunk that a listing shows

Data = Mapping[str, Any]


def trace_stream(runtime: LanguageRuntime, file: Path, *, tokens: int = 16384) -> dict[str, Any]:
    """Return what the chunks of a text file's first ``tokens`` tokens retrieve, as JSON.

    Raises ``ConfigError`` for a model that retrieves nothing, ``UnreadableDocument`` and
    ``EmptyDocument``.
    """
    model = runtime.model
    if not isinstance(model, DRT):
        raise ConfigError(
            f"{runtime.name} is of the architecture {model.config.architecture!r}, which retrieves "
            "nothing; expected a DRT"
        )
    if tokens < 1:
        raise ConfigError(f"tokens is {tokens}, expected 1 or more")
    text = _read(file)
    encoding = runtime.tokenizer.encode(text)
    ids = encoding.ids[:tokens]
    if not ids:
        raise EmptyDocument(f"{file} has no tokens, expected a text")
    chunks, valid = to_chunks(torch.tensor(ids)[None], model.config.chunk, model.config.pad_id)
    with runtime.computing():
        groups = _retrieved(model, chunks.to(runtime.device), valid.to(runtime.device))
    # A chunk's text goes up to where the next one begins.
    starts = [0, *encoding.starts[model.config.chunk : len(ids) : model.config.chunk]]
    ends = [*starts[1:], encoding.ends[len(ids) - 1]]
    return {
        "file": file.name,
        "model": runtime.name,
        "tokens": len(ids),
        "total_tokens": len(encoding.ids),
        "groups": model.config.groups,
        "chunks": [
            {
                "chunk": number,
                "start": start,
                "end": end,
                "text": text[start:end],
                "reads": [_entries(*group, number) for group in groups],
            }
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        ],
    }


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableDocument(
            f"{file} is no UTF-8 text ({error.reason} at byte {error.start}), expected a plain text"
        ) from error
    except OSError as error:
        raise UnreadableDocument(f"{file} cannot be read: {error.strerror or error}") from error


def _retrieved(model: DRT, chunks: Tensor, valid: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return index, scores and probabilities [C, R] of what each chunk reads, by group."""
    states, encoded = model.read(chunks, valid)
    vectors = model.frozen_vectors(chunks, valid)
    plan = model.stream_plan(encoded, 1, chunks.shape[1], vectors=vectors)
    groups: list[tuple[Tensor, Tensor, Tensor]] = []

    def recording(group: int, x: Tensor) -> Sequence[Span]:
        spans = plan(group, x)
        retrieved = spans[0].retrieved
        parts = (retrieved.index, retrieved.scores, retrieved.probabilities)
        groups.append((parts[0][0].cpu(), parts[1][0].cpu(), parts[2][0].cpu()))
        return spans

    mask = insert_landmarks(valid, True).flatten(1)
    model.upper_states(states.flatten(1, 2), mask, recording)
    return groups


def _entries(
    index: Tensor, scores: Tensor, probabilities: Tensor, chunk: int
) -> list[dict[str, float]]:
    """Return what one chunk reads, best first, without places that are not filled."""
    rows = zip(
        index[chunk].tolist(), scores[chunk].tolist(), probabilities[chunk].tolist(), strict=True
    )
    return [
        {"chunk": number, "score": score, "probability": probability}
        for number, score, probability in rows
        if probability > 0
    ]


def stream_text(trace: Data) -> str:
    """Return the listing: each chunk, and the chunks that its predecessor retrieved for it."""
    return "\n".join(_lines(trace))


def _lines(trace: Data) -> Iterator[str]:
    yield f"{trace['file']}: {trace['tokens']:,} of {trace['total_tokens']:,} tokens"
    for chunk in trace["chunks"]:
        yield f"chunk {chunk['chunk']}: {_short(chunk['text'])}"
        for group, entries in enumerate(chunk["reads"], start=1):
            for entry in entries:
                retrieved = trace["chunks"][entry["chunk"]]
                yield (
                    f"  group {group}  {entry['probability']:6.1%}  score {entry['score']:7.2f}  "
                    f"chunk {entry['chunk']}: {_short(retrieved['text'])}"
                )


def _short(text: str) -> str:
    return " ".join(text.split())[:_LINE]


def stream_page(trace: Data) -> str:
    """Return a page of HTML that needs nothing else: the chunks, with links to what they read."""
    cut = f"{trace['tokens']:,} of {trace['total_tokens']:,} tokens"
    title = safe(f"{trace['file']} - drt trace")
    body = "\n".join(_section(chunk, trace) for chunk in trace["chunks"])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>{_STYLE}</style></head><body><main>
<p class="soft">drt trace · {safe(trace["model"])}</p><h1>{safe(trace["file"])}</h1>
<p class="soft">{cut}. Beside each chunk: the earlier chunks that it reads, which the landmark of
the chunk before it retrieved, by group of layers, with their retrieval probabilities.</p>
{body}
</main></body></html>
"""


def _section(chunk: Data, trace: Data) -> str:
    reads = "".join(
        f"<h2>group {number}</h2>{''.join(_link(entry, trace) for entry in entries)}"
        for number, entries in enumerate(chunk["reads"], start=1)
        if entries
    )
    number = chunk["chunk"]
    return (
        f'<section id="c{number}"><div><a class="n" href="#c{number}">{number}</a>'
        f"<p>{safe(chunk['text'])}</p></div><aside>{reads or '<h2>reads nothing</h2>'}</aside>"
        "</section>"
    )


def _link(entry: Data, trace: Data) -> str:
    text = _short(trace["chunks"][entry["chunk"]]["text"])
    return (
        f'<a class="r" href="#c{entry["chunk"]}" style="--p:{100 * entry["probability"]:.1f}%">'
        f"<b>{entry['chunk']}</b> {entry['probability']:.1%}<span>{safe(text)}</span></a>"
    )


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #767068; --mark: #2f6fdf; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px; }
h1 { font-size: 24px; margin: 4px 0 12px; } .soft { color: var(--soft); }
section { display: grid; grid-template-columns: 3fr 2fr; gap: 24px; padding: 14px 0;
  border-top: 1px solid var(--line); }
section:target { background: #2f6fdf18; }
section p { margin: 0; white-space: pre-wrap; }
.n { color: var(--soft); font-size: 13px; }
h2 { font-size: 12px; margin: 0 0 4px; color: var(--soft); font-weight: 600; }
.r { display: block; font-size: 13px; color: inherit; text-decoration: none; padding: 3px 6px;
  margin-bottom: 4px; background: linear-gradient(90deg, #2f6fdf33 var(--p), #8881 0); }
.r span { display: block; color: var(--soft); white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
@media (max-width: 700px) { section { grid-template-columns: 1fr; } }
"""
