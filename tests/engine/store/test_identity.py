"""A document's id is the hash of its text: nothing can stand in for what the user read."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from drt_engine.errors import CorruptStore, StoreError
from drt_engine.store import Store
from drt_engine.store.catalogue.row_checksums import pack_text
from drt_engine.store.catalogue.row_values import update_document_checksum, update_segment_checksum
from drt_engine.store.identity import TextHash
from drt_engine.store.segments.format import SegmentHeader, parse_header, write_header_and_checksums
from tests.engine.store.helpers import (
    INT8,
    add_document,
    make_batch,
    make_texts,
    open_store,
    text_id,
)
from tests.engine.store.operations import held
from tests.engine.store.test_archive import Frame, frames_of, write

TRUE, FALSE = "The notice is sixty days. ", "The notice is three days. "


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Of a document that says something else than its id, all checksums being right."""
    with open_store(tmp_path / "theirs") as store:
        add_document(store, 1, [TRUE], source="/contract.txt")
        store.export_archive(tmp_path / "whole.drtlib")
    frames = [changed(frame) for frame in frames_of(tmp_path / "whole.drtlib")]
    return write(tmp_path / "forged.drtlib", frames)


def changed(frame: Frame) -> Frame:
    kind, payload = frame
    return kind, payload.replace(TRUE.encode(), FALSE.encode())


def renamed(frame: Frame, old: str, new: str) -> Frame:
    """A part of a document under another id."""
    kind, payload = frame
    if kind == b"DOCU":
        return kind, payload.replace(old.encode(), new.encode())
    if kind != b"RECS":
        return frame
    data = bytearray(payload)
    header = parse_header(payload, file_size=len(payload), where="x")
    write_header_and_checksums(
        data, SegmentHeader(header.layout, new, header.first_ordinal, header.chunks)
    )
    return kind, bytes(data)


def test_an_archive_whose_text_is_another_is_refused(library: Path, archive: Path) -> None:
    with Store.open(library, create=True) as store:
        with pytest.raises(CorruptStore, match=f"the text of document {text_id([TRUE])} has the"):
            store.import_archive(archive)
        assert store.documents() == [] == store.partial_documents()
        assert store.check() == []


def test_of_an_archive_that_ends_with_the_forged_document(library: Path, archive: Path) -> None:
    kinds = [kind for kind, _ in frames_of(archive)]
    assert kinds[-1] == b"RECS"  # no frame after it says that the document is complete
    frames = frames_of(archive)
    row = json.loads(frames[1][1])
    for name in ("characters", "tokens"):
        wrong = (b"DOCU", json.dumps(row | {name: row[name] + 1}).encode())
        write(archive, [frames[0], wrong, *frames[2:]])
        with Store.open(library, create=True) as store:
            with pytest.raises(CorruptStore, match="not complete"):
                store.import_archive(archive)
            assert store.check() == []


@pytest.mark.parametrize("what", ["document", "source", "session"])
def test_nothing_comes_twice_in_an_archive(
    library: Path, archive: Path, tmp_path: Path, what: str
) -> None:
    about, *document = frames_of(tmp_path / "whole.drtlib")
    session = {"name": "s", "transcript": [], "meta": {}, "created": "", "updated": ""}
    said = [(b"SESS", json.dumps(session).encode()), (b"STAT", b"")]
    other_text = [changed(frame) for frame in document]
    other = [renamed(frame, text_id([TRUE]), text_id([FALSE])) for frame in other_text]
    twice = {"document": document * 2, "source": document + other, "session": said * 2}
    write(archive, [about, *twice[what]])
    with Store.open(library, create=True) as store:
        with pytest.raises(CorruptStore, match=f"the {what} .* comes twice"):
            store.import_archive(archive)
        assert store.documents() == [] == store.sessions()
        assert store.check() == []


def replace_text(store: Store, text: str) -> None:
    """Another text of the same length in a library's only chunk, all checksums being right."""
    with store._database.transaction() as connection:
        connection.execute("UPDATE chunks SET text = ?", (pack_text(text),))
        connection.execute("INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')")
        update_segment_checksum(connection, 1)
        update_document_checksum(connection, 1)


def test_a_library_whose_text_is_another_is_found(library: Path) -> None:
    with open_store(library) as store:
        row = add_document(store, 1, [TRUE])
        assert store.text_digest(row.id).startswith(row.id)
        replace_text(store, FALSE)
        [finding] = store.check()
        assert (finding.kind, finding.where, finding.severity) == ("identity", row.id, "error")
        assert store.repair(store.check()) == []
        assert [one.kind for one in store.check()] == ["identity"]  # no repair can make it true
        store.remove_document(row.id)
        assert store.check() == []


def test_full_digests_are_compared(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two texts of one id: 64 bits are few enough to be made to collide."""
    monkeypatch.setattr(TextHash, "document_id", "0123456789abcdef")
    for name, text in (("mine", TRUE), ("theirs", FALSE)):
        with open_store(tmp_path / name) as store:
            with store.begin_document(
                document_id="0123456789abcdef", title="T", source="/a", media_type="text/plain"
            ) as writer:
                writer.append(make_batch(INT8, [4]), make_texts([text]))
                writer.finish(places=[])
            store.export_archive(tmp_path / f"{name}.drtlib")
    with open_store(tmp_path / "mine") as store:
        with pytest.raises(StoreError, match="holds another text with the id 0123456789abcdef"):
            store.import_archive(tmp_path / "theirs.drtlib")
        assert store.import_archive(tmp_path / "mine.drtlib") == []
        assert "".join(store.iter_text("0123456789abcdef")) == TRUE
        assert store.check() == []


def test_a_document_is_finished_with_its_own_text_alone(store: Store) -> None:
    id = text_id([TRUE, FALSE])
    with store.begin_document(document_id=id, title="T", source="/a", media_type="") as writer:
        writer.append(make_batch(INT8, [4]), make_texts([FALSE]))
    with (
        store.begin_document(document_id=id, title="T", source="/a", media_type="") as writer,
        pytest.raises(CorruptStore, match="read the document again"),
    ):
        assert writer.committed_chunks == 1
        writer.append(make_batch(INT8, [4]), make_texts([FALSE], start=len(FALSE)))
        writer.finish(places=[])
    assert store.partial_documents() == [] == store.documents()
    with store.begin_document(document_id=id, title="T", source="/a", media_type="") as writer:
        writer.append(make_batch(INT8, [4] * 2), make_texts([TRUE, FALSE]))
        writer.finish(places=[])
    assert store.check() == []


def test_a_damaged_interrupted_reading_begins_anew(store: Store) -> None:
    id = text_id([TRUE, FALSE])
    with store.begin_document(document_id=id, title="T", source="/a", media_type="") as writer:
        writer.append(make_batch(INT8, [4]), make_texts([TRUE]))
    with store._database.transaction() as connection:
        connection.execute("UPDATE chunks SET text = ?", (zlib.compress(TRUE.encode())[:-1],))
    with store.begin_document(document_id=id, title="T", source="/a", media_type="") as writer:
        assert writer.committed_chunks == 0
        writer.append(make_batch(INT8, [4] * 2), make_texts([TRUE, FALSE]))
        writer.finish(places=[])
    assert len(held(store)) and store.check() == []
