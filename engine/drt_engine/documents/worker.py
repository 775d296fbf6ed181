"""The child process of `sandbox`: limits itself, reads one document, and says it in frames.

Started as `python -m drt_engine.documents.worker REQUEST`, a JSON object; the end of standard input
means that the parent is gone.
"""

from __future__ import annotations

import _thread
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from drt_engine.documents.base import Block, Source
from drt_engine.documents.formats import format_named
from drt_engine.documents.registry import open_here
from drt_engine.errors import DocumentError, UnreadableDocument

_OPEN_FILES = 64


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


def limit(limits: dict[str, Any]) -> None:
    """Take from this process what reading one document does not need."""
    cpu, memory = int(limits["cpu_seconds"]), int(limits["memory_bytes"])
    wanted = {
        # At the first a signal says why the process ends; at the second it is killed.
        resource.RLIMIT_CPU: (cpu, cpu + 2),
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NOFILE: (_OPEN_FILES, _OPEN_FILES),
    }
    for kind, (soft, hard) in wanted.items():
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        try:
            resource.setrlimit(kind, (soft, hard))
        except ValueError:
            # macOS knows no limit of the address space; the others hold there too.
            if kind != resource.RLIMIT_AS or sys.platform != "darwin":
                raise


def watch_parent() -> None:
    """End this process, whatever it does, when the parent's end of standard input closes."""
    while os.read(0, 1024):
        pass
    os._exit(1)


def block_frame(block: Block) -> dict[str, Any]:
    """A block's fields that are set."""
    fields: dict[str, Any] = {"text": block.text, "page": block.page, "section": block.section}
    if block.line is not None:
        fields["line"] = block.line
    if block.origin:
        fields["origin"] = block.origin
    return fields


def read(request: dict[str, Any], output: Output) -> None:
    """Read the document of a request; raises DocumentError."""
    path = request["path"]
    source = Source(None if path is None else Path(path), request["name"], Path(request["file"]))
    chosen = format_named(request["format"])
    if chosen.archive:
        from drt_engine.documents.archive import send_members

        output.send(title=source.name, media_type="archive")
        send_members(source, output.send)
        return
    document = open_here(chosen, source)
    output.send(
        title=document.title,
        media_type=document.media_type,
        author=document.author,
        date=document.date,
    )
    for block in document.blocks:
        output.send(**block_frame(block))
    output.send(skipped=document.skipped)


def main() -> None:
    """Answer one request, and report whatever goes wrong in a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    output = Output()
    request = json.loads(sys.argv[1])
    _thread.start_new_thread(watch_parent, ())
    limit(request["limits"])
    name = request["name"]
    reserve = bytearray(1 << 20)  # freed to have room for the sentence about memory
    try:
        read(request, output)
    except DocumentError as error:
        output.send(error=type(error).__name__, message=str(error))
    except MemoryError:
        del reserve
        megabytes = request["limits"]["memory_bytes"] >> 20
        why = f"reading it takes more than {megabytes} MB of memory"
        output.send(error=UnreadableDocument.__name__, message=_sentence(name, why))
    except Exception as error:  # the reader's own mistake, which must not look like an empty end
        why = f"its reader failed with {type(error).__name__}"
        output.send(error=UnreadableDocument.__name__, message=_sentence(name, why))


def _sentence(name: str, why: str) -> str:
    return f"{name} cannot be read ({why}); it may be damaged, get or export it again."


if __name__ == "__main__":
    main()
    # Without the interpreter's own end, which libraries with broken state may not survive.
    os._exit(0)
