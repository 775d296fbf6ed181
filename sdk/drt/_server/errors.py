"""From errors to responses: a status, and one sentence in the shape that OpenAI's clients read."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from .. import _errors as errors
from .overload import OverloadedError

if TYPE_CHECKING:
    from .service import Service

log = logging.getLogger("drt.server")


# The first that fits counts: special errors stand before their bases.
STATUS: tuple[tuple[type[errors.DrtError], int], ...] = (
    (OverloadedError, 429),
    (errors.QuestionError, 400),
    (errors.ConfigError, 400),
    (errors.NotFoundError, 404),
    (errors.UnsupportedFormatError, 415),
    (errors.DocumentError, 422),
    (errors.SessionError, 409),
    (errors.LibraryBusyError, 503),
    (errors.TooManyOpenFilesError, 503),
    (errors.StorageFullError, 507),
    (errors.DrtError, 500),
)
FULL = (errno.ENOSPC, errno.EDQUOT)  # on Windows, too
RETRY_SECONDS = "5"
SHORTAGE = "the server has too many files and connections open; send the request again later."
MISTAKE = "a mistake of the server, not yours; its log has the details."


def error_body(message: str, kind: str, status: int) -> dict[str, Any]:
    """Return the JSON of an error, the same for all routes."""
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def described(error: Exception, service: Service) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON for an exception; what is not ours is logged, not shown."""
    if isinstance(error, ClientDisconnect):  # nobody reads it
        return 400, error_body("the client left before its body was complete.", "left", 400)
    if isinstance(error, HTTPException):
        return error.status_code, error_body(error.detail, "request_error", error.status_code)
    if errors.lacks_descriptors(error):
        return 503, error_body(SHORTAGE, "too_many_open_files", 503)
    for kind, status in STATUS:
        if isinstance(error, kind):
            message = strip_paths(str(error), service)
            return status, error_body(message, type(error).__name__, status)
    if isinstance(error, OSError) and error.errno in FULL:
        return 507, error_body("the server's disk is full; free some space there.", "full", 507)
    log.error("unexpected error", exc_info=error)
    return 500, error_body(MISTAKE, "server_error", 500)


def strip_paths(sentence: str, service: Service) -> str:
    """Return a sentence that names no folder of the server."""
    sentence = sentence.replace(f"{service.uploads}/", "")
    several = service.library.several
    for folder, name in service.folder_names.items():
        sentence = sentence.replace(f"{folder}/", f"{name}/" if several else "")
        sentence = sentence.replace(folder, name if several else "the library")
    return sentence.replace("the library at the library", "the library")


async def respond(request: Request, error: Exception) -> Response:
    """Turn an exception into its response."""
    status, body = described(error, request.app.state.service)
    headers = dict(getattr(error, "headers", None) or {})
    if isinstance(error, OverloadedError):
        headers["Retry-After"] = str(error.retry_after)
    elif status == 503:
        headers["Retry-After"] = RETRY_SECONDS
    return JSONResponse(body, status, headers=headers)
