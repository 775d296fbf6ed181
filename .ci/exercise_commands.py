"""Goes through the commands of an installed ``drt``, part by part, and checks what each prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from exercise_line import CommandLine
from exercise_shared import ANSWER, CONFIG, QUESTION, STUDY, corpus_row, expect


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
    shown = drt.json("show 1 --around 10")
    expect(ANSWER in shown["quote"], f"show --json: {shown}")
    handle = f"{shown['document'][:8]}:{shown['start']}-{shown['end']}"
    expect(ANSWER in drt(f"show {handle} --open", PATH=_viewer()), "show --open")
    plain = drt(f"ask '{QUESTION}' --doc {agreement} --explain --top-k 6 --no-reread")
    expect("confidence" in plain, f"ask --explain: {plain}")
    noted = drt(f"ask '{QUESTION}' --doc {agreement} --markdown")
    expect(ANSWER in noted and "[^1]: " in noted, f"ask --markdown: {noted}")
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
    drt("library remove notes.txt")
    drt("library remove --forget crew.csv")
    drt("library compact")
    expect(len(drt.json("library list")["documents"]) == 5, "library remove")
    drt("library import all.drtlib")
    expect(len(drt.json("library list")["documents"]) == 7, "library import")
    small = _copy_of_one_document(drt)
    drt("library rebuild", DRT_LIBRARY=small)
    drt(f"library federate both.json {os.environ['DRT_LIBRARY']} {small}")
    listed = drt.json("library list --library both.json --require-all")["documents"]
    expect(len(listed) == 7, f"library list of two: {listed}")
    drt(f"library list --library {small} --library gone.library --require-all", code=1)
    expect(drt.json("library check")["findings"] == [], "the library in the end")


def _copy_of_one_document(drt: CommandLine) -> str:
    drt("ingest formats/notes.txt", DRT_LIBRARY="small.library")
    return "small.library"


def exercise_rest(drt: CommandLine, examples: Path) -> None:
    """Models, settings, schemas, training, evaluations and benchmarks."""
    _models(drt)
    _settings(drt)
    _train(drt, examples)
    _evaluate(drt)
    _benchmarks(drt, examples)


def _models(drt: CommandLine) -> None:
    (model,) = drt.json("model list")["models"]
    expect(model["name"] == "drt-small-en", f"models: {model}")
    drt("model list")
    expect("MiniLM" in drt("model info"), "model info")
    drt.json("model info drt-small-en")
    expect(drt.json("model verify")["parameters"] > 1e7, "model verify --json")
    expect("sound" in drt("model verify drt-small-en"), "model verify")
    drt("model convert drt-small-en plain --dtype fp32")
    expect(any(Path("plain").glob("*.safetensors")), "model convert")
    report = drt.json("doctor")
    expect(report["ok"], f"doctor: {report}")
    expect(drt("doctor").endswith("OK\n"), "doctor")
    expect("PDF" in drt("formats --all") and drt.json("formats")["formats"], "formats")


def _settings(drt: CommandLine) -> None:
    expect(drt("config path").strip() == os.environ["DRT_CONFIG_FILE"], "config path")
    drt("config set ask.top-k 7")
    expect(drt("config get ask.top-k").strip() == "7", "config get")
    expect("ask.top-k = 7" in drt("config list"), "config list")
    expect(drt.json("config list") == {"ask.top-k": 7}, "config list --json")
    drt("config unset ask.top-k")
    drt("config get ask.top-k", code=1)
    names = drt("schema").split()
    expect(len(names) > 15, f"schemas: {names}")
    for name in ("ask", "doctor", "summarize"):
        expect("$schema" in json.loads(drt(f"schema {name}")), f"schema {name}")
    for shell in ("bash", "zsh", "fish"):
        expect("drt" in drt(f"completion {shell}"), f"completion {shell}")
    expect(drt("man").startswith(".TH"), "man")


def _train(drt: CommandLine, examples: Path) -> None:
    """A tokenizer, six steps of a tiny model, and four more after a resume."""
    text = (examples / "handbook.md").read_text(encoding="utf-8")[:60_000]
    Path("corpus.jsonl").write_text(json.dumps(corpus_row(text)) + "\n")
    drt("train tokenizer corpus.jsonl --out tokenizer --vocab-size 1024")
    tokenizer = next(Path("tokenizer").iterdir())
    Path("tiny.toml").write_text(CONFIG.format(tokenizer=tokenizer))
    expect(drt("train tiny.toml").splitlines()[-1:] == ["tiny"], "train prints its folder")
    drt("train tiny.toml optim.steps=10")
    lines = Path("tiny/metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    expect(steps == sorted(set(steps)) and max(steps) in (9, 10), f"steps after resuming: {steps}")
    expect("drt: " in drt("train tiny.toml optim.stepz=1", code=1), "an unknown setting")
    _train_stages(drt, tokenizer)
    _study(drt)


def _train_stages(drt: CommandLine, tokenizer: Path) -> None:
    """Train a folder of two stages, of which the second begins with the model of the first."""
    Path("stages").mkdir()
    stage = CONFIG.format(tokenizer=tokenizer).replace("steps = 6", "steps = 2")
    first = stage.replace('"tiny"', '"first"')
    Path("stages/1-first.toml").write_text(first)
    second = stage.replace('"tiny"', '"second"')
    second = second.replace(f'tokenizer = "{tokenizer}"', 'model = "first/model"')
    Path("stages/2-second.toml").write_text(second)
    expect(drt("train stages").splitlines()[-1:] == ["second"], "train prints the last folder")
    expect(Path("first/model").is_dir() and Path("second/model").is_dir(), "two trained stages")


def _study(drt: CommandLine) -> None:
    """One run of a tiny model, measured, and printed again from its results."""
    Path("study.toml").write_text(STUDY)
    table = drt("study study.toml train.optim.steps=3 --only tiny")
    expect("| tiny |" in table, f"study: {table}")
    expect(drt.json("study study.toml")["rows"][0]["seeds"] == [1], "study --json")
    expect("did you mean" in drt("study study.toml titel=x", code=1), "a study's unknown setting")


def _evaluate(drt: CommandLine) -> None:
    _questions()
    # The document of the first questions is in the second file of documents.
    shared = "--qa qa.jsonl --docs more-docs.jsonl --docs docs.jsonl"
    report = drt.json(f"eval qa {shared} --both --given-chunk --records bf16")
    expect(report["n"] == 3, f"eval qa: {report}")
    drt(f"eval qa {shared} --limit 1 --source A --retriever lexical --reread")
    drt(f"eval qa {shared} --limit 1 --no-reread")
    report = drt.json(f"eval retrieval {shared} --limit 2 --source A --records int8")
    expect(report["metrics"], f"eval retrieval: {report}")
    drt(f"eval retrieval {shared} --retriever landmark")
    needle = "eval needle --corpus corpus.jsonl --lengths 512 --needles 1"
    expect(drt.json(f"{needle} --seed 3 --hops 1 --reread")["n"] == 1, "eval needle")
    drt(f"{needle} --no-reread --records bf16")
    passkey = "eval passkey --lengths 1k --cases 1 --answer 2 --hops 2 --noise 1 --seed 1"
    expect(drt.json(f"{passkey} --folder .")["metrics"]["1k"]["n"] == 1, "eval passkey")
    Path("stream.txt").write_text("The pilot counts the boats. " * 90)
    stream = drt.json("trace --stream stream.txt --tokens 500")
    expect(stream["tokens"] == 500 and stream["chunks"][-1]["reads"][0], "trace --stream")
    drt("trace --stream stream.txt --html stream.html")
    expect("Content-Security-Policy" in Path("stream.html").read_text(), "trace --stream --html")
    by_length = drt.json("eval ppl corpus.jsonl --lengths 256,512 --limit 1k --memory disk")
    expect(list(by_length["metrics"]) == ["256", "512"], "eval ppl --lengths")
    expect(drt.json("eval ppl corpus.jsonl --length 512 --limit 1k")["metrics"], "eval ppl")
    summary = "eval summary summaries.jsonl --limit 1 --source A"
    expect(drt.json(f"{summary} --mode extractive")["n"] == 1, "eval summary")
    drt("eval summary summaries.jsonl --both")
    calibrate = "eval calibrate --qa qa.jsonl --docs docs.jsonl --limit 3 --source A"
    calibrate += " --retriever hybrid --out calibrated"
    Path("calibrated").mkdir()
    drt.json(f"{calibrate} --also more-qa.jsonl more-docs.jsonl")
    expect(Path("calibrated/calibration.json").exists(), "eval calibrate")
    _evaluate_files(drt)


def _evaluate_files(drt: CommandLine) -> None:
    """Ask about two files of a folder; each question has a pattern, or nothing, for an answer."""
    folder = Path("reports")
    folder.mkdir()
    (folder / "tide.txt").write_text("High water is at ten in the morning. The pier is of oak.\n")
    (folder / "gate.md").write_text("# Gate\n\nThe gate is locked at nine by the warden.\n")
    rows = [
        {"file": "tide.txt", "type": "fact", "question": "When is high water?", "answer": "ten"},
        {"file": "tide.txt", "type": "none", "question": "Who built the church?", "answer": None},
        {"file": "gate.md", "type": "fact", "question": "Who locks the gate?", "answer": "warden"},
    ]
    Path("questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = "eval files questions.jsonl reports"
    report = drt.json(f"{files} --lexical --records bf16 --reread")
    expect(report["n"] == 3, f"eval files: {report}")
    report = drt.json(f"{files} --limit 1 --file gate.md --retriever lexical --no-reread")
    expect(report["n"] == 1, f"eval files --file: {report}")
    drt(f"{files} --file gate.md")


def _questions() -> None:
    """Write three questions on one document, the same on another, and one summary."""
    text = (
        "The ferry of Brackmere leaves at seven. Its captain is Ida Holm, who keeps bees. "
        "The mill burned in 1811 and was built again of stone. Nobody fishes after dark."
    )
    for prefix, name in (("", "lake"), ("more-", "pond")):
        document = {"doc_id": name, "title": "Lake", "text": text}
        Path(f"{prefix}docs.jsonl").write_text(json.dumps(document) + "\n")
    rows: list[dict[str, Any]] = []
    for question, answer in (
        ("Who is the captain of the ferry?", "Ida Holm"),
        ("When did the mill burn?", "1811"),
        ("How deep is the water?", None),
    ):
        start = text.index(answer) if answer else 0
        rows.append(
            {
                "id": str(len(rows)),
                "source": "A",
                "license": "x",
                "doc_id": "lake",
                "question": question,
                "answers": [answer] if answer else [],
                "evidence": [[start, start + len(answer)]] if answer else [],
                "kind": "extractive" if answer else "unanswerable",
            }
        )
    Path("qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    more = [row | {"id": f"more {row['id']}", "doc_id": "pond"} for row in rows]
    Path("more-qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more))
    summary = {"id": "0", "source": "A", "license": "x", "title": "Lake", "document": text}
    summary |= {"summary": "A ferry with a captain who keeps bees."}
    Path("summaries.jsonl").write_text(json.dumps(summary) + "\n")


def _benchmarks(drt: CommandLine, examples: Path) -> None:
    """Every benchmark once, as small as it can be made."""
    once = "--repetitions 1"
    for line in (
        f"bench ingest {once} --file {examples / 'agreement.md'}",
        f"bench ask {once} --tokens 512 --question 'Who keeps the harbour?'",
        f"bench retrieve {once} --tokens 512",
        f"bench library {once} --tokens 1k --files 4 --shards 2 --folder kept.libraries",
        f"bench decode {once} --shape small",
        f"bench kernels {once} --tokens 64",
        f"bench train {once} --tokens 128",
        f"bench models {once} --tokens 128",
    ):
        expect(drt.json(line)["rows"], line)
    # The environment has no extras: a sentence names the one that is needed.
    _without_extras(drt)
    expect("drt-assistant[pdf]" in drt(f"bench pdf {once} --pages 1", code=1), "a missing extra")


def _without_extras(drt: CommandLine) -> None:
    """What needs an extra says which, and its other options are read before."""
    options = "--host 127.0.0.1 --port 0 --allow-host a.example --allow-origin https://a.example"
    options += " --max-upload 1 --timeout 5 --queue 2 --read-only"
    Path("token.txt").write_text("0123456789abcdef0123\n")
    options += " --writer http://127.0.0.1:1 --writer-model m --writer-timeout 1 --strict"
    said = drt(f"serve {options} --token-file token.txt", code=1)
    expect("drt-assistant[serve]" in said, f"serve without its extra: {said}")
    said = drt("bench serve --clients 2 --seconds 1", code=1)
    expect("drt-assistant[serve]" in said, f"bench serve without its extra: {said}")
    Path("sums.xlsx").write_bytes(b"PK\3\4")
    said = drt("ask 'What is the sum?' sums.xlsx", code=1, DRT_LIBRARY="sums.library")
    expect("drt-assistant[sheets]" in said, f"a workbook without its extra: {said}")
    said = drt("mcp --allow-ingest .", code=1)
    expect("drt-assistant[mcp]" in said, f"mcp without its extra: {said}")
    writer = "--writer http://127.0.0.1:1 --writer-model m --writer-timeout 1 --strict"
    Path("bell.txt").write_text("The bell of the chapel is rung at noon.\n")
    said = drt(
        f"ask 'When is the bell rung?' bell.txt {writer}", code=1, DRT_LIBRARY="bell.library"
    )
    expect("drt-assistant[writer]" in said, f"ask --writer without its extra: {said}")
    bell = {"stdin": "When is the bell rung?\n", "DRT_LIBRARY": "bell.library"}
    expect("noon" in drt(f"chat {writer}", **bell), "chat --writer without its extra")
    expect(drt.json("plugins") == {"plugins": []}, "plugins")
