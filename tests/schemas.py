"""Values against JSON schemas; that a schema is one takes longer to check, and is checked once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema


def validate(value: object, given: Mapping[str, Any]) -> None:
    """Raise ``jsonschema.ValidationError`` where a value does not keep to a schema."""
    validator(given).validate(value)


def validator(given: Mapping[str, Any]) -> jsonschema.Draft202012Validator:
    """What compares values with a schema; raises where it is none."""
    return _validator(json.dumps(given))


@cache
def _validator(text: str) -> jsonschema.Draft202012Validator:
    given = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(given)
    return jsonschema.Draft202012Validator(given)
