"""Summaries of documents, and the changes between two versions of one.

``summarize`` is the way in for both modes, ``changes`` compares a document with an older file.
"""
