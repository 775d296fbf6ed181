"""Sentences, words, the tokenizer and an in-memory BM25 index.

Knows nothing of models or files.
"""
