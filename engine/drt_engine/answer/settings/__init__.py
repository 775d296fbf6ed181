"""Answers from configuration files: the value of the key that a question names."""
