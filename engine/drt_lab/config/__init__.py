"""Configurations of runs: frozen dataclasses, merged strictly from TOML, written back."""
