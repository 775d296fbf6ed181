"""Documents, settings and the files that documents came from, as catalogue rows.

Knows nothing of segments, of tensors or of locks: the store decides who may write.
"""

from __future__ import annotations

import difflib
import heapq
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath

from drt_engine.errors import CorruptStore, NotFound, StoreError
from drt_engine.store.catalogue.block_rows import insert_blocks
from drt_engine.store.catalogue.database import IN_LIST, Database, Row, json_list, storable
from drt_engine.store.catalogue.row_checksums import expect, pack_text
from drt_engine.store.catalogue.row_removal import drop_document, drop_source, numbers_at
from drt_engine.store.catalogue.row_values import (
    now,
    put_setting,
    setting_checksum,
    update_document_checksum,
)
from drt_engine.store.tags import checked_tags, pack_tags, unpack_tags
from drt_engine.store.types import Blocks, DocumentRow, Origins, Place

VOCABULARY = "vocabulary"  # setting: how many token ids the model has

_MIN_PREFIX = 4
_MOST_COMPARED = 1_000  # names
_DOCUMENT = "id, title, source, media_type, characters, tokens, chunks, created, author, date, tags"


def nearest(name: str, names: Sequence[str], *, listed: Sequence[str] | None = None) -> str:
    """Return the end of a "no such name" sentence: what is alike, or else what exists.

    ``listed`` has one name for each thing that exists, by default ``names``.
    """
    if not names:
        return "there is none yet"
    folded = {candidate.casefold(): candidate for candidate in names}
    alike = difflib.get_close_matches(name.casefold(), _likely(name.casefold(), folded), n=3)
    close = [folded[candidate] for candidate in alike]
    close += [candidate for candidate in names if name and name.casefold() in candidate.casefold()]
    if close:
        return f"did you mean {' or '.join(map(repr, dict.fromkeys(close[:3])))}?"
    listed = names if listed is None else listed
    first_names = list(dict.fromkeys(listed))[:3]
    unnamed = len(listed) - len(first_names)
    return (
        f"there is {', '.join(map(repr, first_names))}{f' and {unnamed} more' if unnamed else ''}"
    )


def _likely(name: str, names: Collection[str]) -> Collection[str]:
    """Return the names with most of a name's pairs of letters, where there are many names.

    Which of 100,000 is nearest takes difflib seconds.
    """
    if len(names) <= _MOST_COMPARED:
        return names
    pairs = set(pairwise(name))
    return heapq.nlargest(_MOST_COMPARED, names, key=lambda n: len(pairs.intersection(pairwise(n))))


def document_named(
    name: str,
    rows: Sequence[DocumentRow],
    rows_of_copy: Callable[[str], Sequence[DocumentRow]],
    *,
    all_rows: Callable[[], Sequence[DocumentRow]] | None = None,
) -> DocumentRow:
    """Return the one of ``rows`` that a name means, no exact id; NotFound when none or several.

    ``rows_of_copy`` returns those of which a copy has a name, and is asked where nothing else has;
    ``all_rows`` returns what there is, where ``rows`` are only those that a name can mean.
    """
    named = next((matches for matches in _name_matches(name, rows) if matches), None)
    matches = rows_of_copy(name) if named is None else named
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(row.id for row in matches[:5])
        raise NotFound(f"{len(matches)} documents are called {name!r}: use an id ({ids})")
    rows = rows if all_rows is None else all_rows()
    titles = [row.title for row in rows]
    names = titles + [PurePath(row.source).name for row in rows]
    hint = nearest(name, list(dict.fromkeys(names)), listed=titles)
    raise NotFound(f"no document {name!r} in the library: {hint}")


class DocumentRows:
    """Queries and changes on documents; each changing method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # settings

    def get_setting(self, key: str) -> str | None:
        """Return a setting's text, or None; CorruptStore when it is not what was written."""
        row = self.database.first_row("SELECT value, seal FROM settings WHERE key = ?", (key,))
        if row is not None and row[1] != setting_checksum(key, row[0]):
            raise CorruptStore(
                f"the setting {key!r} in the catalogue {self.database.path} is damaged: restore the"
                " library from a copy, or read the documents into a new one"
            )
        return None if row is None else str(row[0])

    def set_setting(self, key: str, value: str) -> None:
        with self.database.transaction() as connection:
            put_setting(connection, key, value)

    # documents

    def documents(self, *, state: str = "ready") -> list[DocumentRow]:
        rows = self.database.query(
            f"SELECT {_DOCUMENT} FROM documents WHERE state = ? ORDER BY number", (state,)
        )
        return [_document(row) for row in rows]

    def document_by_id(self, document_id: str, *, state: str = "ready") -> DocumentRow | None:
        row = self.database.first_row(
            f"SELECT {_DOCUMENT} FROM documents WHERE id = ? AND state = ?", (document_id, state)
        )
        return None if row is None else _document(row)

    def documents_by_id(self, ids: Sequence[str]) -> list[DocumentRow]:
        rows = self.database.query(
            f"SELECT {_DOCUMENT} FROM documents WHERE id {IN_LIST} AND state = 'ready'"
            " ORDER BY number",
            (json_list(list(ids)),),
        )
        return [_document(row) for row in rows]

    def has_documents(self) -> bool:
        row = self.database.first_row("SELECT 1 FROM documents WHERE state = 'ready' LIMIT 1")
        return row is not None

    def count_documents(self) -> int:
        row = self.database.first_row("SELECT count(*) FROM documents WHERE state = 'ready'")
        return 0 if row is None else int(row[0])

    def document_at(self, source: str) -> DocumentRow | None:
        row = self.database.first_row(
            f"SELECT {_DOCUMENT} FROM documents WHERE source = ? AND state = 'ready'",
            (storable(source),),
        )
        return None if row is None else _document(row)

    def document(self, name: str) -> DocumentRow:
        """Return the one ready document that a name means; NotFound when none or several."""
        name = storable(name)
        exact = self.document_by_id(name)
        if exact is not None:
            return exact
        rows = self.database.query(
            f"SELECT {_DOCUMENT} FROM documents WHERE state = 'ready'"
            " AND (title = ? OR instr(source, ?) OR instr(id, ?) = 1) ORDER BY number",
            (name, name, name.lower()),
        )
        candidates = [_document(row) for row in rows]
        return document_named(name, candidates, self.documents_of_copy, all_rows=self.documents)

    def documents_of_copy(self, name: str) -> list[DocumentRow]:
        """Return documents of whose text another file of this name was read."""
        name = storable(name)
        rows = self.database.query(
            "SELECT s.path, d.id FROM sources s JOIN documents d ON d.id = s.document"
            " WHERE instr(s.path, ?) AND s.path <> d.source",
            (name,),
        )
        ids = [document for path, document in rows if name in (path, PurePath(path).name)]
        return self.documents_by_id(ids) if ids else []

    def copies(self, document_id: str) -> list[str]:
        """Return the paths, other than a document's source, at which its text was read."""
        rows = self.database.query(
            "SELECT s.path FROM sources s JOIN documents d ON d.id = s.document"
            " WHERE d.id = ? AND s.path <> d.source ORDER BY s.path",
            (document_id,),
        )
        return [str(path) for (path,) in rows]

    def number(self, document_id: str) -> int:
        """Return a ready document's row number; NotFound."""
        row = self.database.first_row(
            "SELECT number FROM documents WHERE id = ? AND state = 'ready'", (document_id,)
        )
        if row is None:
            raise unknown_id(document_id)
        return int(row[0])

    def begin(
        self,
        document_id: str,
        title: str,
        *,
        source: str,
        media_type: str,
        author: str = "",
        date: str = "",
    ) -> DocumentRow:
        """Make or take up a partial document; StoreError when it is ready already."""
        with self.database.transaction() as connection:
            state_row = connection.execute(
                "SELECT state FROM documents WHERE id = ?", (document_id,)
            ).fetchone()
            if state_row is not None and state_row[0] == "ready":
                raise StoreError(
                    f"document {document_id} is in the library already: remove it to reread it"
                )
            connection.execute(
                "INSERT INTO documents"
                " (id, state, title, source, media_type, created, author, date)"
                " VALUES (?, 'partial', ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " title = excluded.title, source = excluded.source,"
                " media_type = excluded.media_type, author = excluded.author,"
                " date = excluded.date",
                (document_id, storable(title), storable(source), media_type, now())
                + (storable(author), storable(date)),
            )
            update_document_checksum(connection, _number_of(connection, document_id))
        row = self.document_by_id(document_id, state="partial")
        if row is None:
            raise StoreError(
                f"document {document_id} was removed by another process: read it again"
            )
        return row

    def finish(
        self,
        document_id: str,
        places: Sequence[Place],
        *,
        origins: Sequence[Origins] = (),
        blocks: Sequence[Blocks] = (),
        created: str | None = None,
        copies: Sequence[str] = (),
    ) -> list[str]:
        """Mark a document ready, replacing others of its source; returns the files to delete.

        A document that is replaced goes to the first of its ``copies`` that is free.
        """
        with self.database.transaction() as connection:
            number, source = connection.execute(
                "SELECT number, source FROM documents WHERE id = ?", (document_id,)
            ).fetchone()
            files = _vacate(connection, source, keep=number, copies=copies)
            connection.executemany(
                "INSERT INTO places VALUES (?, ?, ?, ?)", [(number, *place) for place in places]
            )
            connection.executemany(
                "INSERT INTO origins VALUES (?, ?, ?)",
                [(number, start, pack_text(anchors)) for start, anchors in origins],
            )
            insert_blocks(connection, number, blocks)
            connection.execute(
                "UPDATE documents SET state = 'ready', created = ? WHERE number = ?",
                (created or now(), number),
            )
            update_document_checksum(connection, number)
        return files

    def remove(self, document_id: str) -> list[str]:
        """Remove a document in any state; returns the files to delete; NotFound."""
        with self.database.transaction() as connection:
            return self.remove_in(connection, document_id)

    def remove_in(self, connection: sqlite3.Connection, document_id: str) -> list[str]:
        """Remove a document inside a transaction of the caller; NotFound."""
        row = connection.execute(
            "SELECT number FROM documents WHERE id = ?", (document_id,)
        ).fetchone()
        if row is None:
            raise unknown_id(document_id)
        return drop_document(connection, row[0])

    def rename_source(
        self, document_id: str, source: str, *, moved: bool = True, copies: Sequence[str] = ()
    ) -> list[str]:
        """Move a document to another source, replacing the one there, which goes to a copy.

        A title that is only the name of its file changes with it. Its old source is a copy from
        then on, unless it was ``moved``. Returns the files to delete.
        """
        number, source = self.number(document_id), storable(source)
        with self.database.transaction() as connection:
            files = _vacate(connection, source, keep=number, copies=copies)
            if moved:
                connection.execute(
                    "DELETE FROM sources WHERE path <> ?"
                    " AND path = (SELECT source FROM documents WHERE number = ?)",
                    (source, number),
                )
            _move(connection, number, source)
        return files

    def set_author_and_date(self, document_id: str, author: str, date: str) -> None:
        """Set what a ready document names as its author and date; NotFound."""
        number = self.number(document_id)
        with self.database.transaction() as connection:
            connection.execute(
                "UPDATE documents SET author = ?, date = ? WHERE number = ?",
                (storable(author), storable(date), number),
            )
            update_document_checksum(connection, number)

    def set_blocks(self, document_id: str, blocks: Sequence[Blocks]) -> None:
        """Set the block tree of a ready document; NotFound."""
        number = self.number(document_id)
        with self.database.transaction() as connection:
            insert_blocks(connection, number, blocks)
            update_document_checksum(connection, number)

    def change_tags(
        self, document_id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Give tags to a document in any state, take some away; return those it has; NotFound."""
        with self.database.transaction() as connection:
            row = connection.execute("SELECT number FROM documents WHERE id = ?", (document_id,))
            (number,) = row.fetchone() or (None,)
            if number is None:
                raise unknown_id(document_id)
            tags = checked_tags({*_tags_of(connection, number), *add}.difference(remove))
            connection.execute(
                "UPDATE documents SET tags = ? WHERE number = ?", (pack_tags(tags), number)
            )
            update_document_checksum(connection, number)
        return tags

    def numbers(self, ids: Sequence[str], *, state: str = "ready") -> list[int]:
        """Return row numbers of documents of a state, in library order.

        Raises NotFound for an unknown id.
        """
        rows = self.database.query(
            f"SELECT id, number FROM documents WHERE id {IN_LIST} AND state = ?",
            (json_list(list(ids)), state),
        )
        number_of_id: dict[str, int] = dict(rows)
        for document_id in ids:
            if document_id not in number_of_id:
                raise unknown_id(document_id)
        return sorted(number_of_id.values())

    def document_condition(
        self, ids: Sequence[str] | None, *, state: str = "ready"
    ) -> tuple[str, list[str]]:
        """Return a condition on ``d.number``, with its parameters, that keeps these documents."""
        if ids is None:
            return "", []
        return f"AND d.number {IN_LIST}", [json_list(self.numbers(ids, state=state))]

    # files read before

    def source_digest(self, path: str) -> tuple[str, str] | None:
        """Return the digest of a file's bytes when it was read, and the document that it gave."""
        row = self.database.first_row(
            "SELECT digest, document FROM sources WHERE path = ?", (storable(path),)
        )
        return None if row is None else (str(row[0]), str(row[1]))

    def note_source(self, path: str, digest: str, document: str) -> None:
        """Remember which bytes gave which document."""
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sources VALUES (?, ?, ?)",
                (storable(path), digest, document),
            )

    def digests(self, document: str) -> dict[str, str]:
        """Return the digests of the files that gave a document, by path."""
        rows = self.database.query(
            "SELECT path, digest FROM sources WHERE document = ? ORDER BY path", (document,)
        )
        return {str(path): str(digest) for path, digest in rows}

    def note_digests(self, digests: Mapping[str, str], document: str) -> None:
        """Remember which files gave a document, but for those that gave another one since."""
        with self.database.transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO sources VALUES (?, ?, ?)",
                [(path, digest, document) for path, digest in digests.items()],
            )


def unknown_id(document_id: str) -> NotFound:
    """Return the error for an id that no ready document has."""
    return NotFound(f"no document has the id {document_id!r}: list the library's documents")


def _document(row: Row) -> DocumentRow:
    expect(row, "ssssiiissss")
    return DocumentRow(*(*row[:-1], unpack_tags(row[-1])))


def _name_matches(name: str, rows: Sequence[DocumentRow]) -> list[list[DocumentRow]]:
    """Return rows a name may mean, by decreasing strictness."""
    ways = [
        [row for row in rows if row.source == name],
        [row for row in rows if row.title == name],
        [row for row in rows if PurePath(row.source).name == name],
    ]
    if len(name) >= _MIN_PREFIX:
        ways.append([row for row in rows if row.id.startswith(name.lower())])
    return ways


def _tags_of(connection: sqlite3.Connection, number: int) -> tuple[str, ...]:
    row = connection.execute("SELECT tags FROM documents WHERE number = ?", (number,)).fetchone()
    return unpack_tags(str(row[0]))


def _vacate(
    connection: sqlite3.Connection, source: str, *, keep: int, copies: Sequence[str]
) -> list[str]:
    """Take a source from all documents but one, which gets their tags; return files to delete.

    The document that was read there goes to the first of its ``copies`` without one of its own.
    """
    _inherit_tags(connection, source, keep)
    for copy in map(storable, copies):
        row = connection.execute(
            "SELECT d.number FROM documents d JOIN sources s ON s.document = d.id"
            " WHERE d.source = ? AND d.state = 'ready' AND d.number <> ? AND s.path = ?"
            " AND NOT EXISTS (SELECT 1 FROM documents WHERE source = s.path AND state = 'ready')",
            (source, keep, copy),
        ).fetchone()
        if row is not None:
            _move(connection, row[0], copy)
            connection.execute("DELETE FROM sources WHERE path = ?", (source,))
            break
    return drop_source(connection, source, keep=keep)


def _move(connection: sqlite3.Connection, number: int, source: str) -> None:
    """Give a document a source that no other one has."""
    old_title, old_source = connection.execute(
        "SELECT title, source FROM documents WHERE number = ?", (number,)
    ).fetchone()
    is_file_name = old_title == PurePath(old_source).name
    title = PurePath(source).name if is_file_name else old_title
    connection.execute(
        "UPDATE documents SET source = ?, title = ? WHERE number = ?", (source, title, number)
    )
    update_document_checksum(connection, number)


def _inherit_tags(connection: sqlite3.Connection, source: str, number: int) -> None:
    """Give a document the tags of those of its source, which it is a new version of."""
    older = numbers_at(connection, source, but=number)
    older_tags = {tag for older_number in older for tag in _tags_of(connection, older_number)}
    if older_tags:
        tags = pack_tags(older_tags.union(_tags_of(connection, number)))
        connection.execute("UPDATE documents SET tags = ? WHERE number = ?", (tags, number))


def _number_of(connection: sqlite3.Connection, document_id: str) -> int:
    row = connection.execute("SELECT number FROM documents WHERE id = ?", (document_id,)).fetchone()
    return int(row[0])
