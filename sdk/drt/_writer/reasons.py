"""Why a writer failed, in one clean sentence: no secret, no control character, no page of text.

A plug-in may raise anything, such as a program's whole output with the key that it was given.
"""

from __future__ import annotations

import os
import re

MOST = 240  # characters of a reason
SHORTEST_SECRET = 6  # characters; a shorter value, such as "1", is part of many words
HIDDEN = "***"
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_FORMS = (
    re.compile(r"(\bbearer\s+)[^\s\"',;]+", re.IGNORECASE),
    re.compile(r"(//)[^\s/@]+(?=@)"),  # the user and password of an address
    re.compile(r"()\b(?:sk|pk|hf|gh[opsu]|xox[abp]|AIza|AKIA)[-_]?[\w-]{12,}"),
    re.compile(
        # A name in front of it, as in MY_TOKEN, stays: to match it as well would take cubic time.
        r"((?:api[-_ ]?key|token|secret|password)[\"']?\s{0,20}[=:]\s{0,20}[\"']?)[^\s\"',;&]+",
        re.IGNORECASE,
    ),
)
_FOLDERS = re.compile(r"(?<![\w./\\-])(?:[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])+")


def reason(error: BaseException, *, key: str | None = None) -> str:
    """Return what an exception says as the end of a sentence; ``key`` is the writer's own."""
    try:
        text = str(error)
    except Exception:  # whatever another distribution's class does
        text = ""
    return clean(f"{type(error).__name__}: {text}", key=key)


def clean(text: str, *, key: str | None = None) -> str:
    """Return a text on one line, short, with secrets hidden."""
    for secret in _secrets(key):
        text = text.replace(secret, HIDDEN)
    text = _ESCAPES.sub("", text)
    for form in _SECRET_FORMS:
        text = form.sub(rf"\1{HIDDEN}", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) > MOST:  # the cause is often at the end
        line = f"{line[: MOST // 2].rstrip()} ... {line[-MOST // 2 :].lstrip()}"
    return line.rstrip(".:; ")


def strip_folders(text: str) -> str:
    """Return a text in which paths are the names of their files alone."""
    return _FOLDERS.sub("", text)


def _secrets(key: str | None) -> list[str]:
    """Return what must not be shown, longest first: the key, and secrets of the environment."""
    values = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    return sorted(
        (value for value in values | {key or ""} if len(value) >= SHORTEST_SECRET),
        key=len,
        reverse=True,
    )
