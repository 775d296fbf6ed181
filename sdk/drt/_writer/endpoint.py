"""The writer's endpoint: its stream, and what can go wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import openai

from .prompt import bounded
from .results import WriterError, WriterOptions


def texts(options: WriterOptions, messages: list[dict[str, str]]) -> Iterator[str]:
    """Yield the pieces of the writer's text; raises ``WriterError``."""
    try:
        with _client(options) as client:
            stream: Any = client.chat.completions.create(
                model=options.model,
                messages=messages,  # type: ignore[arg-type]  # plain dicts are what is sent
                stream=True,
                temperature=0,
            )
            yield from bounded(map(_piece, _until_late(stream, options)), options)
    except WriterError:
        raise
    except Exception as error:  # a client raises its transport's, too
        raise WriterError(_reason(error, options)) from error


def _until_late(stream: Any, options: WriterOptions) -> Iterator[Any]:
    """Yield the chunks of a stream, which is closed when its time is over.

    Lines that hold no chunk, such as comments, reach nobody who looks at the time.
    """
    late = threading.Event()

    def stop() -> None:
        late.set()
        stream.close()

    timer = threading.Timer(options.timeout, stop)
    timer.daemon = True
    timer.start()
    try:
        yield from stream
    except Exception as error:
        if not late.is_set():
            raise
        raise WriterError(f"it did not finish within {options.timeout:g} s") from error
    finally:
        timer.cancel()
    if late.is_set():
        raise WriterError(f"it did not finish within {options.timeout:g} s")


def _client(options: WriterOptions) -> openai.OpenAI:
    """Return a client that sends to the named address only, and nothing from the environment."""
    return openai.OpenAI(
        base_url=options.url,
        api_key=options.key or "none",
        organization="",
        project="",
        timeout=options.timeout,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(follow_redirects=False),
    )


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
    return "it sent what is no stream of chat completions"
