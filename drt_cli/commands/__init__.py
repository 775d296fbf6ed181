"""One command per file; ``drt_cli.main`` says which file holds which."""
