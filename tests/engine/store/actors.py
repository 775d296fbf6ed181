"""Processes that use one library at once, each in its own way, until they are killed.

Run by test_processes.py. A writer says what it was told is kept, and only its own documents change,
so what must be there at the end is known whoever was killed when.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
import time
from pathlib import Path

from drt_engine.errors import EngineError, LockTimeout, NotFound, StoreError
from drt_engine.store import Store
from drt_engine.store.federation import FederatedStore, library_folders, write_list
from drt_engine.store.transfer.backup import copy_library
from tests.engine.store.helpers import FINGERPRINT, INT8, add_document, errors, text_id
from tests.engine.store.operations import read_again

DOCUMENTS = 4  # of each writer


def text(actor: str, key: int, version: int) -> list[str]:
    """The pieces of one version of a document."""
    return [
        f"{actor} {key} version {version} piece {i} of heather. " for i in range(1 + version % 5)
    ]


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def opened(path: Path) -> Store:
    return Store.open(path, fingerprint=FINGERPRINT, layout=INT8, create=True, lock_timeout=20.0)


def write(store: Store, actor: str, chance: random.Random) -> None:
    """Read, remove or forget one document."""
    key, version = chance.randrange(DOCUMENTS), chance.randrange(1_000)
    source = f"/{actor}/{key}"
    row = store.document_at(source)
    if row is None or chance.random() < 0.6:
        pieces = text(actor, key, version)
        say("begin", key, version)
        if store.document_by_id(text_id(pieces)) is None:
            add_document(store, 0, pieces, source=source, per_segment=2)
        say("kept", key, version)
        return
    say("begin", key, -1)
    if chance.random() < 0.5:
        store.remove_document(row.id, undoable=chance.random() < 0.5)
    else:
        try:
            store.forget_document(row.id)
        except LockTimeout as error:
            if "removed" not in str(error):
                raise
    say("kept", key, -1)


def read(store: Store, actor: str, chance: random.Random) -> None:
    """What a question reads, of one moment."""
    with store.snapshot() as view:
        ids = [i for some, _ in view.scan_landmarks() for i in some]
        assert len(view.read_chunks(ids).ids) == len(ids)
        for row in view.documents():
            assert text_id(list(view.iter_text(row.id))) == row.id
    store.save_session(f"of {actor}", transcript=[], meta={}, state=os.urandom(2_000))


def check(store: Store, actor: str, chance: random.Random) -> None:
    assert errors(store) == [], errors(store)


def compact(store: Store, actor: str, chance: random.Random) -> None:
    store.compact()


def rebuild(store: Store, actor: str, chance: random.Random) -> None:
    """As ``ingest.rebuild`` does, with other memory."""
    while True:
        with store.rebuilding(FINGERPRINT, INT8) as fresh, store.snapshot() as view:
            fresh.remove_outdated(view)
            for row in view.documents():  # as `kept_document` is checked
                assert view.text_digest(row.id)[:16] == row.id, "the kept text is another"
            read_again(view, fresh)  # type: ignore[arg-type]
        if store.swap_in_rebuilt():
            return


def federate(store: Store, actor: str, chance: random.Random) -> None:
    """Read it together with another one, through a list that is written anew."""
    other, listed = store.path.with_name("other.library"), store.path.with_name(f"{actor}.list")
    with Store.open(other, fingerprint=FINGERPRINT, layout=INT8, create=True):
        pass
    write_list(listed, [store.path, other])
    with (
        FederatedStore.open(listed, library_folders([listed]), opened, require_all=True) as both,
        both.snapshot() as view,
    ):
        for row in view.documents():
            assert text_id(list(view.iter_text(row.id))) == row.id


def back_up(store: Store, actor: str, chance: random.Random) -> None:
    """Copy it, and read the copy."""
    target = store.path.with_name(f"{actor}.backup")
    shutil.rmtree(target, ignore_errors=True)
    copy_library(store.path, target, lock_timeout=20.0)
    with Store.open(target) as kept:
        for row in kept.documents():
            assert text_id(list(kept.iter_text(row.id))) == row.id


ACTS = {act.__name__: act for act in (write, read, check, compact, rebuild, federate, back_up)}


def main() -> None:
    path, actor, role, seed, seconds = sys.argv[1:]
    act, chance, end = ACTS[role], random.Random(int(seed)), time.monotonic() + float(seconds)
    say("started")
    for turn in itertools.count():
        with opened(Path(path)) as store:
            for _ in range(chance.choice((1, 5))):  # comes and goes, or stays for some time
                if time.monotonic() > end and turn:
                    return
                try:
                    act(store, actor, chance)
                except (StoreError, NotFound) as error:
                    assert isinstance(error, EngineError) and "\n" not in str(error)
                    say("refused", role, type(error).__name__, error)
                    if role != "write":
                        break
                    say("unsure")
                    break
