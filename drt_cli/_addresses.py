"""Addresses among paths: fetched where that was asked for, on the command line or at a prompt."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ._errors import CliError
from ._text import printable

if TYPE_CHECKING:
    from drt import Assistant, IngestProgress, IngestResult

Function = TypeVar("Function", bound=Callable[..., Any])
SCHEMES = ("http://", "https://")


def fetch_options(function: Function) -> Function:
    """Add the options of addresses."""
    for decorate in (
        click.option(
            "--fetch-private",
            is_flag=True,
            help="Fetch from addresses that are not public, too, such as a server of yours.",
        ),
        click.option(
            "--fetch",
            is_flag=True,
            help="Fetch addresses (https://...) without asking, as a terminal does; needs the extra"
            " fetch.",
        ),
    ):
        function = decorate(function)
    return function


@dataclass(frozen=True)
class Addresses:
    """The addresses that were named beside ``files``, and whether they may be private."""

    files: tuple[str, ...]
    urls: tuple[str, ...]
    private: bool

    def read(
        self,
        assistant: Assistant,
        *,
        tags: Iterable[str] = (),
        progress: Callable[[IngestProgress], None] | None = None,
    ) -> Iterator[IngestResult]:
        """Fetch and read each address; yield its document, or why there is none."""
        from drt import DocumentError, IngestResult

        for url in self.urls:
            began = time.perf_counter()
            try:
                document = assistant.ingest_address(
                    url, private=self.private, tags=tags, progress=progress
                )
            except DocumentError as error:
                yield IngestResult(url, None, error)
                continue
            tokens = document.tokens if document.new else 0
            yield IngestResult(document.source, document, None, time.perf_counter() - began, tokens)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def named_addresses(paths: Sequence[str], *, fetch: bool, private: bool) -> Addresses:
    """Return the addresses among paths, once somebody has said that they may be fetched.

    Raises ``CliError`` where nobody was there to ask.
    """
    urls = tuple(path for path in paths if path.lower().startswith(SCHEMES))
    if urls and not fetch:
        shown = "\n".join(f"  {printable(url)}" for url in urls)
        if not _is_terminal():
            raise CliError(
                f"{printable(urls[0])} is an address of the web; --fetch fetches it, or save the"
                " page and name its file."
            )
        question = f"{shown}\nFetch {'this' if len(urls) == 1 else 'these'} from the web?"
        click.confirm(question, abort=True, err=True)
    files = tuple(path for path in paths if path not in urls)
    return Addresses(files, urls, private)
