"""``drt bench decode``: tokens a second of the decoder that answers, with retrieval and without.

The small shape is the model given, the larger one has random weights. Tokens are made up: how fast
one goes through does not depend on what it says. Logits over the vocabulary are part of a token.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from drt_engine.generate.decode import Decoder
from drt_engine.model.drt import DRT
from drt_engine.model.layers import cast_weights
from drt_engine.retrieval.sources import StreamSource
from drt_lab.bench.parts import SHAPES, BenchOptions, Calibration, Machine
from drt_lab.bench.timing import Clock, Work, in_turns
from drt_lab.evaluate.report import BenchReport, BenchRow, bench_row, median_iqr

DECODE, PLAIN = "decode", "decode without GCA"
GRAPH, GRAPH_PLAIN = "decode, CUDA graph", "decode without GCA, CUDA graph"
ALONE = "decode, 1 thread"
BORDER, SHARED = "border of a chunk", "decode, borders included"
CALIBRATION = "calibration"
CHUNKS = 12  # read before: the window is full, and there is enough to retrieve


def bench_decode(options: BenchOptions) -> BenchReport:
    """Time one token after the other, all decoders in turns."""
    started = time.monotonic()
    machine, model, name = _loaded(options)
    calibration, clock = Calibration(machine), Clock(machine.device)
    streams = {DECODE: _Stream(model, machine), PLAIN: _Stream(model, machine, retrieve=False)}
    if machine.device.type == "cuda":
        streams[GRAPH] = _Stream(model, machine, graph=True)
        streams[GRAPH_PLAIN] = _Stream(model, machine, retrieve=False, graph=True)
    works: dict[str, Work] = {name: stream.step for name, stream in streams.items()}
    works[BORDER] = _Stream(model, machine).border
    if torch.get_num_threads() > 1 and machine.device.type == "cpu":
        works[ALONE] = _on_one_thread(_Stream(model, machine).step)
    repetitions = max(20, 4 * options.repetitions)  # a token is short, and they are seldom alike
    with torch.inference_mode():
        timed = in_turns(
            works | {CALIBRATION: calibration.time},
            clock,
            repetitions=repetitions,
            needed=[DECODE, PLAIN],
        )
    return BenchReport(
        bench="decode",
        rows=list(_rows(timed, model.config.chunk)),
        seconds=time.monotonic() - started,
        model=name,
        calibration=calibration.numbers(weight_bytes=read_bytes(model)),
    )


def _loaded(options: BenchOptions) -> tuple[Machine, DRT, str]:
    if options.shape == "small":
        runtime = options.runtime()
        return Machine(runtime.device, runtime.dtype), runtime.model, runtime.name
    machine = options.machine()
    torch.manual_seed(0)
    model = DRT(options.config).eval()
    cast_weights(model, machine.dtype)
    return machine, model.to(machine.device), SHAPES[options.shape]


def read_bytes(model: DRT) -> int:
    """Return how many bytes of weights one token reads: lower and upper layers, and the logits."""
    parts = [model.lower, model.upper, model.embedding]
    return sum(p.numel() * p.element_size() for part in parts for p in part.parameters())


class _Stream:
    """A decoder in the middle of a chunk, far from the start of its stream."""

    def __init__(
        self, model: DRT, machine: Machine, *, retrieve: bool = True, graph: bool = False
    ) -> None:
        config, generator = model.config, torch.Generator().manual_seed(0)
        ids = torch.randint(
            min(config.vocab // 2, 1000), config.vocab, (CHUNKS, config.chunk), generator=generator
        )
        self._source, self._retrieve = StreamSource(config.retrieved), retrieve
        self._decoder = Decoder(model, self._source, dtype=machine.dtype, graph=graph)
        self._size, self._token = config.chunk, int(ids[0, 0])
        with torch.inference_mode():
            for chunk in ids.tolist():
                self._decoder.feed(chunk)
                self._decoder.close(retrieve=retrieve)
            self._open = self._decoder.state()
            self._decoder.feed(ids[0].tolist())
            self._full = self._decoder.state()
            self._decoder.load(self._open)

    def step(self) -> None:
        """Run one token through all layers and to its logits; a full chunk starts again."""
        decoder = self._decoder
        if decoder.open_tokens == self._size:
            decoder.load(self._open)
        decoder.logits(decoder.feed([self._token])[-1])

    def border(self) -> None:
        """Close a chunk: landmark, encoder, retrieval, and the memory of what was retrieved."""
        self._decoder.load(self._full)
        self._decoder.close(retrieve=self._retrieve)
        del self._source.chunks[CHUNKS:]
        self._decoder.feed([self._token])


def _on_one_thread(work: Work) -> Work:
    def alone() -> None:
        count = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            work()
        finally:
            torch.set_num_threads(count)

    return alone


def _rows(timed: dict[str, list[float]], chunk: int) -> Iterator[BenchRow]:
    milliseconds = {n: [1000 * s for s in seconds] for n, seconds in timed.items()}
    del milliseconds[CALIBRATION]
    border = median_iqr(milliseconds.pop(BORDER))[0]
    shared = [token + border / chunk for token in milliseconds[DECODE]]
    against = dict.fromkeys((DECODE, SHARED), PLAIN) | {GRAPH: GRAPH_PLAIN, ALONE: DECODE}
    for name, values in (milliseconds | {SHARED: shared}).items():
        reference = against.get(name)
        compared = milliseconds.get(reference or "")
        if reference is None or compared is None:
            yield bench_row(name, values, unit="ms")
        else:
            yield bench_row(name, values, unit="ms", against=reference, against_values=compared)
    yield bench_row(BORDER, [1000 * s for s in timed[BORDER]], unit="ms")
    for name in (DECODE, GRAPH):
        if name in timed:
            yield bench_row(f"{name}, rate", [1 / s for s in timed[name]], unit="tokens/s")
