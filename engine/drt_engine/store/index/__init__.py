"""The approximate index: an inverted file that groups a library's landmarks by direction."""
