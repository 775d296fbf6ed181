"""What `import drt` offers: complete, sorted, typed, and cheap."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import typing
from pathlib import Path

import drt


def test_all_is_sorted_and_there() -> None:
    assert drt.__all__ == sorted(drt.__all__)
    assert all(hasattr(drt, name) for name in drt.__all__)


def test_all_is_complete() -> None:
    assert all(hasattr(drt, name) for name in drt.__all__)  # some are loaded only now
    bound = {name for name in vars(drt) if not name.startswith("_")}
    modules = {name for name in bound if inspect.ismodule(getattr(drt, name))}
    assert bound - modules == set(drt.__all__) - {"__version__"}


def test_every_public_class_of_the_private_modules_is_exported() -> None:
    public = set()
    for module in pkgutil.iter_modules(drt.__path__):
        loaded = importlib.import_module(f"drt.{module.name}")
        public |= {
            name
            for name, value in vars(loaded).items()
            if inspect.isclass(value)
            and value.__module__ in (loaded.__name__, "drt")
            and not name.startswith("_")
        }
    assert public <= set(drt.__all__)


def test_modules_are_private_and_the_package_is_typed() -> None:
    assert all(module.name.startswith("_") for module in pkgutil.iter_modules(drt.__path__))
    assert (Path(drt.__path__[0]) / "py.typed").is_file()


def test_everything_exported_is_documented() -> None:
    undocumented = [
        name
        for name in drt.__all__
        if callable(getattr(drt, name)) and not getattr(drt, name).__doc__
    ]
    assert undocumented == []
    for owner in (drt.Assistant, drt.Library, drt.Session):
        methods = inspect.getmembers(owner, inspect.isfunction)
        assert [n for n, m in methods if not n.startswith("_") and not m.__doc__] == []


def test_results_name_themselves_as_users_import_them() -> None:
    results = [
        value
        for value in (getattr(drt, name) for name in drt.__all__)
        if dataclasses.is_dataclass(value)
    ]
    assert {drt.Answer, drt.Citation, drt.TraceEntry} <= set(results)
    for value in results:
        assert value.__module__ == "drt"
        assert pickle.loads(pickle.dumps(value)) is value
        assert typing.get_type_hints(value)  # every annotation can be resolved from outside


def test_a_result_survives_pickling() -> None:
    place = drt.Citation("d", "t", "s", 0, 1, "q", None, None, 0.5, "q.", line=3)
    answer = drt.Answer("q", True, 0.5, "quote", (place,), 1, 0.1, "m", drt.Trace("q", ()))
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert repr(place) == (
        "Citation(document='d', title='t', source='s', start=0, end=1, quote='q', page=None, "
        "section=None, line=3, source_start=None, source_end=None, probability=0.5)"
    )
