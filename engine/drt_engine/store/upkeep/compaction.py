"""What makes a library small again: joining segments, shelving, rewriting the catalogue.

Runs under the writer's lock; readers with a snapshot keep what they see. Knows nothing of tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from drt_engine.errors import CorruptStore, LockTimeout, NotFound
from drt_engine.store.catalogue.catalog import Catalog
from drt_engine.store.catalogue.row_values import put_setting
from drt_engine.store.filesystem.library_folder import Folder, file_errors
from drt_engine.store.index.upkeep import drop_index
from drt_engine.store.segments.format import MAX_SEGMENT_CHUNKS, SegmentHeader
from drt_engine.store.segments.landmark_files import consolidate_landmark_files
from drt_engine.store.segments.records import (
    discard,
    joined,
    landmarks_crc,
    open_records,
    segment_name,
)
from drt_engine.store.sessions import Sessions
from drt_engine.store.types import RecordLayout, SegmentRow
from drt_engine.store.upkeep.orphans import clear_orphans

# set in the transaction that removes what must be forgotten, until no byte of it is left
FORGETTING = "forgetting"


def compact(catalog: Catalog, folder: Folder, layout: RecordLayout | None) -> None:
    """Join small segments, consolidate landmarks, and rewrite the catalogue without free pages.

    Raises LockTimeout when other processes keep the catalogue in use.
    """
    if layout is not None:
        for rows in _joinable(catalog.segments()):
            _join(catalog, folder, rows=rows, layout=layout)
        consolidate_landmark_files(catalog, folder, layout, everything=True)
    with file_errors(folder.path), folder.readers.drained():
        clear_orphans(catalog, folder)
        _rewrite(catalog)


def forget(catalog: Catalog, folder: Folder, layout: RecordLayout | None) -> None:
    """Delete the last bytes of removed documents: landmark files, orphans, catalogue, log.

    The approximate index, which repeats landmarks, goes as a whole. Raises LockTimeout while a
    reader holds a snapshot; the next writer goes on then.
    """
    catalog.database.delete_backup()
    drop_index(catalog, folder)
    if layout is not None:
        landmark_files = catalog.landmark_files()
        if any(landmark_file.live < landmark_file.chunks for landmark_file in landmark_files):
            catalog.drop_landmark_files(
                [
                    landmark_file
                    for landmark_file in landmark_files
                    if landmark_file.live < landmark_file.chunks
                ]
            )
            consolidate_landmark_files(catalog, folder, layout)
    with file_errors(folder.path), folder.readers.drained() as alone:
        if not alone:
            raise LockTimeout(
                f"others read in the library at {folder.path}: what is to be forgotten is removed,"
                " and its bytes go with the next writing command"
            )
        clear_orphans(catalog, folder)
        if folder.leftovers:
            raise LockTimeout(
                f"files of the library at {folder.path} cannot be deleted yet: run"
                " `drt library compact` to forget them"
            )
        _rewrite(catalog)
        catalog.database.delete_backup()
        with catalog.database.transaction() as connection:
            connection.execute("DELETE FROM settings WHERE key = ?", (FORGETTING,))
        catalog.database.checkpoint()


def remove_to_forget(
    catalog: Catalog,
    sessions: Sessions,
    document_id: str,
    *,
    forgotten: list[str],
    was_removed: bool = False,
) -> list[str]:
    """Remove a document and the sessions that quote it, and note that bytes are left to go.

    The sessions' names are added to ``forgotten``: which they are is known in the transaction only.
    One that ``was_removed`` before, and can be brought back, may have no rows.
    """
    files: list[str] = []
    with catalog.database.transaction() as connection:
        names = sessions.citing([document_id])
        with contextlib.suppress(*([NotFound] if was_removed else [])):
            files = catalog.remove_in(connection, document_id)
        connection.executemany("DELETE FROM sessions WHERE name = ?", [(n,) for n in names])
        put_setting(connection, FORGETTING, document_id)
    forgotten += names
    return files


def _rewrite(catalog: Catalog) -> None:
    with catalog.database.backed_up():
        with catalog.database.transaction() as connection:
            connection.execute("INSERT INTO chunk_text (chunk_text) VALUES ('optimize')")
        catalog.database.vacuum()


def _joinable(rows: Sequence[SegmentRow]) -> Iterator[list[SegmentRow]]:
    """Yield runs of two or more segments of one document whose chunks fit into one file."""
    run: list[SegmentRow] = []
    for row in rows:
        last = run[-1] if run else None
        if last is not None and (
            row.document_id != last.document_id
            or row.first_chunk != last.first_chunk + last.chunks
            or sum(r.chunks for r in run) + row.chunks > MAX_SEGMENT_CHUNKS
        ):
            if len(run) > 1:
                yield run
            run = []
        run.append(row)
    if len(run) > 1:
        yield run


def _join(
    catalog: Catalog, folder: Folder, *, rows: Sequence[SegmentRow], layout: RecordLayout
) -> None:
    first = rows[0]
    header = SegmentHeader(
        layout, first.document_id, first.first_ordinal, sum(row.chunks for row in rows)
    )
    try:
        parts = [(open_records(folder, row, layout), range(row.chunks)) for row in rows]
        data = joined(header, parts)
    except CorruptStore:
        return  # what is damaged stays where ``check`` names it
    name = segment_name(first.document_id, first.first_ordinal)
    folder.write(name, data)
    try:
        done = catalog.swap_segments(rows, name, landmarks_crc=landmarks_crc(data, header))
    except Exception:
        discard(catalog, folder, name)
        raise
    folder.delete([row.name for row in rows] if done else [name])
