"""Takes from a process what reading one document does not need: files, network, other processes.

Knows the kernel's ways to confine a process (limits, no new privileges, Landlock, seccomp) and
nothing of documents. What a system lacks is left out; ``Confinement`` says what is in force.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

resource: Any
try:
    resource = importlib.import_module("resource")
except ImportError:  # Windows
    resource = None

_OPEN_FILES = 64


@dataclass(frozen=True)
class Confinement:
    """What holds in the process that reads documents of complex formats.

    ``limits`` are the resources that are limited. ``no_new_privileges`` says that no program could
    give it more rights, ``landlock`` is the version of Landlock that keeps it from files, network
    and signals (0: none), ``seccomp`` whether the kernel refuses all system calls but a few.
    """

    limits: tuple[str, ...] = ()
    no_new_privileges: bool = False
    landlock: int = 0
    seccomp: bool = False

    @property
    def complete(self) -> bool:
        """Whether files, network and other processes are out of reach."""
        return self.seccomp

    def __str__(self) -> str:
        if self.complete:
            landlock = f" and Landlock {self.landlock}" if self.landlock else ""
            return f"complete (seccomp{landlock}): no files, no network, no other processes"
        if self.landlock:
            network = ", no network" if self.landlock >= _NETWORK_VERSION else ""
            return f"in part (Landlock {self.landlock}): no files{network}; no seccomp here"
        return f"limits of {', '.join(self.limits) or 'nothing'} only; no seccomp or Landlock here"


def limit_resources(*, cpu_seconds: int, memory_bytes: int) -> tuple[str, ...]:
    """Set the names of this process; return the names of those that hold."""
    if resource is None:
        return ()
    limit_values = {
        # At the first a signal says why the process ends; at the second it is killed.
        "CPU": (cpu_seconds, cpu_seconds + 2),
        "AS": (memory_bytes, memory_bytes),
        "FSIZE": (0, 0),
        "CORE": (0, 0),
        "NOFILE": (_OPEN_FILES, _OPEN_FILES),
        "NPROC": (0, 0),
    }
    names = []
    for name, (soft, hard) in limit_values.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        try:
            resource.setrlimit(kind, (soft, hard))
        except ValueError:
            # macOS knows no limit of the address space; the others hold there too.
            if kind != resource.RLIMIT_AS or sys.platform != "darwin":
                raise
        else:
            names.append(name)
    return tuple(names)


def confine(readable: Sequence[str] = (), *, before_seccomp: Callable[[], None]) -> Confinement:
    """Take files, network and other processes from this process, as far as the kernel can.

    With ``readable`` files below these folders may still be read, in its readers of plug-ins that
    import modules late; else no file can be opened at all. ``before_seccomp`` starts the threads
    that the process needs: later ones are refused, and Landlock holds only in threads started
    after it.
    """
    if not sys.platform.startswith("linux"):
        before_seccomp()
        return Confinement()
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(value) for value in (1, 0, 0, 0)]
    no_new_privileges = libc.prctl(_PR_SET_NO_NEW_PRIVS, *arguments) == 0
    landlock = _restrict_files(libc, readable) if no_new_privileges else 0
    before_seccomp()
    machine = _MACHINES.get(os.uname().machine) if no_new_privileges else None
    # 32-bit Python on a 64-bit kernel has other numbers than those below.
    if machine is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return Confinement((), no_new_privileges, landlock, False)
    program = filter_program(machine, opens=bool(readable))
    return Confinement((), no_new_privileges, landlock, _filter_calls(libc, machine, program))


def _call(libc: ctypes.CDLL, number: int, *arguments: int | bytes | None) -> int:
    """Return the result of a system call that the C library has no function for."""
    # A plain int would be passed as 32 bits, the other half of its register being undefined.
    passed = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return int(libc.syscall(ctypes.c_long(number), *passed))


# ---- Landlock: which files, ports and processes

_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on all machines
_VERSION_FLAG = 1
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
# Kinds of access to files that each version of Landlock knows: 13 in the first, then moving
# between folders, truncating, and device control.
_FILE_ACCESS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_FILE_ACCESS = (1 << 16) - 1
_BIND_AND_CONNECT = 0b11
_SIGNALS_AND_SOCKETS = 0b11


def _restrict_files(libc: ctypes.CDLL, readable: Iterable[str]) -> int:
    """Restrict this thread with Landlock; return the kernel's version of it, 0 for none."""
    version = _call(libc, _LANDLOCK_CREATE, None, 0, _VERSION_FLAG)
    if version < 1:
        return 0
    handled = [_FILE_ACCESS.get(version, _ALL_FILE_ACCESS)]
    if version >= _NETWORK_VERSION:
        handled.append(_BIND_AND_CONNECT)
    if version >= _SCOPE_VERSION:
        handled.append(_SIGNALS_AND_SOCKETS)
    attributes = struct.pack(f"{len(handled)}Q", *handled)
    rules = _call(libc, _LANDLOCK_CREATE, attributes, len(attributes), 0)
    if rules < 0:
        return 0
    try:
        for path in readable:
            _allow_reading(libc, rules, path)
        return version if _call(libc, _LANDLOCK_RESTRICT, rules, 0) == 0 else 0
    finally:
        os.close(rules)


def _allow_reading(libc: ctypes.CDLL, rules: int, path: str) -> None:
    try:
        folder = os.open(path, _ANY_PATH)
    except OSError:
        return  # an entry of the module path that is not there
    try:
        access = _READ_FILE | (_READ_FOLDER if os.path.isdir(path) else 0)
        _call(libc, _LANDLOCK_ADD, rules, 1, struct.pack("=Qi", access, folder), 0)
    finally:
        os.close(folder)


# ---- seccomp: which system calls


@dataclass(frozen=True)
class Machine:
    """What the numbers of system calls depend on: the kernel's name of it, and its table."""

    audit: int
    seccomp: int
    numbers: Mapping[str, int]


def _words(text: str) -> tuple[str, ...]:
    """Return the words of ``text`` in order, to keep long tables of names readable."""
    return tuple(text.split())


def _table(text: str) -> dict[str, int]:
    pairs = (entry.split("=") for entry in text.split())
    return {name: int(number) for name, number in pairs}


_MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        317,
        _table(
            "read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mmap=9 "
            "mprotect=10 munmap=11 brk=12 rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 "
            "pread64=17 readv=19 writev=20 select=23 sched_yield=24 mremap=25 madvise=28 dup=32 "
            "dup2=33 nanosleep=35 getpid=39 exit=60 kill=62 fcntl=72 getcwd=79 readlink=89 "
            "gettimeofday=96 getrusage=98 getuid=102 getgid=104 geteuid=107 getegid=108 "
            "sigaltstack=131 gettid=186 tkill=200 time=201 futex=202 sched_getaffinity=204 "
            "getdents64=217 restart_syscall=219 clock_gettime=228 clock_getres=229 "
            "clock_nanosleep=230 exit_group=231 tgkill=234 openat=257 newfstatat=262 "
            "readlinkat=267 pselect6=270 ppoll=271 set_robust_list=273 dup3=292 preadv=295 "
            "getrandom=318 membarrier=324 preadv2=327 statx=332 rseq=334 clone3=435"
        ),
    ),
    "aarch64": Machine(
        0xC00000B7,
        277,
        _table(
            "getcwd=17 dup=23 dup3=24 fcntl=25 openat=56 close=57 getdents64=61 lseek=62 read=63 "
            "write=64 readv=65 writev=66 pread64=67 preadv=69 pselect6=72 ppoll=73 readlinkat=78 "
            "newfstatat=79 fstat=80 exit=93 exit_group=94 futex=98 set_robust_list=99 "
            "nanosleep=101 clock_gettime=113 clock_getres=114 clock_nanosleep=115 "
            "sched_getaffinity=123 sched_yield=124 restart_syscall=128 kill=129 tkill=130 "
            "tgkill=131 sigaltstack=132 rt_sigaction=134 rt_sigprocmask=135 rt_sigreturn=139 "
            "getrusage=165 gettimeofday=169 getpid=172 getuid=174 geteuid=175 getgid=176 "
            "getegid=177 gettid=178 brk=214 munmap=215 mremap=216 mmap=222 mprotect=226 "
            "madvise=233 getrandom=278 membarrier=283 preadv2=286 statx=291 rseq=293 clone3=435"
        ),
    ),
}

# What computing, waiting, and reading and writing open files take; the most frequent first.
_HARMLESS = _words(
    "read pread64 write lseek futex mmap munmap brk madvise mprotect mremap clock_gettime "
    "getrandom readv preadv preadv2 writev close fstat rt_sigaction rt_sigprocmask rt_sigreturn "
    "sigaltstack clock_getres clock_nanosleep nanosleep gettimeofday time exit exit_group getpid "
    "gettid poll ppoll select pselect6 restart_syscall dup dup2 dup3 sched_yield "
    "sched_getaffinity getcwd getuid geteuid getgid getegid rseq set_robust_list membarrier "
    "getrusage"
)
# What finding and importing a module takes besides; none of it changes a file.
_LOOKING = _words("stat lstat newfstatat statx readlink readlinkat getdents64")
_FCNTL = (0, 1, 2, 3, 4, 1030)  # duplicate, flags of the descriptor and the file; no owner
# Windows and macOS, which have no filter of calls, lack some of these.
_WRITING = getattr(os, "O_ACCMODE", 3) | os.O_CREAT | os.O_TRUNC
_ANY_PATH = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)

_LOAD, _EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06  # of the Berkeley packet filter
_KILL, _ALLOW, _ERROR = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in what the kernel filters
_SET_FILTER, _ALL_THREADS = 1, 1


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def filter_program(machine: Machine, *, opens: bool) -> bytes:
    """Return the seccomp filter: a few calls are allowed, all others fail with EACCES.

    With ``opens`` files may be looked at and opened to be read.
    """
    numbers = machine.numbers
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, machine.audit, 1, 0),
        _step(_RETURN, _KILL),  # calls of another machine, whose numbers say other things
        _step(_LOAD, _NUMBER),
    ]
    for name in (*_HARMLESS, *(_LOOKING if opens else ())):
        if name in numbers:
            program += [_step(_EQUAL, numbers[name], 0, 1), _step(_RETURN, _ALLOW)]
    # The C library tries an older call where this one is unknown, which is refused below.
    program += [
        _step(_EQUAL, numbers["clone3"], 0, 1),
        _step(_RETURN, _ERROR | errno.ENOSYS),
    ]
    # A process may end itself by a signal; its first thread has the number of the process.
    for name in ("kill", "tgkill", "tkill"):
        program += _allowed_with(numbers[name], 0, [os.getpid()])
    program += _allowed_with(numbers["fcntl"], 1, _FCNTL)
    for name, argument in (("open", 1), ("openat", 2)) if opens else ():
        if name in numbers:
            program += _allowed_with(numbers[name], argument, [os.O_RDONLY], mask=_WRITING)
    program.append(_step(_RETURN, _ERROR | errno.EACCES))
    return b"".join(program)


def _allowed_with(
    number: int, argument: int, values: Sequence[int], mask: int = 0xFFFF_FFFF
) -> list[bytes]:
    """Return steps that allow a call where the low half of an argument is one of ``values``."""
    choices = []
    for value in values:
        choices += [_step(_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW)]
    body = [
        _step(_LOAD, _ARGUMENTS + 8 * argument),
        _step(_AND, mask),
        *choices,
        _step(_RETURN, _ERROR | errno.EACCES),
    ]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _filter_calls(libc: ctypes.CDLL, machine: Machine, program: bytes) -> bool:
    """Put the filter in force in all threads of this process; return whether it is."""
    steps = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    return _call(libc, machine.seccomp, _SET_FILTER, _ALL_THREADS, head) == 0
