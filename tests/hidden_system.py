"""Takes from this process what Windows lacks; ``python tests/hidden_system.py CODE`` runs CODE so.

It cannot show that drt works on Windows: paths, renames and signals stay those of this system. It
shows that nothing is imported or called that is not there. ``portalocker`` is a stand-in over this
system's flock; child processes of Python are changed in the same way.
"""

from __future__ import annotations

import contextlib
import enum
import os
import select
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

MODULES = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "readline", "syslog")
NAMES: dict[Any, tuple[str, ...]] = {
    os: (
        *("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_PATH"),
        *("fork", "wait4", "wait3", "pread", "preadv", "pwrite", "pwritev", "statvfs", "mkfifo"),
        *("getuid", "geteuid", "getgid", "getpgid", "setsid", "killpg", "fchmod", "chown"),
        *("sched_getaffinity", "sched_setaffinity", "nice", "getloadavg", "O_ACCMODE"),
    ),
    signal: (
        *("SIGKILL", "SIGXCPU", "SIGPIPE", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGSTOP", "SIGCONT"),
        *("alarm", "setitimer", "pthread_sigmask", "sigwait"),
    ),
    select: ("poll", "epoll"),
}


def portalocker(flock: Any, free: int) -> types.ModuleType:
    """Return what drt uses of ``portalocker``, whose exceptions are no OSErrors."""
    module = types.ModuleType("portalocker")

    class LockFlags(enum.IntFlag):
        EXCLUSIVE, SHARED, NON_BLOCKING = 2, 1, 4  # flock's own

    class LockException(Exception):
        pass

    class AlreadyLocked(LockException):
        pass

    def lock(file: Any, flags: LockFlags) -> None:
        try:
            flock(file, int(flags))
        except BlockingIOError as error:
            raise AlreadyLocked(error) from error

    exceptions = types.SimpleNamespace(LockException=LockException, AlreadyLocked=AlreadyLocked)
    members = {"LockFlags": LockFlags, "lock": lock, "exceptions": exceptions}
    vars(module).update(members | {"unlock": lambda file: flock(file, free)})
    return module


def hide() -> None:
    """Take away modules, functions, flags and signals, here and in child processes of Python."""
    import fcntl

    sys.modules["portalocker"] = portalocker(fcntl.flock, fcntl.LOCK_UN)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    kill, number = os.kill, signal.SIGKILL
    for owner, names in NAMES.items():
        for name in names:
            with contextlib.suppress(AttributeError):
                delattr(owner, name)
    begin = subprocess.Popen.__init__

    def begin_hidden(self: Any, command: Any, *rest: Any, **options: Any) -> None:
        assert not options.get("pass_fds") and not options.get("start_new_session")
        if "-m" in command:
            at = list(command).index("-m")
            module, words = command[at + 1], list(command[at + 2 :])
            command = [sys.executable, "-P", str(Path(__file__)), f"-m {module}", *words]
        begin(self, command, *rest, **options)

    subprocess.Popen.__init__ = begin_hidden  # type: ignore[method-assign,assignment]
    subprocess.Popen.kill = lambda self: kill(self.pid, number)  # type: ignore[method-assign]


def main() -> None:
    """Hide, and run a piece of code or a module."""
    hide()
    code, sys.argv = sys.argv[1], sys.argv[1:]
    if code.startswith("-m "):
        import runpy

        runpy.run_module(code.removeprefix("-m "), run_name="__main__", alter_sys=True)
    else:
        exec(compile(code, "<hidden>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
