"""Time whole processes of drt that read and ask the example handbook, on a device and on the CPU.

    python examples/time_asking.py [--device cuda] [--model MODEL] [--repeat 3]

What a GPU saves in computing, a short command pays for its start: so beside them are a process that
imports PyTorch and starts the device, and one that imports Triton, too. The first process of a kind
compiles kernels, whose results later ones find on disk; it is a column of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HANDBOOK = Path(__file__).parent / "handbook.md"
QUESTION = "What is the notice period before the ship sails?"


def seconds(command: Sequence[str]) -> float:
    """Run a process to its end; return its wall clock time."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode not in (0, 1):  # 1: a question without an answer
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-300:]}")
    return took


def drt(device: str, library: Path, model: str, *arguments: str) -> list[str]:
    """Return the arguments of Python for a command of drt."""
    shared = ["--device", device, "--library", str(library), "--model", model, "--quiet"]
    return ["-m", "drt_cli", *shared, *arguments]


def main() -> None:
    """Print a line for each kind of process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="drt-small-en")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    start = f"import torch; torch.zeros(1, device={options.device!r}).item()"
    starts = {
        f"start of {options.device}": start,
        "and of Triton": f"{start}; import triton",
    }
    count = range(options.repeat + 1)
    for name, code in starts.items():
        show(name, [seconds(["-c", code]) for _ in count])
    with tempfile.TemporaryDirectory() as folder:
        for device in dict.fromkeys((options.device, "cpu")):
            libraries = [Path(folder) / f"{device}-{number}" for number in count]
            command = [
                drt(device, place, options.model, "ingest", str(HANDBOOK)) for place in libraries
            ]
            show(f"ingest, {device}", [seconds(one) for one in command])
            asking = drt(device, libraries[0], options.model, "ask", QUESTION)
            show(f"ask, {device}", [seconds(asking) for _ in count])


def show(name: str, times: Sequence[float]) -> None:
    """Print the first time of a process, then the median and all of the others."""
    others = ", ".join(f"{value:.2f}" for value in times[1:])
    median = statistics.median(times[1:])
    print(f"{name}: first {times[0]:.2f} s, then {median:.2f} s ({others})", flush=True)


if __name__ == "__main__":
    main()
