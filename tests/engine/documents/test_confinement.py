"""What the process that reads documents may not do, tried from within, and what is said of it."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drt_engine.documents import Block, OpenDocument, Source, formats
from drt_engine.documents.sandbox import confinement as module
from drt_engine.documents.sandbox import process
from drt_engine.documents.sandbox.confinement import Confinement, filter_program
from drt_engine.documents.sandbox.process import read_isolated
from tests.engine.documents import samples
from tests.sampling import sampled
from tests.tables import each_row

HERE = "tests.engine.documents.test_confinement"
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="seccomp and Landlock are Linux's"
)


def call(number: int, *arguments: int) -> int:
    """A system call of x86_64 as machine code would make it, past what Python checks."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def remote_memory(number: int, parent: int) -> int:
    """Read or write the parent's memory at an address where a page is in both processes."""
    held = ctypes.create_string_buffer(8)
    own = Vector(ctypes.addressof(held), 8)
    other = Vector(id(None), 8)
    libc = ctypes.CDLL(None, use_errno=True)
    moved = libc.syscall(
        ctypes.c_long(number), parent, ctypes.byref(own), 1, ctypes.byref(other), 1, 0
    )
    if moved < 0:
        raise OSError(ctypes.get_errno(), "no memory")
    return int(moved)


def thread() -> None:
    threading.Thread(target=print).start()


# Each is tried in the child with the folder of the test and the process id of its parent.
ATTACKS: dict[str, Callable[[Path, int], object]] = {
    "open a file": lambda folder, parent: (folder / "secret").read_text(),
    "open the document by its name": lambda folder, parent: (folder / "a.html").read_text(),
    "open a program": lambda folder, parent: Path(sys.executable).read_bytes(),
    "open the parent's memory": lambda folder, parent: os.open(f"/proc/{parent}/mem", os.O_RDWR),
    "open its own memory": lambda folder, parent: os.open("/proc/self/mem", os.O_RDWR),
    "create a file": lambda folder, parent: (folder / "new").touch(),
    "list a folder": lambda folder, parent: os.listdir(folder),
    "look at a file": lambda folder, parent: os.stat(folder / "secret"),
    "unlink": lambda folder, parent: os.unlink(folder / "secret"),
    "rename": lambda folder, parent: os.rename(folder / "secret", folder / "other"),
    "truncate": lambda folder, parent: os.truncate(folder / "secret", 0),
    "change rights": lambda folder, parent: os.chmod(folder / "secret", 0o777),
    "link": lambda folder, parent: os.symlink("/", folder / "link"),
    "make a folder": lambda folder, parent: os.mkdir(folder / "made"),
    "socket": lambda folder, parent: socket.socket(socket.AF_INET),
    "local socket": lambda folder, parent: socket.socket(socket.AF_UNIX),
    "fork": lambda folder, parent: os.fork() or os._exit(0),
    "start a thread": lambda folder, parent: thread(),
    "run a program": lambda folder, parent: os.execv("/bin/true", ["true"]),
    "run a program in a child": lambda folder, parent: subprocess.run(["/bin/true"]),
    "signal the parent": lambda folder, parent: os.kill(parent, signal.SIGTERM),
    "signal everybody": lambda folder, parent: os.kill(-1, 0),
    "own a pipe in the parent's name": lambda folder, parent: own(parent),
    "trace the parent": lambda folder, parent: call(101, 16, parent, 0, 0),
    "read the parent's memory": lambda folder, parent: remote_memory(310, parent),
    "write the parent's memory": lambda folder, parent: remote_memory(311, parent),
    "hold the parent": lambda folder, parent: call(434, parent, 0),
    "limit the parent": lambda folder, parent: resource.prlimit(
        parent, resource.RLIMIT_NOFILE, (3, 3)
    ),
    "lift its own limits": lambda folder, parent: resource.setrlimit(
        resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    ),
    "queue system calls": lambda folder, parent: call(425, 1, 0),
    "make a memory file": lambda folder, parent: os.memfd_create("x"),
    "leave its namespaces": lambda folder, parent: call(272, 0x10000000),
    "device control": lambda folder, parent: os.get_terminal_size(0),
}
X86_ONLY = ("trace", "read the", "write the", "hold", "queue", "leave")


def own(parent: int) -> None:
    import fcntl

    fcntl.fcntl(0, fcntl.F_SETOWN, parent)


class Attacker:
    """A reader that tries all attacks and reports what each ended with, then allowed things."""

    def recognises(self, head: bytes) -> bool:
        return False

    def open(self, source: Source) -> OpenDocument:
        with source.open() as file:
            folder, parent = json.loads(file.read())
        return OpenDocument("title", "text/x-test", self._blocks(Path(folder), parent))

    def _blocks(self, folder: Path, parent: int) -> Iterator[Block]:
        for name, attack in ATTACKS.items():
            if platform.machine() != "x86_64" and name.startswith(X86_ONLY):
                continue
            try:
                attack(folder, parent)
                ending = "done"
            except OSError as error:
                ending = errno.errorcode.get(error.errno or 0, "?")
            except (RuntimeError, ValueError) as error:
                ending = str(error)
            yield Block(json.dumps([name, ending]) + "\n")


@pytest.fixture
def attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What each attack ended with."""
    if not process.confinement().seccomp:
        pytest.skip(f"this kernel confines only so far: {process.confinement()}")
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "from drt_engine.documents import formats\n"
        f"odd = formats.Format('html', 'test', ('.html',), {HERE + ':Attacker'!r})\n"
        "formats.BUILT_IN = (odd, *(f for f in formats.BUILT_IN if f.name != 'html'))\n"
    )
    path = os.pathsep.join([str(hook), os.getcwd(), *filter(None, sys.path)])
    monkeypatch.setattr(process, "_environment", lambda: os.environ | {"PYTHONPATH": path})
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.html").write_text(json.dumps([str(tmp_path), os.getpid()]))
    chosen = formats.format_named("html")
    document = read_isolated(chosen, Source.from_path(tmp_path / "a.html"))
    lines = "".join(block.text for block in document.blocks).splitlines()
    return dict(json.loads(line) for line in lines)


def test_every_attack_is_refused(attacked: dict[str, str], tmp_path: Path) -> None:
    others = {name: ending for name, ending in attacked.items() if ending != "EACCES"}
    assert others == {"start a thread": "can't start new thread"}  # as Python says it
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "hook", "secret"]
    assert (tmp_path / "secret").read_text() == "secret"


def test_what_holds_is_said() -> None:
    confinement = process.confinement()
    assert {"CPU", "AS", "FSIZE", "CORE", "NOFILE", "NPROC"} == set(confinement.limits)
    assert confinement.complete == confinement.seccomp
    assert str(Confinement()) == "limits of nothing only; no seccomp or Landlock here"
    assert str(Confinement(("CPU",), True)).startswith("limits of CPU only")
    assert "no files, no network" in str(Confinement(("CPU",), True, 4))
    assert "network" not in str(Confinement(("CPU",), True, 3))
    assert str(Confinement((), True, 0, True)).startswith("complete (seccomp):")


def run(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What a filter says of a system call, as the kernel works it out."""
    data = struct.pack("iIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("HBBI", program))
    at, held = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("I", data, value)
        elif code == 0x54:
            held &= value
        elif code == 0x15:
            at += if_true if held == value else if_false
        else:
            assert code == 0x06, code
            return int(value)


ALLOW, KILL, UNKNOWN, REFUSE = 0x7FFF0000, 0x80000000, 0x50000 | 38, 0x50000 | 13


@each_row("name", ["x86_64", "aarch64"])
@each_row("opens", [False, True])
def test_the_filter_of_each_machine(name: str, opens: bool) -> None:
    machine = module._MACHINES[name]
    numbers, program = machine.numbers, filter_program(machine, opens=opens)

    def verdict(call_name: str, *arguments: int) -> int:
        return run(program, machine.audit, numbers[call_name], *arguments)

    assert run(program, machine.audit ^ 1, numbers["read"]) == KILL
    assert verdict("read") == verdict("write") == verdict("futex") == ALLOW
    assert verdict("clone3") == UNKNOWN
    assert verdict("kill", os.getpid(), 6) == verdict("tgkill", os.getpid(), 1, 6) == ALLOW
    assert verdict("kill", os.getppid(), 9) == verdict("kill", 2**32 - 1, 0) == REFUSE
    assert verdict("fcntl", 0, 1) == ALLOW
    assert verdict("fcntl", 0, 8) == verdict("fcntl", 0, 10) == REFUSE
    reading = ALLOW if opens else REFUSE
    assert verdict("openat", 0, 0, os.O_RDONLY | os.O_CLOEXEC) == reading
    assert verdict("newfstatat") == reading
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC):
        assert verdict("openat", 0, 0, flags) == REFUSE
    allowed = {n for n in range(600) if run(program, machine.audit, n) == ALLOW}
    named = {numbers[n] for n in module._HARMLESS if n in numbers}
    looking = {numbers[n] for n in module._LOOKING if n in numbers} if opens else set()
    openings = {numbers[n] for n in ("open", "openat") if n in numbers} if opens else set()
    # With arguments of zero fcntl duplicates, and a file is opened to be read.
    assert allowed == named | looking | openings | {numbers["fcntl"]}


def confined(code: str) -> list[str]:
    """What code prints in a process of its own, where `confine` and `tried` are known."""
    start = (
        "import os, socket, sys\n"
        "from drt_engine.documents.sandbox import confinement as module\n"
        "def tried(attack):\n"
        "    try:\n        attack()\n        print('done')\n"
        "    except OSError as error:\n        print(type(error).__name__)\n"
        "def confine(*readable):\n"
        "    return module.confine(readable, before_seccomp=lambda: None)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=True
    )
    return ended.stdout.splitlines()


@pytest.mark.thorough
def test_landlock_alone_keeps_files_and_network() -> None:
    if process.confinement().landlock < module._NETWORK_VERSION:
        pytest.skip("this kernel's Landlock knows no network")
    held, *endings = confined(
        "module._MACHINES.clear()\n"
        "end = socket.socket()\n"
        "print(confine())\n"
        "tried(lambda: open('/etc/hostname'))\n"
        "tried(lambda: os.listdir('/'))\n"
        "tried(lambda: open('/tmp/drt-never', 'w'))\n"
        "tried(lambda: end.connect(('127.0.0.1', 9)))\n"
        "tried(lambda: os.kill(os.getppid(), 0))\n"
    )
    assert held.startswith("in part (Landlock") and "no network" in held
    signals = process.confinement().landlock >= module._SCOPE_VERSION
    assert endings == ["PermissionError"] * (5 if signals else 4) + ["done"] * (not signals)


def test_a_system_without_all_this_still_reads() -> None:
    held, *endings = confined(
        "module._MACHINES.clear()\n"
        "module._restrict_files = lambda libc, readable: 0\n"
        "print(confine())\n"
        "tried(lambda: open('/etc/passwd'))\n"
    )
    assert (held, endings) == ("limits of nothing only; no seccomp or Landlock here", ["done"])


@pytest.mark.thorough
def test_a_plug_in_may_still_import_but_not_read_elsewhere(tmp_path: Path) -> None:
    if not (process.confinement().seccomp and process.confinement().landlock):
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "late.py").write_text("print('imported')")
    (tmp_path / "secret").write_text("secret")
    lines = confined(
        f"sys.path.append({str(tmp_path / 'code')!r})\n"
        "confine(*sys.path)\n"
        "import late\n"
        f"tried(lambda: open({str(tmp_path / 'secret')!r}))\n"
        f"tried(lambda: open({str(tmp_path / 'code' / 'new')!r}, 'w'))\n"
        "tried(lambda: socket.socket())\n"
    )
    assert lines == ["imported", "PermissionError", "PermissionError", "PermissionError"]


AUDIT = """
import json, os, sys
from drt_engine.documents import Source
from drt_engine.documents.sandbox import worker
from drt_engine.documents.sandbox.confinement import Confinement
from drt_engine.documents.registry import find_format
path, seen = sys.argv[1], []
def hook(event, args):
    if seen and event in ("open", "import", "os.listdir"):
        seen.append([event, str(args[0])])
def confine(readable=(), *, before_seccomp):
    sys.addaudithook(hook)
    seen.append("confined")
    return Confinement()
worker.confine = confine
class Output:
    def send(self, **frame):
        if "error" in frame:
            seen.append(frame)
format = find_format(Source.from_path(path)).name
request = {"path": path, "name": path, "format": format, "limits": {},
           "descriptor": os.open(path, os.O_RDONLY)}
worker.read(request, Output())
sys.stdout.write(json.dumps(seen))
"""
RUSSIAN = "Все счастливые семьи похожи друг на друга. "
LATE = {
    **{name: samples.PDFS[name] for name in list(samples.PDFS)[:1]},
    **{name: samples.DOCXS[name] for name in list(samples.DOCXS)[:1]},
    **{name: samples.EPUBS[name] for name in list(samples.EPUBS)[:1]},
    "old.html": ("<meta charset=windows-1251><p>" + RUSSIAN).encode("cp1251"),
    "undeclared.html": b"<p>" + (RUSSIAN * 20).encode("koi8-r"),
    "wide.html": "\ufeff<p>wide".encode("utf-16-le"),
    "old.eml": (
        b"From: =?koi8-r?B?9sHO?= <a@b>\nSubject: =?iso-2022-jp?B?GyRCRnxLXBsoQg==?=\n"
        b"Content-Type: text/plain; charset=shift_jis\n\n" + "日本語".encode("shift_jis")
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sampled(LATE, {0, 1, 4}))
def test_nothing_is_opened_or_imported_once_confined(name: str, tmp_path: Path) -> None:
    if name.endswith(".pdf"):
        pytest.importorskip("pypdfium2")
    (tmp_path / name).write_bytes(LATE[name])
    ended = subprocess.run(
        [sys.executable, "-c", AUDIT, str(tmp_path / name)], capture_output=True, text=True
    )
    assert (json.loads(ended.stdout or "0"), ended.stderr) == (["confined"], "")
