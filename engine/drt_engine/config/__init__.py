"""Configurations: frozen dataclasses, merged strictly, written back."""
