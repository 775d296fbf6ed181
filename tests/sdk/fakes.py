"""A fake model at the SDK's seam: real documents and a real store, answers by looking words up.

`FakeEngine` replaces the functions of `drt._engine` that would load a model; what it stores is
a valid library whose chunk memory is zeros.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drt_engine import errors
from drt_engine.documents import Source, open_document
from drt_engine.documents.source_map import SourceMap
from drt_engine.ingest.identity import file_digest
from drt_engine.progress import report
from drt_engine.results import (
    AnswerGroup,
    Change,
    Citation,
    IngestProgress,
    ScanInfo,
    SearchHit,
    Trace,
    TraceCandidate,
    TraceDocument,
    TraceEntry,
    TraceGroup,
    TraceToken,
)
from drt_engine.search.search import SearchRequest, search
from drt_engine.store import ChunkBatch, ChunkText, DocumentRow, RecordLayout, Store

LAYOUT = RecordLayout(chunk_tokens=16, kv_heads=1, head_size=2, landmark_size=4)
REPLACED = (
    "decoder_parameters",
    "load_runtime",
    "ask",
    "stream",
    "summarize",
    "study",
    "train",
    "train_tokenizer",
    "evaluate",
    "bench",
    "convert",
    "search",
    "ask_all",
)


@dataclass(frozen=True)
class FakeAnswer:
    text: str
    found: bool
    confidence: float
    mode: str
    citations: tuple[Citation, ...]
    tokens_read: int
    trace: Trace
    state: str = "none"
    quote_probability: float | None = None
    passage: str = ""
    second_passage: str = ""
    verdict: str | None = None
    hint: str = ""
    scan: ScanInfo | None = None
    origin: str = "reader"


@dataclass(frozen=True)
class FakeSummary:
    text: str
    mode: str
    sentences: tuple[Citation, ...]
    tokens_read: int
    changes: tuple[Change, ...] = ()
    changes_omitted: int = 0
    about: str = ""


@dataclass
class FakeSession:
    store: Store
    name: str
    turns: list[dict[str, Any]]

    @classmethod
    def new(cls, runtime: Any, store: Store, name: str) -> FakeSession:
        if not name:
            raise errors.SessionError("'' cannot name a session.")
        return cls(store, name, [])

    @classmethod
    def restore(cls, runtime: Any, store: Store, name: str) -> FakeSession:
        return cls(store, name, store.load_session(name).transcript)

    def record_summary(self, request: str, text: str, sentences: Sequence[Citation]) -> None:
        cited = [asdict(one) for one in sentences]
        turn = {"question": request, "answer": text, "found": True, "state": "answer"}
        self.turns.append(turn | {"confidence": 1.0, "mode": "summary", "citations": cited})

    def undo(self) -> dict[str, Any]:
        if not self.turns:
            raise errors.SessionError("no question can be taken back.")
        return self.turns.pop()

    def record_writing(self, number: int, writing: dict[str, Any]) -> None:
        self.turns[number - 1]["writing"] = writing

    def save(self) -> None:
        self.store.save_session(self.name, transcript=self.turns, meta={}, state=b"")


@dataclass
class FakeEngine:
    """Records what it was asked; `raises` names functions that raise instead."""

    loads: list[dict[str, Any]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    raises: dict[str, BaseException] = field(default_factory=dict)
    fingerprint: str = "fake-1"

    def install(self, replace: Callable[[str, Any], None]) -> None:
        for name in REPLACED:
            replace(name, getattr(self, name))
        replace("load_tokenizer", lambda model: None)
        replace("identify", lambda source, tokenizer, progress: None)
        replace("ingest_source", self.ingest)
        replace("AskOptions", dict)
        replace("SessionState", FakeSession)

    def _enter(self, name: str) -> None:
        if name in self.raises:
            raise self.raises[name]

    def decoder_parameters(self, runtime: Any) -> int:
        self._enter("decoder_parameters")
        return 0

    def load_runtime(
        self,
        model: str | Path,
        *,
        device: str,
        threads: int | None,
        dtype: str = "auto",
        task: str | None = None,
    ) -> Any:
        self._enter("load_runtime")
        self.loads.append({"model": model, "device": device, "threads": threads, "dtype": dtype})
        parameter = SimpleNamespace(numel=lambda: 10)
        return SimpleNamespace(
            name="fake",
            fingerprint=self.fingerprint,
            layout=LAYOUT,
            config=SimpleNamespace(vocab=30_000),
            model=SimpleNamespace(parameters=lambda: [parameter, parameter]),
        )

    def ingest(
        self,
        runtime: Any,
        store: Store,
        source: Source,
        *,
        progress: Any,
        skipped: Any,
        **_identified: Any,
    ) -> tuple[DocumentRow, bool]:
        self._enter("ingest")
        origins, places, text = SourceMap(), [(0, 3, "Part > Terms")], ""
        with open_document(source) as opened:
            for block in opened.blocks:
                if opened.media_type == "application/pdf":
                    origins.see(block)
                    places = [*(places if text else []), (len(text), block.page, block.section)]
                text += block.text
            title, media_type = opened.title, opened.media_type
        skipped(opened.skipped)
        id = hashlib.sha256(text.encode()).hexdigest()[:16]
        known = store.document_by_id(id)
        if known is not None:
            return known, False
        texts = list(_chunks(text))
        with store.begin_document(
            document_id=id,
            title=title,
            source=source.location,
            media_type=media_type,
            author=opened.author,
            date=opened.date,
        ) as writer:
            batch = _zeros([len(one.text.split()) for one in texts])
            writer.append(batch, texts)
            if progress is not None:
                tokens, half = int(batch.lengths.sum()), len(text) // 2
                progress(IngestProgress(source.name, half, half * 2, tokens, tokens / 4))
            row = writer.finish(places=places, origins=origins.groups)
        digest = file_digest(source) if media_type == "application/pdf" else None
        if digest is not None:  # so that its pages can be drawn
            store.note_source(row.source, digest, row.id)
        return row, True

    def ask(
        self,
        runtime: Any,
        store: Store,
        question: str,
        *,
        options: dict[str, Any],
        session: FakeSession | None = None,
    ) -> FakeAnswer:
        self._enter("ask")
        self.asked.append({"question": question, **options})
        if not re.search(r"\w", question):
            raise errors.QuestionError("the question holds no words; ask with some.")
        if not store.documents():
            raise errors.QuestionError("there is no document to ask; read one first.")
        ids = options.get("documents") or [row.id for row in store.documents()]
        word = max(re.findall(r"\w+", question), key=len)
        citations = tuple(one for id in ids for one in _find(store, id, word))
        found = bool(citations)
        closest = citations or _find(store, ids[0], "the")
        is_likely = not found and "likely" in question
        second = _find(store, ids[0], "is")[:1] if is_likely else []
        cited = citations if found else [*closest[:1], *second]
        mode = options.get("mode", "quote")
        trace = _trace(question, closest[0], full=options.get("record", False))
        answer = FakeAnswer(
            text=citations[0].quote if found else "nothing like it",
            found=found,
            confidence=0.75 if found else 0.125,
            mode=mode,
            citations=tuple(replace(one, likely=is_likely) for one in cited),
            tokens_read=sum(store.document(id).tokens for id in ids),
            trace=trace,
            state="answer" if found else "likely" if is_likely else "none",
            quote_probability=0.5 if found else 0.25,
            origin="table" if found else "reader",
            hint="" if found else "Try other words.",
            passage=f"Before. {(citations or closest)[0].context} After.",
            second_passage=f"Then. {second[0].context}" if second else "",
        )
        if session is not None:
            session.turns.append(
                {
                    "question": question,
                    "answer": answer.text,
                    "found": found,
                    "state": answer.state,
                    "confidence": answer.confidence,
                    "quote_probability": answer.quote_probability,
                    "mode": mode,
                    "citations": [asdict(one) for one in answer.citations],
                }
            )
        return answer

    def stream(self, runtime: Any, store: Store, question: str, **rest: Any) -> Iterator[Any]:
        answer = self.ask(runtime, store, question, **rest)
        if answer.found:
            yield from (answer.text[:3], answer.text[3:])
        yield answer

    def ask_all(self, runtime: Any, store: Store, question: str, options: dict[str, Any]) -> Any:
        """Every place of the word, each as an answer of its own."""
        answer = self.ask(runtime, store, question, options=options)
        cited = answer.citations if answer.found else ()
        groups = tuple(AnswerGroup(one.quote, 0.75, (one,)) for one in cited[:1])
        if len(cited) > 1:
            groups = (AnswerGroup(cited[0].quote, 0.75, cited),)
        return SimpleNamespace(
            groups=groups, passages_read=4, tokens_read=answer.tokens_read, scan=None
        )

    def search(
        self, runtime: Any, store: Store, query: str, request: SearchRequest
    ) -> tuple[SearchHit, ...]:
        """Search by words alone, as the engine does."""
        self._enter("search")
        self.calls.append(("search", runtime is not None, request))
        return search(None, store, query, replace(request, retriever="lexical"))

    def summarize(
        self, runtime: Any, store: Store, documents: Sequence[str], **options: Any
    ) -> FakeSummary:
        self._enter("summarize")
        self.calls.append(("summarize", options))
        sentences = tuple(_first_sentence(store, id) for id in documents)
        text = " ".join(one.quote for one in sentences)
        tokens = sum(store.document(id).tokens for id in documents)
        if options["since"] is None:
            about = ", ".join(f"About {store.document(id).title}" for id in documents)
            return FakeSummary(text, "extractive", sentences, tokens, about=about)
        changes = (
            Change(kind="removed", old="Gone.", new=None),
            Change(kind="changed", old="Before.", new=sentences[0]),
        )
        text = f"Removed: Gone.\nChanged: {sentences[0].quote}"
        omitted = 0 if options["length"] is None and options["words"] is None else 4
        return FakeSummary(text, "changes", sentences, tokens, changes, changes_omitted=omitted)

    def study(
        self, file: Path, overrides: Sequence[str], *, only: Sequence[str], results: Path | None
    ) -> dict[str, Any]:
        self._enter("study")
        self.calls.append(("study", file, tuple(overrides), only, results))
        folder = file.parent / "results"
        folder.mkdir(exist_ok=True)
        (folder / "table.md").write_text("# Passkeys\n\n| run |\n| --- |\n| DRT |\n")
        return {"folder": str(folder), "title": "Passkeys", "columns": [], "rows": []}

    def train(self, config: Path, overrides: Sequence[str]) -> Path:
        self.calls.append(("train", config, tuple(overrides)))
        report("step=1")
        return Path("runs") / "fake"

    def convert(self, source: str | Path, out: Path, dtype: str) -> Path:
        self._enter("convert")
        self.calls.append(("convert", source, out, dtype))
        return out

    def train_tokenizer(self, corpus: Sequence[Path], out: Path, *, vocab_size: int) -> Path:
        self.calls.append(("train_tokenizer", tuple(corpus), out, vocab_size))
        return out / "tokenizer.json"

    def evaluate(self, runtime: Any, task: str, options: dict[str, object]) -> dict[str, Any]:
        self.calls.append(("evaluate", task, options))
        return {
            "task": task,
            "data": "fake data",
            "n": 4,
            "metrics": {"all": {"f1": 0.5, "hybrid": {"hit@8": 0.75}}},
            "baselines": {"bm25": {"all": {"f1": 0.25}}},
            "seconds": 1.5,
            "model": "fake",
        }

    def bench(self, name: str, options: dict[str, object]) -> dict[str, Any]:
        self.calls.append(("bench", name, options))
        row = {"median": 2.0, "iqr": 0.1, "unit": "s", "against": "matmul", "ratio": 0.5}
        return {
            "bench": name,
            "rows": [{"name": "read", **row}],
            "calibration": {"matmul": 4.0},
            "seconds": 1.5,
            "model": "fake",
        }


def _chunks(text: str) -> Iterator[ChunkText]:
    """Slices of at most 16 words that join to the whole text."""
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    cuts = [0, *ends[LAYOUT.chunk_tokens - 1 :: LAYOUT.chunk_tokens], len(text)]
    for start, end in zip(cuts, cuts[1:], strict=False):
        if end > start:
            yield ChunkText(start, text[start:end], page=3, section="Part > Terms")


def _zeros(lengths: list[int]) -> ChunkBatch:
    import torch

    count, slots = len(lengths), LAYOUT.chunk_tokens
    numbers = torch.zeros(count, slots, dtype=torch.int32)
    memory = torch.zeros(count, slots, LAYOUT.kv_heads, LAYOUT.head_size)
    return ChunkBatch(
        ids=numbers,
        starts=numbers,
        ends=numbers,
        lengths=torch.tensor(lengths, dtype=torch.int32),
        keys=memory,
        values=memory,
        landmarks=torch.zeros(count, LAYOUT.landmark_size),
    )


def _find(store: Store, id: str, word: str) -> list[Citation]:
    """Every place of a word in a document, with the sentence around it."""
    row = store.document(id)
    text = store.text(id, 0, row.characters)
    found = []
    for match in re.finditer(rf"\b{re.escape(word)}\b", text):
        first = text.rfind(".", 0, match.start()) + 1
        last = text.find(".", match.end()) + 1 or len(text)
        found.append(
            Citation(
                document=id,
                title=row.title,
                source=row.source,
                start=match.start(),
                end=match.end(),
                quote=match.group(),
                page=3,
                section="Part > Terms",
                probability=0.5,
                context=text[first:last].strip(),
            )
        )
    return found


def _first_sentence(store: Store, id: str) -> Citation:
    row = store.document(id)
    first = store.text(id, 0, row.characters).split(".")[0] + "."
    return Citation(row.id, row.title, row.source, 0, len(first), first, 3, None, 0.5, first)


def _trace(question: str, citation: Citation, *, full: bool) -> Trace:
    """One group with one entry; in full, with a token that read it and a map."""
    entry = _entry(citation)
    if not full:
        return Trace(question, (TraceGroup(0, 0, (entry,)),))
    candidate = TraceCandidate(
        entry.chunk, entry.document, entry.title, entry.start, entry.text, entry.score, True
    )
    group = TraceGroup(0, 0, (entry,), by_landmark=(candidate,), by_words=(candidate,))
    parts = (("Which", "question"), ("", "marker"), (citation.quote, "answer"))
    tokens = tuple(TraceToken(text, part, 0, ((0.25,),)) for text, part in parts)
    document = TraceDocument(
        id=citation.document,
        title=citation.title,
        source=citation.source,
        characters=citation.end + 50,
        heat=(0.5, 1.5, 1.0),
    )
    return Trace(question, (group,), tokens, (document,))


def _entry(citation: Citation) -> TraceEntry:
    return TraceEntry(
        chunk=1,
        document=citation.document,
        title=citation.title,
        start=citation.start - citation.context.find(citation.quote),
        text=citation.context,
        score=1.5,
        probability=citation.probability,
        source="both",
        page=citation.page,
        section=citation.section,
        landmark=1.25,
        lexical=0.5,
        late=0.125,
        mass=0.25,
        pointer=0.75,
    )
