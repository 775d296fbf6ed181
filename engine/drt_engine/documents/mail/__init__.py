"""The e-mail reader."""
