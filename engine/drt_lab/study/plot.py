"""Plots of a study: each evaluation with several lengths, a line for each run."""

from __future__ import annotations

from pathlib import Path

from drt_engine.errors import ConfigError
from drt_lab.evaluate.run import token_count
from drt_lab.study.spec import slug
from drt_lab.study.table import Table

# Lines differ in colour, and from the eleventh on in style, too.
_COLOURS = 10
_STYLES = ("-", "--", ":", "-.")


def draw_plots(table: Table, folder: Path) -> list[Path]:
    """Draw every evaluation whose groups are lengths to ``<evaluation>.png``; return the files.

    None where matplotlib is not installed. The band is from the lowest to the highest seed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    files = []
    for evaluation in dict.fromkeys(column.evaluation for column in table.columns):
        points = [
            (length, number)
            for number, column in enumerate(table.columns)
            if column.evaluation == evaluation and (length := _length(column.group)) is not None
        ]
        if len(points) < 2:
            continue
        # As high as the names of all rows beside it.
        figure = Figure(figsize=(9, max(4.2, 0.2 * len(table.rows) + 1)), layout="constrained")
        axes = figure.add_subplot()
        for number, row in enumerate(table.rows):
            line = [(x, row.cells[n].measured) for x, n in points if row.cells[n].measured]
            if line:
                lengths = [x for x, _ in line]
                means = [sum(v) / len(v) for _, v in line]
                style = _STYLES[number // _COLOURS % len(_STYLES)]
                (drawn,) = axes.plot(
                    lengths, means, f"C{number % _COLOURS}{style}o", markersize=3, label=row.name
                )
                low, high = [min(v) for _, v in line], [max(v) for _, v in line]
                axes.fill_between(lengths, low, high, alpha=0.2, color=drawn.get_color())
        metric = next(c.metric for c in table.columns if c.evaluation == evaluation)
        axes.set(xscale="log", xlabel="tokens", ylabel=metric, title=table.title)
        axes.set_xticks([x for x, _ in points], [table.columns[n].group for _, n in points])
        axes.minorticks_off()
        figure.legend(fontsize=8, loc="outside right upper", frameon=False)
        files.append(folder / f"{slug(evaluation)}.png")
        figure.savefig(files[-1], dpi=110, metadata={"Software": None})
    return files


def _length(group: str) -> int | None:
    """Return the tokens that a group's name says, ``None`` for any other name."""
    try:
        return token_count(group)
    except ConfigError:
        return None
