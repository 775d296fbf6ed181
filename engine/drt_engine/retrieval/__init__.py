"""Which chunks a landmark retrieves: candidates, late interaction, the reader pass.

Each part returns what it computed; ``library`` puts them together for the decoder.
"""
