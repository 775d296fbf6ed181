"""The catalogue: rows of documents, chunks and segments in SQLite, and their full-text index."""
