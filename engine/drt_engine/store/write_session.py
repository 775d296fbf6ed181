"""What a writer of a library works with, for as long as it holds the writer's lock.

Knows nothing of tensors, models or archives; ``Store`` makes it and releases the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drt_engine.errors import StorageFull
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.row_values import put_setting
from drt_engine.store.filesystem.library_folder import Folder
from drt_engine.store.sessions import Sessions
from drt_engine.store.view import LibraryView


@dataclass(frozen=True)
class WriteSession:
    """A library's rows, files and sessions; valid only while the writer's lock is held."""

    library: LibraryView
    catalog: Catalog
    folder: Folder
    sessions: Sessions

    def put_settings(self, values: Mapping[str, str]) -> None:
        """Write settings in one transaction."""
        with self.catalog.database.transaction() as connection:
            for key, value in values.items():
                put_setting(connection, key, value)

    def remove_document(
        self, document_id: str, remove_rows: Callable[[str], list[str]] | None = None
    ) -> None:
        """Remove a document's rows, then its files; on a full disk its segments first.

        SQLite needs room to write what a removal changes, and only the removal makes any. Where
        there is still none, the text is kept, from which the segments can be read again.
        ``remove_rows`` replaces ``Catalog.remove``; it returns the names of the files to delete.

        Raises:
            NotFound: no document has this id.
            StorageFull: there is no room, and a reader keeps the segments in use.

        """
        remove_rows = remove_rows or self.catalog.remove
        try:
            names = remove_rows(document_id)
        except StorageFull:
            segments = [
                row for row in self.catalog.all_segments() if row.document_id == document_id
            ]
            with self.folder.readers.excluded(wait=True) as alone:
                if not alone:
                    raise
                self.folder.unlink(row.name for row in segments)
                names = remove_rows(document_id)
        self.folder.delete(names)
