"""Man pages: the text of roff sources with the macros of man(7) or mdoc(7)."""
