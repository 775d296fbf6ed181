"""Goes through the commands about documents, and checks what each prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

from exercise_line import CommandLine
from exercise_shared import ANSWER, QUESTION, expect


def exercise_documents(drt: CommandLine, examples: Path) -> None:
    """Read, ask, show, summarise, trace, chat; then what the library and sessions can do."""
    agreement, draft = examples / "agreement.md", examples / "agreement-draft.md"
    report = drt.json(f"ingest {agreement}")
    (document,) = report["documents"]
    expect(document["new"] and not report["failures"], f"reading: {report}")
    expect("unchanged" in drt(f"ingest {agreement}"), "a second reading")
    folder = _many_formats()
    lines = drt(f"ingest --workers 2 --jsonl {folder}").splitlines()
    expect(len(lines) == len(list(folder.iterdir())), f"lines of ingest: {lines}")
    expect(all(json.loads(line)["error"] is None for line in lines), f"formats: {lines}")
    expect("no-such-file" in drt("ingest no-such-file.md", code=1), "a missing file")
    _watch(drt)

    text = drt(f"library show {document['id']} --text")
    expect(text == agreement.read_text(encoding="utf-8"), "the kept text")
    _ask(drt, agreement, text)
    _search(drt, agreement, text)
    _every_place(drt, agreement)
    _summarise(drt, agreement, draft)
    _trace(drt, agreement)
    _talk(drt, agreement)
    _keep(drt, document["id"])


def _many_formats() -> Path:
    folder = Path("formats")
    folder.mkdir()
    (folder / "notes.txt").write_text("The bell of the chapel is rung at noon.\n")
    (folder / "crew.csv").write_text("name,post\nIda Holm,captain\nJonas Reed,cook\n")
    (folder / "page.html").write_text("<h1>Rules</h1><p>The gate is locked at nine.</p>")
    (folder / "letter.eml").write_text("Subject: Coal\n\nThe coal comes on Tuesday.\n")
    (folder / "tool.py").write_text('"""Counts whales."""\n\ndef count() -> int:\n    return 3\n')
    return folder


def _watch(drt: CommandLine) -> None:
    """Watch a folder until a file of it is read, then press Ctrl-C."""
    folder = Path("watched")
    folder.mkdir()
    (folder / "tide.txt").write_text("High water is at ten in the morning.\n")
    words = ["ingest", "--watch", "--interval", "0.1", "--jsonl", str(folder)]
    drt.note(words)
    command = [drt.program, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        alarm = threading.Timer(120, process.kill)
        alarm.start()
        assert process.stdout is not None and process.stderr is not None
        event = json.loads(process.stdout.readline() or b"{}")
        process.send_signal(signal.SIGINT)
        code = process.wait()
        alarm.cancel()
        errors = process.stderr.read().decode()
    expect(event.get("kind") == "read" and code == 130, f"--watch: {event}, {code}, {errors}")


def _ask(drt: CommandLine, agreement: Path, text: str) -> None:
    answer = drt.json(f"ask '{QUESTION}' {agreement}")
    expect(ANSWER in answer["answer"], f"answer: {answer}")
    for citation in answer["citations"]:
        exact = text[citation["start"] : citation["end"]] == citation["quote"]
        expect(exact, f"a quote that is not exact: {citation}")
    expect(ANSWER in drt("show 1"), "show 1")
    drt("show 1 --png page.png", code=1)
    for line in ("ask 'Who signs?'", "ingest"):
        fetched = drt(f"{line} https://127.0.0.1:1/ --fetch --fetch-private", code=1)
        expect("127.0.0.1" in fetched, f"{line} of an address: {fetched}")
    shown = drt.json("show 1 --around 10")
    expect(ANSWER in shown["quote"], f"show --json: {shown}")
    handle = f"{shown['document'][:8]}:{shown['start']}-{shown['end']}"
    expect(ANSWER in drt(f"show {handle} --open", PATH=_viewer()), "show --open")
    plain = drt(f"ask '{QUESTION}' --doc {agreement} --explain --top-k 6 --no-reread")
    expect("answer chunk 1" in plain, f"ask --explain: {plain}")
    noted = drt(f"ask '{QUESTION}' --doc {agreement} --markdown")
    expect(ANSWER in noted and "[^1]: " in noted, f"ask --markdown: {noted}")
    page = drt(f"ask '{QUESTION}' --doc {agreement} --export html")
    expect("<mark>" in page and ANSWER in page, f"ask --export: {page}")
    streamed = drt(f"ask '{QUESTION}' --doc {agreement} --stream --retriever lexical --reread")
    expect(ANSWER in streamed, f"ask --stream: {streamed}")
    lines = drt("ask - --jsonl --retriever landmark", stdin=f"{QUESTION}\nWho is the cook?\n")
    expect(len(lines.splitlines()) == 2, f"ask -: {lines}")
    free = drt.json(f"ask '{QUESTION}' --mode free --max-tokens 4 --threshold 0")
    expect(free["mode"] == "free", f"free mode: {free}")
    expect("drt: " in drt("ask '?'", code=1), "a question without a word")


def _every_place(drt: CommandLine, agreement: Path) -> None:
    """Ask for all places, then what the log holds of all questions."""
    every = drt.json(f"ask '{QUESTION}' {agreement} --all")
    expect(ANSWER in every["answers"][0]["text"], f"ask --all: {every}")
    expect("passages read" in drt(f"ask '{QUESTION}' --doc {agreement} --all"), "ask --all")
    logged = drt.json("log sailed --last 3")["entries"]
    expect(ANSWER in logged[0]["answer"], f"log: {logged}")
    expect(QUESTION in drt("log"), "log in words")
    expect("deleted" in drt("log --clear"), "log --clear")
    drt(f"ask '{QUESTION}' --doc {agreement} --top-k 2", DRT_LOG="0")
    expect(drt("log") == "", "a log that is switched off")


def _search(drt: CommandLine, agreement: Path, text: str) -> None:
    hit = drt.json(f"search 'notice after sailing' {agreement} --top-k 2")["hits"][0]
    expect(text[hit["start"] : hit["end"]] == hit["text"], f"a passage that is not exact: {hit}")
    expect(hit["sentence"] in hit["text"] and hit["sentence"] in drt("show 1"), f"search: {hit}")
    plain = drt(f"search 'notice after sailing' --doc {agreement} --retriever landmark")
    expect("[1]" in plain and "score" in plain, f"search: {plain}")
    drt(f"ingest {agreement} --tag work")
    expect("[signed]" in drt("library tag agreement.md +signed -work"), "library tag")
    listed = drt.json("library list --tag signed --type md --since 1990")["documents"]
    expect(len(listed) == 1, f"library list with filters: {listed}")
    filters = "--tag signed --type md --since 2020 --section 'Clause 11'"
    expect("Clause 11" in drt(f"search notice {filters}"), "search with filters")
    expect(ANSWER in drt(f"ask '{QUESTION}' {filters}"), "ask with filters")
    expect("Clause 11" in drt(f"trace '{QUESTION}' {filters}"), "trace with filters")
    expect(ANSWER in drt(f"chat {filters}", stdin=f"{QUESTION}\n"), "chat with filters")
    expect(drt("summarize --tag signed --type md"), "summarize with filters")
    for line in ("search x", "ask x", "trace x", "chat", "summarize agreement.md"):
        problem = drt(f"{line} --pages 2-3", code=int(line != "chat"), stdin="x\n")
        expect(line == "chat" or "have no pages" in problem, f"{line} --pages: {problem}")
    lines = drt("search notice --retriever lexical --jsonl").splitlines()
    expect(lines and "notice" in json.loads(lines[0])["sentence"], f"search --jsonl: {lines}")


def _viewer() -> str:
    """Return a PATH whose program to open files does nothing."""
    folder = Path("bin").absolute()
    folder.mkdir()
    for name in ("xdg-open", "open"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def _summarise(drt: CommandLine, agreement: Path, draft: Path) -> None:
    short = drt.json(f"summarize {agreement}")
    expect(short["sentences"] and len(short["summary"].split()) <= 60, f"summary: {short}")
    longer = drt(f"summarize {agreement} --length medium --mode extractive --no-cite")
    expect(len(longer.split()) <= 150, f"--length medium: {longer}")
    drt(f"summarize {agreement} --length long --cite")
    written = drt.json(f"summarize {agreement} --words 20 --mode abstractive --focus pay")
    # Text that no sentence of the document supports is replaced by sentences of the document.
    expect(written["summary"] and written["sentences"], f"abstractive: {written}")
    lines = drt(f"summarize {agreement} --section 'Clause 3' --jsonl --words 40").splitlines()
    expect(lines and all(json.loads(line)["quote"] for line in lines), f"--section: {lines}")
    text = drt(f"summarize {agreement} --markdown")
    expect("[^1]: " in text, f"--markdown: {text}")
    changed = drt.json(f"summarize {agreement} --since {draft}")
    expect(changed["changes"], f"--since: {changed}")


def _trace(drt: CommandLine, agreement: Path) -> None:
    options = "--top-k 4 --retriever hybrid --reread --mode quote --threshold 0.1 --max-tokens 8"
    trace = drt.json(f"trace '{QUESTION}' {agreement} {options}")
    expect(trace["groups"] and ANSWER in trace["answer"]["answer"], "trace --json")
    drt(f"trace '{QUESTION}' --doc {agreement} --html trace.html --no-reread")
    expect("<html" in Path("trace.html").read_text(encoding="utf-8")[:500], "the trace page")


def _talk(drt: CommandLine, agreement: Path) -> None:
    """Two turns by ask, two by chat, then every verb of conversations."""
    first = drt.json(f"ask '{QUESTION}' --session review")
    expect(ANSWER in first["answer"], f"ask --session: {first}")
    drt("ask 'And in what form?' --session review")
    typed = f"{QUESTION}\n/sources\n/show 1\n/doc {agreement}\n/mode quote\n/save chat.md\n/quit\n"
    options = "--top-k 8 --retriever hybrid --reread --mode quote --threshold 0.2 --max-tokens 9"
    said = drt(f"chat --session review --doc {agreement} {options}", stdin=typed)
    expect(ANSWER in said and ANSWER in Path("chat.md").read_text(), f"chat: {said}")
    lines = drt("chat --jsonl --no-reread", stdin=f"{QUESTION}\n").splitlines()
    expect(len(lines) == 1 and json.loads(lines[0])["citations"], f"chat --jsonl: {lines}")
    turns = drt.json("session show review")["turns"]
    expect(len(turns) == 3, f"turns: {turns}")
    drt("session show review")
    drt("session rename review reviewed")
    expect("reviewed" in drt("session list"), "session list")
    expect(drt.json("session list")["sessions"][0]["turns"] == 3, "session list --json")
    expect(drt.json("session search notice sailed")["turns"], "session search")
    expect(QUESTION in drt("session search notice"), "session search in words")
    expect(QUESTION in drt("session export reviewed"), "session export")
    drt("session export reviewed --output talk.md")
    expect(QUESTION in Path("talk.md").read_text(encoding="utf-8"), "session export --output")
    drt("session delete reviewed --yes")
    expect(drt.json("session list")["sessions"] == [], "session delete")


def _keep(drt: CommandLine, document: str) -> None:
    """Every verb of libraries."""
    listed = drt.json("library list")["documents"]
    expect(len(listed) == 7, f"library list: {listed}")
    drt("library list")
    expect(drt.json(f"library show {document}")["id"] == document, "library show --json")
    expect("Agreement" in drt(f"library show {document}"), "library show")
    piece = drt(f"library show {document} --text --start 2 --end 11")
    expect(piece == "Agreement", f"--start, --end: {piece!r}")
    expect(drt.json("library stats")["documents"] == 7, "library stats")
    drt("library stats")
    expect(drt.json("library check")["findings"] == [], "library check")
    drt("library check --repair")
    drt("library export all.drtlib")
    drt("library backup sunday --no-check")
    copy = drt.json("library backup monday --earlier sunday")
    expect(copy["documents"] == 7 and copy["linked_bytes"], f"library backup: {copy}")
    drt("library restore monday --no-check", DRT_LIBRARY="restored.library")
    copy = drt.json("library restore sunday", DRT_LIBRARY="restored-again.library")
    expect(copy["documents"] == 7, f"library restore: {copy}")
    drt("library remove --yes notes.txt")
    removed = drt.json("library list --removed")["documents"]
    expect(len(removed) == 1, f"library list --removed: {removed}")
    drt("library undo-remove notes.txt")
    expect(drt.json("library list --removed")["documents"] == [], "library undo-remove")
    drt("library remove --yes notes.txt")
    drt("library remove --forget crew.csv")
    drt("library compact")
    expect(len(drt.json("library list")["documents"]) == 5, "library remove")
    drt("warm start")
    expect(drt.json("warm status")["helper"] is not None, "warm status")
    drt("warm stop")
    drt("library import all.drtlib")
    expect(len(drt.json("library list")["documents"]) == 7, "library import")
    small = _copy_of_one_document(drt)
    drt("library rebuild", DRT_LIBRARY=small)
    drt(f"library federate both.json {os.environ['DRT_LIBRARY']} {small}")
    listed = drt.json("library list --library both.json --require-all")["documents"]
    expect(len(listed) == 7, f"library list of two: {listed}")
    drt(f"library list --library {small} --library gone.library --require-all", code=1)
    _index(drt, document)
    expect(drt.json("library check")["findings"] == [], "the library in the end")


def _index(drt: CommandLine, document: str) -> None:
    """Make an approximate index without FAISS, and ask as if it were there."""
    extra = "drt-assistant[faiss]"
    drt("library list --json")
    expect(extra in drt("library index --approximate --lists 4", code=1), "library index")
    expect(drt.json("library index")["index"] is None, "library index --json")
    for option in ("--check", "--probes 4"):
        expect("no approximate index" in drt(f"library index {option}", code=1), option)
    drt("library index --remove")
    scan = drt.json(f"ask '{QUESTION}' --approximate")["scan"]
    expect(not scan["approximate"] and "no approximate" in scan["notes"][0], f"scan: {scan}")
    expect(drt.json(f"search notice --doc {document} --approximate")["scan"], "scan of a document")
    expect(drt.json("search notice --approximate --exact")["scan"] is None, "--exact")


def _copy_of_one_document(drt: CommandLine) -> str:
    drt("ingest formats/notes.txt", DRT_LIBRARY="small.library")
    return "small.library"
