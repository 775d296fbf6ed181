"""The line above a summary: what a document is, from what its reader found."""

from __future__ import annotations

from pathlib import Path

from drt_engine.store import DocumentRow
from drt_engine.summary.about import about_documents, section_list
from drt_engine.summary.options import SummaryOptions
from tests.model_folder import library, read_text
from tests.tables import each_row

TALES = DocumentRow("0", "Tales", "tales.epub", "application/epub+zip", 1, 1, 1, "", "Ann Lee")


@each_row(
    ("paths", "names"),
    [
        (["One", "One > A", "Two"], ["One", "Two"]),
        (["Tales", "Tales > One", "Tales > Two > A"], ["One", "Two"]),
        (["1", "1 > The Fir Tree", "2 > The Lamp", "3"], ["The Fir Tree", "The Lamp"]),
        (["Table of contents", "TALES.", "Ann Lee", "One"], ["One"]),
        ([], []),
    ],
)
def test_the_largest_sections_are_named(paths: list[str], names: list[str]) -> None:
    assert section_list(paths, TALES) == names


def test_a_document_is_told_by_title_author_date_and_sections(tmp_path: Path) -> None:
    text = (
        "---\ntitle: Rules of the boathouse\nauthor: Ann Lee\ndate: 2024-05-06\n---\n\n"
        "# Boats\n\nA boat is lent for a day.\n\n# Keys\n\nThe key hangs by the door.\n"
    )
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="rules.md", text=text)
        read_text(store, tmp_path, name="plain.txt", text="The lamp is lit at dusk.")
        rules, plain = store.documents()
        line = "Rules of the boathouse, by Ann Lee, 2024-05-06. 2 sections: Boats; Keys"
        assert about_documents(store, [rules], SummaryOptions()) == line
        assert about_documents(store, [plain], SummaryOptions()) == ""  # nothing but its name
        both = about_documents(store, [rules, plain], SummaryOptions())
        assert both == "2 documents: Rules of the boathouse; plain.txt"
        assert about_documents(store, [rules], SummaryOptions(section="Keys")) == ""


def test_many_long_names_are_cut_and_counted(tmp_path: Path) -> None:
    title = "of the keeper who had to light so many lamps before the boat came home"
    chapters = "".join(f"## Chapter {n}: {title}\n\nHe did.\n\n" for n in range(1, 31))
    with library(tmp_path / "library") as store:
        read_text(store, tmp_path, name="book.md", text=f"# The keeper\n\n{chapters}")
        line = about_documents(store, store.documents(), SummaryOptions())
    first = "Chapter 1: of the keeper who had to light so many lamps..."
    assert line.startswith(f"The keeper. 30 sections: {first}; ")
    assert line.endswith("and 25 more")
    assert len(line) < 400
