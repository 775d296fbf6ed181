"""The writer's endpoint: its stream, and what can go wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import openai

from .._server.options import is_loopback
from .._web.line import Line, counted
from .prompt import bounded
from .results import WriterError, WriterOptions

BODY_BYTES = 16 << 20  # of a response: chunks of text are small, their JSON is not


def texts(options: WriterOptions, messages: list[dict[str, str]]) -> Iterator[str]:
    """Yield the pieces of the writer's text; raises ``WriterError``."""
    line = Line(options.timeout)
    try:
        with line, _client(options, line) as client:
            stream: Any = client.chat.completions.create(
                model=options.model,
                messages=messages,  # type: ignore[arg-type]  # plain dicts are what is sent
                stream=True,
                temperature=0,
            )
            yield from bounded(map(_piece, stream), options)
    except Exception as error:  # a client raises its transport's, too
        if line.is_cut:
            raise _late(options) from error
        if isinstance(error, WriterError):
            raise
        raise WriterError(_reason(error, options)) from error
    if line.is_cut:
        raise _late(options)


def _client(options: WriterOptions, line: Line) -> openai.OpenAI:
    """Return a client that sends to the named address only.

    Proxies of the environment are used for other machines; this one's own addresses need none.
    """
    too_much = WriterError(f"it sent more than {BODY_BYTES >> 20} MiB")

    def watch(request: Any) -> None:
        request.extensions["trace"] = line.trace

    def limit(response: Any) -> None:
        # All ways to read a response go through its iter_bytes, those of errors as well.
        iter_bytes = response.iter_bytes
        response.iter_bytes = lambda *size: counted(iter_bytes(*size), BODY_BYTES, too_much)

    return openai.OpenAI(
        base_url=options.url,
        api_key=options.key or "none",
        organization="",
        project="",
        timeout=options.timeout,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(
            follow_redirects=False,
            trust_env=not is_loopback(urlsplit(options.url).hostname or ""),
            event_hooks={"request": [watch], "response": [limit]},
        ),
    )


def _late(options: WriterOptions) -> WriterError:
    return WriterError(f"it did not finish within {options.timeout:g} s")


def _piece(chunk: object) -> str:
    """Return a chunk's text; endpoints send chunks without choices, too."""
    choices = getattr(chunk, "choices", None)
    delta = getattr(choices[0], "delta", None) if isinstance(choices, list) and choices else None
    content = getattr(delta, "content", None)
    return content if isinstance(content, str) else ""


def _reason(error: Exception, options: WriterOptions) -> str:
    if isinstance(error, openai.APITimeoutError):
        return f"it did not answer within {options.timeout:g} s"
    if isinstance(error, openai.APIConnectionError):
        return "it cannot be reached"
    if isinstance(error, openai.RateLimitError):
        return "it refuses more requests for now (429)"
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return f"it does not accept the key ({error.status_code})"
    if isinstance(error, openai.NotFoundError):
        return f"it knows no model {options.model!r}, or has no chat completions there (404)"
    if isinstance(error, openai.APIStatusError):
        return f"it answered with status {error.status_code}"
    if "timed out" in str(error).lower():
        return f"it did not answer within {options.timeout:g} s"
    return "it did not send a stream of chat completions"
