"""A Ray in this process: actors are objects, calls run when they are made.

``kills`` says which calls end their actor instead, ``room`` how many actors can run at a time.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

NEEDS_RAY = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (the extra cluster)"
)


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class NodeDiedError(RayError):
    pass


class GetTimeoutError(RayError, TimeoutError):
    pass


class RayTaskError(RayError):
    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class Reference:
    """What a call will return."""

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self.value, self.error = value, error


class Method:
    def __init__(self, actor: Actor, name: str) -> None:
        self._actor, self._name = actor, name

    def options(self, **_: Any) -> Method:
        return self

    def remote(self, *arguments: Any) -> Reference:
        return self._actor.call(self._name, arguments)


class Actor:
    def __init__(self, ray: FakeRay, instance: Any) -> None:
        self._ray, self._instance = ray, instance
        self._is_alive, self._has_room = True, False

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Reference:
        if not self._starts():
            return Reference(error=GetTimeoutError())
        if self._is_alive and self._ray.kills(name, arguments):
            self.end()
        if not self._is_alive:
            detail = "Worker exit detail: Worker unexpectedly exits with a connection error code 2."
            return Reference(error=RayActorError(f"The actor died.\n{detail}"))
        try:
            return Reference(getattr(self._instance, name)(*arguments))
        except Exception as error:
            return Reference(error=RayTaskError(f"traceback of {error}", error))

    def end(self) -> None:
        self._is_alive = False
        if self._has_room:
            self._has_room = False
            self._ray.room += 1

    def _starts(self) -> bool:
        with self._ray.guard:
            if self._is_alive and not self._has_room and self._ray.room > 0:
                self._has_room = True
                self._ray.room -= 1
        return self._has_room or not self._is_alive


class FakeRay:
    """The functions of the package ``ray`` that ``connection`` uses."""

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayActorError=RayActorError,
        NodeDiedError=NodeDiedError,
        GetTimeoutError=GetTimeoutError,
        RayTaskError=RayTaskError,
    )

    def __init__(self) -> None:
        self.is_open = False
        self.opened: list[dict[str, Any]] = []
        self.started: list[dict[str, Any]] = []
        self.node_address = "127.0.0.1"
        self.constants = SimpleNamespace(ENABLE_RAY_CLUSTER=True)  # those of this process
        self.opened_as_single_node: list[tuple[str | None, bool]] = []
        self.opened_with: list[tuple[str | None, ...]] = []  # mode, token and its file
        self.guard, self.room = threading.Lock(), 1000
        self.kills: Callable[[str, tuple[Any, ...]], bool] = lambda name, arguments: False
        self.refusal: Exception | None = None

    def is_initialized(self) -> bool:
        return self.is_open

    def init(self, **options: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.is_open = True
        self.opened.append(options)
        variable = os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
        self.opened_as_single_node.append((variable, self.constants.ENABLE_RAY_CLUSTER))
        names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
        self.opened_with.append(tuple(os.environ.get(name) for name in names))

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeManagerAddress": self.node_address}]

    def shutdown(self) -> None:
        self.is_open = False

    def remote(self, **options: Any) -> Any:
        self.started.append(options)

        def actor_class(kind: type) -> Any:
            return SimpleNamespace(remote=lambda *arguments: Actor(self, kind(*arguments)))

        return actor_class

    def get(self, reference: Reference, timeout: float | None = None) -> Any:
        if reference.error is not None:
            raise reference.error
        return reference.value

    def wait(self, references: list[Reference], **_: Any) -> tuple[list[Reference], list[Any]]:
        return references[:1], references[1:]

    def available_resources(self) -> dict[str, float]:
        return {}

    def kill(self, actor: Actor, **_: Any) -> None:
        actor.end()
