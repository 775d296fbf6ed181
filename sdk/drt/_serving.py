"""The doors to the servers: the HTTP application, running it, its load test, and MCP.

Imports the packages of the extras ``serve`` and ``mcp`` on first use.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import ConfigError
from ._server.options import ServeOptions

if TYPE_CHECKING:
    from ._assistant import Assistant


def asgi_app(assistant: Assistant, options: ServeOptions | None = None) -> Any:
    """Return the server as an ASGI application, for an ASGI server of your own.

    Raises ``ConfigError`` where the extra ``serve`` is not installed, or ``writer`` for a writer.
    """
    try:
        from ._server.app import make_app
    except ImportError as error:
        raise _missing("serve", error) from error
    if options is not None and options.writer is not None and not options.writer.plugin:
        try:
            from ._writer import endpoint  # noqa: F401  whether its package is there
        except ImportError as error:
            raise _missing("writer", error) from error
    return make_app(assistant, options or ServeOptions())


def serve(
    assistant: Assistant,
    options: ServeOptions | None = None,
    *,
    ready: Callable[[str], None] | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve a library over HTTP until SIGINT or SIGTERM; what runs then is finished.

    A second signal ends the server at once: ``KeyboardInterrupt`` is raised while a thread may
    still answer. ``ready`` is called with the server's address once it listens. ``listener`` is a
    socket to accept connections from in place of the address, which processes may share. Raises
    ``ConfigError`` where the extra ``serve`` is not installed, or where the address is taken.
    """
    app = asgi_app(assistant, options)
    from ._server.process import run

    run(app, options or ServeOptions(), ready, listener)


def mcp_server(assistant: Assistant, *, folders: Sequence[str | os.PathLike[str]] = ()) -> Any:
    """Return a server of the Model Context Protocol over a library; its ``run`` speaks stdio.

    folders: from where its tool ``ingest`` may read files; it has none without them. Raises
    ``ConfigError`` where the extra ``mcp`` is not installed, or where a folder is none.
    """
    places = [Path(folder) for folder in folders]
    for place in places:
        if not place.is_dir():
            raise ConfigError(f"{place} is not a folder; name one that files may be read from.")
    try:
        from ._mcp.server import make_server
    except ImportError as error:
        raise _missing("mcp", error) from error
    return make_server(assistant, places)


def bench_server(runtime: dict[str, object], options: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the load test; ``ConfigError`` for an option that it does not have."""
    try:
        from ._server.load import LoadOptions, bench_serve
    except ImportError as error:
        raise _missing("serve", error) from error
    option_names = [field.name for field in fields(LoadOptions)]
    for name in options:
        if name not in option_names:
            raise ConfigError(f"serve has no option {name!r}; it has {', '.join(option_names)}.")
    return bench_serve(LoadOptions(**options), **runtime)


def _missing(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"the package {error.name} is not installed; "
        f'pip install "drt-assistant[{extra}]" installs it.'
    )
