"""Goes through every command, every option and every public method of an installed drt.

Run it with the Python of an environment that has nothing but the wheel, in an empty folder, as
``python exercise.py EXAMPLES``; needs the standard library only. It fails where an exit code or an
output is not as promised, and where click's command tree or ``drt.__all__`` has something that was
not called.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from exercise_commands import exercise_documents
from exercise_line import CommandLine
from exercise_methods import exercise_python
from exercise_shared import expect
from exercise_training import exercise_rest

DEV_PACKAGES = ("pytest", "hypothesis", "ruff", "mypy", "jsonschema", "pypdfium2", "rouge_score")


def expect_isolation() -> None:
    """Check that this is the installed package, alone with what it needs."""
    import drt

    place, prefix = Path(drt.__file__).resolve(), Path(sys.prefix).resolve()
    expect(prefix in place.parents, f"{place} is not inside {prefix}: not the installed wheel")
    present = [name for name in DEV_PACKAGES if importlib.util.find_spec(name) is not None]
    expect(not present, f"packages that drt does not need are installed: {present}")


def main() -> None:
    """Run the three parts side by side, and compare what they used with what there is."""
    examples = Path(sys.argv[1]).resolve()
    here = Path.cwd()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name, value in (
        ("DRT_LIBRARY", here / "default.library"),
        ("DRT_STATE_DIR", here / "state"),
        ("DRT_CONFIG_FILE", here / "config.toml"),
    ):
        os.environ[name] = str(value)
    expect_isolation()
    drt = CommandLine()
    with ThreadPoolExecutor(3) as pool:
        parts = [
            pool.submit(exercise_documents, drt, examples),
            pool.submit(exercise_rest, drt, examples),
            pool.submit(exercise_python, examples),
        ]
    for error in filter(None, (part.exception() for part in parts)):
        traceback.print_exception(error)
    expect(all(part.exception() is None for part in parts), "a part failed, see above")
    methods = parts[2].result()
    expect(not drt.unused(), f"commands and options that were not used: {sorted(drt.unused())}")
    expect(not methods, f"methods that were not called: {sorted(methods)}")
    print(f"exercise: {len(drt.used)} commands and options, and every public method")


if __name__ == "__main__":
    main()
