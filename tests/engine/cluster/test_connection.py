"""Every way in which a cluster cannot be used is one sentence; a process has one connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drt_engine.cluster import connection, local_ray
from drt_engine.cluster.connection import (
    Actor,
    ActorEnded,
    ActorTimeout,
    Resources,
    connect,
)
from drt_engine.errors import ConfigError, LockTimeout
from tests.engine.cluster.fake_ray import (
    NEEDS_RAY,
    FakeRay,
    GetTimeoutError,
    RayActorError,
    Reference,
)
from tests.engine.cluster.listening import other_addresses
from tests.tables import each_row


class Worker(Actor):
    def double(self, number: int) -> int:
        return 2 * number

    def busy(self) -> None:
        raise LockTimeout("the library is busy: wait")

    def wrong(self) -> None:
        raise KeyError("mistake")


@each_row("address", ["", "nonsense", "host", "http://host:1", "host:port", "a b:1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a Ray cluster, expected local"):
        connect(address)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r'pip install "drt-assistant\[cluster\]" installs it'):
        connect("local")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens(ray: FakeRay, scheme: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"no Ray cluster can be joined at {address} "):
            connect(address)
    assert not ray.opened


def test_an_address_where_something_else_listens(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(command: list[str], **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(subprocess, "run", silent)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"\(no Ray has answered within 3 s\)"):
            connect(address, timeout=3)
    assert not ray.opened


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b'{"error": "Version mismatch"}\n', "Version mismatch"),
        (b"warnings\n", "the connection ended"),
        (b"", "the connection ended"),
    ],
)
def test_what_the_probe_says(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, output: bytes, reason: str
) -> None:
    answer = SimpleNamespace(stdout=output, stderr=b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(ConfigError, match=rf"joined at auto \({reason}\)"):
        connect("auto")
    answer.stderr = b"Unauthenticated: RPC error: InvalidAuthToken: Authentication token is missing"
    with pytest.raises(ConfigError, match=r"refuses who has not its token, which RAY_AUTH_MODE"):
        connect("auto")
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda *_, **__: SimpleNamespace(stdout=b'note\n{"error": null}\n', stderr=b""),
    )
    with connect("auto"):
        assert ray.opened == [
            {"address": "auto", "log_to_driver": False, "configure_logging": False}
        ]


def test_a_local_ray_that_does_not_start(ray: FakeRay) -> None:
    ray.refusal = RuntimeError("\x1b[31mno memory. Details\x1b[0m\nmore")
    with pytest.raises(ConfigError, match=r"Ray cannot be started on this machine \(no memory\)"):
        connect("local")
    ray.refusal = None
    connect("local").close()


def test_a_local_ray_is_for_this_machine_alone(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    with connect("local"):
        assert ray.opened[0]["_node_ip_address"] == "127.0.0.1"
        assert ray.opened_as_single_node == [("0", False)]
        # A cluster that is joined later is not affected.
        assert os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "1"
        assert ray.constants.ENABLE_RAY_CLUSTER is True
    for ray.node_address in ("192.0.2.2", "::", "name"):
        with pytest.raises(ConfigError, match=f"Ray listens at {ray.node_address}, expected an "):
            connect("local")
        assert not ray.is_open and not os.path.exists(ray.opened[-1]["_temp_dir"])
    ray.node_address = "::1"
    connect("local").close()


def test_a_local_ray_has_a_token_that_nobody_else_knows(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/home/anna/.ray/auth_token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    for _ in range(2):
        connect("local").close()
        # that of a cluster, which is joined later
        assert os.environ["RAY_AUTH_MODE"] == "disabled" and "RAY_AUTH_TOKEN" not in os.environ
        assert os.environ["RAY_AUTH_TOKEN_PATH"] == "/home/anna/.ray/auth_token"
    (mode, token, path), (_, other, _) = ray.opened_with
    assert (mode, path) == ("token", None)
    assert token and other and len(token) == 64 and token != other


def test_a_process_has_one_connection(ray: FakeRay) -> None:
    first, second = connect("local", cpus=2), connect("local", cpus=2)
    folder = ray.opened[0]["_temp_dir"]
    assert len(ray.opened) == 1 and ray.opened[0]["num_cpus"] == 2
    assert os.path.isdir(folder) and os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    with pytest.raises(ConfigError, match="is connected to Ray at local already, expected"):
        connect("auto")
    first.close()
    first.close()
    assert ray.is_open
    second.close()
    assert not ray.is_open and not os.path.exists(folder)


def test_what_killed_programs_left_is_removed(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    names = f"drt-ray-{ended.pid}-a", f"drt-ray-{os.getpid()}-b", "drt-ray-x", "other"
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(local_ray, "_short_folder", lambda: str(tmp_path))
    connect("local").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_connection_of_the_caller_is_used_and_left_open(ray: FakeRay) -> None:
    ray.is_open = True
    connect("local").close()
    assert ray.is_open and not ray.opened


def test_calls_and_their_errors(ray: FakeRay) -> None:
    with connect("local") as cluster:
        actor = cluster.start(Worker, resources=Resources(threads=2, device="cuda"))
        assert ray.started == [{"num_cpus": 2, "num_gpus": 1, "max_restarts": 0}]
        assert cluster.result(actor.double.remote(4)) == 8
        with pytest.raises(LockTimeout, match="the library is busy: wait"):
            cluster.result(actor.busy.remote())
        with pytest.raises(RuntimeError, match="in a worker of the Ray cluster"):
            cluster.result(actor.wrong.remote())
        with pytest.raises(ActorTimeout, match=r"no answer within 0\.5 s"):
            cluster.result(Reference(error=GetTimeoutError()), timeout=0.5)
        ray.kills = lambda name, arguments: name == "double"
        with pytest.raises(ActorEnded, match="its process was killed"):
            cluster.result(actor.double.remote(4))
        absent = RayActorError(
            "failed to import\nModuleNotFoundError: No module named 'drt_engine'"
        )
        with pytest.raises(ConfigError, match="has no package drt_engine: install the same drt"):
            cluster.result(Reference(error=absent))


def test_another_version_in_a_worker(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect("local") as cluster:
        actor = cluster.start(Worker, resources=Resources())
        assert cluster.wait_for(actor, timeout=1) == socket.gethostname()
        versions = iter(["1.0", "2.0"])
        monkeypatch.setattr(connection, "_installed_version", lambda: next(versions))
        with pytest.raises(ConfigError, match=r"has drt 2\.0, expected 1\.0: install the same drt"):
            cluster.wait_for(actor, timeout=1)


def test_no_room_for_a_worker(ray: FakeRay) -> None:
    with connect("local") as cluster:
        actor = cluster.start(Worker, resources=Resources())
        ray.room = 0
        with pytest.raises(ConfigError, match=r"within 1 s \(the Ray .* has 0 processors free\)"):
            cluster.wait_for(actor, timeout=1)


@NEEDS_RAY
@pytest.mark.slow
def test_a_real_ray() -> None:
    with connect("local", cpus=1) as cluster:
        actor = cluster.start(Worker, resources=Resources())
        assert cluster.wait_for(actor, timeout=120) == socket.gethostname()
        assert cluster.result(actor.double.remote(4), timeout=60) == 8
        assert other_addresses(os.getpid()) == []
        with pytest.raises(LockTimeout, match="the library is busy: wait"):
            cluster.result(actor.busy.remote(), timeout=60)
        cluster.kill(actor)
        with pytest.raises(ActorEnded):
            cluster.result(actor.double.remote(4), timeout=60)
