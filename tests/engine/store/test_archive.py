"""Export and import: one deterministic file, verified as a whole, and hostile ones refused."""

from __future__ import annotations

import json
import os
import random
import struct
import zlib
from pathlib import Path

import pytest

from drt_engine.errors import (
    CorruptStore,
    EngineError,
    FingerprintMismatch,
    SessionError,
    StoreError,
)
from drt_engine.store import Store
from drt_engine.store.catalogue.row_values import update_document_checksum
from drt_engine.store.transfer.archive_format import MAGIC, Frames
from tests.engine.store.helpers import (
    BF16,
    INT8,
    add_document,
    document_id,
    errors,
    make_batch,
    make_texts,
    open_store,
    text_id,
)
from tests.engine.store.operations import TURN, held, make_base

Frame = tuple[bytes, bytes]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    with open_store(make_base(tmp_path)) as store:
        store.export_archive(tmp_path / "one.drtlib")
    return tmp_path / "one.drtlib"


def frames_of(path: Path) -> list[Frame]:
    with path.open("rb") as file:
        return list(Frames().read(file, path.name))


def write(path: Path, frames: list[Frame], *, version: int = 3) -> Path:
    """An archive that is sealed correctly, whatever its frames hold."""
    writer = Frames()
    data = bytearray(writer.start(version))
    for kind, payload in frames:
        data += b"".join(writer.packed(kind, payload))
    digest = writer.digest()
    path.write_bytes(bytes(data) + b"".join(writer.packed(b"DONE", digest)))
    return path


def test_an_archive_gives_the_library_again(library: Path, archive: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "base.library") as base, Store.open(library, create=True) as store:
        new = store.import_archive(archive)
        assert (
            [row.id for row in new]
            == [row.id for row in base.documents()]
            == [row.id for row in store.documents()]
        )
        assert store.load_session("talk") == base.load_session("talk")
        assert (store.fingerprint, store.layout) == (base.fingerprint, base.layout)
        assert held(store) == archive.read_bytes()
        assert store.import_archive(archive) == []
        assert store.check() == []


def test_the_bytes_depend_on_the_contents_alone(library: Path, tmp_path: Path) -> None:
    archives = []
    for number, per_segment in enumerate((1, 4)):
        with open_store(tmp_path / str(number)) as store:
            for document in (1, 2):
                pieces = [f"text {document} {i} é😀 " for i in range(4)]
                layout_seeded(store, document, pieces, per_segment)
            store._database._open().execute("UPDATE documents SET created = '2000'")
            for row in store._database.query("SELECT number FROM documents"):
                with store._database.transaction() as connection:
                    update_document_checksum(connection, row[0])
            archives.append(held(store))
            assert store.check() == []
    assert archives[0] == archives[1]


def layout_seeded(store: Store, number: int, pieces: list[str], per_segment: int) -> None:
    """A document whose numbers do not depend on how it was cut into segments."""
    with store.begin_document(
        document_id=text_id(pieces), title="T", source=f"/{number}", media_type="text/plain"
    ) as writer:
        batch = make_batch(INT8, [4] * len(pieces), seed=number)
        texts = make_texts(pieces)
        for at in range(0, len(pieces), per_segment):
            part = slice(at, at + per_segment)
            piece = type(batch)(**{k: v[part] for k, v in vars(batch).items()})
            writer.append(piece, texts[part])
        writer.finish(places=[(0, 1, None), (5, 2, "Part > Two")])


def test_an_older_archive_stays_until_the_new_one_is_whole(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "kept.drtlib"
    target.write_bytes(b"older")
    add_document(store, 1, ["text "])
    segment = next((store.path / "segments").iterdir())
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptStore, match="damaged"):
        store.export_archive(target)
    assert target.read_bytes() == b"older" and list(tmp_path.glob(".*")) == []
    segment.write_bytes(whole)
    store._memory.close()
    store.export_archive(target)
    assert target.read_bytes()[:8] == MAGIC and target.stat().st_mode & 0o777 == 0o600


def test_what_does_not_fit_is_refused(library: Path, archive: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "bf16", BF16) as store:
        with pytest.raises(FingerprintMismatch, match="chunk memory as .*bf16"):
            store.import_archive(archive)
        assert store.documents() == [] and errors(store) == []
    with open_store(library) as store:
        add_document(store, 5, ["text "], source="/a")
        with pytest.raises(StoreError, match="another text of /a"):
            store.import_archive(archive)
        store.remove_document(document_id(5))
        store.save_session("talk", transcript=[], meta={}, state=b"")
        with pytest.raises(SessionError, match="another session 'talk'"):
            store.import_archive(archive)
        assert store.documents() == [] and errors(store) == []
    with Store.open(tmp_path / "x", fingerprint="y", layout=BF16, create=True) as store:
        with pytest.raises(FingerprintMismatch, match="import it into another library"):
            store.import_archive(archive)
        with pytest.raises(StoreError, match="cannot read the archive"):
            store.import_archive(tmp_path / "none")


def hostile(frames: list[Frame]) -> dict[str, list[Frame]]:
    """Archives whose every checksum is right, and which must be refused all the same."""
    about, document, places, _, _, texts, records = frames[:7]
    row = json.loads(document[1])

    def changed(**values: object) -> Frame:
        return b"DOCU", json.dumps(row | values).encode()

    def layout(**values: object) -> Frame:
        parts = json.loads(about[1])
        parts["layout"] |= values
        return b"LIBR", json.dumps(parts).encode()

    long_text = struct.pack("<QIqII", 0, 4, 0, 0xFFFFFFFF, 0xFFFFFFF0)
    rest = frames[7:]
    return {
        "nothing": [],
        "no library": frames[1:],
        "traversal": [about, changed(id="../../../../etc/x"), *frames[2:]],
        "null in a text": [
            about,
            document,
            places,
            (b"TEXT", texts[1][:-1] + b"\0"),
            records,
            *rest,
        ],
        "endless text": [about, document, places, (b"TEXT", long_text), records, *rest],
        "endless count": [about, changed(chunks=1 << 60), *frames[2:]],
        "negative count": [about, changed(characters=-1), *frames[2:]],
        "extra field": [about, changed(more=1), *frames[2:]],
        "huge layout": [layout(chunk_tokens=65_536, head_size=65_536), *frames[1:]],
        "no layout": [layout(chunk_tokens=0), *frames[1:]],
        "deep JSON": [(b"LIBR", b"[" * 60_000), *frames[1:]],
        "not JSON": [(b"LIBR", b"\xff"), *frames[1:]],
        "half a document": [about, document, places, *rest],
        "records first": [about, document, places, records, texts, *rest],
        "records of another": [about, document, places, texts, (b"RECS", bytes(len(records[1])))],
        "a session of numbers": [about, (b"SESS", b'{"name": 1}'), (b"STAT", b"")],
        "a session without state": [*frames[:-1]],
        "a broken session": [about, (b"SESS", b"[]"), (b"STAT", b"")],
    }


NAMES = list(hostile([(b"LIBR", b'{"layout": {}}'), (b"DOCU", b"{}"), *[(b"TEXT", b"x")] * 5]))


@pytest.mark.few(6)
@pytest.mark.parametrize("name", NAMES)
def test_hostile_archives_are_refused_whole(
    library: Path, archive: Path, tmp_path: Path, name: str
) -> None:
    bad = write(tmp_path / "bad.drtlib", hostile(frames_of(archive))[name])
    with Store.open(library, create=True) as store:
        with pytest.raises(CorruptStore, match="is damaged"):
            store.import_archive(bad)
        assert store.documents() == [] == store.partial_documents() == store.sessions()
        assert store.check() == []
    assert sorted(path.name for path in tmp_path.parent.glob("etc")) == []


def test_a_claimed_length_is_compared_with_the_file(library: Path, tmp_path: Path) -> None:
    head = struct.pack("<4sQ", b"RECS", 1 << 39)
    start = MAGIC + struct.pack("<I", 1)
    bad = tmp_path / "bad.drtlib"
    bad.write_bytes(start + head + struct.pack("<I", zlib.crc32(head)))
    with (
        Store.open(library, create=True) as store,
        pytest.raises(CorruptStore, match="longer than what is left"),
    ):
        store.import_archive(bad)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A file with some bytes changed, cut, doubled or put elsewhere."""
    out = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(out))
        kind = chance.randrange(4)
        if kind == 0:
            out[at] = chance.randrange(256)
        elif kind == 1:
            del out[at : at + chance.randrange(1, 200)]
        elif kind == 2:
            out[at:at] = out[at : at + chance.randrange(1, 200)]
        else:
            out[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f"])
        out = out or bytearray(b"x")
    return bytes(out)


def fuzz(archive: Path, library: Path, *, times: int, seed: int) -> None:
    chance, data = random.Random(seed), archive.read_bytes()
    bad = archive.with_name("bad.drtlib")
    with Store.open(library, create=True) as store:
        for _ in range(times):
            mutated = mutate(data, chance)
            if mutated == data:
                continue
            bad.write_bytes(mutated)
            with pytest.raises(EngineError):
                store.import_archive(bad)
        assert store.documents() == [] and store.check() == []


def test_mutated_archives_are_refused(archive: Path, library: Path) -> None:
    fuzz(archive, library, times=100, seed=1)


@pytest.mark.stress
def test_many_mutated_archives_are_refused(archive: Path, library: Path) -> None:
    fuzz(archive, library, times=50_000, seed=2)


def test_a_link_in_the_way_is_not_followed(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    os.symlink(precious, tmp_path / ".out.drtlib.part")
    add_document(store, 1, ["text "])
    store.save_session("talk", transcript=[{**TURN, "citations": []}], meta={}, state=b"")
    store.export_archive(tmp_path / "out.drtlib")
    assert precious.read_text() == "mine"
