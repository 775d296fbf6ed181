"""Opens a file with the program that the platform has for it, a PDF at its page where one can."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from ._errors import CliError

# How the viewers that one may have open a file at a page.
VIEWERS: dict[str, Callable[[str, int], list[str]]] = {
    "evince": lambda file, page: [f"--page-index={page}", file],
    "okular": lambda file, page: ["-p", str(page), file],
    "xreader": lambda file, page: [f"--page-index={page}", file],
    "atril": lambda file, page: [f"--page-index={page}", file],
    "zathura": lambda file, page: [f"--page={page}", file],
    "mupdf": lambda file, page: [file, str(page)],
}


def open_source(source: str, page: int | None) -> None:
    """Open a document's file, or its address in a browser; raises ``CliError`` if that fails."""
    if source.startswith(("http://", "https://")):
        if not webbrowser.open(source):
            raise CliError(f"no browser was found; the document is {source}.")
        return
    file = Path(source)
    if not file.is_absolute() or not file.is_file():
        raise CliError(f"{source} is not there any more; read the document again where it is now.")
    command = opener(file, page)
    if command is None:
        if sys.platform == "win32":  # which has no command
            os.startfile(file)
        return
    try:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise CliError(
            f"{command[0]} cannot be started ({error.strerror}); the document is {source}."
        ) from None


def opener(file: Path, page: int | None) -> Sequence[str] | None:
    """Return the command that opens a file, or None where the system must be asked (Windows)."""
    if sys.platform == "win32":
        return None
    if sys.platform == "darwin":
        return ["open", str(file)]
    if page is not None and file.suffix.lower() == ".pdf":
        for name, arguments in VIEWERS.items():
            if viewer := shutil.which(name):
                return [viewer, *arguments(str(file), page)]
    program = shutil.which("xdg-open")
    if program is None:
        raise CliError(f"no program to open files (xdg-open) was found; the document is {file}.")
    # Browsers, which often show PDFs, take the page from the address.
    at_page = page is not None and file.suffix.lower() == ".pdf"
    return [program, f"{file.as_uri()}#page={page}" if at_page else str(file)]
