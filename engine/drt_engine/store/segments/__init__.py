"""Segment files: chunk memory and landmarks on disk."""
