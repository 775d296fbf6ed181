"""Make one long document with needles in it, and ask for them: bounded memory, any length.

`python examples/needle_document.py make CORPUS OUT.txt --tokens 16000000 --needles 20` writes
OUT.txt (paragraphs of the corpus, repeated and shuffled) and OUT.jsonl (the questions).
`drt ingest OUT.txt` reads it. `python examples/needle_document.py ask LIBRARY OUT.jsonl` asks.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

from drt import Assistant
from drt_lab.data.needles import NeedleCase, NeedleOptions, make_needles
from drt_lab.data.schema import read_corpus

CHARACTERS_PER_TOKEN = 4.2
POOL = 20_000_000  # characters of the corpus that are shuffled


def paragraphs(corpus: Path) -> list[str]:
    """The corpus's paragraphs, until there are enough to shuffle."""
    found: list[str] = []
    size = 0
    for document in read_corpus(corpus):
        for paragraph in document.text.split("\n\n"):
            if size < POOL and paragraph.strip():
                found.append(paragraph.strip())
                size += len(paragraph)
    return found


def cases(pool: list[str], count: int, seed: int) -> list[NeedleCase]:
    """Facts whose question and answer are each asked for once, and which the corpus lacks."""
    hay = "\n\n".join(pool[:2_000])
    chosen: dict[str, NeedleCase] = {}
    for case in make_needles(hay, NeedleOptions(tokens=400), needles=8 * count, seed=seed):
        if len(chosen) < count and not any(case.answer in one for one in pool):
            chosen.setdefault(case.answer, case)
    return list(chosen.values())


def long_text(
    pool: list[str], needles: list[str], characters: int, chance: random.Random
) -> Iterator[str]:
    """Shuffled paragraphs, again and again, with each needle at a place of its own."""
    places = sorted(chance.sample(range(1, 1000), len(needles)))
    size, waiting = 0, list(zip(places, needles, strict=True))
    while size < characters:
        chance.shuffle(pool)
        for paragraph in pool:
            if size >= characters:
                break
            while waiting and size >= waiting[0][0] * characters // 1000:
                paragraph = f"{paragraph} {waiting.pop(0)[1]}"
            size += len(paragraph) + 2
            yield paragraph + "\n\n"
    for _, needle in waiting:
        yield needle + "\n\n"


def make(arguments: argparse.Namespace) -> None:
    """Write the document and its questions."""
    chance = random.Random(arguments.seed)
    pool = paragraphs(Path(arguments.corpus))
    chosen = cases(pool, arguments.needles, arguments.seed)
    needles = [" ".join(case.text[a:b] for a, b in case.needles) for case in chosen]
    characters = round(arguments.tokens * CHARACTERS_PER_TOKEN)
    out = Path(arguments.out)
    with out.open("w", encoding="utf-8") as file:
        file.writelines(long_text(pool, needles, characters, chance))
    with out.with_suffix(".jsonl").open("w", encoding="utf-8") as file:
        for case in chosen:
            file.write(json.dumps({"question": case.question, "answer": case.answer}) + "\n")
    print(f"{out}: {out.stat().st_size:,} bytes, {len(chosen)} needles")


def ask(arguments: argparse.Namespace) -> None:
    """Ask for each needle; say whether it was found, and quoted exactly."""
    with Assistant(arguments.library) as assistant:
        right = 0
        for line in Path(arguments.questions).read_text("utf-8").splitlines():
            case = json.loads(line)
            began = time.perf_counter()
            answer = assistant.ask(case["question"])
            seconds = time.perf_counter() - began
            quotes = [citation.quote for citation in answer.citations[:1]]
            hit = answer.found and any(case["answer"] in quote for quote in quotes)
            right += hit
            print(f"{'found' if hit else 'not  '}  {seconds:.2f} s  {case['question']}  {quotes}")
        print(f"{right} found and quoted")


def main() -> None:
    """Make a document, or ask for its needles."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("corpus")
    making.add_argument("out")
    making.add_argument("--tokens", type=int, default=1_000_000)
    making.add_argument("--needles", type=int, default=20)
    making.add_argument("--seed", type=int, default=0)
    making.set_defaults(run=make)
    asking = commands.add_parser("ask")
    asking.add_argument("library")
    asking.add_argument("questions")
    asking.set_defaults(run=ask)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
