"""Every format that drt reads: its suffixes, its reader, and the package that it may need.

Readers are imported when they are first used. A distribution adds formats by entry points of the
group ``drt.readers``, each naming a ``Format``; they are asked before the built-in ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from drt_engine.documents.base import Reader

GROUP = "drt.readers"
PICTURE = "picture"  # the format whose words are recognised
_HERE = "drt_engine.documents"


@dataclass(frozen=True)
class Format:
    """One format: ``reader`` is "module:Class", made without arguments when it is first needed.

    ``suffixes`` are lower-case, with their dots, the best known first. ``package`` is the module it
    imports and ``extra`` the extra of drt that brings it. An ``isolated`` reader works in a process
    of its own with limits; only what is plain text need not. What is not read ``in_folders`` has to
    be named itself.
    """

    name: str
    label: str
    suffixes: tuple[str, ...]
    reader: str
    package: str | None = None
    extra: str | None = None
    isolated: bool = True
    archive: bool = False
    in_folders: bool = True
    distribution: str | None = None

    def load(self) -> Reader:
        """Return the reader; raise ImportError or AttributeError where it is missing."""
        module, _, name = self.reader.partition(":")
        return cast(Reader, getattr(importlib.import_module(module), name)())

    @property
    def installed(self) -> bool:
        """Whether the package that the reader needs can be imported."""
        return self.package is None or importable(self.package)


@dataclass(frozen=True)
class BrokenPlugin:
    """A plug-in that could not be loaded, and why."""

    name: str
    distribution: str
    why: str


@dataclass(frozen=True)
class Plugins:
    """Formats that other distributions add, and what of them could not be loaded."""

    formats: tuple[Format, ...]
    broken: tuple[BrokenPlugin, ...]


def importable(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    if module in sys.modules:
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None


_PLAIN = (
    ".txt .text .log .adoc .asciidoc .org .bib .json .xml .yaml .yml .toml .ini .cfg "
    ".conf .properties .css .scss .diff .patch .proto .cmake .mk .gradle .tf"
)
_CODE = (
    ".py .pyi .pyx .c .h .cc .cpp .cxx .hpp .cs .java .js .mjs .cjs .jsx .ts .tsx .go .rs .rb .php "
    ".pl .pm .lua .r .jl .m .swift .kt .scala .hs .ml .ex .exs .erl .clj .lisp .el .sh .bash .zsh "
    ".fish .ps1 .bat .sql .cu .vim .asm .s .f90 .dart .nim .zig .groovy .v .vhd"
)


def _format(name: str, label: str, suffixes: str, reader: str, **more: object) -> Format:
    suffix_list = tuple(suffixes.split())
    return Format(name, label, suffix_list, f"{_HERE}.{reader}", **more)  # type: ignore[arg-type]


# In the order in which they are tried on a file's content: plain text, which takes most, is last.
BUILT_IN: tuple[Format, ...] = (
    _format("pdf", "PDF", ".pdf", "pdf.reader:PdfReader", package="pypdfium2", extra="pdf"),
    _format("docx", "Word", ".docx .docm .dotx", "docx.reader:DocxReader"),
    _format("odt", "OpenDocument text", ".odt .ott", "odt.reader:OdtReader"),
    _format(
        "xlsx",
        "spreadsheet",
        ".xlsx .xlsm",
        "readers.sheets:SheetsReader",
        package="openpyxl",
        extra="sheets",
    ),
    _format(
        "pptx",
        "slides",
        ".pptx .pptm .ppsx",
        "readers.slides:SlidesReader",
        package="pptx",
        extra="slides",
    ),
    _format(
        "xls",
        "old or open spreadsheet",
        ".xls .ods .ots",
        "readers.other_sheets:OtherSheetsReader",
        package="python_calamine",
        extra="calamine",
    ),
    _format("rtf", "RTF", ".rtf", "readers.rtf:RtfReader", package="striprtf", extra="rtf"),
    _format("epub", "EPUB", ".epub", "epub.reader:EpubReader"),
    _format(
        "archive",
        "archive of documents",
        ".zip .tar .tar.gz .gz .tgz .tar.bz2 .tbz2 .bz2 .tar.xz .txz .xz",
        "readers.archive:ArchiveReader",
        archive=True,
    ),
    _format("html", "HTML", ".html .htm .xhtml", "html.reader:HtmlReader"),
    _format("mht", "saved page", ".mht .mhtml", "mail.saved_page:SavedPageReader"),
    _format("feed", "feed", ".rss .atom", "readers.feed:FeedReader"),
    _format(
        "subtitles",
        "subtitles",
        ".srt .vtt",
        "readers.subtitles:SubtitlesReader",
        isolated=False,
    ),
    _format(
        PICTURE,
        "picture of text",
        ".png .jpg .jpeg .tif .tiff .webp .bmp",
        "readers.pictures:PicturesReader",
        package="rapidocr",
        extra="ocr",
        in_folders=False,
    ),
    _format("email", "e-mail", ".eml .mbox", "mail.reader:MailReader"),
    _format(
        "msg",
        "Outlook message",
        ".msg",
        "mail.outlook:OutlookReader",
        package="oxmsg",
        extra="msg",
    ),
    _format("notebook", "Jupyter notebook", ".ipynb", "readers.notebook:NotebookReader"),
    _format(
        "markdown",
        "Markdown",
        ".md .markdown .mdown .mkd .mdx .qmd .rmd",
        "readers.markdown:MarkdownReader",
        isolated=False,
    ),
    _format("rst", "reStructuredText", ".rst .rest", "readers.rst:RstReader", isolated=False),
    _format("latex", "LaTeX", ".tex .ltx .latex", "latex.reader:LatexReader", isolated=False),
    _format("man", "man page", ".man .roff", "man.reader:ManReader", isolated=False),
    _format("csv", "CSV table", ".csv .tsv .tab", "readers.table:CsvReader", isolated=False),
    _format(
        "jsonl", "JSON lines", ".jsonl .ndjson", "readers.table:JsonLinesReader", isolated=False
    ),
    _format("code", "source code", _CODE, "readers.code:CodeReader", isolated=False),
    _format("text", "plain text", _PLAIN, "readers.text:TextReader", isolated=False),
)


@cache
def plugins() -> Plugins:
    """Return the formats of other distributions; what cannot be loaded is reported, not raised."""
    from importlib.metadata import entry_points

    formats: list[Format] = []
    broken: list[BrokenPlugin] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        owner = point.dist.name if point.dist is not None else point.value
        try:
            loaded = point.load()
        except (Exception, SystemExit) as error:  # whatever another distribution's module raises
            broken.append(BrokenPlugin(point.name, owner, f"{type(error).__name__}: {error}"))
            continue
        if isinstance(loaded, Format):
            formats.append(replace(loaded, distribution=owner))
        else:
            reason = f"{point.value} is a {type(loaded).__name__}, a Format was expected"
            broken.append(BrokenPlugin(point.name, owner, reason))
    return Plugins(tuple(formats), tuple(broken))


def all_formats() -> tuple[Format, ...]:
    """Return plug-ins, then the built-in formats: the order in which their readers are tried."""
    return (*plugins().formats, *BUILT_IN)


def format_named(name: str) -> Format:
    """Return a format by its name; plug-ins are only loaded where it is no built-in one."""
    built_in = next((entry for entry in BUILT_IN if entry.name == name), None)
    return built_in or next(entry for entry in plugins().formats if entry.name == name)


def by_suffix(name: str) -> Format | None:
    """Return the format of a file name's last suffixes: ".tar.gz" before ".gz"."""
    parts = name.lower().split(".")
    endings = {"." + ".".join(parts[-2:]), "." + parts[-1]} if len(parts) > 1 else set()
    return next((entry for entry in all_formats() if not endings.isdisjoint(entry.suffixes)), None)
