"""Measurements of answers, retrieval, summaries and language modelling, with their baselines.

The modules imported here know nothing of the model; those that run it import torch themselves.
"""
