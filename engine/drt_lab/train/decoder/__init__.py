"""Training of a decoder that starts from a pretrained language model."""
