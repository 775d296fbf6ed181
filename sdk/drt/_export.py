"""Answers for other programs: a page to send, notes, and entries for reference managers.

What is exported names files without their folders, and is complete without the library.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args

from . import _render
from ._errors import ConfigError, DrtError
from ._passages import passage
from ._types import Answer, Citation, Turn
from ._written import marked_text, support_mark, writing_head

if TYPE_CHECKING:
    from ._library import Library
    from ._types import DocumentInfo, WrittenText
    from ._writer.results import WrittenAnswer

ExportFormat = Literal["markdown", "html", "obsidian", "bibtex", "csl-json"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
_COLUMN_END = re.compile(r"([^\n]{30})\n(?=[a-z(,;])")
_AROUND = 600  # characters of a document around a quote in a page
_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
}  # fmt: skip
_STYLE = """
:root { color-scheme: light dark; --soft: #5c5a55; --line: #d9d6ce; --mark: #ffe28a; }
@media (prefers-color-scheme: dark) { :root { --soft: #aaa8a1; --line: #3a3d41; --mark: #6b5300; } }
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem; }
blockquote { border-left: 3px solid var(--line); margin: 1rem 0; padding-left: 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: var(--mark); color: inherit; }
figcaption, .state, footer { color: var(--soft); font-size: .9rem; }
figure { margin: 1.5rem 0; }
.unsupported { text-decoration: underline wavy #c0392b; }
"""


def export_answer(
    answer: Answer | Turn | WrittenAnswer,
    file_format: ExportFormat,
    *,
    library: Library | None = None,
) -> str:
    """Return an answer, or a turn of a conversation, as text for another program.

    What a writer wrote is before the quotes, sentences without support marked, with its sources.

    "markdown" has footnotes; "html" is a page without scripts that needs no other file; "obsidian"
    is a note whose links open the files, PDFs at their page; "bibtex" and "csl-json" have an entry
    for each document cited. With ``library``, the page shows the text around each quote, and
    entries have their authors and dates. Raises ``ConfigError`` for another format.
    """
    if file_format not in FORMATS:
        raise ConfigError(f"the format is {file_format!r}, expected {', '.join(FORMATS)}.")
    if isinstance(answer, Answer):
        shown, writing = answer, None
    elif isinstance(answer, Turn):
        shown, writing = _answer_of(answer), answer.writing
    else:
        shown, writing = answer.answer, answer.writing
    if file_format == "markdown":
        return _markdown(shown, writing)
    if file_format == "html":
        return _page(shown, writing, library)
    if file_format == "obsidian":
        return _note(shown, writing)
    entries = _entries([*shown.citations, *(_sources(writing).values())], library)
    return _bibtex(entries) if file_format == "bibtex" else _csl(entries)


def _answer_of(turn: Turn) -> Answer:
    """Return a stored turn as an answer, as far as it was stored."""
    around = [citation.sentence for citation in turn.citations[:2]] + ["", ""]
    return Answer(
        text=turn.answer,
        found=turn.found,
        confidence=turn.confidence,
        mode=turn.mode,
        citations=turn.citations,
        tokens_read=0,
        seconds=0.0,
        model="",
        question=turn.question,
        state=turn.state,
        quote_probability=turn.quote_probability,
        passage=around[0],
        second_passage=around[1],
    )


def _sources(writing: WrittenText | None) -> Mapping[int, Citation]:
    """Return the sources of what was written, by their numbers in order."""
    return {} if writing is None else dict(sorted(writing.sources.items()))


def _markdown(answer: Answer, writing: WrittenText | None) -> str:
    lines = [f"## {_render.markdown(answer.question)}", ""]
    if writing is not None:
        lines += _written_lines(writing)
        for number, citation in _sources(writing).items():
            quoted = _render.markdown(f"{_render.place(citation)}: {citation.quote}")
            lines.append(f"- \\[{number}\\] {quoted}")
        lines += [""] * bool(writing.sources) + ["Quotes:", ""]
    return "\n".join([*lines, answer.as_markdown(), ""])


def _written_lines(writing: WrittenText) -> list[str]:
    """Return lines of Markdown: who wrote, and what."""
    text = _render.markdown(marked_text(writing))
    return [_render.markdown(writing_head(writing)), "", *([text, ""] if text else [])]


# a page


def _page(answer: Answer, writing: WrittenText | None, library: Library | None) -> str:
    title = html.escape(answer.question or "Answer")
    sure = _render.sureness(answer)
    state = _render.HEADS.get(answer.state, "")
    said = "" if not answer.found or answer.mode == "quote" else answer.text
    body = [
        f"<h1>{title}</h1>",
        *([] if writing is None else _written_html(writing, library)),
        *([f'<p class="state">{html.escape(state)}</p>'] if state else []),
        *([f"<p>{html.escape(said)}</p>"] if said else []),
        *(_figure(citation, library) for citation in answer.citations),
        *([f'<p class="state">{html.escape(sure)}</p>'] if sure else []),
        "<footer>Quotes are exact to the character; the ends of each place count its characters."
        " Made with drt.</footer>",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _written_html(writing: WrittenText, library: Library | None) -> list[str]:
    """Return paragraphs and figures: who wrote, what, and from which passages."""
    kinds = {True: "supported", False: "unsupported"}
    sentences = (
        f'<span class="{kinds[sentence.supported]}">{html.escape(sentence.text)}</span>'
        + html.escape(support_mark(sentence))
        for sentence in writing.sentences
    )
    return [
        f'<p class="state">{html.escape(writing_head(writing))}</p>',
        *([f"<p>{' '.join(sentences)}</p>"] if writing.sentences else []),
        *(_figure(source, library, f"[{n}] ") for n, source in _sources(writing).items()),
        '<p class="state">Quotes:</p>',
    ]


def _figure(citation: Citation, library: Library | None, number: str = "") -> str:
    before, quote, after = _around(citation, library)
    if _file(citation).lower().endswith(".pdf"):
        before, after = _joined(before), _joined(after)
    text = f"{html.escape(before)}<mark>{html.escape(quote)}</mark>{html.escape(after)}"
    place = html.escape(f"{number}{_render.place(citation)} ({_file(citation)})")
    return f"<figure><blockquote>{text}</blockquote>\n<figcaption>{place}</figcaption></figure>"


def _joined(text: str) -> str:
    """Return a PDF's text with the lines of a paragraph as one, which end where a column does."""
    return _COLUMN_END.sub(r"\1 ", text)


def _around(citation: Citation, library: Library | None) -> tuple[str, str, str]:
    """Return the text before a quote, the quote and the text after it."""
    if citation.metadata is not None:
        return "", citation.metadata, ""
    if library is not None:
        try:
            cited = passage(library, citation, around=_AROUND)
        except DrtError:  # removed since
            pass
        else:
            return cited.before.lstrip(), cited.quote, cited.after.rstrip()
    before, found, after = citation.sentence.partition(citation.quote)
    return (before, citation.quote, after) if found else ("", citation.quote, "")


# a note


def _note(answer: Answer, writing: WrittenText | None) -> str:
    """Return a note of Obsidian: a callout for each quote, with a link to its place."""
    lines = [f"## {_render.markdown(answer.question)}", ""]
    if writing is not None:
        lines += _written_lines(writing)
        for number, source in _sources(writing).items():
            lines += [f"> [!quote] {number}: {_link(source)}", f"> {_quoted(source)}", ""]
        lines += ["Quotes:", ""]
    if answer.state in _render.HEADS:
        lines += [_render.HEADS[answer.state], ""]
    elif answer.mode != "quote":
        lines += [_render.markdown(answer.text), ""]
    for citation in answer.citations:
        lines += [f"> [!quote] {_link(citation)}", f"> {_quoted(citation)}", ""]
    return "\n".join(lines)


def _quoted(citation: Citation) -> str:
    """Return the sentence of a quote as Markdown, the quote in bold."""
    before, quote, after = map(_render.markdown, _around(citation, None))
    return f"{before}**{quote}**{after}"


def _link(citation: Citation) -> str:
    """Return a link of Obsidian: PDFs open at the page, notes at the heading."""
    file = _file(citation)
    is_note = file.lower().endswith(".md")
    target = _link_part(file[:-3] if is_note else file)
    if citation.page is not None and file.lower().endswith(".pdf"):
        target += f"#page={citation.page}"
    elif is_note and citation.section:
        target += f"#{_link_part(citation.section.rpartition(' > ')[2])}"
    label = ", ".join(part for part in (citation.title, citation.page_name) if part)
    return f"[[{target}|{_link_part(label)}]]"


def _link_part(text: str) -> str:
    """Return text without what ends a link or a part of it."""
    return " ".join(re.sub(r"[\[\]|#^<>*`]", " ", text).split())


# entries of documents


def _entries(citations: Iterable[Citation], library: Library | None) -> list[dict[str, Any]]:
    """Return a CSL item for each document cited, with its quotes in a note."""
    by_document: dict[str, list[Citation]] = {}
    for citation in citations:
        by_document.setdefault(citation.document, []).append(citation)
    keys: set[str] = set()
    entries = []
    for places in by_document.values():
        info = _info(places[0], library)
        date = _date_parts(info.date if info is not None else "")
        author = info.author if info is not None else ""
        name = author.split()[-1:] or places[0].title.split()[:1]
        key = _key("".join(name), date, keys)
        quotes = dict.fromkeys(
            ": ".join(filter(None, (c.page_name, f'"{_flat(c.quote)}"'))) for c in places
        )
        entries.append(
            {
                "id": key,
                "type": "document",
                "title": _flat(places[0].title),
                **({"author": [{"literal": _flat(author)}]} if author else {}),
                **({"issued": {"date-parts": [date]}} if date else {}),
                "archive_location": _file(places[0]),
                "note": "; ".join(quotes),
            }
        )
    return entries


def _info(citation: Citation, library: Library | None) -> DocumentInfo | None:
    if library is None:
        return None
    try:
        return library.show(citation.document)
    except DrtError:  # removed since
        return None


def _date_parts(date: str) -> list[int]:
    """Return year, month and day of a certain date; nothing of another."""
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", date)
    return [int(part) for part in match.groups()] if match else []


def _key(name: str, date: Sequence[int], taken: set[str]) -> str:
    """Return a citation key of ASCII letters that no other entry has: lee2021, lee2021-2."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    word = "".join(filter(str.isalnum, plain.lower())) or "document"
    stem = f"{word}{date[0] if date else ''}"
    key = next(k for k in (stem, *(f"{stem}-{n}" for n in range(2, 10_000))) if k not in taken)
    taken.add(key)
    return key


def _csl(entries: Sequence[dict[str, Any]]) -> str:
    return json.dumps(entries, ensure_ascii=False, indent=2) + "\n"


def _bibtex(entries: Sequence[dict[str, Any]]) -> str:
    blocks = []
    for entry in entries:
        date = entry.get("issued", {}).get("date-parts", [[]])[0]
        fields = {
            "title": f"{{{_tex(entry['title'])}}}",  # kept in its capitals
            "author": "".join(f"{{{_tex(name['literal'])}}}" for name in entry.get("author", [])),
            "year": str(date[0]) if date else "",
            "date": "-".join(f"{part:02}" for part in date),
            "howpublished": _tex(entry["archive_location"]),
            "note": _tex(entry["note"]),
        }
        lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
        blocks.append(f"@misc{{{entry['id']},\n" + ",\n".join(lines) + "\n}\n")
    return "\n".join(blocks)


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def _flat(text: str) -> str:
    """Return text on one line, without control characters."""
    return _render.plain(text).strip()


def _file(citation: Citation) -> str:
    """Return the name of a citation's file, without its folder."""
    return PurePath(citation.source).name
