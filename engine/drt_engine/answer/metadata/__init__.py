"""Answers about a document itself: title, author, date, version, publisher, sender, recipient."""
