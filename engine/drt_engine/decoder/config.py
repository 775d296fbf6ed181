"""Shape of a pretrained decoder; knows no tensors."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from drt_engine.errors import ConfigError, WeightsError
from drt_engine.files import read_small_file

CONFIG = "config.json"
_LARGEST = 1 << 20  # bytes


@dataclass(frozen=True)
class DecoderConfig:
    """Everything that fixes the parameters and the computation of a decoder.

    Layers ``0 .. lower_layers - 1`` are the lower stack, whose states of a chunk are stored; the
    ``upper_layers`` others read chunk memory. ``window`` and ``chunk`` are in tokens. ``gap``: how
    far, in positions, the first token that reads stands behind the last token of each chunk.

    Raises ``ConfigError`` for values that do not fit together.
    """

    name: str = "drt-decoder"
    vocab: int = 49152
    width: int = 576
    lower_layers: int = 15
    upper_layers: int = 15
    heads: int = 9
    kv_heads: int = 3
    mlp: int = 1536
    chunk: int = 64
    retrieved: int = 8
    window: int = 512
    rope_theta: float = 100_000.0
    gap: int = 16
    begin_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("gap", "begin_id", "end_id", "lower_layers") else 1
            if not isinstance(value, str) and not least <= value <= 1 << 24:
                raise ConfigError(f"decoder.{field.name} is {value}, expected {least} to {1 << 24}")
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ConfigError(
                f"decoder.width {self.width} must be an even multiple of decoder.heads {self.heads}"
            )
        if self.heads % self.kv_heads:
            raise ConfigError(
                f"decoder.heads {self.heads} must be a multiple of kv_heads {self.kv_heads}"
            )
        if max(self.begin_id, self.end_id) >= self.vocab:
            raise ConfigError(f"decoder.begin_id and end_id must be tokens of the {self.vocab}")

    @property
    def head_size(self) -> int:
        """Elements per attention head."""
        return self.width // self.heads

    @property
    def layers(self) -> int:
        """Layers of both stacks."""
        return self.lower_layers + self.upper_layers

    def save(self, folder: Path) -> None:
        """Write ``config.json``."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> DecoderConfig:
        """Read ``config.json``; ``WeightsError`` where it is missing, broken or of another kind."""
        path = folder / CONFIG
        try:
            data = json.loads(read_small_file(path, largest=_LARGEST))
            return cls(**data)
        except FileNotFoundError:
            raise WeightsError(f"{folder} has no {CONFIG}; expected a decoder's folder") from None
        except (OSError, ValueError, TypeError, ConfigError, RecursionError) as error:
            raise WeightsError(f"{path} is not a decoder's configuration: {error}") from error
