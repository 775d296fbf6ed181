"""Language models that run on this machine: which programs offer them, on their usual ports.

Asks only this machine, for a list of names; sends nothing of a library.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

# Where these programs listen unless they are told otherwise.
PORTS: Mapping[str, int] = {"Ollama": 11434, "llama.cpp": 8080, "LM Studio": 1234, "vLLM": 8000}
_MOST_BYTES = 1 << 20
_MOST_MODELS = 100
_NAME_CHARACTERS = 200
_OURS = "drt"  # what drt serve calls the owner of its model, which does not write


@dataclass(frozen=True)
class LocalWriter:
    """A program on this machine that offers language models, and their names.

    ``url`` and one of ``models`` are what ``WriterOptions`` takes.
    """

    program: str
    url: str
    models: tuple[str, ...]


def local_writers(
    *, ports: Mapping[str, int] | None = None, timeout: float = 1.0
) -> tuple[LocalWriter, ...]:
    """Return the programs on this machine that offer language models, by their usual ports.

    Ollama, llama.cpp, LM Studio and vLLM, or ``ports`` by name of program. Each gets ``timeout``
    seconds to list its models; models that Ollama runs elsewhere ("-cloud") are left out.
    """
    places = dict(PORTS if ports is None else ports)
    with ThreadPoolExecutor(max(1, len(places))) as pool:
        names = pool.map(lambda port: _models(port, timeout), places.values())
        found = zip(places.items(), names, strict=True)
        return tuple(
            LocalWriter(program, f"http://127.0.0.1:{port}/v1", models)
            for (program, port), models in found
            if models
        )


def _models(port: int, timeout: float) -> tuple[str, ...]:
    """Return the names that a port lists as OpenAI's endpoint does; none where it does not."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    cut: threading.Timer | None = None
    try:
        connection.connect()
        cut = threading.Timer(timeout, _shut, [connection.sock])  # one that sends byte by byte
        cut.start()
        connection.request("GET", "/v1/models", headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            return ()
        data = response.read(_MOST_BYTES + 1)
        entries = json.loads(data)["data"] if len(data) <= _MOST_BYTES else []
        return tuple(dict.fromkeys(filter(None, map(_name, entries[:_MOST_MODELS]))))
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, RecursionError):
        return ()  # nobody is there, or another program
    finally:
        if cut is not None:
            cut.cancel()
        connection.close()


def _shut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        line.shutdown(socket.SHUT_RDWR)


def _name(entry: object) -> str:
    """Return the name of a model that writes here, else ""."""
    if not isinstance(entry, dict) or entry.get("owned_by") == _OURS:
        return ""
    name = entry.get("id")
    if not isinstance(name, str) or not name.isprintable() or len(name) > _NAME_CHARACTERS:
        return ""
    return "" if name.endswith(("-cloud", ":cloud")) else name


LocalWriter.__module__ = "drt"  # where users import it from
