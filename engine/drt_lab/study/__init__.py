"""Studies: models that are trained and measured one after the other, and compared in one table."""
