"""One display for all workers of ``drt ingest --ray``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING

from ._layout import NARROWEST, columns
from ._options import Settings
from ._output import BAR
from ._text import shortened

if TYPE_CHECKING:
    from drt import ShardsProgress

_NAMES = 3  # documents that are named while they are read


class ShardsBar:
    """A bar of the files that are done, with the documents that are open and tokens per second."""

    def __init__(self) -> None:
        from tqdm import tqdm

        self._bar = tqdm(bar_format=BAR, leave=False, dynamic_ncols=True)

    def __call__(self, step: ShardsProgress) -> None:
        screen = columns(sys.stderr) or NARROWEST
        bar = self._bar
        bar.total, bar.n = max(step.total_files, 1), step.files
        bar.set_description_str(f"{step.files:,} of {step.total_files:,} files", refresh=False)
        rate = f"{step.tokens_per_second:,.0f} tokens/s"
        width = max(0, screen // 2 - len(rate))
        bar.set_postfix_str(f"{rate}{_open_documents(step, width)}", refresh=False)
        bar.refresh()

    def clear(self) -> None:
        """Take the bar off the screen until the next step."""
        self._bar.clear()

    def close(self) -> None:
        """Take the bar off the screen for good."""
        self._bar.close()


def _open_documents(step: ShardsProgress, width: int) -> str:
    """Return the first documents that are open with how much of each is read, as they fit."""
    shown = ""
    for document in [item for item in step.documents if item is not None][:_NAMES]:
        name = shortened(PurePath(document.source).name, 20)
        part = f", {name} {document.fraction:.0%}"
        if len(shown) + len(part) > width:
            break
        shown += part
    return shown


@contextmanager
def shards_bar(settings: Settings) -> Iterator[ShardsBar | None]:
    """Yield a callback that draws a bar, or None off a terminal."""
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    bar = ShardsBar()
    try:
        yield bar
    finally:
        bar.close()
