"""Tools for llm: a model that it runs can search and ask a library of drt, and read passages.

``llm -T drt_ask -m MODEL "How much notice must a member give?"``: the library is DRT_LIBRARY, or
the default one. What comes back is the JSON of the commands, cut where it is long.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import llm

from drt import Assistant, DrtError, passage

CHARACTERS = 20_000
_lock = threading.Lock()
_opened: list[Assistant] = []


def _assistant() -> Assistant:
    """Return the one assistant, whose model is loaded once."""
    with _lock:
        if not _opened:
            import os

            _opened.append(Assistant(os.environ.get("DRT_LIBRARY") or None))
        return _opened[0]


def _result(work: Callable[[Assistant], Any]) -> str:
    """Return what was found as JSON, or the sentence that says what went wrong."""
    try:
        value = work(_assistant())
    except DrtError as error:
        return f"Error: {error}"
    return json.dumps(value, ensure_ascii=False)[:CHARACTERS]


def drt_documents() -> str:
    """List the documents of the user's library, with their ids and tags."""
    return _result(lambda drt: [document.to_dict() for document in drt.library.documents()])


def drt_search(query: str, top_k: int = 5) -> str:
    """Find passages for a query in the user's documents, each with a handle to cite."""
    return _result(lambda drt: drt.search(query, top_k=top_k).to_dict()["hits"])


def drt_ask(question: str) -> str:
    """Answer a question with exact quotes of the user's documents, or say that there is none.

    state is "answer", "likely" (the passage probably answers) or "none".
    """

    def ask(drt: Assistant) -> dict[str, Any]:
        answer = drt.ask(question).to_dict()
        names = ("state", "answer", "sentence", "passage", "confidence", "hint")
        cited = [
            {name: citation[name] for name in ("quote", "title", "handle")}
            for citation in answer["citations"]
        ]
        return {name: answer[name] for name in names} | {"citations": cited}

    return _result(ask)


def drt_read(handle: str) -> str:
    """Return the exact text of a handle, such as 43f8db2c:67218-67228, and what is around it."""
    return _result(lambda drt: passage(drt.library, handle, around=1000).to_dict())


@llm.hookimpl
def register_tools(register: Callable[..., None]) -> None:
    """Give llm the four tools."""
    for tool in (drt_documents, drt_search, drt_ask, drt_read):
        register(tool)
