"""A Ray of one node for this process: its folder, and that only this machine can reach it.

Whoever can connect to a Ray can run programs on it, so that all its sockets are on the loopback,
and it has a token of its own, which other users of the machine cannot read.
"""

from __future__ import annotations

import contextlib
import importlib
import ipaddress
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from drt_engine.errors import ConfigError

_PREFIX = "drt-ray-"  # of its folder, with the process that it is for
_OBJECT_STORE = 100 << 20  # bytes; what is sent is small, documents go by their paths
_LOOPBACK = "127.0.0.1"
# Ray replaces an address of the loopback by one that other machines can reach, unless this says
# that it has one node; a variable for the processes that it starts, a constant for this one.
_SINGLE_NODE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_SINGLE_NODE_CONSTANT = "ENABLE_RAY_CLUSTER"
# Ray would keep a token in a file of the home folder that every user of the machine may read.
_TOKEN_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


class LocalRay:
    """A Ray on this machine, with ``cpus`` processors to give to actors."""

    def __init__(self, ray: Any, *, cpus: int) -> None:
        self._ray, self._cpus = ray, cpus
        self._folder = ""

    def start(self, **options: Any) -> None:
        """Start it with further options of Ray's ``init``.

        Raises ConfigError where other machines can reach it, and whatever Ray raises.
        """
        # Ray gives its workers the niceness 15, so that any other program is before them.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Short, since the path of a socket has 107 bytes at most.
        place = _short_folder()
        _remove_leftovers(place)
        self._folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
        try:
            with _single_node(), _own_token():
                self._ray.init(
                    address="local",
                    num_cpus=self._cpus,
                    include_dashboard=False,
                    object_store_memory=_OBJECT_STORE,
                    _temp_dir=self._folder,
                    _node_ip_address=_LOOPBACK,
                    **options,
                )
            self._expect_loopback()
        except BaseException:
            self.remove_folder()
            raise

    def remove_folder(self) -> None:
        """Remove its files, once it has ended, and forget its token."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _forget_token()

    def _expect_loopback(self) -> None:
        """Raise ConfigError, and end it, where its processes listen at another address."""
        address = str(self._ray.nodes()[0]["NodeManagerAddress"])
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(address).is_loopback:
                return
        self._ray.shutdown()
        raise ConfigError(
            f"Ray listens at {address}, expected an address that only this machine can reach:"
            " install another version of Ray, or go on without it"
        )


@contextlib.contextmanager
def _single_node() -> Iterator[None]:
    """Let a Ray that is started meanwhile have one node, which listens on the loopback alone."""
    constants = importlib.import_module("ray._private.ray_constants")
    variable, constant = os.environ.get(_SINGLE_NODE), getattr(constants, _SINGLE_NODE_CONSTANT)
    os.environ[_SINGLE_NODE] = "0"
    setattr(constants, _SINGLE_NODE_CONSTANT, False)
    try:
        yield
    finally:
        setattr(constants, _SINGLE_NODE_CONSTANT, constant)
        if variable is None:
            del os.environ[_SINGLE_NODE]
        else:
            os.environ[_SINGLE_NODE] = variable


@contextlib.contextmanager
def _own_token() -> Iterator[None]:
    """Let a Ray that is started meanwhile want a new token, which its processes inherit.

    Versions of Ray that know no tokens take no notice.
    """
    before = {name: os.environ.pop(name, None) for name in _TOKEN_VARIABLES}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    _forget_token()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _forget_token() -> None:
    """Let Ray read the variables of tokens again, which it keeps for the whole process."""
    with contextlib.suppress(ImportError, AttributeError):
        raylet = importlib.import_module("ray._raylet")
        # In this order: a thread that still ends must find no mode of tokens without a token.
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _short_folder() -> str:
    """Return a folder for temporary files with a short name."""
    usual = tempfile.gettempdir()
    return "/tmp" if len(os.fsencode(usual)) > 20 and os.path.isdir("/tmp") else usual


def _remove_leftovers(place: str) -> None:
    """Remove the folders of local Rays whose programs were killed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            number = name.removeprefix(_PREFIX).partition("-")[0]
            if name.startswith(_PREFIX) and number.isdecimal() and not _runs(int(number)):
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of another user
    return True
