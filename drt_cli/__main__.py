"""``python -m drt_cli``, and the console script: loads the rest once Ctrl-C is quiet."""

from __future__ import annotations

import gc
import os
import signal
import sys

_MANY = 50_000  # new objects between two looks for garbage; torch alone makes 250,000


def main() -> None:
    """Run the command line of this process."""
    # Until the program can say it better, Ctrl-C just ends it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_closed_streams()
    gc.set_threshold(_MANY)
    try:
        from drt_cli.main import main as run_main

        run_main()
    finally:
        # At the end nothing is worth looking through: that took a tenth of a second. But Triton,
        # which the optimiser imports, reports each of its objects that is not collected as leaked.
        if "triton" not in sys.modules:
            gc.freeze()


def _open_closed_streams() -> None:
    """Connect closed standard streams to nothing.

    Otherwise the next file that is opened, such as a catalogue, gets their number, and what any
    library prints goes into it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


if __name__ == "__main__":
    main()
