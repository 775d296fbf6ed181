"""Nothing that runs code from data, and no socket: read in the code, and watched while it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.tables import each_row
from tests.test_layering import import_graph

ROOT = Path(__file__).parents[1]
SOURCES = ("kernels/drt_kernels", "engine/drt_engine", "engine/drt_lab", "sdk/drt", "drt_cli")
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "runpy"}
NETWORK = {"socket", "http", "urllib.request", "ftplib", "smtplib", "requests", "httpx", "aiohttp"}
# What opens a socket when it is asked to by name, with all of these that it imports.
ONLINE = {
    # A command line and its helper, over a local socket in a folder of the user's own.
    "drt_cli/_warm/client.py": {"socket"},
    "drt_cli/_warm/forked.py": {"socket"},
    "drt_cli/_warm/helper.py": {"socket"},
    "drt_cli/_warm/place.py": {"socket"},
    "drt_cli/_warm/wire.py": {"socket"},
    "drt_cli/_workers.py": {"socket"},  # what the processes of a server listen on
    "engine/drt_engine/cluster/connection.py": {"socket"},  # whether a Ray cluster answers
    "engine/drt_engine/cluster/shard_reader.py": {"socket"},  # a worker's host name
    "sdk/drt/_server/process.py": {"socket"},  # the same, of whoever calls
    "sdk/drt/_serving.py": {"socket"},
    "sdk/drt/_web/fetch.py": {"socket", "httpx"},  # an address that somebody asked for
    "sdk/drt/_web/line.py": {"socket"},  # ends the connection to it, or to a writer
    "sdk/drt/_writer/local.py": {"socket", "http.client"},  # asks this machine's own ports
}
CALLS = {"eval", "exec", "__import__"}
METHODS = {"torch.load", "torch.save", "os.system", "os.popen"}
# A file without any of this has nothing to be found.
NAMES = "|".join(re.escape(name) for name in sorted(MODULES | NETWORK | METHODS))
SUSPICIOUS = re.compile(rf"\b(?:{NAMES})\b|\b(?:{'|'.join(sorted(CALLS))})\(|\bshell=")


def found_in(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    if not SUSPICIOUS.search(text):
        return
    for node in ast.walk(import_graph.parse(file)):
        where = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name in ONLINE.get(file.relative_to(ROOT).as_posix(), ()):
                    continue
                if name.split(".")[0] in MODULES | NETWORK or name in NETWORK:
                    yield f"{where} imports {name}"
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in CALLS:
                yield f"{where} calls {called.id}"
            if isinstance(called, ast.Attribute) and dotted(called) in METHODS:
                yield f"{where} calls {dotted(called)}"
            if any(k.arg == "shell" for k in node.keywords):
                yield f"{where} runs a shell"


def dotted(called: ast.Attribute) -> str:
    return f"{called.value.id}.{called.attr}" if isinstance(called.value, ast.Name) else ""


@each_row("folder", SOURCES)
def test_no_data_is_run_as_code(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    assert [what for file in files for what in found_in(file)] == []


WATCHED = """
import sys
from pathlib import Path

seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event in WATCH else None)
WATCH = {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "socket.__new__"}
WATCH |= {"pickle.find_class", "os.system"}

from drt_cli.main import run
from tests.model_folder import MANUAL, model_folder

folder = Path(sys.argv[1])
(folder / "manual.md").write_text(MANUAL, encoding="utf-8")
shared = ["--library", str(folder / "library"), "--model", str(model_folder()), "--quiet"]
for words in (
    ["ingest", str(folder / "manual.md")],
    ["ask", "--session", "talk", "Who keeps the log?"],
    ["library", "list"],
    ["library", "check", "--repair"],
    ["library", "export", str(folder / "all.drtlib")],
    ["library", "compact"],
    ["session", "search", "log"],
    ["library", "remove", "--forget", "manual.md"],
):
    code = run([*words, *shared])
    assert code == 0, (words, code)
import socket
socket.socket().close()
assert seen == ["socket.__new__"], seen
"""


@pytest.mark.thorough
def test_no_socket_is_opened_by_anything_offline(tmp_path: Path, forks: Forks) -> None:
    done = forks.run(WATCHED, tmp_path, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
