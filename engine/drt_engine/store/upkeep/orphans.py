"""Deletes the files that no row names, and that no row will name again.

Runs under the writer's lock.
"""

from __future__ import annotations

from drt_engine.errors import LockTimeout, StorageFull
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.filesystem.library_folder import Folder


def clear_orphans(catalog: Catalog, folder: Folder) -> None:
    """Delete what killed writers left, unless a reader or a full disk keeps it from being safe.

    A writer that was killed may have left a commit in the log that nobody sees, and that SQLite
    brings back when it reads the log again. A commit of this process ends that; only then is what
    has no row an orphan.
    """
    folder.leftovers = False
    if not folder.own_orphans(catalog.file_names()):
        return
    try:
        catalog.database.commit_anew()
    except (StorageFull, LockTimeout):
        folder.leftovers = True
        return
    folder.delete(folder.own_orphans(catalog.file_names()))
