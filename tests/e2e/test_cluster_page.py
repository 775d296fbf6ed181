"""The lines of docs/cluster.md for Slurm and containers run, with a Ray of one node.

What starts programs on other nodes, ``srun`` and ``podman``, is a script that starts them here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt import Library
from drt_engine.cluster.shards import ShardedLibrary
from tests.engine.cluster.fake_ray import NEEDS_RAY
from tests.model_folder import LETTERS, model_folder

pytestmark = [pytest.mark.slow, NEEDS_RAY]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
IMAGE_RUNS = re.search(r'ENTRYPOINT \["(\w+)"\]', (ROOT / "Containerfile").read_text())

RAY = shutil.which("ray")
SMALL = "--include-dashboard=false --object-store-memory=80000000"
MODEL = f"--model {model_folder()} --device cpu --dtype fp32"
PROGRAMS = {
    "scontrol": '[ "$1 $2" = "show hostnames" ] && printf "127.0.0.1\\nother\\n"',
    # as srun does: its options, then the program
    "srun": """
        while case "$1" in -*) true;; *) false;; esac; do
            case "$1" in -w) shift 2;; *) shift;; esac
        done
        exec "$@" """,
    # as podman does: the image's program, unless another one is named, gets what follows the image
    "podman": f"""
        program={IMAGE_RUNS[1] if IMAGE_RUNS else ""}
        if [ "$1" = exec ]; then shift 2; exec "$@"; fi
        [ "$1" = run ] && shift
        while [ "$1" != IMAGE ]; do
            case "$1" in --entrypoint) program=$2;; esac
            shift
        done
        shift
        "$program" "$@" & """,
    # a node that joins is noted instead; Ray refuses a second one at an address of the loopback
    "ray": f"""
        [ "$1" = start ] || exec {RAY} "$@"
        case "$*" in *--address=*) echo "$@" >> "$NODES"; exec sleep 600;; esac
        exec {RAY} "$@" {SMALL}""",
    "drt": f'exec {sys.executable} -m drt_cli {MODEL} "$@"',
}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with the programs, whose processes are ended; its name is short, as sockets need."""
    path = Path(tempfile.mkdtemp(prefix="drt-page-", dir="/tmp"))
    (path / "bin").mkdir()
    for name, script in PROGRAMS.items():
        (path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (path / "bin" / name).chmod(0o700)
    (path / "shared" / "reports").mkdir(parents=True)
    for number in range(6):
        file = path / "shared" / "reports" / f"{number}.txt"
        file.write_text(f"Letter {number}. {LETTERS}", encoding="utf-8")
    yield path
    deadline = time.monotonic() + 30
    while (pids := processes(path)) and time.monotonic() < deadline:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
    shutil.rmtree(path)


def processes(place: Path) -> list[int]:
    """Return the processes of a Ray whose files are in a folder."""
    pids = []
    for process in Path("/proc").iterdir():
        try:
            is_there = os.fsencode(place) in (process / "environ").read_bytes()
        except OSError:
            continue
        if process.name.isdecimal() and int(process.name) != os.getpid() and is_there:
            pids.append(int(process.name))
    return pids


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def run(script: str, place: Path) -> list[list[str]]:
    """Run lines of the page, with small numbers; return what joining nodes were started with."""
    port = free_port()
    for old, new in {
        "/shared": str(place / "shared"),
        "6379": str(port),
        "--shards 64": "--shards 2",
        "--shards 16": "--shards 2",
        "--num-cpus=16": "--num-cpus=2",  # Ray starts a process for each
        "sleep 20": f"until ray health-check --address 127.0.0.1:{port}; do sleep 1; done",
    }.items():
        script = script.replace(old, new)
    environment = os.environ | {
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "NODES": str(place / "nodes"),
        "SLURM_JOB_NODELIST": "two",
        "RAY_TMPDIR": str(place),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # an address of the loopback stays what it is
        "DRT_STATE_DIR": str(place / "state"),
        "DRT_CONFIG_FILE": str(place / "config.toml"),
    }
    with (place / "log").open("w+") as log:
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
            timeout=240,
        )
        log.seek(0)
        assert done.returncode == 0, log.read()
    return [shlex.split(line) for line in (place / "nodes").read_text().splitlines()]


def expect_all_read(place: Path) -> None:
    library = ShardedLibrary.of(place / "shared" / "papers", None)
    assert library.count == 2
    names = []
    for shard in library.shards:
        assert Library(shard).check() == []
        names += [Path(document.source).name for document in Library(shard).documents()]
    assert sorted(names) == [f"{number}.txt" for number in range(6)]


def blocks(heading: str) -> list[str]:
    """Return the scripts of a section of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, flags=re.S)


def test_slurm(place: Path) -> None:
    (script,) = blocks("On Slurm")
    assert script.splitlines()[1].startswith("#SBATCH")
    (node,) = run(script, place)
    assert node[0] == "start" and node[1].startswith("--address=127.0.0.1:") and "--block" in node
    expect_all_read(place)


def test_containers(place: Path) -> None:
    first, other = blocks("In a container")
    *start, read = first.replace("\\\n", "").splitlines()
    (node,) = run("\n".join([*start, "sleep 20", other.replace("HEAD", "127.0.0.1"), read]), place)
    assert node[0] == "start" and node[1].startswith("--address=127.0.0.1:") and "--block" in node
    expect_all_read(place)
