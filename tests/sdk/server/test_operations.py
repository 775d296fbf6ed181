"""The files for operators: what they start are commands that exist, what they watch is measured."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drt import Assistant, asgi_app
from tests.sdk.server.conftest import Client

ROOT = Path(__file__).parents[3]
FILES = ROOT / "examples" / "operations"
UNIT = (FILES / "drt.service").read_text(encoding="utf-8")
UNIT_OF_MANY = (FILES / "drt@.service").read_text(encoding="utf-8")
TOKEN = "0123456789abcdef0123"


def unit_values(name: str, unit: str = UNIT) -> list[str]:
    return [line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{name}=")]


def unit_command(unit: str = UNIT) -> list[str]:
    (line,) = unit_values("ExecStart", unit)
    return shlex.split(line)


def compose() -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((FILES / "compose.yaml").read_text(encoding="utf-8"))


def expect_serve_command(words: list[str], token: Path) -> dict[str, Any]:
    """Parse the words after ``drt``; return the options' values."""
    from drt_cli.main import cli

    assert words.pop(0) == "serve"
    at = words.index("--token-file") + 1
    words[at] = str(token)
    command = cli.get_command(cli.make_context("drt", [], resilient_parsing=True), "serve")
    assert command is not None
    return command.make_context("serve", words).params


def health_check(address: str) -> int:
    """Run what compose.yaml asks of the container, of a server elsewhere; return its code."""
    kind, program, *words = compose()["services"]["drt"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    command = [word.replace("http://127.0.0.1:8080", address) for word in words]
    done = subprocess.run([sys.executable, *command], capture_output=True, timeout=60, check=False)
    return done.returncode


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return file


def test_the_unit_and_compose_start_commands_that_exist(token: Path) -> None:
    program, *words = unit_command()
    assert program.endswith("/drt")
    assert expect_serve_command(words, token)["access_log"] == "json"
    service = compose()["services"]["drt"]
    assert expect_serve_command(list(service["command"]), token)["host"] == "0.0.0.0"
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert (FILES / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert compose()["secrets"]["token"]["file"] == "./token"


def test_several_servers_share_one_library_behind_a_proxy_that_knows_their_ports(
    token: Path,
) -> None:
    proxy = (FILES / "nginx.conf").read_text(encoding="utf-8")
    ports = re.findall(r"server 127\.0\.0\.1:(\d+);", proxy)
    (started,) = re.findall(r"systemctl enable --now (.*)\. ", UNIT_OF_MANY)
    assert started.split() == [f"drt@{port}" for port in ports] and len(ports) > 1
    (name,) = re.findall(r"server_name (\S+);", proxy)
    words = [word.replace("%i", ports[0]) for word in unit_command(UNIT_OF_MANY)[1:]]
    options = expect_serve_command(words, token)
    assert (options["host"], options["port"]) == ("127.0.0.1", int(ports[0]))
    assert options["allowed_hosts"] == (name,)
    assert f"proxy_set_header {options['client_header']} " in proxy
    assert unit_values("User", UNIT_OF_MANY) == ["drt"]
    for setting in ("Environment", "LoadCredential", "KillSignal", "ProtectSystem", "UMask"):
        assert unit_values(setting, UNIT_OF_MANY) == unit_values(setting)


def test_what_one_server_takes_the_other_has(
    client: Client, assistant: Assistant, handbook: Path
) -> None:
    from starlette.testclient import TestClient

    with (
        Assistant(assistant.library.path) as second,
        TestClient(asgi_app(second), base_url="http://127.0.0.1:8082") as other,
    ):
        for number, server in enumerate((client, other, client, other), start=1):
            asked = {"question": "Which period?", "session": "talk"}
            assert server.post("/v1/ask", json=asked).json()["state"] == "answer"
            assert len(server.get("/v1/sessions/talk").json()["turns"]) == number
        sent = [("file", ("boat.txt", b"The boat comes on Fridays."))]
        assert other.post("/v1/documents", files=sent).status_code == 201
        assert client.get("/v1/documents/boat.txt").status_code == 200
        assert client.delete(f"/v1/documents/{handbook.name}").status_code == 200
        assert other.get(f"/v1/documents/{handbook.name}").status_code == 404


@pytest.mark.parametrize("name", ["drt.service", "drt@8081.service"])
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    text = UNIT_OF_MANY if "@" in name else UNIT
    unit = tmp_path / name
    unit.write_text(text.replace(unit_command()[0], sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough  # a process with the shipped model
def test_the_command_of_the_unit_serves_until_its_stop_signal(token: Path, tmp_path: Path) -> None:
    httpx2 = pytest.importorskip("httpx2")
    line = " ".join(unit_command()[1:]).replace("${CREDENTIALS_DIRECTORY}/token", str(token))
    words = line.replace("0.0.0.0", "127.0.0.1").replace("--port 8080", "--port 0").split()
    variables = " ".join(unit_values("Environment")).replace("/var/lib/drt", str(tmp_path)).split()
    environment = os.environ | dict(pair.split("=", 1) for pair in variables)
    command = [sys.executable, "-m", "drt_cli", *words]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stderr is not None
            started = next(line for line in process.stderr if "Serving" in line)
            address = re.search(r"http://[\d.:]+\d", started)
            assert address is not None
            assert httpx2.get(f"{address[0]}/readyz").json() == {"status": "ready"}
            assert httpx2.get(f"{address[0]}/metrics").status_code == 401
            assert health_check(address[0]) == 0
            (signal_name,) = unit_values("KillSignal")
            process.send_signal(getattr(signal, signal_name))
            assert process.wait(60) == 0
            logged = process.stderr.read()
        finally:
            process.kill()
    assert '"route": "/readyz"' in logged and TOKEN not in logged
    assert health_check(address[0]) != 0  # nobody listens any more


def test_health_is_asked_of_paths_that_exist(client: Client) -> None:
    texts = [(FILES / "compose.yaml").read_text(), (ROOT / "Containerfile").read_text()]
    paths = [path for text in texts for path in re.findall(r"127\.0\.0\.1:8080(/\w+)", text)]
    assert sorted(paths) == ["/healthz", "/readyz"]
    assert [client.get(path).status_code for path in paths] == [200, 200]


def test_the_dashboard_and_the_page_name_metrics_that_are_measured(client: Client) -> None:
    client.post("/v1/ask", json={"question": "Which period?"})
    measured = set(re.findall(r"(?m)^(\w+)", client.get("/metrics").text))
    measured |= {name.removesuffix("_bucket") for name in measured}
    for file in (FILES / "dashboard.json", ROOT / "docs" / "operations.md"):
        named = set(re.findall(r"\b(?:drt|process)_[a-z_]+", file.read_text(encoding="utf-8")))
        assert len(named) > 6 and named <= measured, (file.name, named - measured)
