"""Every engine error becomes one SDK error and keeps its sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import drt
from drt._errors import ENGINE_TO_SDK, engine_errors, translate
from drt_engine import errors
from tests.tables import each_row


def subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for below in kind.__subclasses__():
        yield from subclasses(below)


ENGINE = {one for one in subclasses(errors.EngineError) if one.__module__ == errors.__name__}
SDK = {one for one in subclasses(drt.DrtError) if one.__module__ == drt.DrtError.__module__}


def test_every_engine_error_is_mapped() -> None:
    assert set(ENGINE_TO_SDK) == ENGINE


def test_every_sdk_error_is_reached_or_a_parent_and_is_exported() -> None:
    assert {one.__name__ for one in SDK} <= set(drt.__all__)
    assert set(ENGINE_TO_SDK.values()) == SDK - {drt.SessionNotSavedError}  # a session raises it


def test_the_mapping_keeps_the_tree() -> None:
    for kind, mapped in ENGINE_TO_SDK.items():
        for parent in kind.__mro__[1:]:
            if parent in ENGINE_TO_SDK:
                assert issubclass(mapped, ENGINE_TO_SDK[parent])


@each_row("kind", sorted(ENGINE, key=lambda one: one.__name__))
def test_the_sentence_and_the_cause_are_kept(kind: type[errors.EngineError]) -> None:
    with pytest.raises(ENGINE_TO_SDK[kind], match="a sentence") as caught, engine_errors():
        raise kind("a sentence")
    assert isinstance(caught.value.__cause__, kind)
    assert type(caught.value) is ENGINE_TO_SDK[kind]


def test_an_error_nobody_mapped_goes_by_its_parent() -> None:
    class Odd(errors.LockTimeout):
        pass

    assert type(translate(Odd("a sentence"))) is drt.LibraryBusyError
