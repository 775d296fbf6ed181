"""What `import drt` offers: complete, sorted, typed, and cheap."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
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
            and value.__module__ == loaded.__name__
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
