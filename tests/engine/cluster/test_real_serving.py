"""``drt serve --ray local`` from outside: its sockets, names and origins, its token, and Ray's."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from drt import Assistant
from tests.engine.cluster.fake_ray import NEEDS_RAY
from tests.engine.cluster.listening import named_descendants, other_addresses
from tests.engine.cluster.test_real_ray import MODEL, command
from tests.model_folder import MANUAL

pytestmark = [NEEDS_RAY, pytest.mark.slow]

TOKEN = "an-open-sesame-of-24-letters"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """The process of a server that asks actors, and its address."""
    (tmp_path / "manual.md").write_text(MANUAL, encoding="utf-8")
    with Assistant(tmp_path / "notes.library", **MODEL) as assistant:
        assistant.ingest(tmp_path / "manual.md")
    words = command("serve", "--ray", "local", "--port", "0", library=tmp_path / "notes.library")
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "DRT_SERVE_TOKEN": TOKEN}
    variables |= {"DRT_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path / "home")}
    variables["RAY_raylet_start_wait_time_s"] = "300"  # on a busy machine
    (tmp_path / "home").mkdir()
    with subprocess.Popen(
        words, env=os.environ | variables, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "http://" in line:
                break
        assert "http://" in said, said
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+", said)
        yield process.pid, address
        process.send_signal(signal.SIGINT)
        process.wait(60)
        rest = process.stderr.read()
    assert "Traceback" not in said + rest, said + rest
    assert not (tmp_path / "home" / ".ray").exists()  # where each user could read its token


def status(address: str, **headers: str) -> int:
    """Return the status of a question."""
    body = json.dumps({"question": "Who keeps the key?"}).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{address}/v1/ask", body, names), timeout=120
        ) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_only_this_machine_can_ask_and_only_with_the_token(served: tuple[int, str]) -> None:
    pid, address = served
    ours = {"Authorization": f"Bearer {TOKEN}"}
    assert status(address, **ours) == 200
    assert other_addresses(pid) == []
    for headers, expected in (
        ({}, 401),
        ({"Authorization": "Bearer another"}, 401),
        ({**ours, "Host": "evil.example"}, 421),
        ({**ours, "Origin": "http://evil.example"}, 403),
    ):
        assert status(address, **headers) == expected, headers
    # Ray's token is among its variables, which its own user alone may read, and in no file.
    (ray,) = named_descendants(pid, "gcs_server")
    variables = Path(f"/proc/{ray}/environ")
    assert variables.stat().st_mode & 0o077 == 0
    text = variables.read_text()
    assert "RAY_AUTH_MODE=token\0" in text and re.search(r"\0RAY_AUTH_TOKEN=\w{64}\0", text)
    assert status(address, **ours) == 200
