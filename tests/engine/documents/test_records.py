"""Records of logs, chats and diaries: each with its own stamp, author and text."""

from __future__ import annotations

from pathlib import Path

from drt_engine.documents.structure.records import record_nodes
from tests.engine.documents.helpers import joined, read
from tests.tables import each_row

COMMIT = "commit {0}\nAuthor: Ada <a@b.org>\nDate:   Mon Mar 3 10:00:00 2025 +0100\n\n    Fix {1}\n"


def records(text: str) -> list[str]:
    return [text[node.start : node.end] for node in record_nodes(text)]


@each_row(
    "line",
    [
        "Jun  4 06:12:0{0} gannet sshd: login of {1}",
        "2025-10-02 07:15:0{0} gate {1} opened",
        "2025-03-11T00:00:1{0}Z INFO pumpd[411]: level={1}",
        '192.0.2.7 - - [12/Feb/2025:08:01:1{0} +0000] "GET /{1}" 200 512',
        "[14:02:1{0}] <kestrel> {1}",
        "12/05/2025, 18:0{0} - Oda: {1}",
        "07:1{0} {1} opened",
        "{1} opened at 07:1{0}.",
        "- 7.1{0} am: {1}",
        "Monday {0} March: planted {1}",
        "[    1.00{0}] usb {1}",
        "1a2b3c{0} Fix {1}",
    ],
)
def test_each_line_is_a_record(line: str) -> None:
    lines = [line.format(number, word) for number, word in enumerate(["oats", "rye", "barley"], 2)]
    assert records("\n".join(lines) + "\n") == lines


@each_row(
    "entries",
    [
        [COMMIT.format("1" * 40, "the pump"), COMMIT.format("2" * 40, "the bell")],
        ["3 May\nPlanted beans.\n", "5 May\nRain\nall day.\n", "12 May\nSun.\n"],
        ["Oda  9:41 AM\nWho has the key?\n", "Finn  9:45 AM\nMarit.\n", "Oda  10:02 AM\nThanks.\n"],
        ["10:00:01,123 ERROR x\n  at y\n  at z\n", "10:00:02,456 INFO a\n", "10:00:03,1 INFO b\n"],
    ],
)
def test_lines_without_a_stamp_belong_to_the_record_above(entries: list[str]) -> None:
    assert records("\n".join(entries)) == [entry.strip() for entry in entries]


@each_row(
    "text",
    [
        "The gate opened at 07:15, and the barge\nentered. It left in 1912, when\nit was old.\n",
        "1. Boil water.\n2. Add oats.\n3. Stir for 10 minutes.\n",
        "Version 1.2.3\nVersion 1.2.4\nVersion 1.3.0\n",
        "07:15 opens\nno stamp here\n",
    ],
)
def test_other_text_has_none(text: str) -> None:
    assert records(text) == []


def test_text_after_the_last_record_is_not_part_of_it() -> None:
    text = "07:15 open\n07:20 shut\n07:30 open\n\nSigned by the keeper.\n"
    assert records(text)[-1] == "07:30 open"


def test_the_reader_gives_them_with_places_in_its_text(tmp_path: Path) -> None:
    lines = [f"2025-10-02 07:{number:02}:00 gate {number}" for number in range(60)] * 60
    _, blocks = read(tmp_path / "lock.log", "\n".join(lines) + "\n")
    assert joined(blocks).splitlines() == lines
    found = [block.text[node.start : node.end] for block in blocks for node in block.nodes]
    assert len(blocks) > 1 and found == lines
