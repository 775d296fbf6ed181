"""Training: one loop for every model, its data and its state."""
