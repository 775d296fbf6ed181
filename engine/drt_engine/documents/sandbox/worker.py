"""The child process of ``sandbox``: confines itself, reads one document, and sends it in frames.

Started as ``python -m drt_engine.documents.sandbox.worker REQUEST``, a JSON object that names the
open descriptor of the document; the end of standard input means that the parent is gone. All that
reading needs is imported before its reader looks at the first byte of the document.
"""

from __future__ import annotations

import _thread
import base64
import codecs
import importlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from drt_engine.blocks.nodes import pack_nodes
from drt_engine.documents.base import Block, Reader, Source
from drt_engine.documents.base.unnamed_file import UnnamedFile
from drt_engine.documents.encodings import codec_name, find_encoding, read_bytes
from drt_engine.documents.formats import format_named, importable
from drt_engine.documents.opening import load_reader, open_with
from drt_engine.documents.pdf.picture import draw_page
from drt_engine.documents.recognition import PACKAGE, Recogniser
from drt_engine.documents.sandbox.confinement import confine, limit_resources
from drt_engine.documents.sandbox.pieces import OUT_OF_TIME
from drt_engine.errors import DocumentError, UnreadableDocument

PIECE_BYTES = 1 << 20  # of a picture, in one frame


class Output:
    """Writes frames to what was standard output, where no library can print between them."""

    def __init__(self) -> None:
        self._fd = os.dup(1)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)

    def send(self, **frame: Any) -> None:
        """Write one frame; a half of a surrogate pair becomes "?"."""
        data = json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
        payload = data.encode("utf-8", "replace")
        message = memoryview(b"%08x" % len(payload) + payload)
        while message:
            message = message[os.write(self._fd, message) :]


def watch_parent() -> None:
    """End this process, whatever it does, when the parent's end of standard input closes."""
    while os.read(0, 1024):
        pass
    os._exit(1)


def watch_computing(seconds: int) -> None:
    """End this process once it has computed this long, where the system has no such limit."""
    while time.process_time() < seconds:
        time.sleep(0.2)
    os._exit(OUT_OF_TIME)


def block_frame(block: Block) -> dict[str, Any]:
    """Return a block's fields that are set."""
    fields: dict[str, Any] = {"text": block.text, "page": block.page, "section": block.section}
    if block.line is not None:
        fields["line"] = block.line
    if block.origin:
        fields["origin"] = block.origin
    if block.nodes:
        fields["nodes"] = pack_nodes(block.nodes)
    return fields


def read(request: dict[str, Any], output: Output) -> None:
    """Read the document of a request; raises DocumentError."""
    if request["format"] is None:  # asked only what confines this process
        confine_reader(request, output)
        return
    path, file = request["path"], UnnamedFile(request["descriptor"])
    source = Source.from_file(file, request["name"], None if path is None else Path(path))
    document_format = format_named(request["format"])
    if document_format.archive:
        from drt_engine.documents.readers.archive import send_members

        load_codecs(_CODECS)
        confine_reader(request, output)
        output.send(title=source.name, media_type="archive")
        send_members(source, output.send)
        return
    asked = bool(request.get("recognise"))
    reader = load_reader(document_format, source)
    reader = with_recogniser(reader, document_format.name, asked=asked)
    for module in _IMPORTED_LATE.get(document_format.name, ()):
        importlib.import_module(module)
    load_codecs(_CODECS)
    if document_format.name in _ANY_CODEC:
        load_codecs(_BOOK_CODECS if document_format.name in _OLD_CODECS else ())
        load_codecs_of(source)
    confine_reader(
        request, output, readable=() if document_format.distribution is None else module_files()
    )
    if request.get("picture"):
        send_picture(request["picture"], source, output, reader)
        return
    document = open_with(reader, source)
    output.send(
        title=document.title,
        media_type=document.media_type,
        author=document.author,
        date=document.date,
        pages=document.pages,
    )
    for block in document.blocks:
        output.send(**block_frame(block))
    output.send(skipped=document.skipped)


def with_recogniser(reader: Reader, name: str, *, asked: bool) -> Reader:
    """Return a reader that recognises text in pictures, or that says where it could.

    The models are loaded for pictures, and for a PDF where that is asked.
    """
    if name not in ("pdf", "picture") or not importable(PACKAGE):
        return reader
    from drt_engine.documents.pdf.scans import Scans

    found: Any = reader
    if name == "picture":
        return cast(Reader, replace(found, recogniser=Recogniser()))
    scans = Scans(Recogniser()) if asked else Scans(refused=True)
    return cast(Reader, replace(found, scans=scans))


def send_picture(asked: dict[str, Any], source: Source, output: Output, reader: Any) -> None:
    """Draw a page of a PDF file, and send its size and boxes, then its bytes."""
    characters = asked["characters"]
    drawn = draw_page(
        sys.modules["pypdfium2"],
        source,
        page=asked["page"],
        characters=None if characters is None else tuple(characters),
        width=asked["width"],
        scans=reader.scans,
    )
    output.send(pages=drawn.pages, width=drawn.width, height=drawn.height, boxes=drawn.boxes)
    for at in range(0, len(drawn.png), PIECE_BYTES):
        output.send(data=base64.b64encode(drawn.png[at : at + PIECE_BYTES]).decode("ascii"))
    output.send(data="")


def confine_reader(request: dict[str, Any], output: Output, readable: Sequence[str] = ()) -> None:
    """Take from this process what reading does not need, and say what was taken."""
    limits: tuple[str, ...] = ()

    def prepare() -> None:
        nonlocal limits
        allowed = request["limits"]
        if request["watched"]:
            _thread.start_new_thread(watch_parent, ())
        limits = limit_resources(
            cpu_seconds=int(allowed["cpu_seconds"]), memory_bytes=int(allowed["memory_bytes"])
        )
        if "CPU" not in limits:
            _thread.start_new_thread(watch_computing, (int(allowed["cpu_seconds"]),))

    confinement = replace(confine(readable, before_seccomp=prepare), limits=limits)
    output.send(ready=time.process_time(), confinement=asdict(confinement))


_PICTURES = tuple(f"PIL.{name}ImagePlugin" for name in ("Png", "Jpeg", "Tiff", "WebP", "Bmp"))
# Modules that readers import when they are called: afterwards nothing can be imported.
_IMPORTED_LATE = {
    "pdf": ("pypdfium2", "pypdfium2.raw"),
    "xlsx": ("openpyxl",),
    "pptx": ("pptx",),
    "xls": ("python_calamine", "_strptime"),
    "rtf": ("striprtf.striprtf",),
    "msg": ("oxmsg", *(f"email.{name}" for name in ("contentmanager", "generator", "policy"))),
    "picture": ("PIL.Image", "PIL.ImageOps", *_PICTURES),
}
_CODECS = (
    "ascii", "latin-1", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp437",
    "cp1252", "raw-unicode-escape",
)  # fmt: skip
_ANY_CODEC = frozenset(("html", "email", "epub", "mht", "feed", "rtf", "msg"))
# Books should be UTF-8, and what they declare is compressed: the encodings seen in old files.
_BOOK_CODECS = (
    "cp1250", "cp1251", "iso8859-2", "iso8859-5", "iso8859-15", "koi8-r", "shift_jis", "euc-jp",
    "gb2312", "gbk", "gb18030", "big5", "euc-kr",
)  # fmt: skip
_OLD_CODECS = frozenset(("epub", "rtf", "msg"))
_MOST_CODECS = 100
_DECLARED = re.compile(
    rb"""(?:charset|encoding)\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})|=\?([\w.:-]{1,40})[?*]""",
    re.IGNORECASE,
)


def load_codecs(names: Iterable[str]) -> None:
    """Import the codecs of these encodings, as far as there are such."""
    for name in names:
        with suppress(LookupError):
            codecs.lookup(name)


def load_codecs_of(source: Source) -> None:
    """Import every codec that a document names, or that finding its encoding takes."""
    decoder, utf8, tail = codecs.getincrementaldecoder("utf-8")(), True, b""
    names: set[bytes] = set()
    with source.open() as file:
        for data in read_bytes(file):
            if utf8:
                try:
                    decoder.decode(data)
                except UnicodeDecodeError:
                    utf8 = False
            if len(names) < _MOST_CODECS:
                names.update(
                    equals_name or word_name
                    for equals_name, word_name in _DECLARED.findall(tail + data)
                )
            tail = data[-128:]
    for name in sorted(names)[:_MOST_CODECS]:
        codec_name(name.decode("ascii", "replace"))
    if not utf8:
        with suppress(DocumentError):
            find_encoding(source)


def module_files() -> list[str]:
    """Return the folders and files that an import by a plug-in may read."""
    system = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache")
    return [*filter(None, sys.path), sys.prefix, sys.base_prefix, *system]


def main() -> None:
    """Answer one request, and report whatever goes wrong in a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    output = Output()
    request = json.loads(sys.argv[1])
    name = request["name"]
    reserve = bytearray(1 << 20)  # freed to have room for the sentence about memory
    try:
        read(request, output)
    except DocumentError as error:
        output.send(error=type(error).__name__, message=str(error))
    except MemoryError:
        del reserve
        megabytes = request["limits"]["memory_bytes"] >> 20
        reason = f"reading it takes more than {megabytes} MB of memory"
        output.send(error=UnreadableDocument.__name__, message=_sentence(name, reason))
    except Exception as error:  # the reader's own mistake, which must not look like an empty end
        reason = f"its reader failed with {type(error).__name__}"
        output.send(error=UnreadableDocument.__name__, message=_sentence(name, reason))


def _sentence(name: str, reason: str) -> str:
    return f"{name} cannot be read ({reason}); it may be damaged, get or export it again."


if __name__ == "__main__":
    main()
    # Without the interpreter's own end, which libraries with broken state may not survive.
    os._exit(0)
