"""The text of a plug-in's writer: a function of the messages and the options, which yields text."""

from __future__ import annotations

from collections.abc import Iterator

from .._errors import ConfigError
from .._plugins import load_plugin
from .prompt import bounded
from .reasons import clean, reason
from .results import WriterError, WriterOptions


def texts(options: WriterOptions, messages: list[dict[str, str]]) -> Iterator[str]:
    """Yield the pieces of the plug-in's text; raises ``WriterError``."""
    try:
        pieces = load_plugin("writer", options.plugin)(messages, options)
        yield from bounded(map(_text, [pieces] if isinstance(pieces, str) else pieces), options)
    except WriterError:
        raise
    except ConfigError as error:
        raise WriterError(clean(str(error), key=options.key)) from error
    except (Exception, SystemExit) as error:  # whatever another distribution's function raises
        raise WriterError(reason(error, key=options.key)) from error


def _text(piece: object) -> str:
    if not isinstance(piece, str):
        raise WriterError(f"it yielded a {type(piece).__name__}, not text")
    return piece
