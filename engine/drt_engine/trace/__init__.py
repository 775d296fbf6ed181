"""Traces: which passages each token attended to, as a record, a page and text."""
