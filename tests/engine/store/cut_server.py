"""Run by test_cut_files.py: for every line on stdin, fork a process that cuts an open library.

Forking saves importing torch for every cut; what a signal ends is the forked process alone.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from drt_engine.errors import CorruptStore
from drt_engine.store import Store

# The store imports these where it needs them, which would be in every forked process.
from drt_engine.store.segments import reader  # noqa: F401  torch
from drt_engine.store.transfer import archive_export  # noqa: F401


def use_and_cut(path: Path, name: str, size: int) -> None:
    """Use the library once, cut a file, and use it again; print what each use then raises."""
    with Store.open(path) as store:
        ids = store.chunk_ids()
        uses = {
            "read": lambda: store.read_chunks(ids[-5:]),
            "tokens": lambda: store.read_tokens(ids),
            "scan": lambda: [part.sum() for _, part in store.scan_landmarks()],
            "export": lambda: store.export_archive(path.parent / "out.drtlib"),
            "compact": lambda: store.compact(),
        }
        for name_of_use in ("read", "tokens", "scan", "export"):
            uses[name_of_use]()
        scan = store.scan_landmarks()
        next(scan)
        os.truncate(path / "segments" / name, size)
        for name_of_use, use in {**uses, "scan under way": lambda: list(scan)}.items():
            try:
                use()
                print(name_of_use, "done", flush=True)
            except CorruptStore as error:
                assert "\n" not in str(error)
                print(name_of_use, "refused", flush=True)
        print("check", sorted({finding.kind for finding in store.check()}), flush=True)


def main() -> None:
    for line in sys.stdin:
        path, name, size = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                use_and_cut(Path(path), name, size)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print("end", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
