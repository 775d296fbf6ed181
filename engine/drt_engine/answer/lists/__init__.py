"""Answers from lists: values by their names, options of programs, items by their number."""
