"""Paths and documents by which a client of the MCP server tries to read what is not allowed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from drt import Assistant
from tests.sdk.conftest import assistant, engine  # noqa: F401  fixtures
from tests.sdk.mcp.test_mcp import call, mcp_server

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="no mcp")
SECRET = "The safe opens with 1234."
INCLUDES = {
    "a.tex": "\\documentclass{{article}}\\begin{{document}}Text. \\input{{{0}}} "
    "\\include{{{0}}} \\verbatiminput{{{0}}} \\lstinputlisting{{{0}}}\\end{{document}}\n",
    "a.rst": "Title\n=====\n\nText.\n\n.. include:: {0}\n\n.. literalinclude:: {0}\n\n"
    ".. raw:: html\n   :file: {0}\n",
    "a.md": "# Title\n\nText.\n\n![]({0}) [x]({0}) !include {0} <!--#include file='{0}'-->\n",
    "a.html": "<title>T</title><p>Text.</p><iframe src='{0}'></iframe><object data='{0}'></object>"
    "<link rel='import' href='{0}'><!--#include virtual='{0}'-->",
    "a.1": ".TH A 1\n.SH NAME\na - text\n.so {0}\n.mso {0}\n",
    "a.eml": "From: a@b.example\nSubject: S\nContent-Type: message/external-body; "
    'access-type=local-file; name="{0}"\n\nText.\n',
    "a.xml": "<!DOCTYPE a [<!ENTITY x SYSTEM 'file://{0}'>]><a>Text. &x;</a>",
}


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text(f"{SECRET}\n")
    return folder


def texts(opened: Assistant) -> str:
    return "".join(opened.library.text(document) for document in opened.library.documents())


@pytest.mark.thorough
def test_names_that_are_patterns_are_names(
    assistant: Assistant,  # noqa: F811
    papers: Path,
    tmp_path: Path,
) -> None:
    """A link out of the folder fits them."""
    (papers / "out").symlink_to(tmp_path, target_is_directory=True)
    for name in ("*", "[o]ut", "**", "?ut", "-", "~", "out;secret"):
        (papers / name).mkdir()
        (papers / name / "secret.txt").write_text(f"Harmless {name!r}.\n")
    (papers / "out*.txt").write_text("Harmless.\n")
    server = mcp_server(assistant, folders=[papers])
    for path in (papers, *(file for file in papers.rglob("*") if "out/" not in str(file))):
        call(server, "ingest", path=str(path))
    assert len(assistant.library.documents()) == 8
    assert SECRET not in texts(assistant)


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_pipes_and_links_in_circles_end_in_a_sentence(
    assistant: Assistant,  # noqa: F811
    papers: Path,
) -> None:
    (papers / "loop").symlink_to(papers / "loop")
    (papers / "up").symlink_to(papers, target_is_directory=True)
    os.mkfifo(papers / "pipe.txt")
    (papers / "a.txt").write_text("Harmless.\n")
    server = mcp_server(assistant, folders=[papers])
    report, failed = call(server, "ingest", path=str(papers))
    assert not failed and len(report["documents"]) == 1
    for name in ("loop", "pipe.txt", "up/up/up/../../secret.txt"):
        text, failed = call(server, "ingest", path=str(papers / name))
        assert failed and "is not a file in the allowed folders" in text, name
    assert len(assistant.library.documents()) == 1


@pytest.mark.few(2)
@pytest.mark.parametrize("name", INCLUDES)
def test_documents_include_no_other_file(
    assistant: Assistant,  # noqa: F811
    papers: Path,
    tmp_path: Path,
    name: str,
) -> None:
    for number, path in enumerate((tmp_path / "secret.txt", "../secret.txt")):
        (papers / f"{number}{name}").write_text(INCLUDES[name].format(path))
    server = mcp_server(assistant, folders=[papers])
    call(server, "ingest", path=str(papers))
    assert SECRET not in texts(assistant)
