"""From a question to quotes with their places."""
