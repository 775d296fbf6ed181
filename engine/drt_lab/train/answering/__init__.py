"""Batches of questions over a pool of chunks, the model's pass over them, and their losses."""
