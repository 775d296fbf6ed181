"""The options that say which part of a library counts, for the engine."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _engine
from ._errors import ConfigError, QuestionError, engine_errors, expect_text

if TYPE_CHECKING:
    from drt_engine.retrieval.filters import Filters

_DATE = re.compile(r"\d{4}(-\d\d){0,2}")
NAMES = ("section", "pages", "types", "tags", "since")


def listed(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return several names, one, or none as a tuple."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def filters_of(options: Mapping[str, Any]) -> Filters | None:
    """Return the filters among options; None without any; ``ConfigError`` for a wrong one."""
    values = {name: options[name] for name in NAMES if options.get(name)}
    if not values:
        return None
    for name in ("types", "tags"):
        values[name] = listed(values.get(name))
    for text in (values.get("section", ""), *values["types"], *values["tags"]):
        expect_text("the filter", text, QuestionError)
    if len(values.get("pages", (1, 1))) != 2:
        raise ConfigError(
            f"pages are {values['pages']}, expected two numbers: the first, the last."
        )
    if isinstance(values.get("since"), datetime.date):
        values["since"] = values["since"].isoformat()[:10]
    with engine_errors():
        return _engine.Filters(**values)


def since_day_or_file(
    since: str | os.PathLike[str] | datetime.date | None,
) -> tuple[str | datetime.date | None, str | None]:
    """Return a date, or the name of a file, of which a summary takes either."""
    if since is None or isinstance(since, datetime.date):
        return since, None
    name = os.fspath(since)
    if _DATE.fullmatch(name) and not os.path.exists(name):
        return name, None
    return None, name


def day_of(since: str | datetime.date | None) -> datetime.date | None:
    """Return the first day of a day, month or year: what never names a file.

    Raises ``ConfigError`` for anything else.
    """
    if not since or isinstance(since, datetime.date):
        return since or None
    filters_of({"since": since})
    year, month, day = [*map(int, since.split("-")), 1, 1][:3]
    return datetime.date(year, month, day)


def without_filters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other options."""
    return {name: value for name, value in options.items() if name not in NAMES}
