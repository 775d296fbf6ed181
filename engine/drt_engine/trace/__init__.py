"""Traces: which passages led to each token, as a record and as a page."""
