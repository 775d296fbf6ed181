"""The page that the server shows: files of the package, and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_NAMES = ("page.css", "library.js", "answers.js", "viewer.js", "page.js")
FILES = {"/": "index.html"} | {f"/{name}": name for name in _NAMES}


def page_routes() -> list[Route]:
    """Return the routes of the page's files."""
    return [Route(path, _handler(name), methods=["GET"]) for path, name in FILES.items()]


def _handler(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("drt._server") / "page" / name).read_bytes()
    media_type = TYPES[name.rpartition(".")[2]]

    async def show(request: Request) -> Response:  # noqa: ARG001  a route's signature
        return Response(content, media_type=media_type)

    return show
