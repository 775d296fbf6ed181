"""A trace as one page of HTML that needs nothing else: no network, no other file.

Takes the trace's JSON and knows nothing of models. All text of documents and questions goes
through ``safe``; numbers are formatted here, so nothing else can enter the markup. The template
is ``page.html``, its script ``page.js``.
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

COLOURS = 8  # of chunks; the page's style names them k1 to k8, and k0 for all others
_LIKELY = 0.05  # probability from which a chunk's text is shown at once
_BADGE = 6.8  # width of a badge of the map, in hundredths of a phone's width
# Control characters and those that reorder text for display.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_READ_BACK = (
    "The answer is a quote: the quote head chose it from the question's answer mark, and its own "
    "tokens were then read by the same layers."
)

Data = Mapping[str, Any]


def trace_page(trace: Data) -> str:
    """Return the page of a trace, given as the JSON of ``drt trace --json``."""
    folder = resources.files("drt_engine.trace")
    template = Template((folder / "page.html").read_text(encoding="utf-8"))
    script = (folder / "page.js").read_text(encoding="utf-8")
    # The page's policy allows scripts with this hash only, whatever text gets into the markup.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    answer = trace.get("answer") or {}
    keys = _keys(trace["groups"])
    quoting = answer.get("mode", "quote") == "quote"
    return template.substitute(
        script_hash=f"sha256-{digest}",
        script=script,
        title=safe(f"{trace['question']} - drt trace"),
        kicker=safe(" · ".join(["drt trace", *([answer["model"]] if answer else [])])),
        question=safe(trace["question"]),
        answer=_answer(trace, answer, keys),
        map="\n".join(_map(document, trace["groups"], keys) for document in trace["documents"]),
        groups="\n".join(_group(g, trace, keys) for g in trace["groups"]),
        colour_note=safe(_READ_BACK if quoting else ""),
    )


def safe(text: object) -> str:
    """Escape a text for HTML and replace characters that control or reorder the display."""
    plain = _SURROGATE.sub("\ufffd", _UNSAFE.sub("\ufffd", str(text)))
    return html.escape(plain, quote=True)


def _keys(groups: Iterable[Data]) -> dict[int, int]:
    """Return a number for each retrieved chunk: by probability, the first answer chunk first."""
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
    written = [token for token in trace["tokens"] if token["part"] == "answer"]
    question = [token for token in trace["tokens"] if token["part"] == "question"]
    parts = []
    if answer and not answer["found"]:
        parts.append('<p class="said none">The document does not say.</p>')
    elif written:
        parts.append(f'<p class="said" data-tokens>{_tokens(written, trace, keys)}</p>')
    elif answer:
        parts.append(f'<p class="said">{safe(answer["answer"])}</p>')
    parts += _cited(answer)
    if answer:
        parts.append(f'<p class="meta">{safe(_verdict(answer))}</p>')
    if question:
        words = _tokens(question, trace, keys)
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
    """Yield the answer's place, or the closest passage where there is no answer."""
    for citation in answer.get("citations", ())[:1]:
        place = [citation["title"], *_place(citation)]
        place.append(f"characters {citation['start']}–{citation['end']}")
        words = " · ".join(place)
        if answer["found"]:
            yield f'<p class="where">{safe(words)}</p>'
        else:
            yield f'<p class="context">Closest passage: {safe(citation["quote"])}</p>'
            yield f'<p class="where">{safe(words)}</p>'


def _place(item: Data) -> list[str]:
    """Return page and section, without the title that a section's path mostly begins with."""
    section = (item.get("section") or "").removeprefix(item["title"]).removeprefix(" > ")
    page = [] if item.get("page") is None else [f"page {item['page']}"]
    return [*page, section] if section else page


def _tokens(tokens: Sequence[Data], trace: Data, keys: Mapping[int, int]) -> str:
    return "".join(_token(token, trace, keys) for token in tokens)


def _token(token: Data, trace: Data, keys: Mapping[int, int]) -> str:
    shares = _shares(token, trace["groups"])
    if not shares:
        return safe(token["text"])
    best = sorted(shares, key=lambda chunk: -shares[chunk])
    key, total = keys[best[0]], sum(shares.values())
    listed = ", ".join(f"chunk {keys[chunk]} {shares[chunk]:.1%}" for chunk in best[:3])
    label = f"“{token['text'].strip()}” leaned on {listed}; on nothing {max(0.0, 1 - total):.1%}."
    return (
        f'<span class="t {_class(key)}" data-k="{key}" tabindex="-1"'
        f' style="--m:{total:.3f};--s:{_gradient(best, shares, keys)}"'
        f' title="{safe(label)}" data-says="{safe(label)}">{safe(token["text"])}</span>'
    )


def _gradient(order: Sequence[int], shares: Mapping[int, float], keys: Mapping[int, int]) -> str:
    """Return a CSS gradient of a token's attention in the chunks' colours; none is transparent."""
    stops, percent = [], 0.0
    for chunk in order:
        percent += 100 * shares[chunk]
        stops.append(f"var(--{_class(keys[chunk])}) 0 {percent:.1f}%")
    return f"linear-gradient(90deg,{','.join(stops)},transparent 0)"


def _shares(token: Data, groups: Iterable[Data]) -> dict[int, float]:
    """Return the attention of a token by chunk, averaged over the layer groups."""
    shares: dict[int, float] = {}
    for group in groups:
        if group["chunk"] == token["chunk"]:
            masses = token["mass"][group["group"]]
            for entry, mass in zip(group["entries"], masses, strict=True):
                shares[entry["chunk"]] = shares.get(entry["chunk"], 0.0) + mass / len(token["mass"])
    return shares


# the map of a document


def _map(document: Data, groups: Iterable[Data], keys: Mapping[int, int]) -> str:
    """Draw a document as a strip: landmark scores as a relief, retrieved places highlighted."""
    characters = max(1, document["characters"])
    # Left edge and width of each retrieved chunk, in percent of the strip.
    places = {
        entry["chunk"]: (100 * entry["start"] / characters, 100 * len(entry["text"]) / characters)
        for group in groups
        for entry in group["entries"]
        if entry["document"] == document["id"]
    }
    probabilities = _best_probabilities(groups)
    # The most probable chunk last, so that it is drawn over the others.
    lights = "".join(
        f'<i class="{_class(keys[chunk])}" data-k="{keys[chunk]}" style="left:{left:.2f}%;'
        f'--w:{width:.2f}%;opacity:{0.45 + 0.55 * probabilities[chunk]:.2f}"></i>'
        for chunk, (left, width) in reversed(list(places.items()))
    )
    marks = {keys[chunk]: left + width / 2 for chunk, (left, width) in places.items()}
    badges = _spread(marks)
    leaders = "".join(
        f'<path class="{_class(key)}" d="M{marks[key]:.2f} 0 L{centre:.2f} 14"/>'
        for key, centre in badges.items()
    )
    links = "".join(
        f'<a href="#c{key}" style="left:{centre:.2f}%" aria-label="chunk {key}">{_badge(key)}</a>'
        for key, centre in badges.items()
    )
    return (
        f'<section class="map" aria-label="Map of the document"><h2>{safe(document["title"])}</h2>'
        f'<p class="lead"><span>The whole document; the relief is the landmark score.</span>'
        f'<span class="num">{characters:,} characters</span></p>'
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
    """Return centres for badges in one row that do not overlap (all in percent of the strip).

    Badges whose marks are too close form a cluster, centred on the middle of those marks.
    """
    badge_width = min(_BADGE, 100 / max(1, len(marks)))
    clusters: list[list[int]] = []
    for key in sorted(marks, key=lambda key: marks[key]):
        clusters.append([key])
        # A merged cluster is wider and may touch the one before it in turn.
        while len(clusters) > 1 and (
            _left_edge(clusters[-2], marks, badge_width) + badge_width * len(clusters[-2])
            > _left_edge(clusters[-1], marks, badge_width)
        ):
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    return {
        key: _left_edge(cluster, marks, badge_width) + badge_width * (number + 0.5)
        for cluster in clusters
        for number, key in enumerate(cluster)
    }


def _left_edge(cluster: Sequence[int], marks: Mapping[int, float], badge_width: float) -> float:
    """Return where a cluster of badges begins, centred on its marks and inside the strip."""
    width = badge_width * len(cluster)
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
            anchor=first or _is_first_card(entry, group, trace),
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


def _is_first_card(entry: Data, group: Data, trace: Data) -> bool:
    """Return whether an entry's chunk is shown for the first time: links lead there."""
    for shown in trace["groups"]:
        if shown is group:
            return True
        if any(earlier["chunk"] == entry["chunk"] for earlier in shown["entries"]):
            return False
    return False


def _card(entry: Data, key: int, cited: Iterable[Data], *, anchor: bool, titled: bool) -> str:
    end = entry["start"] + len(entry["text"])
    place = [*([entry["title"]] if titled else []), *_place(entry)] or [entry["title"]]
    bars = [_bar("probability", entry["probability"])]
    for name, value in (("attention", entry["mass"]), ("quote start", entry["pointer"])):
        bars.append("<span></span>" if value is None else _bar(name, value))
    expanded = " open" if entry["probability"] >= _LIKELY else ""
    element_id = f' id="c{key}"' if anchor else ""
    line = " ".join(entry["text"].split())[:160]
    return (
        f'<details class="chunk {_class(key)}" data-k="{key}"{element_id}{expanded}><summary>'
        f'{_badge(key)}<span class="place">{safe(" · ".join(place))}'
        f'<span class="line">{safe(line)}</span></span>{"".join(bars)}{_score(entry)}</summary>'
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
        parts = " ".join(f"<span>{term}</span>" for term in sums)
        parts = f'<span class="sum">{parts}</span>'
    return f'<span class="bar">score<b>{entry["score"]:.2f}</b>{parts}</span>'


def _marked(entry: Data, cited: Iterable[Data]) -> str:
    """Return a chunk's text with the quotes from it marked."""
    text, base = entry["text"], entry["start"]
    spans = sorted(
        (max(0, citation["start"] - base), min(len(text), citation["end"] - base))
        for citation in cited
        if citation["document"] == entry["document"]
    )
    out, at = "", 0
    for start, end in spans:
        if start >= at and end > start:
            out += f"{safe(text[at:start])}<mark>{safe(text[start:end])}</mark>"
            at = end
    return out + safe(text[at:])


def _sides(group: Data, keys: Mapping[int, int]) -> str:
    """Return the best candidates by landmark and by BM25, side by side."""
    if not group["by_landmark"] and not group["by_words"]:
        return ""
    sides = (
        ("By landmark", "by_landmark", ".2f"),
        ("By words (BM25, of the best)", "by_words", ".0%"),
    )
    columns = "".join(
        f"<div><h3>{name}</h3><ol>"
        + "".join(_candidate(candidate, keys, form) for candidate in group[key])
        + "</ol></div>"
        for name, key, form in sides
    )
    return (
        "<section><h2>Candidates</h2>"
        '<p class="lead">The best by each way of searching. Those that were retrieved have their '
        f'number.</p><div class="sides">{columns}</div></section>'
    )


def _candidate(candidate: Data, keys: Mapping[int, int], form: str) -> str:
    text = " ".join(candidate["text"].split())[:160]
    key = keys.get(candidate["chunk"]) if candidate["retrieved"] else None
    return (
        f'<li>{_badge(key)}<span class="num">{candidate["score"]:{form}}</span>'
        f'<span title="{safe(text)}">{safe(text)}</span></li>'
    )
