"""A Ray of two nodes, joined by its address: one is lost while documents are read and asked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.cluster.fake_ray import NEEDS_RAY
from tests.engine.cluster.test_real_ray import command, expect_once, folder, writers

pytestmark = [NEEDS_RAY, pytest.mark.slow]
__all__ = ["folder"]

# Without it Ray replaces an address of the loopback by another one of this machine.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class Nodes:
    """The nodes of a running Ray."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self.address = self._output.readline().strip()

    def lose(self, number: int) -> None:
        """End a node at once, and wait for its end."""
        self._input.write(f"{number}\n")
        self._input.flush()
        assert self._output.readline() == "lost\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    files = {"DRT_STATE_DIR": "state", "DRT_CONFIG_FILE": "config.toml"}
    return (
        os.environ
        | LOOPBACK
        | {"PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        | {name: str(tmp_path / file) for name, file in files.items()}
    )


@pytest.fixture
def nodes(environment: dict[str, str]) -> Iterator[Nodes]:
    start = [sys.executable, "-m", "tests.engine.cluster.ray_nodes", "2"]
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(start, env=environment, stderr=errors, **options) as process,
    ):
        yield Nodes(process)


def test_a_node_that_is_lost_while_it_reads(
    folder: Path, nodes: Nodes, tmp_path: Path, environment: dict[str, str]
) -> None:
    path = tmp_path / "papers"
    words = ("ingest", "--jsonl", "--ray", nodes.address, "--shards", "2", folder)
    options: dict[str, Any] = {"env": environment, "text": True}
    with subprocess.Popen(
        command(*words, library=path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        assert "document" in lines[0], process.communicate()
        shards = [Path(f"{path}.shards", number) for number in "01"]
        workers = {pid for shard in shards for pid in writers(shard)}
        nodes.lose(0)
        deadline = time.monotonic() + 60
        while workers == {pid for pid in workers if Path(f"/proc/{pid}").exists()}:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert len([*lines, *out.splitlines()]) == 12
    expect_once(path, folder)
