"""A study of two tiny models that takes a second."""

from __future__ import annotations

from pathlib import Path

TEXT = """
title = "Passkeys"
out = "{out}"
seeds = [1, 2]

[train.model]
preset = "drt-tiny"
[train.optim]
steps = 4
[train.passkey]
share = 1.0
symbols = 48
chunks = [5]
batch = 2
[train.run]
bf16 = false
minutes = 0

[[runs]]
name = "DRT"
paper = {{ "passkey 64" = 1.0 }}

[[runs]]
name = "Base LM"
seeds = [1]
compute_of = "DRT"
set = {{ "model.architecture" = "base" }}

[[evaluations]]
task = "passkey"
metric = "tokens right"
options = {{ lengths = "64,128", cases = 4 }}

[[quoted]]
name = "YaRN-7B"
source = "Table 2"
values = {{ "passkey 64" = 0.5 }}
"""


def write_study(folder: Path, *, change: tuple[str, str] = ("", ""), more: str = "") -> Path:
    """Write the study's file, with some text changed and some added."""
    path = folder / "study.toml"
    text = TEXT.format(out=folder / "results")
    assert change[0] in text
    path.write_text(text.replace(*change, 1) + more, encoding="utf-8")
    return path
