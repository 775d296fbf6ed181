"""What the lines of a stored text are: headings, contents, boilerplate, items, rows."""
