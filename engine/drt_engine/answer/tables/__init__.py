"""Answers from tables: a cell looked up, rows compared, counted and summed."""
