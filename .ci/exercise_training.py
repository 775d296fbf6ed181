"""Goes through the other commands: models, settings, training, evaluations, benchmarks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from exercise_line import CommandLine
from exercise_shared import CONFIG, STUDY, corpus_row, expect


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
    table = drt("study study.toml train.optim.steps=3 --only tiny --results results.json")
    expect("| tiny |" in table, f"study: {table}")
    again = drt("study study.toml train.optim.steps=3 out=elsewhere --results results.json")
    expect(again == table and not Path("elsewhere/tiny-1/model").exists(), "study --results")
    expect(drt.json("study study.toml out=whole")["rows"][0]["seeds"] == [1], "study --json")
    expect("did you mean" in drt("study study.toml titel=x", code=1), "a study's unknown setting")


def _evaluate(drt: CommandLine) -> None:
    _questions()
    # The document of the first questions is in the second file of documents.
    shared = "--qa qa.jsonl --docs more-docs.jsonl --docs docs.jsonl"
    report = drt.json(f"eval qa {shared} --both --given-chunk --records bf16 --keep kept")
    expect(report["n"] == 3, f"eval qa: {report}")
    drt(f"eval qa {shared} --limit 1 --source A --retriever lexical --reread")
    drt(f"eval qa {shared} --limit 1 --no-reread")
    report = drt.json(f"eval retrieval {shared} --limit 2 --source A --records int8")
    expect(report["metrics"], f"eval retrieval: {report}")
    drt(f"eval retrieval {shared} --retriever landmark --judged --keep kept")
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
    drt("eval ppl corpus.jsonl --length 512 --limit 1k --choice own --choice none --window 128")
    records = "eval records --lengths 4k --rows 1 --names 24 --values 1 --apart 12 --seed 1"
    expect(drt.json(f"{records} --choice own")["metrics"], "eval records")
    summary = "eval summary summaries.jsonl --limit 1 --source A"
    expect(drt.json(f"{summary} --mode extractive")["n"] == 1, "eval summary")
    drt("eval summary summaries.jsonl --both")
    written = "eval summary-lm summaries.jsonl --limit 1 --source A --chunks 2 --longest 4 --write"
    expect("rouge1" in drt.json(written)["metrics"]["A"], "eval summary-lm")
    calibrate = "eval calibrate --qa qa.jsonl --docs docs.jsonl --limit 3 --source A"
    calibrate += " --retriever hybrid --out calibrated --keep kept"
    Path("calibrated").mkdir()
    drt.json(f"{calibrate} --also more-qa.jsonl more-docs.jsonl")
    calibration = Path("calibrated/calibration.json")
    expect(calibration.exists(), "eval calibrate")
    drt.json(f"{calibrate} --only decoder")
    drt.json(f"{calibrate} --quotes-only")
    (model,) = drt.json("model list")["models"]
    fitted, asked = (
        json.loads(path.read_text())["reread"]
        for path in (calibration, Path(model["path"], "calibration.json"))
    )
    kept = ("scale", "shift", "threshold", "retrieval", "relevance", "null", "each")
    expect(all(fitted[name] == asked[name] for name in kept), "eval calibrate --quotes-only")
    _evaluate_files(drt)
    drt.json(f"{calibrate} --quotes-only --files questions.jsonl reports")
    library = next(Path("joint").glob("*/library"))
    drt.json(f"{calibrate} --quotes-only --files questions.jsonl reports --among {library}")


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
    drt(f"{files} --limit 1 --without table --without metadata")
    drt(f"{files} --limit 1 --only reader")
    written = drt.json(f"{files} --limit 1 --file gate.md --mode free")
    expect(written["metrics"]["all"]["n_answerable"] == 1, f"eval files --mode: {written}")
    report = drt.json(f"{files} --joint --keep joint")
    expect(report["n"] == 3, f"eval files --joint: {report}")
    library = next(Path("joint").glob("*/library"))
    among = drt.json(f"{files} --joint --among {library}")
    expect(among["n"] == 3 and not among["baselines"], f"eval files --among: {among}")
    kept = drt.json(f"{files} --file gate.md --keep kept")
    again = drt.json(f"{files} --file gate.md --keep kept")
    expect(kept["metrics"] == again["metrics"], f"eval files --keep: {kept} {again}")


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
    Path("asked.jsonl").write_text('{"question": "Where is the market?"}\n')
    for line in (
        f"bench ingest {once} --file {examples / 'agreement.md'}",
        f"bench ingest {once} --workers 2 --files 4 --tokens 512",
        f"bench ask {once} --tokens 512 --question 'Who keeps it?' --questions asked.jsonl",
        f"bench retrieve {once} --tokens 512",
        f"bench library {once} --tokens 1k --files 4 --shards 2 --folder kept.libraries",
        f"bench documents {once} --files 100",
        f"bench decode {once} --shape small",
        f"bench kernels {once} --tokens 64",
        f"bench train {once} --tokens 128",
        "bench train --plan drt-tiny --ranks 2 --flops 1e12 --tokens 512",
        f"bench models {once} --tokens 128 --minutes 5 --results models.json",
    ):
        expect(drt.json(line)["rows"], line)
    # The environment has no extras: a sentence names the one that is needed.
    _without_extras(drt)
    expect(
        "drt-assistant[faiss]" in drt("bench index --lists 4", code=1),
        "bench index without its extra",
    )
    line = f"bench library {once} --approximate"
    expect("drt-assistant[faiss]" in drt(line, code=1), "bench library without its extra")
    said = drt("bench ingest --ray local", code=1)
    expect("drt-assistant[cluster]" in said, f"bench ingest --ray without its extra: {said}")
    expect("drt-assistant[pdf]" in drt(f"bench pdf {once} --pages 1", code=1), "a missing extra")


def _without_extras(drt: CommandLine) -> None:
    """What needs an extra says which, and its other options are read before."""
    options = "--host 127.0.0.1 --port 0 --allow-host a.example --allow-origin https://a.example"
    options += " --max-upload 1 --timeout 5 --queue 2 --read-only --max-wait 3 --max-library 9"
    options += " --keep-pdfs 1 --client-header X-Real-IP --access-log json --traces --at-once 2"
    Path("token.txt").write_text("0123456789abcdef0123\n")
    options += " --writer http://127.0.0.1:1 --writer-model m --writer-timeout 1 --strict"
    for workers in ("", " --workers 2"):
        said = drt(f"serve {options} --token-file token.txt{workers}", code=1)
        expect("drt-assistant[serve]" in said, f"serve{workers} without its extra: {said}")
    line = "bench serve --clients 2 --seconds 1 --steps --workers 2 --files 1 --max-wait 5"
    said = drt(line, code=1)
    expect("drt-assistant[serve]" in said, f"bench serve without its extra: {said}")
    Path("sums.xlsx").write_bytes(b"PK\3\4")
    said = drt("ask 'What is the sum?' sums.xlsx", code=1, DRT_LIBRARY="sums.library")
    expect("drt-assistant[sheets]" in said, f"a workbook without its extra: {said}")
    words = "ingest --ray local --shards 2 sums.xlsx"
    said = drt(words, code=1, DRT_LIBRARY="shards.library")
    expect("drt-assistant[cluster]" in said, f"ingest --ray without its extra: {said}")
    said = drt("serve --ray local --deadline 5", code=1)
    expect("drt-assistant[serve]" in said, f"serve --ray without its extra: {said}")
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
