"""A trace drawn as one page of HTML that needs nothing else: no network, no other file.

Takes the trace's JSON and knows nothing of models. All text of documents and questions goes
through `_safe`; numbers are formatted here, so nothing else can enter the markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

COLOURS = 8
_LIKELY = 0.05  # from which probability on a chunk's text is shown at once
_BADGE = 6.8  # room of a badge of the map, in hundredths of a phone's width
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_READ_BACK = (
    "The answer is a quote: the quote head chose it from the question's answer mark, and its own "
    "tokens were then read by the same layers."
)

Data = Mapping[str, Any]


def trace_page(trace: Data) -> str:
    """Return the page of a trace, given as the JSON of `drt trace --json`."""
    folder = resources.files("drt_engine.trace")
    template = Template((folder / "page.html").read_text(encoding="utf-8"))
    script = (folder / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    answer = trace.get("answer") or {}
    keys = _keys(trace["groups"])
    quoting = answer.get("mode", "quote") == "quote"
    return template.substitute(
        script_hash=f"sha256-{digest}",
        script=script,
        title=_safe(f"{trace['question']} - drt trace"),
        kicker=_safe(" · ".join(["drt trace", *([answer["model"]] if answer else [])])),
        question=_safe(trace["question"]),
        answer=_answer(trace, answer, keys),
        map="\n".join(_map(document, trace["groups"], keys) for document in trace["documents"]),
        groups="\n".join(_group(g, trace, keys) for g in trace["groups"]),
        colour_note=_safe(_READ_BACK if quoting else ""),
    )


def _safe(text: object) -> str:
    """Text as HTML shows it: escaped, and without characters that drive or reorder the display."""
    plain = _SURROGATE.sub("\ufffd", _UNSAFE.sub("\ufffd", str(text)))
    return html.escape(plain, quote=True)


def _keys(groups: Iterable[Data]) -> dict[int, int]:
    """Every retrieved chunk's number on the page: by probability, the first answer chunk first."""
    keys: dict[int, int] = {}
    for group in groups:
        for entry in group["entries"]:
            keys.setdefault(entry["chunk"], len(keys) + 1)
    return keys


def _class(key: int) -> str:
    return f"k{key if key <= COLOURS else 0}"


def _badge(key: int | None) -> str:
    if key is None:
        return '<span class="n no" aria-label="not retrieved">·</span>'
    return f'<span class="n {_class(key)}" data-k="{key}">{key}</span>'


# the answer


def _answer(trace: Data, answer: Data, keys: Mapping[int, int]) -> str:
    spoken = [token for token in trace["tokens"] if token["part"] == "answer"]
    asked = [token for token in trace["tokens"] if token["part"] == "question"]
    parts = []
    if answer and not answer["found"]:
        parts.append('<p class="said none">The document does not say.</p>')
    elif spoken:
        parts.append(f'<p class="said" data-tokens>{_tokens(spoken, trace, keys)}</p>')
    elif answer:
        parts.append(f'<p class="said">{_safe(answer["answer"])}</p>')
    parts += _cited(answer)
    if answer:
        parts.append(f'<p class="meta">{_safe(_verdict(answer))}</p>')
    if asked:
        words = _tokens(asked, trace, keys)
        parts.append(
            '<div class="asked"><p class="meta">The question, as the decoder read it beside the '
            f'retrieved chunks</p><p class="words" data-tokens>{words}</p></div>'
        )
    if trace["tokens"]:
        parts.append(
            '<p class="now" aria-live="polite">Point at a word, or walk through them with Tab and '
            "the arrow keys, to see what it leaned on.</p>"
        )
    return f'<section class="answer" aria-label="Answer">{"".join(parts)}</section>'


def _verdict(answer: Data) -> str:
    words = [
        f"confidence {answer['confidence']:.2f}",
        f"{answer['mode']} mode",
        f"{answer['tokens_read']:,} tokens read",
        _time(answer["seconds"]),
    ]
    return " · ".join(words)


def _cited(answer: Data) -> Iterator[str]:
    """Where the answer stands; where there is none, the closest passage."""
    for citation in answer.get("citations", ())[:1]:
        place = [citation["title"], *_place(citation)]
        place.append(f"characters {citation['start']}–{citation['end']}")
        words = " · ".join(place)
        if answer["found"]:
            yield f'<p class="where">{_safe(words)}</p>'
        else:
            yield f'<p class="context">Closest passage: {_safe(citation["quote"])}</p>'
            yield f'<p class="where">{_safe(words)}</p>'


def _place(item: Data) -> list[str]:
    """Page and section, without the title that a section's path mostly begins with."""
    section = (item.get("section") or "").removeprefix(item["title"]).removeprefix(" > ")
    page = [] if item.get("page") is None else [f"page {item['page']}"]
    return [*page, section] if section else page


def _tokens(tokens: Sequence[Data], trace: Data, keys: Mapping[int, int]) -> str:
    return "".join(_token(token, trace, keys) for token in tokens)


def _token(token: Data, trace: Data, keys: Mapping[int, int]) -> str:
    shares = _shares(token, trace["groups"])
    if not shares:
        return _safe(token["text"])
    best = sorted(shares, key=lambda chunk: -shares[chunk])
    key, total = keys[best[0]], sum(shares.values())
    listed = ", ".join(f"chunk {keys[chunk]} {shares[chunk]:.1%}" for chunk in best[:3])
    says = f"“{token['text'].strip()}” leaned on {listed}; on nothing {max(0.0, 1 - total):.1%}."
    return (
        f'<span class="t {_class(key)}" data-k="{key}" tabindex="-1"'
        f' style="--m:{total:.3f};--s:{_line(best, shares, keys)}"'
        f' title="{_safe(says)}" data-says="{_safe(says)}">{_safe(token["text"])}</span>'
    )


def _line(order: Sequence[int], shares: Mapping[int, float], keys: Mapping[int, int]) -> str:
    """The shares of a token as a line in the chunks' colours, what went nowhere left out."""
    stops, at = [], 0.0
    for chunk in order:
        at += 100 * shares[chunk]
        stops.append(f"var(--{_class(keys[chunk])}) 0 {at:.1f}%")
    return f"linear-gradient(90deg,{','.join(stops)},transparent 0)"


def _shares(token: Data, groups: Iterable[Data]) -> dict[int, float]:
    """Attention of a token by chunk, averaged over the layer groups."""
    shares: dict[int, float] = {}
    for group in groups:
        if group["chunk"] == token["chunk"]:
            given = token["mass"][group["group"]]
            for entry, mass in zip(group["entries"], given, strict=True):
                shares[entry["chunk"]] = shares.get(entry["chunk"], 0.0) + mass / len(token["mass"])
    return shares


# the map of a document


def _map(document: Data, groups: Iterable[Data], keys: Mapping[int, int]) -> str:
    """The whole document as a strip: landmark scores as its relief, retrieved places lit."""
    whole = max(1, document["characters"])
    places = {
        entry["chunk"]: (100 * entry["start"] / whole, 100 * len(entry["text"]) / whole)
        for group in groups
        for entry in group["entries"]
        if entry["document"] == document["id"]
    }
    shares = _best_probabilities(groups)
    lights = "".join(
        f'<i class="{_class(keys[chunk])}" data-k="{keys[chunk]}" style="left:{at:.2f}%;'
        f'--w:{width:.2f}%;opacity:{0.45 + 0.55 * shares[chunk]:.2f}"></i>'
        for chunk, (at, width) in reversed(list(places.items()))
    )
    marks = {keys[chunk]: at + width / 2 for chunk, (at, width) in places.items()}
    badges = _spread(marks)
    leaders = "".join(
        f'<path class="{_class(key)}" d="M{marks[key]:.2f} 0 L{at:.2f} 14"/>'
        for key, at in badges.items()
    )
    links = "".join(
        f'<a href="#c{key}" style="left:{at:.2f}%" aria-label="chunk {key}">{_badge(key)}</a>'
        for key, at in badges.items()
    )
    return (
        f'<section class="map" aria-label="Map of the document"><h2>{_safe(document["title"])}</h2>'
        f'<p class="lead"><span>The whole document; the relief is the landmark score.</span>'
        f'<span class="num">{whole:,} characters</span></p>'
        f'<div class="strip">{_relief(document["heat"])}{lights}</div>'
        f'<svg class="leaders" viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">'
        f'{leaders}</svg><div class="badges">{links}</div></section>'
    )


def _best_probabilities(groups: Iterable[Data]) -> dict[int, float]:
    best: dict[int, float] = {}
    for group in groups:
        for entry in group["entries"]:
            best[entry["chunk"]] = max(best.get(entry["chunk"], 0.0), entry["probability"])
    return best


def _spread(marks: Mapping[int, float]) -> dict[int, float]:
    """Places for badges in one row, none on another (all in hundredths).

    Badges whose marks are too close stand side by side around the middle of those marks.
    """
    room = min(_BADGE, 100 / max(1, len(marks)))
    clusters: list[list[int]] = []
    for key in sorted(marks, key=lambda key: marks[key]):
        clusters.append([key])
        while len(clusters) > 1 and (
            _left(clusters[-2], marks, room) + room * len(clusters[-2])
            > _left(clusters[-1], marks, room)
        ):
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    return {
        key: _left(cluster, marks, room) + room * (number + 0.5)
        for cluster in clusters
        for number, key in enumerate(cluster)
    }


def _left(cluster: Sequence[int], marks: Mapping[int, float], room: float) -> float:
    """Where a row of badges begins, centred on its marks and inside the strip."""
    width = room * len(cluster)
    middle = sum(marks[key] for key in cluster) / len(cluster)
    return min(max(0.0, middle - width / 2), 100 - width)


def _relief(heat: Sequence[float]) -> str:
    if len(heat) < 2:
        return ""
    low, high = min(heat), max(heat)
    height = [36 * (value - low) / (high - low or 1.0) for value in heat]
    steps = " ".join(f"V{42 - h:.1f} H{i + 1}" for i, h in enumerate(height))
    return (
        f'<svg viewBox="0 0 {len(heat)} 42" preserveAspectRatio="none" aria-hidden="true">'
        f'<path d="M0 42 {steps} V42 Z"/></svg>'
    )


# what one group retrieved


def _group(group: Data, trace: Data, keys: Mapping[int, int]) -> str:
    several = len(trace["groups"]) > 1
    name = f", answer chunk {group['chunk'] + 1}, group {group['group'] + 1}" if several else ""
    first = trace["groups"][0] is group
    cited = (trace.get("answer") or {}).get("citations", ())
    titled = len(trace["documents"]) > 1
    cards = "".join(
        _card(
            entry,
            keys[entry["chunk"]],
            cited,
            anchor=first or _new(entry, group, trace),
            titled=titled,
        )
        for entry in group["entries"]
    )
    head = (
        f"<h2>Retrieved{name}</h2>"
        '<p class="lead">What one query of the model brought back, best first.</p>'
    )
    if not cards:
        return f"<section>{head}<p>Nothing.</p></section>"
    return f'<section>{head}<div class="chunks">{cards}</div></section>{_sides(group, keys)}'


def _new(entry: Data, group: Data, trace: Data) -> bool:
    """Whether an entry's chunk is shown for the first time: links lead there."""
    for other in trace["groups"]:
        if other is group:
            return True
        if any(one["chunk"] == entry["chunk"] for one in other["entries"]):
            return False
    return False


def _card(entry: Data, key: int, cited: Iterable[Data], *, anchor: bool, titled: bool) -> str:
    end = entry["start"] + len(entry["text"])
    place = [*([entry["title"]] if titled else []), *_place(entry)] or [entry["title"]]
    bars = [_bar("probability", entry["probability"])]
    for name, value in (("attention", entry["mass"]), ("quote start", entry["pointer"])):
        bars.append("<span></span>" if value is None else _bar(name, value))
    opened = " open" if entry["probability"] >= _LIKELY else ""
    named = f' id="c{key}"' if anchor else ""
    line = " ".join(entry["text"].split())[:160]
    return (
        f'<details class="chunk {_class(key)}" data-k="{key}"{named}{opened}><summary>'
        f'{_badge(key)}<span class="place">{_safe(" · ".join(place))}'
        f'<span class="line">{_safe(line)}</span></span>{"".join(bars)}{_score(entry)}</summary>'
        f'<p class="text">{_marked(entry, cited)}</p>'
        f'<p class="text where">characters {entry["start"]}–{end}</p></details>'
    )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _bar(name: str, share: float) -> str:
    return (
        f'<span class="bar">{name}<b>{share:.1%}</b>'
        f'<i style="--w:{100 * min(1.0, share):.1f}%"></i></span>'
    )


def _score(entry: Data) -> str:
    parts = ""
    if entry["landmark"] is not None:
        added = [("words", entry["lexical"])]
        if entry["late"]:
            added.append(("tokens", entry["late"]))
        sums = [f"{entry['landmark']:.2f}"]
        sums += [f"{'+' if part >= 0 else '−'} {name} {abs(part):.2f}" for name, part in added]
        parts = " ".join(f"<span>{one}</span>" for one in sums)
        parts = f'<span class="sum">{parts}</span>'
    return f'<span class="bar">score<b>{entry["score"]:.2f}</b>{parts}</span>'


def _marked(entry: Data, cited: Iterable[Data]) -> str:
    """A chunk's text with what is quoted from it marked."""
    text, base = entry["text"], entry["start"]
    spans = sorted(
        (max(0, one["start"] - base), min(len(text), one["end"] - base))
        for one in cited
        if one["document"] == entry["document"]
    )
    out, at = "", 0
    for start, end in spans:
        if start >= at and end > start:
            out += f"{_safe(text[at:start])}<mark>{_safe(text[start:end])}</mark>"
            at = end
    return out + _safe(text[at:])


def _sides(group: Data, keys: Mapping[int, int]) -> str:
    """What landmarks and words would have chosen, side by side."""
    if not group["by_landmark"] and not group["by_words"]:
        return ""
    sides = (
        ("By landmark", "by_landmark", ".2f"),
        ("By words (BM25, of the best)", "by_words", ".0%"),
    )
    columns = "".join(
        f"<div><h3>{name}</h3><ol>"
        + "".join(_candidate(one, keys, form) for one in group[key])
        + "</ol></div>"
        for name, key, form in sides
    )
    return (
        "<section><h2>Candidates</h2>"
        '<p class="lead">The best by each way of searching. Those that were retrieved have their '
        f'number.</p><div class="sides">{columns}</div></section>'
    )


def _candidate(one: Data, keys: Mapping[int, int], form: str) -> str:
    text = " ".join(one["text"].split())[:160]
    key = keys.get(one["chunk"]) if one["retrieved"] else None
    return (
        f'<li>{_badge(key)}<span class="num">{one["score"]:{form}}</span>'
        f'<span title="{_safe(text)}">{_safe(text)}</span></li>'
    )
