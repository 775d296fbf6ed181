"""Numbers that no library writes, under right checksums: import, check and repair see them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from drt_engine.documents.anchors import expect_origins
from drt_engine.errors import CorruptStore, EngineError, StoreError
from drt_engine.store import RecordLayout, Store
from drt_engine.store.catalogue.row_checksums import pack_text
from drt_engine.store.catalogue.row_values import update_document_checksum, update_segment_checksum
from drt_engine.store.segments.format import parse_header, write_header_and_checksums
from drt_engine.store.segments.records import landmarks_crc
from tests.engine.store.helpers import (
    BF16,
    FINGERPRINT,
    INT8,
    add_document,
    make_batch,
    make_texts,
    open_store,
    segment_files,
    text_id,
)
from tests.engine.store.test_archive import Frame, frames_of, write
from tests.sampling import sampled

NAN, INFINITE, LARGE = 0x7E00, 0xFC00, 0x4B00
VOCABULARY = 30_000
# section, struct format, index of the number in the chunk, value
FAULTS: dict[str, tuple[RecordLayout, str, str, int, int]] = {
    "NaN landmark": (INT8, "landmarks", "H", 3, NAN),
    "infinite landmark": (INT8, "landmarks", "H", 0, INFINITE),
    "NaN scale": (INT8, "key_scales", "H", 1, NAN),
    "infinite scale": (INT8, "value_scales", "H", 0, INFINITE),
    "NaN key": (BF16, "keys", "H", 5, 0x7FC0),
    "infinite value": (BF16, "values", "H", 5, 0xFF80),
    "large value": (BF16, "values", "H", 5, LARGE),
    "int8 of -128": (INT8, "keys", "b", 7, -128),
    "token id above all": (INT8, "ids", "i", 2, VOCABULARY),
    "token id below zero": (INT8, "ids", "i", 0, -1),
    "start beyond its end": (INT8, "starts", "i", 1, 4),
    "start below zero": (INT8, "starts", "i", 1, -1),
    "end beyond the text": (INT8, "ends", "i", 1, 100),
    "key of no token": (INT8, "keys", "b", -1, 1),
    "id of no token": (INT8, "ids", "i", -1, 1),
    "length": (INT8, "lengths", "i", 0, 5),
}
LENGTHS = [4, 4, 3]
PIECES = ["one ", "two ", "three "]


def fill(store: Store, layout: RecordLayout) -> None:
    with store.begin_document(
        document_id=text_id(PIECES), title="T", source="/a", media_type="text/plain"
    ) as writer:
        writer.append(make_batch(layout, LENGTHS), make_texts(PIECES))
        writer.finish(places=[(0, None, None)])


def open_with_vocabulary(path: Path, layout: RecordLayout) -> Store:
    return Store.open(
        path, fingerprint=FINGERPRINT, layout=layout, vocabulary=VOCABULARY, create=True
    )


def poison(data: bytes, name: str) -> bytes:
    """A segment file with one number changed in its last chunk, and checksums to match."""
    _, section_name, kind, index, value = FAULTS[name]
    header = parse_header(data[:128], file_size=len(data), where="x")
    begin, end = header.sections[section_name].span(2)
    out = bytearray(data)
    size = struct.calcsize(kind)
    at = begin + index * size if index >= 0 else end + index * size
    struct.pack_into(f"<{kind}", out, at, value)
    write_header_and_checksums(out, header)
    return bytes(out)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", sampled(FAULTS, range(0, len(FAULTS), 2)))
def test_an_archive_is_refused(library: Path, tmp_path: Path, name: str) -> None:
    with open_with_vocabulary(tmp_path / "theirs", FAULTS[name][0]) as store:
        fill(store, FAULTS[name][0])
        assert store.check() == []
        store.export_archive(tmp_path / "theirs.drtlib")
    frames = frames_of(tmp_path / "theirs.drtlib")
    bad = [(kind, poison(data, name) if kind == b"RECS" else data) for kind, data in frames]
    write(tmp_path / "bad.drtlib", bad)
    with Store.open(library, create=True) as store:
        with pytest.raises(CorruptStore, match="is damaged"):
            store.import_archive(tmp_path / "bad.drtlib")
        assert store.documents() == [] == store.partial_documents() and store.check() == []
        assert len(store.import_archive(tmp_path / "theirs.drtlib")) == 1
        assert store.vocabulary == VOCABULARY and store.check() == []


@pytest.mark.parametrize("name", sampled(FAULTS, range(1, len(FAULTS), 2)))
def test_a_library_is_reported_and_needs_reading_again(library: Path, name: str) -> None:
    layout = FAULTS[name][0]
    with open_with_vocabulary(library, layout) as store:
        fill(store, layout)
        whole = store.check()
        [segment] = segment_files(library)
        data = segment.read_bytes()
        bad = bytearray(poison(data, name))
        segment.write_bytes(bad)
        header = parse_header(bytes(bad[:128]), file_size=len(bad), where="x")
        with store._database.transaction() as connection:
            crc = landmarks_crc(bad, header)
            connection.execute("UPDATE segments SET landmarks_crc = ?", (crc,))
            update_segment_checksum(connection, 1)
        findings = store.check()
        assert {finding.kind for finding in findings} - {"lengths"} == {"numbers"}
        assert [row.name for row in store.repair(findings)] == [segment.name]
        if name == "token id above all":
            with pytest.raises(CorruptStore, match="token id 30000, expected less than 30000"):
                store.read_tokens(store.chunk_ids())
        store.remove_document(store.documents()[0].id)
        assert store.check() == [] == whole


def test_a_library_learns_its_vocabulary_from_the_next_reading(library: Path) -> None:
    with open_store(library) as store:
        fill(store, INT8)
        assert store.vocabulary is None
    with open_with_vocabulary(library, INT8) as store:
        assert store.get_setting("vocabulary") is None
        add_document(store, 2, ["more "])
    with Store.open(library) as store:
        assert store.vocabulary == VOCABULARY
        store.set_setting("vocabulary", "many")
        assert {finding.kind for finding in store.check()} == {"catalog"}
        store.set_setting("vocabulary", str(VOCABULARY))
        assert store.check() == []


def test_a_model_whose_numbers_are_too_large_is_refused(library: Path) -> None:
    batch = make_batch(BF16, LENGTHS)
    batch.values[0, 0, 0, 0] = 2.0**23
    with open_store(library, BF16) as store:
        with (
            store.begin_document(
                document_id=text_id(PIECES), title="T", source="/", media_type=""
            ) as writer,
            pytest.raises(StoreError, match="too large"),
        ):
            writer.append(batch, make_texts(PIECES))
        assert {finding.severity for finding in store.check()} == {"note"}


MAPS = {
    "no JSON": "[[",
    "nothing": "[]",
    "an object": "{}",
    "deep": "[" * 100_000,
    "short rows": "[[0,1]]",
    "texts": '[[0,"1",null,null]]',
    "fractions": "[[0,0.5,null,null]]",
    "truths": "[[0,true,null,null]]",
    "out of order": "[[0,1,null,null],[0,1,null,null]]",
    "before the text": "[[-1,1,null,null]]",
    "beyond the text": "[[0,1,null,null],[90,1,null,null]]",
    "elsewhere": "[[3,1,null,null]]",
    "lines below zero": "[[0,-1,null,null]]",
    "ends before it begins": "[[0,1,5,-2]]",
    "too many": json.dumps([[0 if not i else 1, 1, None, None] for i in range(257)]),
}


@pytest.fixture
def with_map(tmp_path: Path) -> Path:
    """An archive of a document with a map to its file."""
    with open_store(tmp_path / "theirs") as store:
        with store.begin_document(
            document_id=text_id(PIECES), title="T", source="/a", media_type="text/plain"
        ) as writer:
            writer.append(make_batch(INT8, LENGTHS), make_texts(PIECES))
            writer.finish(places=[(0, None, None)], origins=[(0, "[[0,1,0,null],[4,0,4,2]]")])
        assert store.check() == []
        store.export_archive(tmp_path / "theirs.drtlib")
    return tmp_path / "theirs.drtlib"


@pytest.mark.few(5)
@pytest.mark.parametrize("name", MAPS)
def test_a_map_to_the_file_is_verified(
    library: Path, tmp_path: Path, with_map: Path, name: str
) -> None:
    anchors = MAPS[name].encode()
    origin = (b"ORIG", struct.pack("<QI", 0, len(anchors)) + anchors)
    frames = [origin if kind == b"ORIG" else (kind, data) for kind, data in frames_of(with_map)]
    write(tmp_path / "bad.drtlib", frames)
    with open_store(library) as store:
        with pytest.raises(CorruptStore, match="map from a document to its file is wrong"):
            store.import_archive(tmp_path / "bad.drtlib")
        assert store.documents() == []
        [row] = store.import_archive(with_map)
        with store._database.transaction() as connection:
            connection.execute("UPDATE origins SET anchors = ?", (pack_text(MAPS[name]),))
            update_document_checksum(connection, 1)
        [finding] = store.check()
        assert (finding.kind, finding.where) == ("origins", row.id)
        store.repair([finding])
        assert store.check() == [] and store.origins(row.id) == []


def test_two_groups_of_anchors_follow_each_other() -> None:
    expect_origins([(0, "[[0,1,0,null]]"), (5, "[[5,1,0,null]]")], 6)
    for groups in (
        [(5, "[[5,1,0,null]]"), (5, "[[5,1,0,null]]")],
        [(0, "[[0,1,0,null],[5,1,0,null]]"), (4, "[[4,1,0,null]]")],
    ):
        with pytest.raises(ValueError, match="not in their place"):
            expect_origins(groups, 9)


def document(**values: object) -> Frame:
    row = {
        "id": text_id(["x "]), "title": "T", "source": "/a", "media_type": "", "characters": 2,
        "tokens": 4, "chunks": 1, "created": "2000",
    }  # fmt: skip
    return b"DOCU", json.dumps(row | values).encode()


def session(**values: object) -> Frame:
    row = {"name": "s", "transcript": [], "meta": {}, "created": "", "updated": ""}
    return b"SESS", json.dumps(row | values).encode()


LONE = "a\udc80"
STATE = (b"STAT", b"")
TEXTS: dict[str, list[Frame]] = {
    **{f"document's {key}": [document(**{key: LONE}), (b"PLAC", b"")] for key in
       ("id", "title", "source", "media_type", "created")},
    **{f"session's {key}": [session(**{key: LONE}), STATE] for key in
       ("name", "created", "updated")},
    "NaN in a session": [session(meta={"x": float("nan")}), STATE],
    "infinity in a session": [(b"SESS", session()[1].replace(b'"meta": {}', b'"meta": {"x": 1e999}'
                                                             )), STATE],
    "unprintable name": [session(name="a\nb"), STATE],
    "session of a list": [(b"SESS", b"[1]"), STATE],
}  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("name", TEXTS)
def test_what_could_not_be_stored_is_refused_before_anything_is(
    library: Path, tmp_path: Path, with_map: Path, name: str
) -> None:
    frames = frames_of(with_map)
    if TEXTS[name][0][0] == b"SESS":
        frames = frames + TEXTS[name]
    else:
        frames = [frames[0], *TEXTS[name], *frames[3:]]
    write(tmp_path / "bad.drtlib", frames)
    with Store.open(library, create=True) as store:
        with pytest.raises(EngineError) as raised:
            store.import_archive(tmp_path / "bad.drtlib")
        str(raised.value).encode()
        assert store.documents() == [] == store.sessions() and store.check() == []


@pytest.mark.parametrize("key", ["fingerprint", "model"])
def test_lone_surrogates_in_what_the_archive_says_of_itself(
    library: Path, tmp_path: Path, with_map: Path, key: str
) -> None:
    frames = frames_of(with_map)
    about = json.loads(frames[0][1]) | {key: LONE}
    write(tmp_path / "bad.drtlib", [(b"LIBR", json.dumps(about).encode()), *frames[1:]])
    with Store.open(library, create=True) as store:
        with pytest.raises(CorruptStore, match="is damaged"):
            store.import_archive(tmp_path / "bad.drtlib")
        assert store.fingerprint is None and store.check() == []
