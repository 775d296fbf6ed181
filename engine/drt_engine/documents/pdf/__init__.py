"""The PDF reader: characters to lines, lines to paragraphs, outline to sections."""
