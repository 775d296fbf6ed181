"""Flipped bits, cut and swapped files: `check` finds what changes anything, and nothing else."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from drt_engine.errors import CorruptStore, StoreError
from drt_engine.store import Store
from drt_engine.store.segments import landmark_files
from tests.engine.store.helpers import errors
from tests.engine.store.operations import document_id, fresh, held, make_base, open_on
from tests.tables import each_row

FLIPS, MANY = 25, 1_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corruption")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landmark_files, "MIN_LOOSE_SEGMENTS", 2)
        return fresh(make_base(folder), folder / "one")


def seen(store: Store) -> tuple[object, ...]:
    """Everything that a user could see of a library."""
    words = ("heather", "gorse", "document", "chunk", "broom", "and")
    return (
        held(store),
        store.documents(),
        store.partial_documents(),
        [store.search_text(word) for word in words],
        store.sessions(),
        {k: v for k, v in store.stats().items() if not k.endswith(("bytes", "token"))},
    )


def findings(path: Path) -> list[str]:
    """What a check reports, be it that the library cannot even be opened."""
    try:
        with Store.open(path, lock_timeout=1.0) as store:
            return errors(store)
    except StoreError as error:
        return [str(error)]


def damage(path: Path, chance: random.Random) -> str:
    """Damage one file of a library in one way."""
    files = sorted(p for p in path.rglob("*") if p.suffix in (".db", ".seg", ".lmk"))
    # the catalogue is one file, yet holds as much as all others
    file = chance.choice([*files, *([path / "catalog.db"] * len(files))])
    data = bytearray(file.read_bytes())
    kind = chance.choice(["flip"] * 8 + ["cut", "swap"])
    if kind == "flip":
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
        what = f"bit of byte {at} of {len(data)}"
    elif kind == "cut":
        del data[chance.randrange(len(data)) :]
        what = f"cut to {len(data)}"
    else:
        other = chance.choice([p for p in files if p != file])
        data = bytearray(other.read_bytes())
        what = f"replaced by {other.name}"
    file.write_bytes(data)
    return f"{file.name}: {what}"


def damage_often(library: Path, *, times: int, seed: int) -> int:
    """Damage, check, restore; returns how often the check found it."""
    chance, found = random.Random(seed), 0
    kept = {p: p.read_bytes() for p in library.rglob("*") if p.is_file()}
    with open_on(library) as store:
        assert errors(store) == []
        whole = seen(store)
    for _ in range(times):
        what = damage(library, chance)
        reported = findings(library)
        if reported:
            found += 1
        else:
            with open_on(library) as store:
                assert seen(store) == whole, what
        for path in [*library.rglob("*")]:
            if path.is_file() and path not in kept:
                path.unlink()
        for path, data in kept.items():
            path.write_bytes(data)
    with open_on(library) as store:
        assert errors(store) == []
    return found


@pytest.mark.thorough
def test_what_changes_anything_is_found(library: Path) -> None:
    assert damage_often(library, times=FLIPS, seed=1) > FLIPS // 3


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(2, 12))
def test_what_changes_anything_is_found_often(library: Path, seed: int) -> None:
    assert damage_often(library, times=MANY // 10, seed=seed) > MANY // 30


@pytest.mark.stress
def test_no_false_alarms(library: Path) -> None:
    for _ in range(MANY):
        with open_on(library) as store:
            assert errors(store) == []


@pytest.mark.thorough
def test_every_byte_of_a_segment_and_of_a_shelf_counts(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(library, path)
    chance = random.Random(3)
    for suffix in (".seg", ".lmk"):
        file = sorted(path.rglob(f"*{suffix}"))[0]
        whole = file.read_bytes()
        for at in sorted(chance.sample(range(len(whole)), 25)):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert findings(path), f"byte {at} of {file.name}"
        file.write_bytes(whole)
    assert findings(path) == []


@each_row("part", ["record", "landmarks", "shelf", "text", "session", "fingerprint"])
def test_nothing_is_made_from_what_fails_its_checksum(
    library: Path, tmp_path: Path, part: str
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(library, path)
    with open_on(path) as store:
        chunk = store.chunk_ids([document_id(2)])[-1]
        segment = store._catalog.segments([document_id(2)])[0]
        begin = 128 + 64  # past the header and the checksums of three chunks
        change = store._database._open().execute
        if part == "text":
            change("UPDATE chunks SET text = substr(text, 1, 20) WHERE id = ?", [chunk])
        elif part == "session":
            change("UPDATE sessions SET transcript = replace(transcript, 'keeper', 'kipper')")
        elif part == "fingerprint":
            change("UPDATE settings SET value = 'other' WHERE key = 'fingerprint'")
    file = path / "segments" / segment.name
    if part == "shelf":
        file = next(path.rglob("*.lmk"))
    data = bytearray(file.read_bytes())
    if part in ("record", "shelf"):
        data[-1] ^= 1
    elif part == "landmarks":
        next(path.rglob("*.lmk")).unlink()
        data[begin + 64] ^= 1
    file.write_bytes(data)
    uses = {
        "record": lambda store: store.read_chunks([chunk]),
        "landmarks": lambda store: list(store.scan_landmarks()),
        "shelf": lambda store: list(store.scan_landmarks()),
        "text": lambda store: store.chunk_rows([chunk]),
        "session": lambda store: store.load_session("talk"),
        "fingerprint": lambda store: store.fingerprint,
    }
    with pytest.raises(CorruptStore, match="damaged|missing"), open_on(path) as store:
        uses[part](store)
    assert findings(path)
