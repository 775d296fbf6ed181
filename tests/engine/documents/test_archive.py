"""Archives: each member a document of its own, and nothing that a hostile archive asks for."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from drt_engine.documents import PathExpansion, Source, expand_paths, limits, open_document
from drt_engine.errors import DocumentError, UnreadableDocument, UnsupportedFormat
from tests.engine.documents.helpers import joined
from tests.engine.documents.makers import make_docx, make_tar, make_zip, paragraph
from tests.sampling import sampled

MEMBERS = {
    "notes/one.txt": "The first note.\n",
    "two.md": "# Two\n\nText.\n",
    "image.bin": b"\x7fELF\0\0\1\2",
    ".hidden/three.txt": "no",
    "__MACOSX/._two.md": b"\0\1",
}
PACKED = {
    "a.zip": make_zip(MEMBERS),
    "a.tar": make_tar(MEMBERS),
    "a.tar.gz": make_tar(MEMBERS, mode="w:gz"),
    "a.tar.bz2": make_tar(MEMBERS, mode="w:bz2"),
    "a.tar.xz": make_tar(MEMBERS, mode="w:xz"),
}


def expanded(path: Path, content: bytes) -> tuple[list[Source | DocumentError], PathExpansion]:
    path.write_bytes(content)
    expansion = expand_paths([str(path)])
    return list(expansion), expansion


def texts(found: list[Source | DocumentError]) -> dict[str, str]:
    read = {}
    for source in found:
        assert isinstance(source, Source), source
        read[source.name] = joined(list(open_document(source).blocks))
        source.close()
    return read


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PACKED)
def test_members_are_documents(name: str, tmp_path: Path) -> None:
    found, expansion = expanded(tmp_path / name, PACKED[name])
    place = f"{tmp_path / name}!"
    assert [source.location for source in found if isinstance(source, Source)] == [
        f"{place}/notes/one.txt",
        f"{place}/two.md",
    ]
    assert texts(found) == {
        f"{place}/notes/one.txt": "The first note.\n",
        f"{place}/two.md": "# Two\n\nText.\n",
    }
    assert expansion.skipped == 1
    assert sorted(expansion.notes.skipped) == [
        f"{place}/image.bin (no reader knows its type)",
        "2 hidden names (files and folders that begin with a dot, or that systems make)",
    ]


def test_a_member_cannot_be_read_once_its_source_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(PACKED["a.zip"])
    member = next(expand_paths([str(path)]))
    assert isinstance(member, Source) and member.size == len("The first note.\n")
    member.close()
    with pytest.raises(FileNotFoundError):
        member.open()


@pytest.mark.thorough
def test_archives_are_found_in_folders_and_on_standard_input(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.zip").write_bytes(PACKED["a.zip"])
    (tmp_path / "docs" / "b.txt").write_text("b")
    found = list(expand_paths([str(tmp_path / "docs")]))
    names = [one.name.rpartition("/")[2] for one in found if isinstance(one, Source)]
    assert names == ["one.txt", "two.md", "b.txt"]
    piped = list(expand_paths(["-"], stdin=io.BytesIO(PACKED["a.tar.gz"])))
    assert texts(piped) == {
        "standard input!/notes/one.txt": "The first note.\n",
        "standard input!/two.md": "# Two\n\nText.\n",
    }


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("pack", "suffix"),
    sampled([(gzip, ".gz"), (bz2, ".bz2"), (lzma, ".xz")], {2}, thorough={0, 1}, unpack=True),
)
def test_a_file_compressed_alone_is_a_document(pack: Any, suffix: str, tmp_path: Path) -> None:
    page = b".Dd March 5, 2024\n.Dt PEEL 1\n.Os\n.Sh NAME\n.Nm peel\n.Nd peels\n"
    path = tmp_path / f"peel.1{suffix}"
    found, _ = expanded(path, pack.compress(page))
    assert texts(found) == {
        f"{path}!/peel.1": "Date: March 5, 2024\nTitle: peel(1)\n\nNAME\n\npeel - peels\n\n"
    }
    tables, _ = expanded(tmp_path / f"a.csv{suffix}", pack.compress(b"a,b\n1,2\n"))
    assert isinstance(tables[0], Source) and tables[0].suffix == ".csv"
    piped = list(expand_paths(["-"], stdin=io.BytesIO(pack.compress(b"Some words.\n"))))
    assert list(texts(piped).values()) == ["Some words.\n"]


def test_a_tar_is_known_by_its_content_whatever_it_is_called(tmp_path: Path) -> None:
    found, _ = expanded(tmp_path / "backup.gz", PACKED["a.tar.gz"])
    assert [one.name.rpartition("!/")[2] for one in found if isinstance(one, Source)] == [
        "notes/one.txt",
        "two.md",
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "content",
    [
        b"\x1f\x8b nothing",
        gzip.compress(b"text " * 999, mtime=0)[:-40],  # a time would be in the test's name
        gzip.compress(b"text", mtime=0) + b"more",
    ],
)
def test_a_compressed_file_that_is_broken_is_one_error(content: bytes, tmp_path: Path) -> None:
    (error,), _ = expanded(tmp_path / "a.txt.gz", content)
    assert isinstance(error, UnreadableDocument) and "a.txt.gz!/a.txt" in str(error)


def test_a_compressed_file_unpacks_to_no_more_than_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHARACTERS", 1 << 16)
    (error,), _ = expanded(tmp_path / "a.txt.gz", gzip.compress(b"words " * (1 << 18)))
    assert "unpacks to far more than an archive of its size should" in str(error)


def test_an_archive_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(PACKED["a.zip"])
    with pytest.raises(UnsupportedFormat, match="is an archive, not a document"):
        open_document(Source.from_path(tmp_path / "a.zip"))


def links() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, kind in (
            ("link.txt", tarfile.SYMTYPE),
            ("hard.txt", tarfile.LNKTYPE),
            ("device.txt", tarfile.CHRTYPE),
            ("pipe.txt", tarfile.FIFOTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
        archive.addfile(tarfile.TarInfo("folder.txt/"))  # as old programs wrote folders
    return data.getvalue()


def zip_link() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        link = zipfile.ZipInfo("link.txt")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return data.getvalue()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "content", "reasons"),
    [
        ("a.tar", links(), ["a link or device"] * 4),
        ("a.zip", zip_link(), ["a link"]),
        (
            "a.zip",
            make_zip(dict.fromkeys(["../a", "/etc/x.txt", "a\\..\\..\\x.txt", "C:\\x"], "")),
            ["its path leads out of the archive"] * 4,
        ),
        ("a.tar", make_tar({"../out.txt": "x"}), ["its path leads out of the archive"]),
    ],
    ids=["links", "zip link", "zip paths", "tar path"],
)
def test_what_leads_out_is_passed_over(
    name: str, content: bytes, reasons: list[str], tmp_path: Path
) -> None:
    found, expansion = expanded(tmp_path / name, content)
    assert [one for one in found if isinstance(one, Source) and "passwd" in one.name] == []
    assert found == []
    said = [one.rpartition("(")[2].rstrip(")") for one in expansion.notes.skipped]
    assert said == reasons
    assert sorted(path.name for path in tmp_path.rglob("*")) == [name]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_name_that_occurs_twice_is_read_once_and_told(kind: str, tmp_path: Path) -> None:
    data = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=data, mode="w") as tar:
            for content in (b"first", b"second"):
                entry = tarfile.TarInfo("a.txt")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    else:
        with zipfile.ZipFile(data, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
            for text in ("first", "second"):
                archive.writestr(zipfile.ZipInfo("a.txt"), text)
    found, expansion = expanded(tmp_path / f"a.{kind}", data.getvalue())
    assert list(texts(found).values()) == ["first"]
    assert "a.txt (its name occurs twice)" in expansion.notes.skipped[0]


def test_a_document_of_two_parts_with_one_name_is_refused(tmp_path: Path) -> None:
    data = io.BytesIO(make_docx(paragraph("The first text.")))
    with zipfile.ZipFile(data, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("word/document.xml", "<w/>")
    (tmp_path / "a.docx").write_bytes(data.getvalue())
    with pytest.raises(UnreadableDocument, match="it holds two parts called word/document.xml"):
        open_document(Source.from_path(tmp_path / "a.docx"), isolate=False)


@pytest.mark.thorough
def test_archives_in_archives(tmp_path: Path) -> None:
    inner = make_zip({"deep.txt": "deep"})
    middle = make_tar({"inner.zip": inner, "middle.txt": "middle"})
    found, expansion = expanded(tmp_path / "a.zip", make_zip({"middle.tar": middle}))
    place = f"{tmp_path}/a.zip!/middle.tar!"
    assert texts(found) == {f"{place}/inner.zip!/deep.txt": "deep", f"{place}/middle.txt": "middle"}
    found, expansion = expanded(
        tmp_path / "a.zip", make_zip({"1.zip": make_zip({"2.zip": make_zip({"3.zip": inner})})})
    )
    assert found == []
    assert "an archive in an archive in an archive" in expansion.notes.skipped[0]


@pytest.mark.thorough
def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = make_zip({"a.txt": b"\0" * 24_000_000, "b.txt": "after"})
    found, _ = expanded(tmp_path / "a.zip", bomb)
    assert isinstance(found[0], UnreadableDocument) and "unpacks to far too much" in str(found[0])
    assert [one.file_name for one in found[1:] if isinstance(one, Source)] == ["b.txt"]
    monkeypatch.setattr(limits, "CHARACTERS", 100_000)
    monkeypatch.setattr(limits, "CHARACTERS_PER_BYTE", 0)
    many = make_tar({f"{n}.txt": b"word " * 10_000 for n in range(6)})
    found, _ = expanded(tmp_path / "a.tar", many)
    assert [type(one) for one in found] == [Source, Source, UnreadableDocument]
    assert "unpacks to far more than" in str(found[2])


def pages(count: int) -> dict[str, str]:
    return {f"{n}.html": "<p>" + "word " * 1000 for n in range(count)}


def read_all(found: list[Source | DocumentError]) -> list[str]:
    """What each source or error comes to: the start of its text or sentence."""
    endings = []
    for one in found:
        if not isinstance(one, Source):
            endings.append(str(one))
            continue
        try:
            endings.append(joined(list(open_document(one).blocks))[:4])
        except DocumentError as error:
            endings.append(str(error))
    return endings


@pytest.mark.thorough
def test_an_archive_has_one_budget_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEMBERS", 5)
    inner = make_zip({f"{n}.txt": f"text {n}" for n in range(3)})
    content = make_zip({"1.zip": inner, "2.zip": inner, "3.zip": inner})
    found, _ = expanded(tmp_path / "a.zip", content)
    *documents, error = found
    assert [one.file_name for one in documents if isinstance(one, Source)] == [
        "0.txt",
        "1.txt",
        "2.txt",
    ]
    assert str(error).startswith(f"{tmp_path}/a.zip holds more than 5 files; its other files")


@pytest.mark.thorough
def test_an_archive_has_one_budget_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHARACTERS", 15_000)
    monkeypatch.setattr(limits, "CHARACTERS_PER_BYTE", 0)
    (tmp_path / "a.zip").write_bytes(make_zip(pages(2)))
    for source in (found := expand_paths([str(tmp_path / "a.zip")])):
        # Each is read twice, as reading into a library does, but is one text.
        assert read_all([source, source]) == ["word", "word"]
    assert found.notes.skipped == ()
    monkeypatch.setattr(limits, "CHARACTERS", 10_200)
    (tmp_path / "b.zip").write_bytes(make_zip(pages(5)))
    endings = [read_all([one])[0] for one in expand_paths([str(tmp_path / "b.zip")])]
    assert endings[:2] == ["word"] * 2 and len(endings) == 3
    assert "unpacks to far more" in endings[2]


def test_an_archive_has_one_budget_of_computing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_CPU_SECONDS", 0)
    monkeypatch.setattr(limits, "CPU_SECONDS_PER_MEGABYTE", 0)
    found, _ = expanded(tmp_path / "a.zip", make_zip(pages(3)))
    (ending,) = read_all(found)
    assert "takes more than 0 s of computing; its other files are not read" in ending


def test_a_budget_counts_what_is_spent() -> None:
    budget = limits.Budget("a.zip", 1)
    allowed = budget.limits(limits.Limits.for_size(1))
    assert allowed == limits.Limits.for_size(1)
    budget.spend("a", cpu_seconds=600.5, characters=limits.CHARACTERS)
    budget.spend("a", characters=limits.CHARACTERS)  # the same document again
    left = budget.limits(limits.Limits.for_size(1))
    assert (left.cpu_seconds, left.characters) == (10, limits.CHARACTERS_PER_BYTE)
    budget.spend("b", characters=51)
    with pytest.raises(UnreadableDocument, match="a.zip holds far more text than"):
        budget.check()
    budget = limits.Budget("a.zip", 1)
    budget.spend("a", cpu_seconds=610)
    with pytest.raises(UnreadableDocument, match="takes more than 610 s of computing"):
        budget.limits(limits.Limits())


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_broken_archives_are_one_error(name: str, tmp_path: Path) -> None:
    content = {"a.zip": b"PK\x03\x04 nothing", "a.tar.gz": b"\x1f\x8b nothing"}.get(name, b"text")
    (error,), _ = expanded(tmp_path / name, content)
    assert isinstance(error, UnreadableDocument)
    assert "is not a whole" in str(error) and str(error).isprintable()


def test_a_broken_member_stops_no_other(tmp_path: Path) -> None:
    good = make_zip({"a.txt": "text of a " * 50, "b.txt": "text of b"})
    at = good.index(b"a.txt") + 10
    found, _ = expanded(tmp_path / "a.zip", good[:at] + b"\xff\xff\xff" + good[at + 3 :])
    assert isinstance(found[0], UnreadableDocument) and "a.zip!/a.txt" in str(found[0])
    assert texts(found[1:]) == {f"{tmp_path}/a.zip!/b.txt": "text of b"}


def test_an_encrypted_member_is_passed_over(tmp_path: Path) -> None:
    content = bytearray(make_zip({"a.txt": "secret", "b.txt": "open"}))
    for mark, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + flag] |= 1
    found, expansion = expanded(tmp_path / "a.zip", bytes(content))
    assert list(texts(found).values()) == ["open"]
    assert "protected by a password" in expansion.notes.skipped[0]


@pytest.mark.thorough
def test_a_document_that_is_a_zip_file_is_no_archive(tmp_path: Path) -> None:
    from tests.engine.documents.samples import DOCXS, EPUBS

    for number, content in enumerate((DOCXS["contract.docx"], EPUBS["novel.epub"])):
        (tmp_path / f"file{number}").write_bytes(content)
    found = list(expand_paths([str(tmp_path)]))
    assert [one.name.rpartition("/")[2] for one in found if isinstance(one, Source)] == [
        "file0",
        "file1",
    ]
    titles = [open_document(one).title for one in found if isinstance(one, Source)]
    assert titles == ["Agreement of Service", "The Winter"]


def test_other_files_that_are_zip_files_are_not_unpacked(tmp_path: Path) -> None:
    slides = make_zip({"[Content_Types].xml": "<Types/>", "Index/Slide.iwa": "1"})
    (tmp_path / "talk.key").write_bytes(slides)
    (tmp_path / "program.jar").write_bytes(make_zip({"a.txt": "x"}))
    (tmp_path / "talk").write_bytes(slides)
    expansion = expand_paths([str(tmp_path)])
    assert (list(expansion), expansion.skipped) == ([], 3)
    with pytest.raises(UnsupportedFormat, match="of a format that drt does not read"):
        open_document(Source.from_path(tmp_path / "talk.key"))
