"""The DRT engine: model, retrieval, store, reading, answering, training and evaluation."""
