"""The Word reader."""
