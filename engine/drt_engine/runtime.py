"""A loaded model, ready to read and answer: its device, compute type and threads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from drt_engine.config.model import ModelConfig
from drt_engine.errors import ConfigError, WeightsError
from drt_engine.files import read_small_file
from drt_engine.model.calibration import Calibration
from drt_engine.model.drt import DRT
from drt_engine.model.folder import model_folder
from drt_engine.model.gca_layer import ChunkMemory
from drt_engine.model.int8 import Int8Linear, round_to_int8
from drt_engine.model.layers import cast_weights
from drt_engine.model.weights import fingerprint, load_model
from drt_engine.store import RecordLayout
from drt_engine.store.types import Encoding as RecordEncoding
from drt_engine.text.tokenizer import Tokenizer
from drt_engine.threads import set_threads

DEFAULT_MODEL = "drt-small-en"
_ENCODE_CHUNKS = 64  # encoded at a time: their activations stay in the processor's cache
_WARM_UPS = 4  # of them, a block's chunks at least: otherwise warming up would cost too much


@dataclass(frozen=True)
class Runtime:
    """A model in memory with its tokenizer; nothing in it changes while it reads and answers."""

    name: str
    fingerprint: str
    model: DRT
    tokenizer: Tokenizer
    layout: RecordLayout
    dtype: torch.dtype
    device: torch.device
    folder: Path
    calibration: dict[str, Calibration]

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.model.config

    @classmethod
    def load(
        cls,
        model: str | Path = DEFAULT_MODEL,
        *,
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
        records: RecordEncoding = "int8",
    ) -> Runtime:
        """Load a shipped model by name, or any model folder; ``WeightsError``, ``ConfigError``.

        ``dtype`` is the compute type: fp32, bf16, or auto, which is bf16 where that is faster; int8
        is fp32 with most matrix products in eight bits, on a CPU.
        ``records`` is how new libraries keep chunk memory.
        """
        folder = model_folder(model)
        set_threads(threads)
        place = choose_device(device)
        compute = choose_dtype(dtype, place)
        with ThreadPoolExecutor(1) as pool:  # hashing is a third of loading, and needs no Python
            hashed = pool.submit(fingerprint, folder)
            net, tokenizer = load_model(folder)
        cast_weights(net, compute)
        if dtype == "int8":
            round_to_int8(net)
        config = net.config
        layout = RecordLayout(
            config.chunk, config.kv_heads, config.head_size, config.width, records
        )
        return cls(
            name=config.name,
            fingerprint=hashed.result(),
            model=net.to(place),
            tokenizer=tokenizer,
            layout=layout,
            dtype=compute,
            device=place,
            folder=folder,
            calibration=_calibration(folder),
        )

    @property
    def dtype_name(self) -> str:
        """The ``dtype`` with which ``load`` makes a model that computes the same."""
        if any(isinstance(module, Int8Linear) for module in self.model.modules()):
            return "int8"
        return "bf16" if self.dtype == torch.bfloat16 else "fp32"

    def keeping(self, records: RecordEncoding) -> Runtime:
        """Return the same model with another encoding of new libraries; ``ConfigError``."""
        return replace(self, layout=replace(self.layout, encoding=records))

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Run inference: no gradients, and no autocast, whatever the caller has turned on."""
        with inference(self.device):
            yield

    @property
    def block_chunks(self) -> int:
        """Number of chunks that ``read`` computes together, after their warm-up: a power of two.

        Matrix products round differently with other numbers of rows, and so does the window's
        attention from another first token. Blocks have the same rows wherever reading begins, so
        that reading from a block's border gives the same bits as reading from the start.
        """
        block = _ENCODE_CHUNKS
        while block < _WARM_UPS * self.config.warm_up_chunks:
            block *= 2
        return block

    def read(
        self,
        ids: Tensor,
        valid: Tensor,
        *,
        skip: int,
        note: Callable[[int], None] | None = None,
    ) -> ChunkMemory:
        """Read consecutive chunks [C, S]; return, on the CPU, the memory of all after ``skip``.

        Blocks are counted from there; ``note`` is called after each but the last, with the number
        of chunks that are read.
        """
        ids, valid = ids.to(self.device), valid.to(self.device)
        parts: list[ChunkMemory] = []
        with self.computing():
            for at in range(skip, len(ids), self.block_chunks):
                begin = max(0, at - self.config.warm_up_chunks)
                rows = slice(begin, at + self.block_chunks)
                parts += self._read_block(ids[rows], valid[rows], skip=at - begin)
                if note is not None and rows.stop < len(ids):
                    note(rows.stop - skip)
        return ChunkMemory(
            torch.cat([p.keys for p in parts]).cpu(),
            torch.cat([p.values for p in parts]).cpu(),
            torch.cat([p.mask for p in parts]).cpu(),
            torch.cat([p.landmarks for p in parts]).cpu(),
        )

    def _read_block(self, ids: Tensor, valid: Tensor, *, skip: int) -> Iterator[ChunkMemory]:
        model = self.model
        states, mask = (t[0] for t in model.chunk_states(ids[None], valid[None]))
        for at in range(skip, len(ids), _ENCODE_CHUNKS):
            rows = slice(at, at + _ENCODE_CHUNKS)
            yield model.remember(model.encode(states[rows], mask[rows]))


@contextlib.contextmanager
def inference(device: torch.device) -> Iterator[None]:
    """Compute without gradients and without autocast, whatever the caller has turned on."""
    with contextlib.ExitStack() as modes:
        modes.enter_context(torch.inference_mode())
        for kind in {"cpu", device.type}:
            modes.enter_context(torch.autocast(kind, enabled=False))
        yield


def choose_device(name: str) -> torch.device:
    """Return the device that is called auto, cpu or cuda; ``ConfigError`` where it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name!r}, expected auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is 'cuda', but PyTorch finds no CUDA device; use --device cpu")
    return torch.device(name)


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the type that states have with ``dtype`` auto, bf16, fp32 or int8; ``ConfigError``."""
    if name not in ("auto", "bf16", "fp32", "int8"):
        raise ConfigError(f"dtype is {name!r}, expected auto, bf16, fp32 or int8")
    if name == "int8" and device.type != "cpu":
        raise ConfigError(f"dtype int8 is for CPUs, and device is {device.type}; use --dtype bf16")
    if name in ("fp32", "int8"):
        return torch.float32
    if name == "bf16" or device.type == "cuda":
        return torch.bfloat16
    return torch.bfloat16 if fast_bf16() else torch.float32


def fast_bf16(processors: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether this processor multiplies matrices faster in bf16 than in fp32.

    With AMX it does. AVX512-BF16 alone is faster on AMD's processors and half as fast on Intel's;
    without either, bf16 is emulated.
    """
    if getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)():
        return True
    if not getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)():
        return False
    try:
        return "AuthenticAMD" in processors.read_text()
    except (OSError, ValueError):
        return False


_LARGEST_CALIBRATION = 1 << 24  # bytes


def _calibration(folder: Path) -> dict[str, Calibration]:
    path = folder / "calibration.json"
    if not path.exists():
        return {}
    try:
        data = json.loads(read_small_file(path, largest=_LARGEST_CALIBRATION))
        return {name: Calibration.from_dict(values) for name, values in data.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{path} is not a calibration: {error}; get the model again") from error
