"""Save and load a model folder: ``config.json``, ``tokenizer.json``, ``model.safetensors``.

Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import json
import reprlib
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from drt_engine.config.model import EncoderConfig, ModelConfig, ReaderConfig
from drt_engine.errors import ConfigError, WeightsError
from drt_engine.files import expect_plain_file, read_small_file
from drt_engine.model.drt import DRT
from drt_engine.model.folder import TOKENIZER
from drt_engine.model.packed import HIGH, LOW, joined, packed, split, unpacked
from drt_engine.model.protocol import LanguageModel
from drt_engine.text.tokenizer import Tokenizer

Model = TypeVar("Model", bound=LanguageModel)
WEIGHTS, CONFIG = "model.safetensors", "config.json"
PACKED = "packed.safetensors"  # what a model may have in few bits besides
_READER = "span_reader."
_LARGEST_CONFIG = 1 << 20  # bytes


def config_from_dict(data: dict[str, Any]) -> ModelConfig:
    """Return the configuration that ``config.json`` holds.

    Raises ``ConfigError`` for unknown keys.
    """
    data = dict(data)
    _check_types(ModelConfig, data, "")
    data["encoder"] = EncoderConfig(**data.get("encoder", {}))
    if data.get("reader") is not None:
        data["reader"] = ReaderConfig(**data["reader"])
    unknown = data.keys() - {f.name for f in fields(ModelConfig)}
    if unknown:
        raise ConfigError(
            f"config.json has unknown keys {sorted(unknown)}; it was made by another version of drt"
        )
    return ModelConfig(**data)


def _check_types(kind: type, data: Mapping[str, Any], where: str) -> None:
    """Raise TypeError for numbers, switches and words of another type than the configuration's."""
    hints = get_type_hints(kind)
    for key, value in data.items():
        hint, name = hints.get(key), f"{where}{key}"
        if key in ("encoder", "reader") and isinstance(value, Mapping):
            _check_types(EncoderConfig if key == "encoder" else ReaderConfig, value, f"{key}.")
        fits = type(value) is hint or (hint is float and type(value) is int)
        if hint in (int, float, bool, str) and not fits:
            expected = getattr(hint, "__name__", hint)
            raise TypeError(f"{name} is {reprlib.repr(value)}, expected {expected}")


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def save_model(
    model: LanguageModel, tokenizer: Tokenizer, folder: Path, *, dtype: torch.dtype = torch.bfloat16
) -> None:
    """Write a model folder, each file under a new name and then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PACKED).unlink(missing_ok=True)  # of an earlier model
    write_tensors(folder / WEIGHTS, model.state_dict(), dtype=dtype)
    (folder / CONFIG).write_text(
        json.dumps(asdict(model.config), indent=1) + "\n", encoding="utf-8"
    )
    tokenizer.save(folder / TOKENIZER)


def pack_reader(folder: Path, bits: int) -> None:
    """Move the reader of a model folder into a file of its own, with matrices in ``bits`` bits.

    Its words have a bit less: they are many, and each is read seldom. What stays has its bytes
    apart. Raises ``WeightsError`` for a folder without a reader.
    """
    tensors = load_file(folder / WEIGHTS)
    reader = {name: tensors.pop(name) for name in list(tensors) if name.startswith(_READER)}
    if not reader:
        raise WeightsError(f"{folder / WEIGHTS} holds no reader, which could be packed")
    parts = packed(reader, {_READER: bits, f"{_READER}words.": bits - 1})
    write_file(folder / PACKED, parts, {"format": "pt"})
    write_file(folder / WEIGHTS, split(tensors), {"format": "pt"})


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, dtype: torch.dtype, names: str | None = None
) -> None:
    """Write tensors in ``dtype`` as a safetensors file.

    ``names`` goes into its metadata: the scheme of the tensors' names.
    """
    stored = {
        # Scalars stay exact: rounding a temperature would move every score.
        name: tensor.detach().to("cpu", dtype if tensor.dim() else torch.float32).contiguous()
        for name, tensor in tensors.items()
    }
    metadata = {"format": "pt"} if names is None else {"format": "pt", "names": names}
    write_file(path, stored, metadata)


def write_file(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file under a new name, and rename it."""
    part = path.with_name(path.name + ".part")
    # safetensors makes its file readable for its owner only; one of our own follows the umask,
    # which cannot be read without setting it for the whole process.
    part.unlink(missing_ok=True)
    part.touch()
    mode = stat.S_IMODE(part.stat().st_mode)
    save_file(tensors, part, metadata=metadata)
    part.chmod(mode)
    part.replace(path)


def load_config(folder: Path) -> ModelConfig:
    """Read ``config.json``; raises ``WeightsError`` when it is missing or broken."""
    try:
        text = read_small_file(folder / CONFIG, largest=_LARGEST_CONFIG).decode("utf-8")
        return config_from_dict(json.loads(text, parse_constant=_no_number))
    except FileNotFoundError:
        raise WeightsError(f"{folder} has no {CONFIG}; expected a model folder") from None
    except OSError as error:
        raise WeightsError(f"{folder / CONFIG} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{folder / CONFIG} is not a model configuration: {error}") from error


def load_model(folder: Path, *, dtype: torch.dtype = torch.float32) -> tuple[DRT, Tokenizer]:
    """Load the folder of a DRT; raises ``WeightsError`` as ``load_as`` does."""
    return load_as(_make_drt, folder, dtype=dtype)


def _make_drt(config: ModelConfig) -> DRT:
    if config.architecture != "drt":
        raise WeightsError(
            f"{config.name} is a model of the architecture {config.architecture!r}, which has no "
            "memory of documents; it can be used with drt train and drt eval ppl alone"
        )
    return DRT(config)


def load_as(
    make: Callable[[ModelConfig], Model], folder: Path, *, dtype: torch.dtype
) -> tuple[Model, Tokenizer]:
    """Load a model folder into what ``make`` returns for its configuration.

    Raises ``WeightsError`` when a file is missing, broken or of another shape.
    """
    # A model without memory first: its parameters are then the loaded tensors, not copies.
    config = load_config(folder)
    model = empty_model(make, config)
    try:
        expect_plain_file(folder / WEIGHTS)
        tensors = joined(load_file(folder / WEIGHTS))
    except FileNotFoundError:
        raise WeightsError(f"{folder} has no {WEIGHTS}; expected a model folder") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"{folder / WEIGHTS} is broken: {error}; get the model again") from error
    tensors |= packed_tensors(folder, dtype)
    _check_reader(folder, config, tensors)
    try:
        model.load_state_dict(
            {k: t.to(dtype) for k, t in tensors.items()}, strict=True, assign=True
        )
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise WeightsError(f"{folder / WEIGHTS} does not fit its {CONFIG}: {reason}") from error
    restore_buffers(model)
    return model.eval(), Tokenizer.load(folder / TOKENIZER)


def packed_tensors(folder: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return what a folder has in few bits, unpacked; nothing where it has no such file."""
    path = folder / PACKED
    if not path.exists():
        return {}
    try:
        expect_plain_file(path)
        return unpacked(load_file(path), dtype)
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"{path} is broken: {error}; get the model again") from error


def empty_model(make: Callable[[ModelConfig], Model], config: ModelConfig) -> Model:
    """Return what ``make`` returns, with parameters and buffers without memory."""
    with torch.device("meta"), _WithoutInit():
        return make(config)


def _check_reader(folder: Path, config: ModelConfig, tensors: Iterable[str]) -> None:
    """Refuse a configuration and tensors of which only one has a reader."""
    stored = any(name.startswith(_READER) for name in tensors)
    if stored and config.reader is None:
        raise WeightsError(
            f"{folder / WEIGHTS} holds a reader (span_reader tensors), but {CONFIG} says "
            "reader = null: the two files belong to different models"
        )
    if config.reader is not None and not stored:
        raise WeightsError(
            f"{folder / CONFIG} describes a reader, but {WEIGHTS} holds none (no span_reader "
            "tensors): the two files belong to different models"
        )


def load_vectors(folder: Path) -> dict[str, Tensor]:
    """Load the tensors of a model folder that have one dimension or none, as they are stored.

    Raises ``WeightsError`` when the file is missing or broken.
    """
    try:
        expect_plain_file(folder / WEIGHTS)
        with safe_open(folder / WEIGHTS, "pt") as file:
            names = [n for n in file.keys() if len(file.get_slice(n).get_shape()) <= 1]  # noqa: SIM118 (no mapping)
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{folder / WEIGHTS} is broken: {error}; get the model again") from error


def fingerprint(folder: Path) -> str:
    """Return a short hash of the configuration, tokenizer and weights that libraries are bound to.

    Only what reading depends on counts: a model whose lower stack, encoder and maps are equal is
    the same reader.
    """
    digest = hashlib.sha256()
    config = load_config(folder)
    for key in (
        "vocab",
        "width",
        "lower_layers",
        "chunk",
        "window",
        "heads",
        "kv_heads",
        "landmark_pooling",
        "normalised_scores",
        "landmark_id",
        "encoder",
    ):
        digest.update(f"{key}={getattr(config, key)};".encode())
    digest.update((folder / TOKENIZER).read_bytes())
    for name, raw in _raw_tensors(folder / WEIGHTS):
        if name.startswith(("embedding.", "lower.", "encoder.", "memory_map.", "scorer.key.")):
            digest.update(name.encode())
            digest.update(raw)
    return digest.hexdigest()[:16]


class _WithoutInit(TorchFunctionMode):
    """Leaves new parameters as they are.

    They are about to be loaded, and drawing them would import a compiler.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("normal_", "uniform_", "kaiming_uniform_", "_no_grad_normal_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _raw_tensors(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of a safetensors file in order of names, without decoding them.

    Bytes that were stored apart are as if they had not been.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(size))
        header.pop("__metadata__", None)

        def raw(name: str) -> bytes:
            start, stop = header[name]["data_offsets"]
            file.seek(8 + size + start)
            return file.read(stop - start)

        apart = {name.removesuffix(HIGH) for name in header if name.endswith(HIGH)}
        apart = {name for name in apart if name + LOW in header}
        parts = {name + ending for name in apart for ending in (HIGH, LOW)}
        for name in sorted(apart | header.keys() - parts):
            if name in apart:
                joined_bytes = bytearray(2 * (len(high := raw(name + HIGH))))
                joined_bytes[0::2], joined_bytes[1::2] = raw(name + LOW), high
                yield name, bytes(joined_bytes)
            else:
                yield name, raw(name)


def restore_buffers(model: LanguageModel) -> None:
    """Compute the buffers that are never stored, on the device of the embeddings."""
    from drt_engine.model.attention import WindowAttention, alibi_slopes

    device = model.embedding.weight.device
    for module in model.modules():
        if isinstance(module, WindowAttention):
            module.slopes = alibi_slopes(module.heads).to(device)
