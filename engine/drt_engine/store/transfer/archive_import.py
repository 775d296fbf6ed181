"""Takes an archive over into a library: verified as a whole first, then document by document.

What a killed import left is taken up by the next one. Knows nothing of tensors.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from drt_engine.blocks.nodes import expect_groups
from drt_engine.documents.anchors import expect_origins
from drt_engine.errors import FingerprintMismatch, NotFound, SessionError, StoreError
from drt_engine.store.catalogue.document_rows import VOCABULARY
from drt_engine.store.identity import ID, TextHash
from drt_engine.store.segments.appender import Appender, check_texts
from drt_engine.store.segments.format import (
    HEADER_SIZE,
    chunk_fault,
    chunk_is_intact,
    gaps,
    parse_header,
)
from drt_engine.store.segments.records import chunk_lengths
from drt_engine.store.sessions import check_name
from drt_engine.store.transfer.archive_format import damaged
from drt_engine.store.transfer.archive_reader import About, From, Item, Part, Tree, read_archive
from drt_engine.store.types import Blocks, DocumentRow, Origins, Place, SessionRow
from drt_engine.store.view import LibraryView
from drt_engine.store.write_session import WriteSession


def import_archive(session: WriteSession, source: Path) -> list[DocumentRow]:
    """Import what the library does not have; the caller holds the writer's lock."""
    verification = _Verification(session.library, source.name)
    for item in read_archive(source):
        verification.take(item)
    verification.finish()
    with _Intake(session) as intake:
        for item in read_archive(source):
            intake.take(item)
    return intake.new


class _Intake:
    """One import under way: the document that is being taken over, and those that were."""

    def __init__(self, session: WriteSession) -> None:
        self._session = session
        self._appender: Appender | None = None
        self._row: DocumentRow | None = None
        self._places: list[Place] = []
        self._origins: list[Origins] = []
        self._blocks: list[Blocks] = []
        self.new: list[DocumentRow] = []

    def __enter__(self) -> _Intake:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._appender is not None:
                self._appender.close()

    def take(self, item: Item) -> None:
        """Import the next part of the archive."""
        if isinstance(item, Part):
            self._append(item)
            return
        if isinstance(item, From):
            self._origins = item.origins
            return
        if isinstance(item, Tree):
            self._blocks = item.blocks
            return
        self._finish()
        if isinstance(item, About):
            _bind(self._session, item)
        elif isinstance(item, SessionRow):
            self._session.sessions.put(item)
        elif self._session.library.document_by_id(item[0].id) is None:
            self._begin(*item)

    def _begin(self, row: DocumentRow, places: list[Place]) -> None:
        session = self._session
        layout = session.library.layout
        assert layout is not None
        partial_rows = session.library.partial_documents()
        partial = next((partial for partial in partial_rows if partial.id == row.id), None)
        if partial is not None and partial.source != row.source:
            session.remove_document(row.id)
        self._row, self._places, self._origins, self._blocks = row, places, [], []
        appender = Appender(session.catalog, session.folder, layout=layout)
        self._appender = appender.begin(
            row.id,
            row.title,
            source=row.source,
            media_type=row.media_type,
            author=row.author,
            date=row.date,
        )
        if row.tags:
            session.catalog.change_tags(row.id, add=row.tags)

    def _append(self, part: Part) -> None:
        if self._appender is None:
            return  # a document that is here already
        done = self._appender.committed_chunks - part.header.first_ordinal
        if done >= len(part.texts):
            return
        if done > 0:  # left by a reading, whose segments end elsewhere
            raise StoreError(
                f"document {part.header.document_id} was read here in part: read it to its end or"
                " remove it, and import again"
            )
        self._appender.store_segment(part.header, part.data, texts=part.texts, lengths=part.lengths)

    def _finish(self) -> None:
        if self._appender is not None and self._row is not None:
            row = self._appender.finish(
                places=self._places,
                origins=self._origins,
                blocks=self._blocks,
                created=self._row.created,
            )
            self.new.append(row)
            self._appender = None


class _Verification:
    """Goes through an archive and raises for anything that must not, or cannot, be taken over."""

    def __init__(self, library: LibraryView, name: str) -> None:
        self._library = library
        self._name = name
        self._document: DocumentRow | None = None  # whose parts are coming
        self._hash = TextHash()
        self._vocabulary: int | None = None
        self._seen: set[tuple[str, str]] = set()  # what may come only once, with its kind

    def take(self, item: Item) -> None:
        """Verify the next part of the archive."""
        if isinstance(item, Part):
            _refuse_part(item, self._name, self._vocabulary)
            self._hash.update(text.text for text in item.texts)
        elif isinstance(item, From):
            self._expect_map(item)
        elif isinstance(item, Tree):
            self._expect_tree(item)
        else:
            self.finish()
            if isinstance(item, About):
                _refuse_model(self._library, item, self._name)
                vocabularies = (item.vocabulary, self._library.vocabulary)
                self._vocabulary = min((n for n in vocabularies if n is not None), default=None)
            elif isinstance(item, SessionRow):
                self._expect_once("session", item.name)
                _refuse_session(self._library, item)
            else:
                self._begin(item[0])

    def _begin(self, row: DocumentRow) -> None:
        self._expect_once("document", row.id)
        self._expect_once("source", row.source)
        _refuse_document(self._library, row, self._name)
        self._document, self._hash = row, TextHash()

    def _expect_map(self, item: From) -> None:
        try:
            expect_origins(item.origins, self._document.characters if self._document else 0)
        except ValueError as error:
            reason = f"the map from a document to its file is wrong ({error})"
            raise damaged(self._name, reason) from error

    def _expect_tree(self, item: Tree) -> None:
        try:
            expect_groups(item.blocks, self._document.characters if self._document else 0)
        except ValueError as error:
            reason = f"the block tree of a document is wrong ({error})"
            raise damaged(self._name, reason) from error

    def _expect_once(self, kind: str, name: str) -> None:
        if (kind, name) in self._seen:
            raise damaged(self._name, f"the {kind} {name!r} comes twice")
        self._seen.add((kind, name))

    def finish(self) -> None:
        """Verify that the document whose parts have passed has the text its id was made from."""
        row, self._document = self._document, None
        if row is None:
            return
        if self._hash.document_id != row.id:
            raise damaged(
                self._name,
                f"the text of document {row.id} has the id {self._hash.document_id}",
            )
        existing = self._library.document_by_id(row.id)
        if existing is not None and self._library.text_digest(row.id) != self._hash.digest:
            raise StoreError(
                f"the archive {self._name} holds another text with the id {row.id} than the"
                f" library at {self._library.path}: remove that document, or import into another"
                " library"
            )


def _refuse_model(library: LibraryView, about: About, name: str) -> None:
    fingerprint = library.fingerprint
    if fingerprint is None or about.fingerprint is None:
        return
    if about.fingerprint != fingerprint:
        raise FingerprintMismatch(
            f"the archive {name} was made with model {about.model} ({about.fingerprint}), the"
            f" library at {library.path} with {fingerprint}: import it into another library"
        )
    if about.layout != library.layout:
        raise FingerprintMismatch(
            f"the archive {name} keeps its chunk memory as {about.layout}, the library at"
            f" {library.path} as {library.layout}: import it into another library"
        )


def _refuse_document(library: LibraryView, row: DocumentRow, name: str) -> None:
    if not ID.fullmatch(row.id):
        raise damaged(name, f"{row.id!r} is not a document's id")
    standing = library.document_at(row.source)
    if standing is not None and standing.id != row.id:
        raise StoreError(
            f"the archive {name} holds another text of {row.source} than the library at"
            f" {library.path}: remove {standing.id} first, or import into another library"
        )


def _refuse_session(library: LibraryView, row: SessionRow) -> None:
    check_name(row.name)
    try:
        existing = library.load_session(row.name)
    except NotFound:
        return
    if existing != row:
        raise SessionError(
            f"the library at {library.path} has another session {row.name!r}: rename or delete it,"
            " and import again"
        )


def _refuse_part(part: Part, name: str, vocabulary: int | None) -> None:
    header = parse_header(bytes(part.data[:HEADER_SIZE]), file_size=len(part.data), where=name)
    if header != part.header:
        raise damaged(name, f"it holds {header} where {part.header} should be")
    if chunk_lengths(part.data, header) != part.lengths:
        raise damaged(name, "lengths of texts and records differ")
    try:
        check_texts(part.texts, part.texts[0].start)
    except ValueError as error:
        raise damaged(name, str(error)) from error
    sections = header.sections
    with memoryview(part.data) as data:
        for index, text in enumerate(part.texts):
            if not chunk_is_intact(data, sections, index):
                raise damaged(name, f"the checksum of chunk {index} of {header} is wrong")
            fault = chunk_fault(
                data, sections, index, characters=len(text.text), vocabulary=vocabulary
            )
            if fault is not None:
                raise damaged(name, f"chunk {index} of {header}: {fault}")
        if any(any(data[begin:end]) for begin, end in gaps(header)):
            raise damaged(name, "bytes between sections are not zero")


def _bind(session: WriteSession, about: About) -> None:
    """Give an empty library the archive's model."""
    if about.layout is None or about.fingerprint is None or session.library.fingerprint is not None:
        return
    values = {
        "fingerprint": about.fingerprint,
        "layout": json.dumps(dataclasses.asdict(about.layout)),
    }
    if about.model is not None:
        values["model"] = about.model
    if about.vocabulary is not None:
        values[VOCABULARY] = str(about.vocabulary)
    session.put_settings(values)
