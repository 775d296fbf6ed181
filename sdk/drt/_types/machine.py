"""What is on this machine: formats that can be read, models, and how it is."""

from dataclasses import asdict, dataclass, field
from typing import Any

from drt_engine.results import DoctorCheck


@dataclass(frozen=True)
class FormatInfo:
    """One format: its suffixes, what it needs, and whether that is installed.

    ``plugin`` names the distribution that adds it; ``problem`` is why a plug-in cannot be used.
    """

    name: str
    label: str
    suffixes: tuple[str, ...]
    installed: bool
    extra: str | None = None
    package: str | None = None
    plugin: str | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the format as in the documented JSON."""
        return asdict(self) | {"suffixes": list(self.suffixes)}


@dataclass(frozen=True)
class ModelInfo:
    """A model on this machine.

    ``parameters`` and ``fingerprint`` are known once it was verified.
    """

    name: str
    path: str
    bytes: int
    card: str = field(repr=False)
    parameters: int | None = None
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain values, without its card."""
        values = asdict(self)
        del values["card"]
        return values


@dataclass(frozen=True)
class DoctorReport:
    """Versions, processor, library and a self-test: what a bug report needs."""

    checks: tuple[DoctorCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether no check is a problem."""
        return all(check.status != "problem" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {"ok": self.ok, "checks": [check.to_dict() for check in self.checks]}
