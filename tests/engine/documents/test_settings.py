"""Configuration files: keys with several lines are sections; lists of records are tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drt_engine.documents.structure.setting_tree import (
    SUFFIXES,
    setting_sections,
    settings_of,
)
from tests.engine.documents.helpers import joined, read, section_at
from tests.tables import each_row

TOML = """\
# The lamp
name = "lamp"  # short
[oil]
kinds = [
    "whale",  # old
    "rape",
]
price.per-litre = 4
[[keepers]]
name = "Ann"
age = 40
[[keepers]]
name = 'Tom'
age = 50
"""
YAML = """\
# The lamp
name: lamp
oil:
  kinds:
    - whale
    - rape
  price: "4"  # euros
keepers:
- name: Ann
  age: 40
- name: Tom
  age: 50
text: |
  key: value
  more
last: {a: 1}
"""
JSON = """\
{
  "name": "lamp",
  "oil": {
    "kinds": ["whale", "rape"],
    "price": 4
  },
  "keepers": [
    {"name": "Ann", "age": 40},
    {"name": "To\\"m", "age": 50}
  ]
}
"""


def values(text: str, suffix: str) -> dict[str, str]:
    return {
        ".".join(setting.path): text[setting.start : setting.end].strip()
        for setting in settings_of(text, suffix)
    }


def test_keys_and_values_of_tables() -> None:
    found = values(TOML, ".toml")
    assert found["name"] == "lamp"
    assert found["oil.kinds"].startswith("[\n") and found["oil.kinds"].endswith("]")
    assert found["oil.price.per-litre"] == "4"
    assert values("[a]\nk: v ; c\nl = x;y\n", ".ini") == {"a": "", "a.k": "v", "a.l": "x;y"}


def test_keys_and_values_by_depth() -> None:
    found = values(YAML, ".yaml")
    assert found["oil.kinds"] == "- whale\n    - rape"
    assert (found["oil.price"], found["last"]) == ("4", "{a: 1}")
    assert found["text"] == "key: value\n  more" and "key" not in found


def test_keys_and_values_in_brackets() -> None:
    found = values(JSON, ".json")
    assert found["oil.kinds"] == '["whale", "rape"]' and found["oil.price"] == "4"


@each_row(
    ("name", "text", "place", "section"),
    [
        ("a.toml", TOML, '"rape"', "oil > kinds"),
        ("a.toml", TOML, "price", "oil > price"),
        ("a.toml", TOML, "[oil]", "oil"),
        ("a.toml", TOML, "The lamp", None),
        ("a.yaml", YAML, "- rape", "oil > kinds"),
        ("a.yaml", YAML, "Tom", "keepers"),
        ("a.yaml", YAML, "last", None),
        ("a.json", JSON, "whale", "oil"),
        ("a.json", JSON, "Ann", "keepers"),
    ],
)
def test_keys_with_several_lines_are_sections(
    tmp_path: Path, name: str, text: str, place: str, section: str | None
) -> None:
    _, blocks = read(tmp_path / name, text)
    assert joined(blocks) == text
    assert section_at(blocks, place) == section


def test_a_list_of_records_is_a_table(tmp_path: Path) -> None:
    text = '[\n {"name": "Ann", "age": 40},\n {"name": "Tom",\n  "age": null, "at": {"x": 1}},\n'
    text += ' {"name": "Eve\\ud800", "age": 2}\n]\n'
    _, blocks = read(tmp_path / "a.json", text)
    assert joined(blocks) == "name: Ann | age: 40\nname: Tom | at.x: 1\nname: Eve? | age: 2\n"
    assert [block.line for block in blocks][0] == 2
    start = blocks[0].origin_at(0)
    assert start is not None and text[start:].startswith('{"name": "Ann"')


@each_row(
    "text",
    [
        '[{"a": 1, "b": 2}]\n',  # no rows
        '[{"a": 1, "b": 2}, {"c": 1}, {"d": 1}]\n',  # nothing in common
        '[{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}',  # cut
        '[{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}] and more\n',
        '[1, 2, 3, "x"]\n',
        "{]: not JSON\n",
    ],
)
def test_other_json_stays_as_it_is(tmp_path: Path, text: str) -> None:
    assert joined(read(tmp_path / "a.json", text)[1]) == text


PIECES = st.sampled_from(
    ["a: ", "b", "\n", "  ", "- ", "[", "]", "{", "}", '"', "'", " = ", "#", ",", "|", "\\", "\r\n"]
)


@pytest.mark.thorough
@settings(deadline=None, max_examples=200)  # a busy machine is no failure
@given(st.lists(PIECES, max_size=60), st.sampled_from(sorted(SUFFIXES)))
@example(["a: ", "#"], ".cfg")
@example(["[", "  ", "]"], ".cfg")
def test_any_text_has_places_in_it(pieces: list[str], suffix: str) -> None:
    text = "".join(pieces)
    found = settings_of(text, suffix)
    assert all(0 <= s.line <= s.start <= s.end <= len(text) and s.path for s in found)
    places = setting_sections(text, found)
    assert [start for start, _ in places] == sorted({start for start, _ in places})
    assert places[0][0] == 0


@pytest.mark.few(4)
@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".json"])
@pytest.mark.parametrize(
    "text",
    [
        *(" " * 100_000, "- " * 50_000, "a: " * 50_000, "[" * 100_000, '"' * 100_001),
        *('"\\' * 50_000, "a.b" * 40_000 + "=1", "\n- " * 50_000, '{"k":"v",' * 50_000),
        *("k: v\n" * 50_000, "\n".join(" " * n + "a:" for n in range(1_000))),
    ],
)
def test_hostile_settings_take_no_time(text: str, suffix: str) -> None:
    assert len(settings_of(text, suffix)) <= 10_000


def test_too_many_settings_have_no_sections(tmp_path: Path) -> None:
    text = "a:\n" + "".join(f"  key{n}: {n}\n" for n in range(10_000)) + "b:\n  c: 1\n"
    _, blocks = read(tmp_path / "a.yaml", text)
    assert joined(blocks) == text and {block.section for block in blocks} == {None}
