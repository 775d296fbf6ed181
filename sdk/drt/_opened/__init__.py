"""What an assistant does with a library that is open: read documents into it, and ask it."""
