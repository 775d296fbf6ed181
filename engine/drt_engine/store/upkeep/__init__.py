"""Checking, repairing, compacting, removing and swapping the contents of a library."""
