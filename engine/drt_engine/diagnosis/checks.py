"""Checks that need no model: versions, processor, memory, library folder, extras.

Imports neither torch nor any other package that may be broken: versions come from the metadata of
the installed distributions. No check raises; what cannot be told is a line of the report.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

from drt_engine.documents.formats import importable
from drt_engine.errors import EngineError
from drt_engine.processor import processor
from drt_engine.results import DoctorCheck

Status = Literal["ok", "note", "problem"]
PACKAGES = ("torch", "tokenizers", "safetensors", "numpy", "triton")
REQUIRED = ("torch", "tokenizers", "safetensors")
# The module that each extra brings, and what can be done with it.
EXTRAS = {
    "pdf": ("pypdfium2", "PDF files"),
    "encodings": ("charset_normalizer", "text that is not UTF-8"),
    "sheets": ("openpyxl", "spreadsheets (.xlsx)"),
    "calamine": ("python_calamine", "spreadsheets (.xls, .ods)"),
    "slides": ("pptx", "slides (.pptx)"),
    "rtf": ("striprtf", "RTF files"),
    "msg": ("oxmsg", "messages of Outlook"),
    "ocr": ("rapidocr", "words in pictures and scanned pages"),
    "plot": ("matplotlib", "drawings of training and calibration"),
    "gpu": ("triton", "kernels for a GPU"),
    "serve": ("starlette", "drt serve: HTTP, a page, chat completions"),
    "mcp": ("mcp", "drt mcp: tools for assistants and editors"),
    "writer": ("openai", "ask --writer: a language model of yours"),
    "chat": ("prompt_toolkit", "chat: completion at the prompt"),
    "fetch": ("httpx", "--fetch: documents of the web"),
    "otel": ("opentelemetry", "drt serve --traces"),
    "faiss": ("faiss", "library index --approximate"),
    "cluster": ("ray", "ingest --ray: several machines"),
}
# Variables of other programs that change what is computed, or how fast.
VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUDA_VISIBLE_DEVICES",
    "DNNL_MAX_CPU_ISA",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "ONEDNN_MAX_CPU_ISA",
    "TMPDIR",
)
_LITTLE_SPACE = 1 << 30  # bytes: a library takes 300 for each token, so 3 million tokens fit


def machine_checks(version: str) -> Iterator[DoctorCheck]:
    """Yield versions, platform, processor and memory; ``version`` is drt's own."""
    yield DoctorCheck("drt", f"{version}, {Path(__file__).parents[2]}")
    yield DoctorCheck("Python", f"{platform.python_version()}, {sys.executable}")
    yield _packages()
    yield DoctorCheck("platform", platform.platform())
    name, flags = processor()
    yield DoctorCheck("processor", f"{name}, {os.cpu_count()} processors, {memory()}")
    yield DoctorCheck("instructions", ", ".join(flags) or "unknown on this platform")
    names = [name for name in os.environ if name in VARIABLES or name.startswith("DRT_")]
    yield DoctorCheck(
        "variables", ", ".join(f"{name}={_shown(name)}" for name in sorted(names)) or "none"
    )


def _shown(name: str) -> str:
    """Return a variable's value, but no secret: the report is for others to read."""
    secret = any(word in name for word in ("TOKEN", "KEY", "SECRET", "PASSWORD"))
    return "(set, not shown)" if secret and name not in VARIABLES else os.environ[name]


def _packages() -> DoctorCheck:
    versions = {name: package_version(name) for name in PACKAGES}
    value = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    missing = [name for name in REQUIRED if versions[name] is None]
    if missing:
        return DoctorCheck("packages", value, "problem", f"pip install {' '.join(missing)}")
    return DoctorCheck("packages", value)


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def memory() -> str:
    """Return how much memory the machine has, in words."""
    if sys.platform == "win32":
        return "memory unknown"
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return "memory unknown"
    return f"{size / 1e9:.1f} GB memory"


def extra_checks() -> Iterator[DoctorCheck]:
    """Yield which extras are installed, and how to install the others."""
    present = [name for name, (module, _) in EXTRAS.items() if importable(module)]
    missing = [name for name in EXTRAS if name not in present]
    value = f"{', '.join(present) or 'none'} present"
    if not missing:
        yield DoctorCheck("extras", value)
        return
    absent = ", ".join(f"{name} ({EXTRAS[name][1]})" for name in missing)
    remedy = f'pip install "drt-assistant[{",".join(missing)}]"'
    yield DoctorCheck("extras", f"{value}; missing: {absent}", "note", remedy)


def reader_check() -> DoctorCheck:
    """Return what keeps a hostile document in the process that reads it."""
    from drt_engine.documents.sandbox.process import confinement

    holds = confinement()
    value = f"confinement is {holds}"
    if holds.complete:
        return DoctorCheck("readers", value)
    remedy = "a hostile document could reach files or the network; read only what you trust"
    return DoctorCheck("readers", value, "note", remedy)


def library_checks(path: Path) -> Iterator[DoctorCheck]:
    """Yield the state of a library's folder, and of the folder for temporary files."""
    yield _library(path)
    yield _temporary_folder()


def _library(path: Path) -> DoctorCheck:
    try:
        free = _free_space(path)
        if not path.exists():
            return _absent_library(path, free)
        state, documents = _library_state(path)
    except EngineError as error:
        return DoctorCheck("library", f"{path}: {error}", "problem", "drt library check --repair")
    except OSError as error:
        remedy = "give your user access to this folder, or name another with --library"
        return DoctorCheck(
            "library", f"{path} cannot be read ({error.strerror})", "problem", remedy
        )
    except Exception as error:  # a report of what is broken must not break
        remedy = "drt library check --repair"
        return DoctorCheck("library", f"{path}: {type(error).__name__}: {error}", "problem", remedy)
    value = f"{path}: {documents}, {state}, {free / 1e9:.1f} GB free on its disk"
    if state == "not writable":
        remedy = "it can be asked; reading documents needs a folder that can be written to"
        return DoctorCheck("library", value, "note", remedy)
    return _with_space(value, free)


def _library_state(path: Path) -> tuple[str, str]:
    """Return whether the folder can be written to, and what the library in it holds."""
    from drt_engine.store import Store

    state = "writable" if os.access(path, os.W_OK | os.X_OK) else "not writable"
    if path.is_dir() and not any(path.iterdir()):
        return state, "empty"
    with Store.open(path, lock_timeout=1.0) as store:
        stats = store.stats()
    size = (stats["catalog_bytes"] + stats["segment_bytes"]) / 1e6
    documents = stats["documents"]
    plural = "" if documents == 1 else "s"
    return state, f"{documents:,} document{plural}, {stats['tokens']:,} tokens, {size:.1f} MB"


def _absent_library(path: Path, free: int) -> DoctorCheck:
    parent = _existing(path)
    value = f"{path}: not there yet, {free / 1e9:.1f} GB free on its disk"
    if not os.access(parent, os.W_OK | os.X_OK):
        remedy = f"{parent} is not writable; name another folder with --library or DRT_LIBRARY"
        return DoctorCheck("library", value, "problem", remedy)
    return _with_space(value, free)


def _with_space(value: str, free: int) -> DoctorCheck:
    if free < _LITTLE_SPACE:
        return DoctorCheck(
            "library", value, "note", "there is little room for documents on this disk"
        )
    return DoctorCheck("library", value)


def _temporary_folder() -> DoctorCheck:
    try:
        folder = Path(tempfile.gettempdir())
        return DoctorCheck("temporary", f"{folder}, {_free_space(folder) / 1e9:.1f} GB free")
    except OSError as error:
        remedy = "set TMPDIR to a folder that can be written to"
        return DoctorCheck("temporary", f"no folder can be written to ({error})", "problem", remedy)


def _existing(path: Path) -> Path:
    """Return the nearest folder above ``path`` that exists, or ``path`` itself."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.exists())


def _free_space(path: Path) -> int:
    return shutil.disk_usage(_existing(path)).free
