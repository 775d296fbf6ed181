"""A text in the library that is not the file's is never taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drt_engine.errors import StoreError
from drt_engine.ingest.rebuild import repair
from drt_engine.store.catalogue.row_checksums import pack_text, unpack_text
from drt_engine.store.catalogue.row_values import update_document_checksum, update_segment_checksum
from tests.model_folder import LETTERS, library, read, read_text, runtime, text_of


def test_a_text_of_the_same_id_is_not_called_unchanged(tmp_path: Path) -> None:
    with library(tmp_path / "library") as store:
        row = read_text(store, tmp_path, name="letters.txt", text=LETTERS)
        kept = store._database.query("SELECT id, text FROM chunks")
        with store._database.transaction() as connection:
            for id, packed in kept:
                forged = pack_text(unpack_text(packed).replace("two cows", "six cows"))
                connection.execute("UPDATE chunks SET text = ? WHERE id = ?", (forged, id))
            connection.execute("INSERT INTO chunk_text (chunk_text) VALUES ('rebuild')")
            connection.execute("DELETE FROM sources")
            update_segment_checksum(connection, 1)
            update_document_checksum(connection, 1)
        assert [finding.kind for finding in store.check()] == ["identity"]
        with pytest.raises(StoreError, match="another text with the id"):
            read(store, tmp_path / "letters.txt")
        segment = next((store.path / "segments").iterdir())
        segment.write_bytes(b"cut")
        store._memory.close()
        done, left = repair(runtime(), store, store.check())
        assert (done, len(left)) == ([], 1)  # its memory is not made from the forged text
        store.remove_document(row.id)
        row = read(store, tmp_path / "letters.txt")
        assert "two cows" in text_of(store, row) and store.check() == []
