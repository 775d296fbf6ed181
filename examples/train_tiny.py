"""Train a tiny DRT on a text, on a CPU in a minute or two: `python examples/train_tiny.py [TEXT
[STEPS]]`.

Makes a tokenizer, trains, and prints the first and last losses; the run stays in runs/tiny.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from drt_lab.train.metrics import read_metrics
from drt_lab.train.run import train
from drt_lab.train.tokenizer import train_tokenizer


def main() -> None:
    """Train on the example handbook unless another text is named."""
    text = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("handbook.md")
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.jsonl"
        corpus.write_text(json.dumps({"text": text.read_text(encoding="utf-8")}) + "\n")
        tokenizer = train_tokenizer([corpus], Path(folder) / "tokenizer", vocab_size=2048)
        config = Path(folder) / "tiny.toml"
        config.write_text(_CONFIG.format(tokenizer=tokenizer, corpus=corpus, steps=steps))
        run = train(config)
    rows = read_metrics(run / "metrics.jsonl")
    print(f"loss {rows[0]['lm']:.2f} -> {rows[-1]['lm']:.2f} in {steps} steps; run folder: {run}")


_CONFIG = """
[model]
preset = "drt-tiny"
width = 64
[start]
tokenizer = "{tokenizer}"
[optim]
steps = {steps}
lr = 3e-3
[stream]
share = 1.0
corpus = ["{corpus}"]
chunks = 32
batch = 4
[run]
out = "runs/tiny"
"""

if __name__ == "__main__":
    main()
