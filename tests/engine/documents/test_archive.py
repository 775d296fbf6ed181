"""Archives: each member a document of its own, and nothing that a hostile archive asks for."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from drt_engine.documents import PathExpansion, Source, expand_paths, open_document
from drt_engine.documents import paths as paths_module
from drt_engine.errors import DocumentError, UnreadableDocument, UnsupportedFormat
from tests.engine.documents.helpers import joined
from tests.engine.documents.makers import make_tar, make_zip

MEMBERS = {
    "notes/one.txt": "The first note.\n",
    "two.md": "# Two\n\nText.\n",
    "image.png": b"\x89PNG\r\n\x1a\n\0\0",
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
    assert (expansion.skipped, expansion.notes.skipped) == (1, ())


def test_the_temporary_file_of_a_member_goes_with_its_source(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(PACKED["a.zip"])
    expansion = expand_paths([str(path)])
    member = next(expansion)
    assert isinstance(member, Source) and member.file.exists()
    assert member.file.stat().st_mode & 0o077 == 0
    held = member.file
    member.close()
    assert not held.exists()


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


def test_a_name_that_occurs_twice_is_read_once(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for content in (b"first", b"second"):
            entry = tarfile.TarInfo("a.txt")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    found, expansion = expanded(tmp_path / "a.tar", data.getvalue())
    assert list(texts(found).values()) == ["first"]
    assert "its name occurs twice" in expansion.notes.skipped[0]


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


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = make_zip({"a.txt": b"\0" * 24_000_000, "b.txt": "after"})
    found, _ = expanded(tmp_path / "a.zip", bomb)
    assert isinstance(found[0], UnreadableDocument) and "unpacks to far too much" in str(found[0])
    assert [one.file_name for one in found[1:] if isinstance(one, Source)] == ["b.txt"]
    monkeypatch.setattr(paths_module, "_UNPACKED", 100_000)
    monkeypatch.setattr(paths_module, "_UNPACKED_RATIO", 0)
    many = make_tar({f"{n}.txt": b"word " * 10_000 for n in range(6)})
    found, _ = expanded(tmp_path / "a.tar", many)
    assert [type(one) for one in found] == [Source, Source, UnreadableDocument]
    assert "far more than the archive's size" in str(found[2])


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
    sheet = make_zip({"[Content_Types].xml": "<Types/>", "xl/sheet1.xml": "<a>1</a>"})
    (tmp_path / "table.xlsx").write_bytes(sheet)
    (tmp_path / "program.jar").write_bytes(make_zip({"a.txt": "x"}))
    (tmp_path / "sheet").write_bytes(sheet)
    expansion = expand_paths([str(tmp_path)])
    assert (list(expansion), expansion.skipped) == ([], 3)
    with pytest.raises(UnsupportedFormat, match="of a format that drt does not read"):
        open_document(Source.from_path(tmp_path / "table.xlsx"))
