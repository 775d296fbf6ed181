"""Read a document into a library and ask it: `python examples/ask_a_book.py [DOCUMENT
[QUESTION]]`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from drt import Assistant


def main() -> None:
    """Print the answer, where it stands, and the sentence around it."""
    document = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("handbook.md")
    question = sys.argv[2] if len(sys.argv) > 2 else "Who is the doctor of the expedition?"
    with tempfile.TemporaryDirectory() as folder, Assistant(folder) as assistant:
        info = assistant.ingest(document)
        answer = assistant.ask(question)
        print(f"{info.title}: {info.tokens:,} tokens")
        print(answer.text if answer.found else "The document does not say.")
        for citation in answer.citations:
            print(f"  [{citation.start}-{citation.end}] {citation.section}: {citation.context}")


if __name__ == "__main__":
    main()
