"""Values of settings that a question names, and none where it says more than the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.answer.ask import AskOptions, ask
from drt_engine.answer.settings.setting_question import named_setting, shares_words
from drt_engine.documents.structure.setting_tree import settings_of
from tests.model_folder import library, read_text, runtime

PROJECT = """\
[build-system]
build-backend = "oil.build"
[project]
name = "lamp"
license = {text = "MIT"}
authors = [
    {name = "Ann Lee"},
]
maintainers = [
    {name = "Tom Lind"},
    {name = "Ada Quist"},
]
requires-python = ">=3.10"
dependencies = [
    "oil>=2",
]
[tool.pytest.ini_options]
minversion = "6.2"
testpaths = ["tests"]
[tool.ruff.lint]
ignore = ["E203"]
[groups]
test = ["pytest"]
nothing = []
"""
PACKAGE = """\
{
  "name": "lamp-data",
  "type": "module",
  "version": "3.2.1",
  "author": {"name": "Ann Lee", "url": "https://lee.example"},
  "scripts": {"build": "rollup -c"},
  "browserslist": ["Firefox ESR"],
  "devDependencies": {"rollup": "^4.4", "typescript": "^6.0"}
}
"""
SERVICES = """\
services:
- name: web
  port: 80
  replicas: 3
- name: db
  port: 5432
jobs:
  build:
    runs-on: ubuntu
    timeout-minutes: 15
  lint:
    runs-on: windows
"""


@pytest.mark.parametrize(
    ("text", "suffix", "question", "expected"),
    [
        (PROJECT, ".toml", "Which build backend is used?", "oil.build"),
        (PROJECT, ".toml", "license of the project", '{text = "MIT"}'),
        (PROJECT, ".toml", "Who is the author?", '[\n    {name = "Ann Lee"},\n]'),
        (
            *(PROJECT, ".toml", "Who maintains the project?"),
            '[\n    {name = "Tom Lind"},\n    {name = "Ada Quist"},\n]',
        ),
        (PROJECT, ".toml", "What is the minimum Python version?", ">=3.10"),
        (PROJECT, ".toml", "What are the dependencies?", '[\n    "oil>=2",\n]'),
        (PROJECT, ".toml", "What is the minimum pytest version?", "6.2"),
        (PROJECT, ".toml", "Which rules does ruff ignore?", '["E203"]'),
        (PROJECT, ".toml", "Where are the tests?", None),  # a list of packages is no place
        (PROJECT, ".toml", "What is the line length?", None),
        (PROJECT, ".toml", "Is there a license?", None),
        (PROJECT, ".toml", "Which rules are not ignored?", None),
        (PROJECT, ".toml", "Which ruff plugins are ignored?", None),
        (PROJECT, ".toml", "What is in the group nothing?", None),
        (PROJECT, ".toml", "How many dependencies are there?", '[\n    "oil>=2",\n]'),
        (PROJECT, ".toml", "How many Python versions are there?", None),
        (PACKAGE, ".json", "What version is it?", "3.2.1"),
        (PACKAGE, ".json", "Who is the author?", "Ann Lee"),
        (PACKAGE, ".json", "Which version of typescript is required?", "^6.0"),
        (PACKAGE, ".json", "Which version of lamp-data is this?", "3.2.1"),
        (PACKAGE, ".json", "Which version of rope is required?", None),
        (PACKAGE, ".json", "What is the author's address?", None),
        (PACKAGE, ".json", "Which browsers are supported?", '["Firefox ESR"]'),
        (SERVICES, ".yaml", "What port does the web service use?", "80"),
        (SERVICES, ".yaml", "How many replicas does web have?", "3"),
        (SERVICES, ".yaml", "How many replicas does db have?", None),
        (SERVICES, ".yaml", "Which port is used?", None),  # two
        (SERVICES, ".yaml", "What does the lint job run on?", "windows"),
        (SERVICES, ".yaml", "What is the timeout of the build job?", "15"),
    ],
)
def test_the_value_of_the_key_that_is_named(
    text: str, suffix: str, question: str, expected: str | None
) -> None:
    span = named_setting(question, text, settings_of(text, suffix))
    assert (span and text[span[0] : span[1]]) == expected


def test_too_many_settings_are_not_looked_into() -> None:
    text = "".join(f"key{n} = {n}\n" for n in range(10_001))
    assert named_setting("What is the value of key7?", text, settings_of(text, ".toml")) is None


def test_a_setting_is_cited_at_its_place(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="lamp.toml", text=PROJECT)
        result = ask(runtime(), store, "Which build backend is used?", AskOptions())
        (citation,) = result.citations
        assert (result.found, result.text) == (True, "oil.build")
        assert PROJECT[citation.start : citation.end] == citation.quote == "oil.build"
        assert citation.section == "build-system"


def test_a_quote_of_other_settings_shares_no_word() -> None:
    assert shares_words("Which rollup plugins are used?", '"rollup": "^4.4"')
    assert shares_words("What is the value of it?", '"rollup": "^4.4"')  # words of asking
    assert not shares_words("Which version of rope is used?", '"name": "lamp", "version": "3"')


def test_items_of_a_setting_are_counted(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="lamp.toml", text=PROJECT)
        result = ask(runtime(), store, "How many maintainers are there?", AskOptions())
        assert (result.found, result.text) == (True, "2")
        assert result.citations[0].quote.startswith('[\n    {name = "Tom Lind"}')


def test_many_items_are_counted_and_their_key_is_cited(tmp_path: Path) -> None:
    text = "name: lamp\njobs:\n" + "".join(f"  job{n}:\n    run: {'x' * 300}\n" for n in range(9))
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="lamp.yaml", text=text)
        result = ask(runtime(), store, "How many jobs are there?", AskOptions())
        assert (result.found, result.text) == (True, "9")
        assert result.citations[0].quote == "job0:"
