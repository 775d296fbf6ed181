"""Asks several questions of one document and prints a small table: `ask_many.py FILE`."""

from __future__ import annotations

import sys
import tempfile

from drt import AskProgress, Assistant

QUESTIONS = (
    "What is the wintering allowance?",
    "How much baggage may a member bring?",
    "For what sum is each member's life insured?",
)


def report(step: AskProgress) -> None:
    """Says how far it is, where it disturbs no table."""
    print(f"{step.done} of {step.total} in {step.seconds:.1f} s", file=sys.stderr)


def main() -> None:
    """Reads the file into a library of its own and asks."""
    with tempfile.TemporaryDirectory() as folder, Assistant(folder) as assistant:
        assistant.ingest(sys.argv[1])
        answers = assistant.ask_many(QUESTIONS, progress=report)
        for question, answer in zip(QUESTIONS, answers, strict=True):
            place = answer.citations[0].handle if answer.citations else "nowhere"
            print(f"{question:<45}  {answer.text or 'not said':<20}  {place}")


if __name__ == "__main__":
    main()
