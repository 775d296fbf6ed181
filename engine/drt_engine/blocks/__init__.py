"""The block tree of a document: what each part of its text is, as its reader found it."""
