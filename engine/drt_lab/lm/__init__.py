"""The models that DRT is compared with, and what all models of token streams are used through."""
