"""Keeps a library in step with a file's folder and shows the first thing it does.

`watch_folder.py FILE`
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from drt import Assistant


def main() -> None:
    """Watches until the first event; a real program would go on."""
    watched = Path(sys.argv[1]).resolve().parent
    with tempfile.TemporaryDirectory() as folder, Assistant(folder) as assistant:
        for event in assistant.watch(watched, interval=0.1):
            print(event.kind, Path(event.source).name, event.message)
            break


if __name__ == "__main__":
    main()
