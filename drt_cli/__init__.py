"""The command line of drt: parses, calls one method of the SDK, prints."""
