"""The door to the HTTP server: its application, running it, and its load test.

Imports the packages of the extra ``serve`` on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ._errors import ConfigError
from ._server.options import ServeOptions

if TYPE_CHECKING:
    from ._assistant import Assistant


def asgi_app(assistant: Assistant, options: ServeOptions | None = None) -> Any:
    """Return the server as an ASGI application, for an ASGI server of your own.

    Raises ``ConfigError`` where the extra ``serve`` is not installed.
    """
    try:
        from ._server.app import make_app
    except ImportError as error:
        raise _missing("serve", error) from error
    return make_app(assistant, options or ServeOptions())


def serve(
    assistant: Assistant,
    options: ServeOptions | None = None,
    *,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a library over HTTP until SIGINT or SIGTERM; what runs then is finished.

    ``ready`` is called with the server's address once it listens. Raises ``ConfigError`` where the
    extra ``serve`` is not installed, ``OSError`` where the address is taken.
    """
    app = asgi_app(assistant, options)
    from ._server.process import run

    run(app, options or ServeOptions(), ready)


def bench_server(runtime: dict[str, object], options: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the load test; ``ConfigError`` for an option that it does not have."""
    try:
        from ._server.load import LoadOptions, bench_serve
    except ImportError as error:
        raise _missing("serve", error) from error
    known = [field.name for field in fields(LoadOptions)]
    for name in options:
        if name not in known:
            raise ConfigError(f"serve has no option {name!r}; it has {', '.join(known)}.")
    return bench_serve(LoadOptions(**options), **runtime)


def _missing(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"the package {error.name} is not installed; "
        f'pip install "drt-assistant[{extra}]" installs it.'
    )
