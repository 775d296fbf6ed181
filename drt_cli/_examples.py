"""An example for each command whose help has none of its own."""

from __future__ import annotations

import click

EXAMPLES = {
    "model": "drt model list",
    "model list": "drt model list --json",
    "model info": "drt model info drt-small-en",
    "model verify": "drt model verify ./my-model",
    "model convert": "drt model convert drt-small-en plain-model",
    "train": "drt train config.toml optim.learning_rate=1e-4",
    "train tokenizer": "drt train tokenizer corpus.txt --out runs/tokenizer",
    "eval": "drt eval qa --qa questions.jsonl --docs handbook.md",
    "eval qa": "drt eval qa --qa questions.jsonl --docs handbook.md",
    "eval files": "drt eval files questions.jsonl reports/",
    "eval retrieval": "drt eval retrieval --qa questions.jsonl --docs handbook.md",
    "eval needle": "drt eval needle --corpus corpus.jsonl --lengths 4k,16k",
    "eval passkey": "drt eval passkey --model runs/passkey/2/model --lengths 4k,64k,1m",
    "eval ppl": "drt eval ppl corpus.jsonl --length 16k",
    "eval records": "drt eval records --model runs/control/choosing-by-the-loss-alone-1/model",
    "eval summary": "drt eval summary summaries.jsonl",
    "eval summary-lm": "drt eval summary-lm summaries.jsonl --model runs/summaries/drt-x1-1/model",
    "eval calibrate": "drt eval calibrate --qa questions.jsonl --docs handbook.md",
    "bench": "drt bench ingest",
    "formats": "drt formats",
    "library": "drt library list",
    "library list": "drt library list --json",
    "library show": "drt library show manual.pdf --text",
    "library remove": "drt library remove manual.pdf",
    "library check": "drt library check",
    "library stats": "drt library stats",
    "warm status": "drt warm status --json",
    "warm start": "drt warm start",
    "warm stop": "drt warm stop",
    "session": "drt session list",
    "session list": "drt session list",
    "session show": "drt session show review",
    "session rename": "drt session rename review reviewed",
    "session delete": "drt session delete review --yes",
    "session export": "drt session export review --output review.md",
}


def with_examples(name: str, command: click.Command) -> click.Command:
    """Add an example to the help of a command and of those below it."""
    subcommands = command.commands.values() if isinstance(command, click.Group) else ()
    named = [(name, command), *((f"{name} {item.name}", item) for item in subcommands)]
    for words, described in named:
        has_example = "Example: " in (described.help or "") or described.epilog is not None
        if not has_example and words in EXAMPLES:
            described.epilog = f"\b\nExample: {EXAMPLES[words]}"
    return command
