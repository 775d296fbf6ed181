"""Session files are untrusted: every wrong number is one sentence, and never a strange answer."""

from __future__ import annotations

import copy
import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from drt_engine.answer.ask import ask
from drt_engine.answer.options import AskOptions
from drt_engine.answer.session import SessionState
from drt_engine.errors import CorruptStore, EngineError, SessionError
from drt_engine.results import Citation
from drt_engine.store import SessionRow, Store
from drt_engine.store.catalogue.row_values import session_checksum
from drt_engine.store.turns import expect_turns
from tests.model_folder import MANUAL, library, read_text, runtime
from tests.tables import each_row

OPTIONS = AskOptions(threshold=0.0)
Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A library with one document."""
    folder = tmp_path_factory.mktemp("hostile")
    with library(folder / "library") as opened:
        read_text(opened, folder, name="manual.md", text=MANUAL)
        yield opened
        for info in opened.sessions():
            opened.delete_session(info.name)


@pytest.fixture(scope="module")
def whole(store: Store) -> SessionRow:
    """A saved session of two turns."""
    session = SessionState.new(runtime(), store, "whole")
    for question in ("Who keeps the key?", "And what does it burn?"):
        ask(runtime(), store, question, OPTIONS, session=session)
    session.save()
    return store.load_session("whole")


def restore(store: Store, row: SessionRow, state: bytes) -> SessionState:
    store.save_session("bad", transcript=row.transcript, meta=row.meta, state=state)
    return SessionState.restore(runtime(), store, "bad")


def at_once(name: str, value: object) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name] = torch.as_tensor(value)

    return change


def scaled(name: str, factor: float) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name] = tensors[name] * factor

    return change


def moved(by: int) -> Callable[[Tensors], None]:
    """A position that fits its window and nothing else."""

    def change(tensors: Tensors) -> None:
        for stack in ("lower", "upper"):
            slots = tensors[f"decoder.{stack}.keys"].shape[2]
            at = int(tensors["decoder.position"]) + by
            places = torch.arange(slots)
            newest = (places + (at - 1 - places) // slots * slots).clamp(min=-1)
            tensors[f"decoder.{stack}.positions"] = newest[None]
            tensors[f"decoder.{stack}.head"] = torch.tensor(at % slots)
        tensors["decoder.position"] = torch.tensor(at)

    return change


def without_a_chunk(tensors: Tensors) -> None:
    for name in ("keys", "values", "mask", "landmarks"):
        tensors[f"own.{name}"] = tensors[f"own.{name}"][1:].clone()


def with_a_gap(tensors: Tensors) -> None:
    tensors["own.mask"][0, 0] = False


def longer_chunks(tensors: Tensors) -> None:
    """As long as a library's chunks never are, with places that hold nothing."""
    for name in ("keys", "values", "mask"):
        tensor = tensors[f"own.{name}"]
        more = tensor.new_zeros(len(tensor), 1_000, *tensor.shape[2:])
        tensors[f"own.{name}"] = torch.cat([tensor, more], dim=1)


def neither_true_nor_false(tensors: Tensors) -> None:
    tensors["own.mask"] = tensors["own.mask"].to(torch.uint8).mul(3).view(torch.bool)


def an_open_chunk(tensors: Tensors) -> None:
    tensors["decoder.open"] = torch.zeros(1, 2, runtime().config.width)


def cut_window(tensors: Tensors) -> None:
    tensors["decoder.upper.keys"] = tensors["decoder.upper.keys"][:, :, :-1].clone()


def one_nan(tensors: Tensors) -> None:
    tensors["decoder.upper.values"].view(-1)[7] = math.nan


CHANGES: dict[str, Callable[[Tensors], None]] = {
    "position below zero": at_once("decoder.position", -1),
    "position of another stream": moved(-3),
    "position of another round": moved(10_000_019),
    "position without end": at_once("decoder.position", 2**63 - 1),
    "position alone": at_once("decoder.position", 1),
    "position as a float": at_once("decoder.position", 8.0),
    "position as truth": at_once("decoder.position", True),
    "two positions": at_once("decoder.position", [1, 2]),
    "no position": at_once("decoder.position", torch.zeros(0, dtype=torch.int64)),
    "head": at_once("decoder.lower.head", 1 << 40),
    "head below zero": at_once("decoder.upper.head", -1),
    "positions as floats": scaled("decoder.lower.positions", 1.0),
    "positions twice as far": scaled("decoder.lower.positions", 2),
    "keys without bound": scaled("decoder.lower.keys", 1e30),
    "values beyond what half a number holds": scaled("own.values", 1e9),
    "landmarks without end": scaled("own.landmarks", math.inf),
    "one NaN": one_nan,
    "keys as integers": lambda t: t.update({"own.keys": t["own.keys"].long()}),
    "keys in float8": lambda t: t.update({"own.keys": t["own.keys"].to(torch.float8_e5m2)}),
    "complex keys": lambda t: t.update({"own.keys": t["own.keys"].to(torch.complex64)}),
    "a scalar mask": at_once("own.mask", True),
    "a mask of three sides": at_once("own.mask", torch.ones(2, 2, 2, dtype=torch.bool)),
    "no chunks": lambda t: t.update({k: v[:0] for k, v in t.items() if k.startswith("own.")}),
    "a chunk less": without_a_chunk,
    "a gap": with_a_gap,
    "longer chunks": longer_chunks,
    "neither true nor false": neither_true_nor_false,
    "an open chunk": an_open_chunk,
    "a cut window": cut_window,
    "a name beside the parts": at_once("other.keys", 1),
    "a name in a part": at_once("decoder.upper.other", 1),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CHANGES)
def test_wrong_numbers_are_refused(store: Store, whole: SessionRow, name: str) -> None:
    tensors = load(whole.state)
    CHANGES[name](tensors)
    with pytest.raises(SessionError, match=r"\Asession 'bad' is damaged \(.+\); delete it") as seen:
        restore(store, whole, save(tensors))
    assert "\n" not in str(seen.value)


def test_what_a_citation_says_is_known(whole: SessionRow) -> None:
    """A field that citations get must be expected of saved ones, too."""
    [turn] = copy.deepcopy(whole.transcript[:1])
    [citation, *_] = turn["citations"]
    citation |= {field.name: None for field in fields(Citation) if field.default is None}
    expect_turns([turn])
    del citation["quote"]
    with pytest.raises(ValueError, match="a citation of turn 1 has"):
        expect_turns([turn])


def test_a_turn_keeps_how_likely_its_quote_is_right(whole: SessionRow) -> None:
    [turn] = copy.deepcopy(whole.transcript[:1])
    assert 0 < turn["quote_probability"] <= 1
    with pytest.raises(ValueError, match="quote_probability of turn 1 is nan"):
        expect_turns([turn | {"quote_probability": math.nan}])
    del turn["quote_probability"]  # as older versions stored it
    expect_turns([turn])


WRITING: dict[str, Any] = {
    "state": "partly",
    "sentences": [{"text": "It is kept [1].", "sources": [1], "problem": ""}],
    "host": "localhost:11434",
    "model": "m",
    "seconds": 0.5,
    "problem": "",
}


@each_row(
    ("change", "problem"),
    [
        ({}, ""),
        ({"state": "good"}, "state of the writing of turn 1 is 'good'"),
        ({"state": []}, "state of the writing"),
        ({"seconds": math.nan}, "seconds of the writing"),
        ({"more": 1}, "the writing of turn 1 has"),
        ({"sentences": [3]}, "sentences of the writing"),
        ({"sentences": [{"text": "It."}]}, "a sentence of the writing of turn 1 has"),
        ({"sentences": [{"text": "It.", "sources": "1", "problem": ""}]}, "sources of a sentence"),
        ({"sources": [{"number": 1, "citation": {}}]}, "a citation of the writing of turn 1 has"),
        ({"sources": [{"number": "1", "citation": {}}]}, "number of a source"),
    ],
)
def test_what_a_writer_wrote_is_expected(
    whole: SessionRow, change: dict[str, Any], problem: str
) -> None:
    [turn] = copy.deepcopy(whole.transcript[:1])
    source = {"number": 1, "citation": turn["citations"][0]}
    turn["writing"] = {**WRITING, "sources": [source], **change}
    if not problem:
        expect_turns([turn])
        expect_turns([turn | {"writing": None}])
        return
    with pytest.raises(ValueError, match=problem):
        expect_turns([turn])


def test_a_session_of_a_newer_version_is_refused(store: Store, whole: SessionRow) -> None:
    assert whole.meta["version"] == 3
    older = {name: value for name, value in whole.meta.items() if name != "version"}
    for meta, opens in (
        (older, True),
        (older | {"version": 2}, True),
        (older | {"version": 4}, False),
    ):
        store.save_session("bad", transcript=whole.transcript, meta=meta, state=whole.state)
        if opens:
            assert SessionState.restore(runtime(), store, "bad").turns == whole.transcript
        else:
            with pytest.raises(SessionError, match="is of version 4, expected 1 to 3"):
                SessionState.restore(runtime(), store, "bad")


def test_a_whole_state_is_taken(store: Store, whole: SessionRow) -> None:
    """So that the others fail for the reason that they name."""
    assert restore(store, whole, save(load(whole.state))).turns == whole.transcript


def test_shapes_without_end_are_refused(store: Store, whole: SessionRow) -> None:
    for shape in ([0, 2**62, 2**62], [2**62, 0], [2**64 - 1, 0], [0], [-1, 0]):
        for kind in ("F32", "F4", "F8_E8M0", "BOOL", "Q7"):
            header = {"own.keys": {"dtype": kind, "shape": shape, "data_offsets": [0, 0]}}
            text = json.dumps(header).encode()
            with pytest.raises(SessionError, match="'bad' is damaged"):
                restore(store, whole, struct.pack("<Q", len(text)) + text)


TURNS: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "no question": lambda turns: turns[1].pop("question"),
    "a question that is a number": lambda turns: turns[1].update(question=5),
    "confidence in words": lambda turns: turns[0].update(confidence="high"),
    "confidence above one": lambda turns: turns[0].update(confidence=7.0),
    "confidence as truth": lambda turns: turns[0].update(confidence=True),
    "found in words": lambda turns: turns[0].update(found="yes"),
    "another mode": lambda turns: turns[0].update(mode=["quote"]),
    "citations as a text": lambda turns: turns[0].update(citations="none"),
    "a citation that is none": lambda turns: turns[0].update(citations=[3]),
    "a citation of nothing": lambda turns: turns[0].update(citations=[{}]),
    "a citation with more": lambda turns: turns[0]["citations"][0].update(more=1),
    "a place below zero": lambda turns: turns[0]["citations"][0].update(start=-1),
    "a place without end": lambda turns: turns[0]["citations"][0].update(end=10**30),
    "another length": lambda turns: turns[0]["citations"][0].update(end=1_000_000),
    "a page in words": lambda turns: turns[0]["citations"][0].update(page="ii"),
    "a document in a list": lambda turns: turns[0]["citations"][0].update(document=[]),
    "a document that is no id": lambda turns: turns[0]["citations"][0].update(document="\ud800"),
    "more turns than chunks": lambda turns: turns.extend(copy.deepcopy(turns) * 9),
}


@each_row("name", TURNS)
def test_wrong_turns_are_refused(store: Store, whole: SessionRow, name: str) -> None:
    turns = copy.deepcopy(whole.transcript)
    TURNS[name](turns)
    changed = SessionRow(whole.name, turns, whole.meta, whole.state, whole.created, whole.updated)
    with pytest.raises(SessionError, match="'bad' is damaged"):
        restore(store, changed, whole.state)


# mutations

STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**53, 2**63, 10**40, -0.5, 1e308, math.nan, math.inf),
    *("", "x" * 1_000, "\ud800", "F32", "BOOL", "C64", [], {}, [[]], [0], [1, 1], {"a": 1}),
]


class Mutant:
    """A saved session with something wrong in it; the same for the same seed."""

    def __init__(self, row: SessionRow, seed: int) -> None:
        self.chance = random.Random(seed)
        self.values = {
            "meta": json.dumps(row.meta),
            "transcript": json.dumps(row.transcript),
        }
        self.state = row.state
        ways = (self._bytes, self._header, self._tensor, self._json, self._text)
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            self.chance.choice(ways)()

    def _bytes(self) -> None:
        self.state = self._mutated(self.state, self.chance.choice((2_000, len(self.state) + 1)))

    def _text(self) -> None:
        part = self.chance.choice(sorted(self.values))
        data = self.values[part].encode()
        self.values[part] = self._mutated(data, len(data) + 1).decode("utf-8", "replace")

    def _mutated(self, data: bytes, most: int) -> bytes:
        out, chance = bytearray(data), self.chance
        at = chance.randrange(min(len(out), most) + 1)
        match chance.randrange(4):
            case 0:
                out[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del out[at : at + chance.randrange(1, 100)]
            case 2:
                out[at:at] = chance.randbytes(chance.randrange(1, 20))
            case 3:
                del out[at:]
        return bytes(out)

    def _json(self) -> None:
        part = self.chance.choice(sorted(self.values))
        try:
            value = json.loads(self.values[part])
        except (ValueError, RecursionError):
            return
        self.values[part] = json.dumps(self._grafted(value))

    def _grafted(self, value: Any) -> Any:
        """The same value with something strange in one place."""
        chance = self.chance
        if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
            return chance.choice(STRANGE)
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        key = chance.choice(keys)
        if chance.random() < 0.1:
            del value[key]
        elif chance.random() < 0.1:
            other = chance.choice(keys)
            value[key] = value[other]
        else:
            value[key] = self._grafted(value[key])
        return value

    def _header(self) -> None:
        try:
            size = struct.unpack("<Q", self.state[:8])[0]
            header = json.loads(self.state[8 : 8 + size])
        except (ValueError, RecursionError, OverflowError, struct.error):
            return
        text = json.dumps(self._grafted(header)).encode()
        self.state = struct.pack("<Q", len(text)) + text + self.state[8 + size :]

    def _tensor(self) -> None:
        try:
            tensors = load(self.state)
        except Exception:
            return
        name = self.chance.choice(sorted(tensors))
        tensor, chance = tensors.pop(name), self.chance
        match chance.randrange(6):
            case 0 if tensor.numel():
                flat = tensor.flatten().clone()
                low, high = (0, 1) if tensor.dtype == torch.bool else (-(2**62), 2**62)
                flat[chance.randrange(len(flat))] = chance.choice((low, high, 1, 2, 0))
                tensor = flat.view(tensor.shape)
            case 1:
                tensor = tensor.flatten()
            case 2 if tensor.dim():
                tensor = tensor.narrow(0, 0, chance.randrange(len(tensor) + 1))
            case 3:
                tensor = tensor.to(chance.choice((torch.bool, torch.int64, torch.bfloat16)))
            case 4:
                tensor = torch.cat([tensor[None], tensor[None]])
            case 5:
                name = chance.choice(sorted(tensors) or ["own.keys"])
        tensors[name] = tensor.clone(memory_format=torch.contiguous_format)
        self.state = save(tensors)

    def put(self, store: Store, row: SessionRow) -> None:
        """Into the library, sealed as if it were whole."""
        text = (self.values["meta"], self.values["transcript"])
        values = ("mutant", len(row.transcript), row.created, row.updated, *text, self.state)
        store._database._open().execute(
            "INSERT OR REPLACE INTO sessions"
            " (name, turns, created, updated, meta, transcript, state, seal)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, session_checksum(values)),
        )


def mutate(store: Store, row: SessionRow, seeds: range) -> int:
    """Refused in a sentence, or answering as any other; how many were refused."""
    refused = 0
    for seed in seeds:
        Mutant(row, seed).put(store, row)
        try:
            session = SessionState.restore(runtime(), store, "mutant")
        except (SessionError, CorruptStore) as error:
            refused += 1
            assert str(error).startswith("session 'mutant' ") and "\n" not in str(error), seed
            continue
        try:
            answer = ask(runtime(), store, "And who signs it?", OPTIONS, session=session)
        except EngineError as error:
            assert "was removed" in str(error), seed  # it quotes a document that never was
            continue
        assert math.isfinite(answer.confidence), seed
        session.name = "again"
        session.save()
    store.delete_session("mutant")
    return refused


def test_mutated_sessions_are_refused_or_answer(store: Store, whole: SessionRow) -> None:
    assert 20 < mutate(store, whole, range(30)) <= 30


@pytest.mark.stress
def test_many_mutated_sessions_are_refused_or_answer(store: Store, whole: SessionRow) -> None:
    refused = mutate(store, whole, range(20_000))
    print(f"20,000 mutants, {refused:,} refused")
    assert 10_000 < refused < 20_000
