"""Search: the passages of a library that fit a query best, with the best sentence of each.

Nothing reads the passages, so a search takes a fraction of an answer's time.
"""
