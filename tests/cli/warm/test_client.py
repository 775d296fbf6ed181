"""What is at the socket may be anything: the command is then run in its own process, and soon."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import drt_cli._warm
from drt_cli._options import Settings
from drt_cli._warm import client, place, wire
from drt_cli._warm.client import run_in_helper
from drt_cli._warm.identity import identity
from drt_cli._warm.place import opened_folder, socket_address, take_lock, warm_folder
from tests.tables import each_row

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="Linux only")

Behaviour = Callable[[socket.socket], None]


@contextlib.contextmanager
def serving(behaviour: Behaviour) -> Iterator[None]:
    """Serve one connection at the place of the helper."""
    with opened_folder(create=True) as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_address(folder))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    behaviour(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _nonsense(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def _silence(connection: socket.socket) -> None:
    time.sleep(1)


def _end(connection: socket.socket) -> None:
    pass


def _refusal(connection: socket.socket) -> None:
    wire.receive_request(connection)
    wire.send(connection, wire.REFUSED)


def _acceptance_then_end(connection: socket.socket) -> None:
    wire.receive_request(connection)
    wire.send(connection, wire.ACCEPTED, os.getpid())
    wire.receive(connection)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "behaviour",
    [_nonsense, _silence, _end, _refusal, _acceptance_then_end],
    ids=lambda behaviour: behaviour.__name__,
)
def test_what_is_not_a_helper_is_passed_over(
    behaviour: Behaviour, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE", 0.1)
    with serving(behaviour):
        began = time.monotonic()
        assert run_in_helper() is None
        assert time.monotonic() - began < 0.8


def test_a_socket_of_another_user_is_not_used(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes] = []
    with serving(lambda connection: heard.append(connection.recv(1))):
        monkeypatch.setattr(client, "is_own_peer", lambda _: False)
        assert run_in_helper() is None
    assert heard == [b""]


def test_nothing_there_costs_nothing(state: Path) -> None:
    assert run_in_helper() is None  # no folder
    with opened_folder(create=True) as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_address(folder))
    assert run_in_helper() is None  # a socket that nobody listens at
    assert list(state.iterdir()) == [warm_folder()]


def test_only_a_folder_of_the_user_alone_is_used(state: Path, tmp_path: Path) -> None:
    with opened_folder(create=True):
        pass
    warm_folder().chmod(0o750)
    with pytest.raises(PermissionError), opened_folder():
        pass
    warm_folder().rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o700)
    warm_folder().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), opened_folder():
        pass


def test_a_folder_of_another_user_is_not_used(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_folder(create=True):
        pass
    monkeypatch.setattr(place.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError), opened_folder():
        pass


NOBODY = 65_534
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
CONNECT = """
import os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(10)
try:
    connection.connect(sys.argv[1])
except PermissionError:
    sys.exit("refused")
print(connection.recv(1))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine can enter, as none of pytest's is."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.skipif(not IS_ROOT, reason="only root may be somebody else")
def test_another_user_reaches_no_socket(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRT_STATE_DIR", str(open_folder))
    with opened_folder(create=True) as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_address(folder))
        listener.listen()
        (warm_folder() / "socket").chmod(0o777)
        words = [sys.executable, "-c", CONNECT, str(warm_folder() / "socket"), str(NOBODY)]
        refused = subprocess.run(words, capture_output=True, text=True, timeout=30)
        assert (refused.returncode, refused.stderr) == (1, "refused\n")
    os.chown(warm_folder(), NOBODY, NOBODY)  # a folder that somebody else has put there
    with pytest.raises(PermissionError, match="this user's alone"), opened_folder():
        pass
    assert run_in_helper() is None


@pytest.mark.skipif(not IS_ROOT, reason="only root may be somebody else")
def test_a_peer_of_another_user_is_told_apart(open_folder: Path) -> None:
    path = open_folder / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        words = [sys.executable, "-c", CONNECT, str(path), str(NOBODY)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
            connection, _ = listener.accept()
            assert not place.is_own_peer(connection)
            connection.close()
            assert other.communicate(timeout=30)[0] == "b''\n"


def test_another_version_has_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "drt_engine" / "store"
    package.mkdir(parents=True)
    module = package / "store.py"
    module.write_text("version = 1")
    monkeypatch.setattr(sys, "path", ["first", str(tmp_path), *sys.path[1:]])
    before = identity()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "store.pyc").touch()
    (package / "notes.txt").touch()
    assert identity() == before
    os.utime(module, (1, 1))  # upgraded in place, as an editable install is
    upgraded = identity()
    assert upgraded != before
    (tmp_path / "torch").mkdir()  # a package is installed or upgraded
    assert identity() not in (before, upgraded)
    info = place.HelperInfo(1, before, "m", "cpu", "fp32", "0.1", 0.0, 10.0)
    assert not info.same_work(dataclasses.replace(info, identity=upgraded))  # so it is replaced


def test_who_connects_is_known_to_the_system() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert place.is_own_peer(left)


def test_the_lock_has_one_holder_and_is_free_when_it_is_closed(state: Path) -> None:
    with opened_folder(create=True) as folder:
        lock = take_lock(folder)
        assert lock is not None and take_lock(folder) is None
        with pytest.raises(OSError, match="not yet written"):
            place.running_helper(folder)
        os.close(lock)
        assert place.running_helper(folder) is None


@each_row("data", [b"", b"x" * 12, b"drt-warm\xff\xff\xff\x7f", b"drt-warm\2\0\0\0{}"])
def test_a_request_that_is_none_is_refused(data: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(data)
        left.shutdown(socket.SHUT_WR)
        with pytest.raises(ValueError, match="request"):
            wire.receive_request(right)


@each_row(
    ("choice", "terminal", "variables", "used"),
    [
        ("auto", True, {}, True),
        ("auto", True, {"CI": "true"}, False),
        ("auto", False, {}, False),
        ("on", False, {"CI": "true"}, True),
        ("off", True, {}, False),
    ],
)
def test_it_is_used_on_terminals_or_where_asked_for(
    choice: str,
    terminal: bool,
    variables: dict[str, str],
    used: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(client, "run_in_helper", lambda: 7)
    command = drt_cli._warm.with_helper(lambda _settings: 0)
    assert command(Settings(warm=choice)) == (7 if used else 0)


def test_a_helper_is_started_where_a_model_was_loaded(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drt import _engine
    from drt_cli._warm import start

    started: list[list[str]] = []
    monkeypatch.setattr(start.os, "posix_spawn", lambda _, words, *__, **___: started.append(words))
    monkeypatch.setitem(vars(_engine), "model_path", lambda model: model)
    monkeypatch.setitem(vars(_engine), "was_missed", lambda: missed)
    monkeypatch.setitem(sys.modules, "drt_engine.preloaded", sys)
    missed = False
    command = drt_cli._warm.with_helper(lambda _settings: 0)
    command(Settings(warm="on"))
    assert not started
    missed = True
    command(Settings(warm="on", model="m"))
    assert len(started) == 1 and '"model": "m"' in started[0][-1]
