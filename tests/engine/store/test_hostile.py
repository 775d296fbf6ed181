"""Files of others: mutated segments, shelves and catalogues end in one sentence, nothing else."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from drt_engine.errors import CorruptStore, EngineError
from drt_engine.store import Store
from drt_engine.store.catalogue.row_checksums import MAX_TEXT_BYTES, pack_text, unpack_text
from drt_engine.store.segments import landmark_files
from tests.engine.store.helpers import FINGERPRINT, INT8, add_document, open_store
from tests.engine.store.operations import fresh, make_base, open_on
from tests.engine.store.test_archive import mutate
from tests.tables import each_row


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)
        return fresh(make_base(folder), folder / "one")


def use_everything(path: Path) -> None:
    """What listing, asking, checking and exporting read."""
    with Store.open(path, fingerprint=FINGERPRINT, layout=INT8, lock_timeout=0.2) as store:
        store.check()
        for row in store.documents():
            list(store.iter_text(row.id))
            store.place(row.id, 0)
        store.search_text("heather")
        ids = [i for some, _ in store.scan_landmarks() for i in some]
        store.read_chunks(ids)
        store.chunk_rows(ids)
        for info in store.sessions():
            store.load_session(info.name)
        store.search_sessions(["who"])
        store.stats()
        store.export_archive(path.parent / "hostile.drtlib")


def fuzz(library: Path, folder: Path, pattern: str, *, times: int, seed: int) -> int:
    """Mutate files that match; returns how often that was refused. Only sentences may be raised."""
    chance, refused = random.Random(seed), 0
    path = folder / "fuzzed"
    shutil.copytree(library, path)
    files = sorted(path.rglob(pattern))
    whole = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for _ in range(times):
        file = chance.choice(files)
        file.write_bytes(mutate(whole[file], chance))
        try:
            use_everything(path)
        except EngineError as error:
            refused += 1
            assert "\n" not in str(error)
        for left in path.rglob("*"):
            if left.is_file() and left not in whole:
                left.unlink()
        for name, data in whole.items():
            name.write_bytes(data)
    use_everything(path)
    return refused


@pytest.mark.few(1)
@pytest.mark.parametrize(("pattern", "times"), [("*.seg", 15), ("*.lmk", 10), ("catalog.db", 20)])
def test_mutated_files_are_refused_in_a_sentence(
    library: Path, tmp_path: Path, pattern: str, times: int
) -> None:
    assert fuzz(library, tmp_path, pattern, times=times, seed=1) > times // 3


@pytest.mark.stress
@pytest.mark.parametrize("pattern", ["*.seg", "*.lmk", "catalog.db"])
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_mutated_files_are_refused(
    library: Path, tmp_path: Path, pattern: str, seed: int
) -> None:
    assert fuzz(library, tmp_path, pattern, times=3_400, seed=seed) > 1_000


@each_row(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON settings BEGIN DELETE FROM documents; END",
        "CREATE VIEW v AS SELECT * FROM chunks",
        "CREATE TABLE extra (x)",
        "DROP TABLE places",
    ],
)
def test_a_catalogue_of_strange_tables_is_refused(
    library: Path, tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "strange"
    shutil.copytree(library, path)
    with closing(sqlite3.connect(path / "catalog.db")) as connection:
        connection.execute(statement)
        connection.commit()
    with pytest.raises(CorruptStore, match="tables that are not a library's"):
        open_on(path)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET title = x'00ff'",
        "UPDATE documents SET chunks = 'many'",
        "UPDATE chunks SET text = 'plain'",
        "UPDATE chunks SET text = 7",
        "UPDATE chunks SET start = 'first'",
        "UPDATE segments SET name = '../../../../etc/passwd' WHERE id = 1",
        "UPDATE segments SET chunks = 1 << 40",
        "UPDATE sessions SET transcript = x'ff', turns = 'x'",
        "UPDATE settings SET value = x'00'",
        "UPDATE places SET start = 'x'",
        "UPDATE shelves SET chunks = 1 << 50",
    ],
)
def test_values_of_strange_kinds_are_refused_in_a_sentence(
    library: Path, tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "strange"
    shutil.copytree(library, path)
    with closing(sqlite3.connect(path / "catalog.db")) as connection:
        connection.execute(statement)
        connection.commit()
    try:
        with open_on(path) as store:
            assert [f for f in store.check() if f.severity == "error"]
        use_everything(path)
    except EngineError as error:
        assert "\n" not in str(error)


@pytest.mark.thorough
def test_a_text_that_inflates_without_end_is_refused() -> None:
    bomb = pack_text("a" * (MAX_TEXT_BYTES + 1))
    assert len(bomb) < 100_000
    with pytest.raises(CorruptStore, match="is damaged"):
        unpack_text(bomb)
    with pytest.raises(CorruptStore, match="is damaged"):
        unpack_text(pack_text("text") + b"more")


def test_only_the_owner_reads_a_library(tmp_path: Path) -> None:
    with open_store(tmp_path / "mine") as store:
        add_document(store, 1, ["text "])
        store.save_session("talk", transcript=[], meta={}, state=b"")
        store.export_archive(tmp_path / "mine.drtlib")
        with store.snapshot():
            modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "mine").rglob("*")}
    assert modes.pop("segments") == 0o700
    assert set(modes.values()) == {0o600}, modes
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "mine.drtlib").stat().st_mode & 0o777 == 0o600
