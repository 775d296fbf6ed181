"""Summaries of documents, and what changed between two versions."""
