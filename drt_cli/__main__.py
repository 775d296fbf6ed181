"""`python -m drt_cli`, and the console script: loads the rest once Ctrl-C is quiet."""

from __future__ import annotations

import signal


def main() -> None:
    """Runs the command line of this process."""
    # Until the program can say it better, Ctrl-C just ends it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from drt_cli.main import main as run_main

    run_main()


if __name__ == "__main__":
    main()
