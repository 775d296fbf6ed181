"""Tags: names that a user gives to documents, to ask only some of them.

Knows their form and nothing of where they are stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from drt_engine.errors import ConfigError, CorruptStore

LONGEST_TAG = 64  # characters
MOST_TAGS = 100  # of one document


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags without repetitions, in alphabetical order; ``ConfigError`` for what is none."""
    distinct = sorted(set(tags))
    for tag in distinct:
        if not is_tag(tag):
            raise ConfigError(
                f"{tag!r:.80} is not a tag, expected 1 to {LONGEST_TAG} printable characters,"
                " without spaces or commas, that do not begin with + or -"
            )
    if len(distinct) > MOST_TAGS:
        raise ConfigError(f"a document got {len(distinct)} tags, expected at most {MOST_TAGS}")
    return tuple(distinct)


def is_tag(value: object) -> bool:
    """Return whether a value has the form of a tag."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_TAG
        and value.isprintable()
        and not any(c.isspace() or c == "," for c in value)
        and value[0] not in "+-"
    )


def pack_tags(tags: Iterable[str]) -> str:
    """Return tags as the catalogue keeps them: a JSON array, or nothing where there are none."""
    ordered = sorted(set(tags))
    return json.dumps(ordered) if ordered else ""


def unpack_tags(text: str) -> tuple[str, ...]:
    """Return the tags of ``pack_tags``; CorruptStore for anything else."""
    if not text:
        return ()
    try:
        tags = json.loads(text)
        if not isinstance(tags, list) or not all(map(is_tag, tags)) or pack_tags(tags) != text:
            raise ValueError(f"{text!r:.80} are not tags")
    except (ValueError, RecursionError) as error:
        raise CorruptStore(
            f"the tags of a document in the catalogue are damaged ({error}): run"
            " `drt library check`"
        ) from error
    return tuple(tags)
