"""The DRT engine: model, retrieval, store, reading and answering."""
