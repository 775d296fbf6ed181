"""The DRT and its parts."""
