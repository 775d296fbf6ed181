"""The server of ``drt mcp``, for assistants and editors that speak the Model Context Protocol.

Needs the extra ``mcp``; nothing outside this package imports it before it is used.
"""
