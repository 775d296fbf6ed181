"""Tokenizers made in the test: one of bytes, and WordPiece as BERT's folders hold it."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from drt_engine.text.tokenizer import SPECIAL_TOKENS, Tokenizer, wordpiece_from_bert

BERT_SPECIAL = ["[PAD]", *(f"[unused{i}]" for i in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "notice", "period", "is", "thirty", "days", "keep", "log", "cafe", "naive", "##er"]


def byte_tokenizer(merges: Sequence[tuple[str, str]] = ()) -> Tokenizer:
    """Byte-level BPE with the special tokens at 0..3, one token a byte unless merged."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*SPECIAL_TOKENS, *alphabet, *(a + b for a, b in merges)]
    inner = tokenizers.Tokenizer(models.BPE({n: i for i, n in enumerate(names)}, list(merges)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return Tokenizer(inner)


def bert_vocabulary() -> list[str]:
    """A small vocabulary laid out like BERT's: [PAD], unused slots, [UNK] at 100, [CLS], [SEP]."""
    letters = [*string.ascii_lowercase, *string.digits, *string.punctuation, *"éαβд中国👍"]
    return [*BERT_SPECIAL, *letters, *(f"##{c}" for c in letters if c.isalnum()), *WORDS]


def write_bert_tokenizer(folder: Path) -> Path:
    """Write ``tokenizer.json`` as BERT-like folders hold it: added tokens, padding, truncation."""
    vocabulary = bert_vocabulary()
    special = [t for t in BERT_SPECIAL if "unused" not in t]
    kind = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": vocabulary.index(t), "content": t, "special": True, **kind} for t in special]
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    data = {
        "version": "1.0",
        "truncation": {
            "max_length": 8,
            "strategy": "LongestFirst",
            "stride": 0,
            "direction": "Right",
        },
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: i for i, token in enumerate(vocabulary)},
        },
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def wordpiece_tokenizer(folder: Path) -> Tokenizer:
    """The WordPiece tokenizer that a warm start takes from such a folder."""
    return wordpiece_from_bert(write_bert_tokenizer(folder))
