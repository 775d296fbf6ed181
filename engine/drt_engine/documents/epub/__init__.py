"""The EPUB reader."""
