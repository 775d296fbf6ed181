"""Metrics and baselines. Nothing here knows of models."""
