"""Reading documents into a library."""
