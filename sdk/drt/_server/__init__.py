"""The HTTP server of ``drt serve``: an ASGI application over one library and one loaded model.

Builds on the public SDK and on its published schemas, so that what these gain is served as well.
Needs the extra ``serve``; nothing outside this package imports it before it is used.
"""
