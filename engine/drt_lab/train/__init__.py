"""Training of DRT: one loop for all tasks, their data and the state of a run."""
