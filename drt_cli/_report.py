"""Measurements for a reader: the engine's table where it fits the terminal, else a list."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ._layout import columns, text_width
from ._output import say
from ._text import printable


def print_report(result: dict[str, Any]) -> None:
    """Print the result of an evaluation or a benchmark."""
    from drt import report_table

    text, screen = printable(report_table(result)), columns(sys.stdout)
    if screen is not None and any(text_width(line) > screen for line in text.split("\n")):
        text = printable("\n".join(_listed(result)))
    say(text)


def _listed(result: dict[str, Any]) -> Iterator[str]:
    """Yield every number on a line of its own below what it belongs to."""
    if "task" in result:
        yield f"{result['task']} on {result['data']}:"
        yield f"  {result['n']} cases, {result['seconds']:.1f} s"
        for name, groups in ((result["model"], result["metrics"]), *result["baselines"].items()):
            for group, metrics in groups.items():
                yield f"{group}, {name}:"
                yield from _numbers(metrics)
        return
    yield f"{result['bench']} with {result['model']}: {result['seconds']:.1f} s"
    for row in result["rows"]:
        yield f"{row['name']}:"
        yield f"  {row['median']:.4g} {row['unit']} (iqr {row['iqr']:.2g})"
        if row["against"] is not None:
            yield f"  {row['ratio']:.3f} of {row['against']}"
    if result["calibration"]:
        yield "calibration:"
        yield from _numbers(result["calibration"])


def _numbers(metrics: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{before}{name} ")
        else:
            yield f"  {before}{name} {'-' if value is None else f'{value:.4g}'}"
