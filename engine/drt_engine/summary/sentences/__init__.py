"""Sentences that a summary may quote: which are prose, what their words tell, how they score."""
