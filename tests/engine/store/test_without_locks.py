"""A file system that cannot lock files: refused in one sentence, and nothing is changed."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drt_engine.errors import StoreError
from drt_engine.store import Store
from tests.engine.store.helpers import add_document, document_id, open_store
from tests.engine.store.operations import held

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def snapshot(store: Store) -> None:
    with store.snapshot():
        pass


@pytest.mark.few(3)
@pytest.mark.parametrize("code", NO_LOCKS, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize(
    "work",
    [
        lambda store: add_document(store, 2, ["text 2 "] * 3),
        lambda store: store.remove_document(document_id(1)),
        lambda store: store.forget_document(document_id(1)),
        Store.compact,
        snapshot,
    ],
    ids=["read", "remove", "forget", "compact", "ask"],
)
def test_without_locks_nothing_is_done(
    library: Path, code: int, work: Callable[[Store], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_lock(_file: object, _kind: int) -> None:
        raise OSError(code, "No locks available")

    with open_store(library) as store:
        add_document(store, 1, ["text 1 "] * 3)
        before = held(store)
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", no_lock)
            with pytest.raises(StoreError, match="cannot lock files") as caught:
                work(store)
        assert "\n" not in str(caught.value)
        assert held(store) == before and store.check() == []
