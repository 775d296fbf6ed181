"""Configurations of models: frozen dataclasses."""
