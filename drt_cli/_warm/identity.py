"""What must be equal in two processes for one to run the other's commands.

The program's files and packages, and all of the environment that counts only while Python or
PyTorch start. Everything else is passed with each command.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
from collections.abc import Iterator

# Variables that libraries read when they are loaded. That of the number of threads is not among
# them: drt reads it with each command.
_PREFIXES = (
    *("PYTHON", "LD_", "GLIBC_", "MALLOC_", "LANG", "LC_", "VIRTUAL_ENV"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_"),
    *("TORCH", "PYTORCH", "ATEN_", "CUDA_", "NVIDIA_", "TOKENIZERS_", "NPY_", "SQLITE_"),
)
_PASSED = ("OMP_NUM_THREADS",)
_NAMESPACES = ("mnt", "pid", "user", "net")
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
_PACKAGES = ("drt_cli", "drt", "drt_engine", "drt_kernels")


def identity() -> str:
    """Return a hash of this process's program, environment and limits."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PREFIXES) and name not in _PASSED
    }
    # The first entry is the folder of the script, or of `python -m`: nothing is imported from it.
    paths = [path for path in sys.path[0 if sys.flags.safe_path else 1 :] if path]
    parts = (
        *(sys.version, sys.executable, sorted(variables.items()), paths, sorted(_stamps(paths))),
        [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES],
        [os.geteuid(), os.getegid(), sorted(os.getgroups()), os.nice(0)],
        [resource.getrlimit(limit) for limit in _LIMITS],
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _stamps(paths: list[str]) -> Iterator[tuple[str, int]]:
    """Yield when each folder of packages changed last, and every file of the program."""
    for path in paths:
        try:
            yield path, os.stat(path).st_mtime_ns
        except OSError:
            continue
        for package in _PACKAGES:
            yield from _files(os.path.join(path, package))


def _files(folder: str) -> Iterator[tuple[str, int]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path, entry.stat().st_mtime_ns
