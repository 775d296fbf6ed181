"""Addresses of the web: fetching one that was asked for."""
