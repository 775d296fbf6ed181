"""Members of archives, and where they are found when they move."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from drt_engine.documents import Source, expand_paths
from drt_engine.ingest import pipeline
from drt_engine.ingest.pipeline import ingest_source
from drt_engine.store import Store
from tests.model_folder import LETTERS, MANUAL, read, runtime


def members(archive: Path, **texts: str) -> list[Source]:
    """An archive of these texts, as sources."""
    with zipfile.ZipFile(archive, "w") as box:
        for name, text in texts.items():
            box.writestr(f"{name}.md", text)
    found = list(expand_paths([str(archive)]))
    assert len(found) == len(texts) and all(isinstance(one, Source) for one in found)
    return found  # type: ignore[return-value]


@pytest.mark.thorough
def test_a_member_stays_where_its_archive_is(store: Store, manual: Path, tmp_path: Path) -> None:
    (member,) = members(tmp_path / "box.zip", inner=MANUAL)
    row, new = ingest_source(runtime(), store, member)
    assert new and row.source == f"{tmp_path}/box.zip!/inner.md"
    assert ingest_source(runtime(), store, Source.from_path(manual)) == (row, False)
    (tmp_path / "box.zip").unlink()
    moved, new = ingest_source(runtime(), store, Source.from_path(manual))
    assert (moved.id, moved.source, new) == (row.id, str(manual), False)


@pytest.mark.thorough
def test_a_member_may_have_a_longer_name_than_files(
    store: Store, manual: Path, tmp_path: Path
) -> None:
    (member,) = members(tmp_path / "box.zip", **{"long" * 80: MANUAL})
    row, _ = ingest_source(runtime(), store, member)
    assert read(store, manual) == row
    (tmp_path / "box.zip").unlink()
    assert read(store, manual).source == str(manual)


def test_a_folder_with_the_name_of_a_member_is_no_archive(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "odd!"
    folder.mkdir()
    (folder / "a.md").write_text(MANUAL, encoding="utf-8")
    row = read(store, folder / "a.md")
    moved = (folder / "a.md").rename(folder / "b.md")
    assert (read(store, moved).id, read(store, moved).source) == (row.id, str(moved))


@pytest.mark.thorough
def test_an_unchanged_member_is_not_parsed_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = members(tmp_path / "box.zip", one=MANUAL, two=LETTERS)
    rows = [ingest_source(runtime(), store, member)[0] for member in (first, second)]
    monkeypatch.setattr(pipeline, "identify", None)  # calling it would raise
    again = members(tmp_path / "box.zip", one=MANUAL, two=LETTERS)
    assert [ingest_source(runtime(), store, member) for member in again] == [
        (row, False) for row in rows
    ]
