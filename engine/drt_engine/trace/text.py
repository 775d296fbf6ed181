"""A trace as text for a terminal.

Computes nothing: every number is one that ``record`` kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drt_engine.results import Trace, TraceEntry, TraceToken


def trace_text(trace: Trace) -> str:
    """Return a trace as lines: the tokens, then the retrieved chunks of each group."""
    lines = [f"question: {trace.question}"]
    if trace.tokens:
        lines += ["", *_token_lines(trace.tokens), ""]
    for group in trace.groups:
        lines.append(f"answer chunk {group.chunk + 1}, group {group.group + 1}:")
        lines += [_entry_line(number, entry) for number, entry in enumerate(group.entries, start=1)]
    return "\n".join(lines)


def _token_lines(tokens: Sequence[TraceToken]) -> Iterator[str]:
    """Yield a line for each part: its tokens with the number of the chunk each attended to most."""
    for part in ("question", "answer"):
        words = [
            f"{token.text.strip()}[{most_attended(token) + 1}]"
            for token in tokens
            if token.part == part and token.mass and token.mass[-1]
        ]
        if words:
            yield f"{part}, each token with the chunk it leaned on: {' '.join(words)}"


def most_attended(token: TraceToken) -> int:
    """Return which entry of the last group a token gave most attention to."""
    return max(range(len(token.mass[-1])), key=token.mass[-1].__getitem__)


def _entry_line(number: int, entry: TraceEntry) -> str:
    text = " ".join(entry.text.split())[:96]
    parts = [f"  [{number}] {entry.probability:6.1%}  score {entry.score:7.2f}"]
    if entry.landmark is not None:
        parts.append(f"landmark {entry.landmark:6.2f}")
    if entry.mass is not None:
        parts.append(f"attention {entry.mass:6.1%}")
    return "  ".join([*parts, f"{entry.source:8}", f"{entry.title} @{entry.start}: {text}"])
