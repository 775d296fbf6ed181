"""OpenDocument text files (.odt): the parts beside the text, and the text."""
