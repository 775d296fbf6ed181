"""Documents of a library as archives, out and in."""
