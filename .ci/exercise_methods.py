"""Calls the public functions and methods of an installed ``drt``."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exercise_shared import ANSWER, CONFIG, QUESTION, STUDY, corpus_row, expect


class Recorder:
    """Replaces every public function and method of ``drt`` by one that notes that it was called."""

    def __init__(self, package: Any) -> None:
        self.called: set[str] = set()
        self.every: set[str] = set()
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value):
                self._watch_class(name, value)
            elif inspect.isfunction(value):
                setattr(package, name, self._watched(name, value))

    def _watch_class(self, name: str, owner: type) -> None:
        for key, value in list(vars(owner).items()):
            if key.startswith("_"):
                continue
            if inspect.isfunction(value):
                setattr(owner, key, self._watched(f"{name}.{key}", value))
            elif isinstance(value, property) and value.fget is not None:
                setattr(owner, key, property(self._watched(f"{name}.{key}", value.fget)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        self.every.add(name)

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            self.called.add(name)
            return function(*arguments, **options)

        return call

    def unused(self) -> set[str]:
        """Return what was never called."""
        return self.every - self.called


def exercise_python(examples: Path) -> set[str]:
    """Call every public function and method; return the names of those that were not."""
    import drt

    recorder = Recorder(drt)
    agreement = examples / "agreement.md"
    with drt.Assistant("python.library", threads=1, log="python-log.db") as assistant:
        document = assistant.ingest(agreement)
        _python_reading(drt, assistant, agreement)
        _python_asking(drt, assistant, document)
        _python_talking(drt, assistant)
        _python_library(drt, assistant.library, document)
    asyncio.run(_python_async(drt, agreement))
    _python_functions(drt, agreement)
    return recorder.unused()


def _python_reading(drt: Any, assistant: Any, agreement: Path) -> None:
    Path("python").mkdir()
    Path("python/gate.txt").write_text("The gate is locked at nine.\n")
    steps: list[Any] = []
    report = assistant.ingest_many(["python", "missing"], progress=steps.append)
    expect(len(report.documents) == 1 and len(report.failures) == 1, f"ingest_many: {report}")
    json.dumps([report.to_dict(), report.documents[0].to_dict()])
    expect(steps[-1].fraction == 1.0 and steps[-1].tokens_per_second > 0, "progress")
    (result,) = assistant.ingest_each([agreement])
    expect(not result.document.new and result.to_dict(), "ingest_each")
    try:
        assistant.ingest_address("https://127.0.0.1:1/", private=True)
    except drt.DocumentError as error:
        expect("127.0.0.1" in str(error), f"ingest_address: {error}")
    _python_shards(drt)
    Path("python/gate.txt").write_text("The gate is locked at ten.\n")
    watched = assistant.watch("python", interval=0.05)
    event = next(watched)
    watched.close()
    expect(event.kind == "read" and event.to_dict(), f"watch: {event}")
    list(drt.Watch(assistant, [Path("python")]).poll())


def _python_shards(drt: Any) -> None:
    """Read into shards, which needs an extra."""
    with drt.Assistant("shards.library") as assistant:
        try:
            list(assistant.ingest_shards("python", ray="local", shards=2))
        except drt.ConfigError as error:
            expect("drt-assistant[cluster]" in str(error), f"without its extra: {error}")
    with drt.Assistant("python.library", threads=1, ray="local", deadline=5) as assistant:
        try:
            assistant.ask(QUESTION)
        except drt.ConfigError as error:
            expect("drt-assistant[cluster]" in str(error), f"ray without its extra: {error}")
    step = drt.ShardsProgress(1, 2, 100, 2.0, (None,))
    expect(step.tokens_per_second == 50, f"progress of shards: {step}")


def _python_asking(drt: Any, assistant: Any, document: Any) -> None:
    steps: list[Any] = []
    with drt.watch_reading(steps.append):
        answer = assistant.ask(QUESTION, documents=document)
    expect(ANSWER in answer.text and answer.to_dict(), f"ask: {answer}")
    expect(steps and steps[0].read == 0 and steps[0].text, f"reading: {steps}")
    expect(ANSWER in str(answer), f"an answer as text: {answer}")
    citation = answer.citations[0]
    text = assistant.library.text(document)
    expect(text[citation.start : citation.end] == citation.quote, "an exact quote")
    expect(drt.passage(assistant.library, citation.handle).to_dict(), "passage")
    try:
        drt.page_image(assistant.library, citation)
    except drt.NotFoundError as error:
        expect("no pages" in str(error) or "not a PDF" in str(error), f"page_image: {error}")
    image = drt.PageImage(citation, 1, 1, 10, 10, (), b"")
    expect(image.to_dict()["handle"] == citation.handle, "a page as plain values")
    expect(ANSWER in citation.sentence, f"the sentence around a quote: {citation}")
    expect(ANSWER in citation.span and ANSWER in answer.as_markdown(), "the words that answer")
    page = drt.export_answer(answer, "html", library=assistant.library)
    expect("<mark>" in page and "<script" not in page, f"export_answer: {page}")
    (many,) = assistant.ask_many([QUESTION], documents=document)
    expect(many.text == answer.text and citation.to_dict(), "ask_many")
    stream = assistant.stream(QUESTION, documents=document)
    expect("".join(stream) == answer.text and stream.answer is not None, "stream")
    trace = assistant.trace(QUESTION, documents=document)
    expect(trace.as_text() and "<html" in trace.as_html()[:500] and trace.to_dict(), "trace")
    handles = [entry.handle for group in trace.groups for entry in group.entries]
    expect(handles and drt.passage(assistant.library, handles[0]).quote, "a trace's handle")
    every = assistant.ask_all(QUESTION, documents=document)
    expect(ANSWER in every.text and every.state == "answer" and every.citations, f"all: {every}")
    expect(every.confidence > 0 and every.answers[0].to_dict() and every.to_dict(), "ask_all")
    log = drt.QuestionLog("python-log.db")
    expect(log.add(every, "python.library") and log.entries("sailed")[0].to_dict(), "log")
    expect(log.forget(document.id) > 0 and log.clear() == 0, "a log forgets")
    tagged = assistant.library.tag(document, add="signed")
    expect(tagged.tags == ("signed",), f"tag: {tagged}")
    found = assistant.search(QUESTION, tags="signed", section="Clause 11")
    expect(found.hits, f"search with filters: {found}")
    found = assistant.search(QUESTION, documents=document, top_k=3)
    expect(found.to_dict()["hits"][0] == found.hits[0].to_dict(), f"search: {found}")
    expect(found.hits[0].page_name == "", "a Markdown file has no pages")
    expect(drt.passage(assistant.library, found.hits[0]).quote == found.hits[0].sentence, "passage")
    summary = assistant.summarize(document, since=agreement_draft(document))
    expect(summary.changes and summary.to_dict(), f"summarize: {summary}")
    json.dumps([change.to_dict() for change in summary.changes])
    expect(assistant.summarize(document, words=30).text, "summarize")


def agreement_draft(document: Any) -> str:
    """Return the older version that stands beside the agreement."""
    return str(Path(document.source).with_name("agreement-draft.md"))


def _python_talking(drt: Any, assistant: Any) -> None:
    session = assistant.session()
    answer = session.ask(QUESTION)
    expect(ANSWER in answer.text and session.name is None, f"session: {answer}")
    undone = session.ask("Who signs?")
    expect(session.undo().question == undone.question and len(session.turns) == 1, "undo")
    session.rename("talk")
    expect("".join(session.stream("And in what form?")) is not None, "a session's stream")
    session.save()
    expect([turn.to_dict() for turn in assistant.session("talk").turns][1:], "turns")


def _python_library(drt: Any, library: Any, document: Any) -> None:
    expect(library.exists() and len(library.documents()) == 2, "documents")
    library.expect_documents()
    expect(library.show(document.id).id == document.id, "show")
    expect(library.stats()["documents"] == 2, "stats")
    expect(library.changed_files(library.documents()) == [], "changed_files")
    expect(library.missing_files(library.documents()) == [], "missing_files")
    expect([one.to_dict() for one in library.sessions()] != [], "sessions")
    expect([one.to_dict() for one in library.search_sessions("notice")] != [], "search_sessions")
    expect(len(library.session_turns("talk")) == 2, "session_turns")
    library.rename_session("talk", "talked")
    library.export_archive("python.drtlib")
    library.delete_session("talked")
    gate = next(one for one in library.documents() if one.id != document.id)
    library.remove(gate, undoable=True)
    expect([one.id for one in library.removed()] == [gate.id], "removed")
    expect(library.undo_remove(gate).id == gate.id, "undo_remove")
    library.remove(gate, forget=True)
    expect(library.compact() >= 0, "compact")
    expect([one.to_dict() for one in library.check() + library.repair()] == [], "check, repair")
    kept = library.backup("backup.library")
    restored = drt.Library("restored-python.library").restore("backup.library")
    expect(kept.to_dict()["documents"] == restored.documents, f"backup: {kept}, {restored}")
    copy = drt.Library("copied.library")
    expect(len(copy.import_archive("python.drtlib")) == 2, "import_archive")
    _python_index(drt, library)
    both = drt.Library.federate("both.json", [library.path, copy.path])
    expect(both.several and both.location == "both.json", "federate")
    expect(len(both.folders) == 2, f"the folders of a list: {both.folders}")
    expect(len(both.documents()) == len(copy.documents()), "libraries that overlap")
    copy.expect_one()
    copy.remove(document)
    expect(len(copy.rebuild(threads=1)) == 1, "rebuild")
    with drt.Assistant([library.path, "gone.library"], threads=1) as others:
        result = others.search("notice", retriever="lexical")
        expect([one.to_dict() for one in result.unread_libraries] != [], "unread_libraries")
        unread = others.library.unread_libraries()
        expect(unread == result.unread_libraries, "unread_libraries of the library")
    segment = max(Path("copied.library").rglob("*.seg"), key=lambda file: file.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    expect([one.to_dict() for one in copy.check()], "check of a damaged library")


def _python_index(drt: Any, library: Any) -> None:
    """Go through the approximate index without FAISS."""
    expect(library.index() is None and not library.remove_index(), "no index")
    for call in (library.make_index, library.index_recall, lambda: library.set_index_probes(4)):
        try:
            call()
        except drt.DrtError as error:
            expect("faiss" in str(error) or "no approximate" in str(error), f"index: {error}")
        else:
            expect(False, "an index without FAISS")
    with drt.Assistant(library.path, threads=1, approximate=True) as assistant:
        scan = assistant.search("notice").scan
    expect(not scan.approximate and scan.to_dict()["notes"], f"scan: {scan}")
    expect(drt.IndexInfo("index", 1, 1, 0, 1, 1).to_dict()["lists"] == 1, "IndexInfo")
    expect(drt.IndexRecall(1, 1, 32, 1.0, 1.0, 1.0).to_dict()["recall"] == 1, "IndexRecall")


async def _python_async(drt: Any, agreement: Path) -> None:
    async with drt.AsyncAssistant("async.library", threads=1) as assistant:
        document = await assistant.ingest(agreement)
        expect((await assistant.ingest_many([agreement])).documents, "ingest_many")
        try:
            await assistant.ingest_address("https://127.0.0.1:1/", private=True)
        except drt.DocumentError as error:
            expect("127.0.0.1" in str(error), f"ingest_address: {error}")
        expect([one async for one in assistant.ingest_each([agreement])], "ingest_each")
        try:
            [one async for one in assistant.ingest_shards([agreement], shards=2)]
        except drt.ConfigError as error:
            expect("without shards" in str(error), f"ingest_shards: {error}")
        answer = await assistant.ask(QUESTION)
        expect(ANSWER in answer.text, f"ask: {answer}")
        expect([one async for one in assistant.ask_many([QUESTION])], "ask_many")
        stream = assistant.stream(QUESTION)
        expect("".join([piece async for piece in stream]) == answer.text, "stream")
        expect(stream.answer is not None, "the stream's answer")
        expect((await assistant.trace(QUESTION)).groups, "trace")
        expect((await assistant.summarize(document)).text, "summarize")
        expect((await assistant.ask_all(QUESTION)).answers, "ask_all")
        expect((await assistant.search(QUESTION)).hits[0].handle, "search")
        session = await assistant.session("async")
        await session.ask(QUESTION)
        expect("".join([piece async for piece in session.stream("And when?")]) != "x", "stream")
        writing = session.write(answer, drt.WriterOptions("http://127.0.0.1:1/v1", "m"))
        try:
            [sentence async for sentence in writing]
        except drt.ConfigError as error:
            expect("drt-assistant[writer]" in str(error), f"without its extra: {error}")
        expect(writing.result is None, "nothing written")
        await session.ask("Who signs?")
        expect((await session.undo()).question == "Who signs?", "undo")
        await session.save()
        await session.rename("renamed")
        expect(session.name == "renamed" and len(session.turns) == 2, "session")
        expect(len(assistant.library.documents()) == 1, "library")
        Path("async").mkdir()
        Path("async/bell.txt").write_text("The bell is rung at noon.\n")
        async for event in assistant.watch("async", interval=0.05):
            expect(event.kind == "read", f"watch: {event}")
            break
    await assistant.close()


def _python_functions(drt: Any, agreement: Path) -> None:
    expect(drt.default_library() == Path(os.environ["DRT_LIBRARY"]), "default_library")
    report = drt.doctor("python.library", threads=1)
    expect(report.ok and report.to_dict(), f"doctor: {report}")
    expect(all(check.to_dict() for check in report.checks), "checks")
    expect([one.to_dict() for one in drt.formats()], "formats")
    expect(drt.plugins() == [], "plugins")
    expect(drt.local_writers(ports={"nobody": 1}) == (), "local_writers")
    expect(drt.LocalWriter("p", "http://127.0.0.1:1/v1", ("m",)).models == ("m",), "LocalWriter")
    info = drt.PluginInfo("command", "cite", "drt-command-cite", "1.0", "ready")
    expect(info.to_dict()["state"] == "ready", "PluginInfo")
    expect([one.to_dict() for one in drt.models()] and drt.model_info().card, "models")
    expect(drt.verify_model().fingerprint, "verify_model")
    drt.convert_model("drt-small-en", "python-plain")
    for name in drt.schemas():
        json.dumps(drt.schema(name))
    Path("python-corpus.txt").write_text(agreement.read_text(encoding="utf-8"))
    tokenizer = drt.train_tokenizer(["python-corpus.txt"], "python-tokenizer", vocab_size=600)
    Path("corpus-p.jsonl").write_text(json.dumps(corpus_row(agreement.read_text("utf-8"))) + "\n")
    config = CONFIG.format(tokenizer=tokenizer).replace("corpus.jsonl", "corpus-p.jsonl")
    Path("python.toml").write_text(config.replace('"tiny"', '"python-tiny"'))
    Path("python-study.toml").write_text(STUDY.replace('"study"', '"python-study"'))
    expect(
        drt.study("python-study.toml", only=["tiny"], results="python.json")["rows"][0]["cells"],
        "study",
    )
    traced = drt.trace_stream("python-corpus.txt", tokens=300, threads=1)
    expect(drt.stream_view(traced) and drt.stream_view(traced, "html"), "trace_stream")
    run = drt.train("python.toml", ["optim.steps=2"])
    expect(run == Path("python-tiny"), f"train: {run}")
    result = drt.evaluate("ppl", corpus="corpus-p.jsonl", length=256, limit=512, threads=1)
    expect(drt.report_table(result), "evaluate")
    result = drt.bench("retrieve", repetitions=1, tokens=256, threads=1)
    expect(drt.report_table(result), "bench")
    _without_extras(drt)


def _without_extras(drt: Any) -> None:
    """Call what needs an extra: it says which."""
    with drt.Assistant("python.library") as assistant:
        for call, options in (
            (drt.serve, [drt.ServeOptions(port=0)]),
            (drt.asgi_app, []),
            (drt.mcp_server, []),
        ):
            try:
                call(assistant, *options)
            except drt.ConfigError as error:
                expect("pip install" in str(error), f"without its extra: {error}")
            else:
                expect(False, f"{call} without its extra")
        _write(drt, assistant)


def _write(drt: Any, assistant: Any) -> None:
    """Go through what a writer's results can do, without one."""
    options = drt.WriterOptions("http://127.0.0.1:1/v1", "m")
    expect(options.host == "127.0.0.1:1", "the writer's host")
    answer = assistant.ask(QUESTION)
    try:
        drt.write(assistant, answer, options)
    except drt.ConfigError as error:
        expect("drt-assistant[writer]" in str(error), f"without its extra: {error}")
    session = assistant.session()
    try:
        session.write(session.ask(QUESTION), options)
    except drt.ConfigError as error:
        expect("drt-assistant[writer]" in str(error), f"without its extra: {error}")
    writing = drt.Writing(assistant, answer, options, {}, question=QUESTION)
    expect("127.0.0.1:1" in writing.sent and not options.plugin, "what is sent")
    expect(answer.citations[0].document in writing.documents, "of what sentences are sent")
    sentence = drt.WrittenSentence("Sixty days [1].", (1,))
    expect(sentence.supported and sentence.to_dict()["sources"] == [1], "a written sentence")
    sources = dict(enumerate(answer.citations, start=1))
    result = drt.WrittenAnswer(answer, "written", (sentence,), sources, options.host, "m", 1.0)
    expect(result.text and result.to_dict()["writing"]["sources"], "a written answer")
