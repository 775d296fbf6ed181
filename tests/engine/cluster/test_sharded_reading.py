"""Reading into shards: each document once, whatever becomes of the workers; Ray is a fake."""

from __future__ import annotations

import functools
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drt_engine.cluster import sharded_reading
from drt_engine.cluster.ingest import ingest_shards, model_setting
from drt_engine.cluster.shard_reader import DocumentResult, LoadedModel, ModelSettings, ShardReader
from drt_engine.cluster.sharded_reading import NamedFile, ReadingOptions, _ShardDriver
from drt_engine.cluster.shards import ShardedLibrary
from drt_engine.errors import ConfigError, FingerprintMismatch, LockTimeout, WeightsError
from drt_engine.results import ShardsProgress
from drt_engine.runtime import Runtime
from drt_engine.store import Store
from tests.engine.cluster.fake_ray import FakeRay
from tests.model_folder import LETTERS, MANUAL, model_folder
from tests.sampling import sampled

LOAD = Runtime.load
MODEL = ModelSettings(str(model_folder()), device="cpu", dtype="fp32")


@functools.cache
def load(model: str, **options: Any) -> Runtime:
    """Load each model once."""
    return LOAD(model, **options)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    monkeypatch.setattr(Runtime, "load", load)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder of files: a copy, one without words, an empty one, no format, an archive."""
    path = tmp_path / "files"
    path.mkdir()
    for number in range(4):
        (path / f"f{number}.txt").write_text(f"Letter {number}. {LETTERS}", encoding="utf-8")
    (path / "manual.md").write_text(MANUAL, encoding="utf-8")
    (path / "copy.md").write_text(MANUAL, encoding="utf-8")
    (path / "empty.txt").write_text("\n \n")
    (path / "nothing.txt").write_text("")
    (path / "data.bin").write_bytes(b"\0\1\2")
    with zipfile.ZipFile(path / "e.zip", "w") as archive:
        for number in range(3):
            archive.writestr(f"m{number}.txt", f"The keeper {number} signs the log on Monday.")
        archive.writestr("x.bin", b"\0\1\2")
    return path


def read(path: Path, *files: Path, shards: int | None = 2, **options: Any) -> list[DocumentResult]:
    """Read files into a library in shards."""
    reading_options = ReadingOptions(MODEL, **options)
    library = ShardedLibrary.of(path, shards)
    names = [str(file) for file in files]
    return list(ingest_shards(library, names, address="local", options=reading_options))


def names(results: Sequence[DocumentResult], *, new: bool = True) -> list[str]:
    """Return the names of documents that were read, or that were there."""
    return sorted(Path(r.name).name for r in results if r.row is not None and r.is_new is new)


def sentences(results: Sequence[DocumentResult]) -> list[str]:
    return [str(result.error) for result in results if result.error is not None]


def contents(path: Path) -> list[list[str]]:
    """Return the names of the documents of each shard, which must be whole."""
    shards = []
    for shard in ShardedLibrary.of(path, None).shards:
        with Store.open(shard) as store:
            assert store.check() == [] and store.partial_documents() == []
            shards.append([os.path.basename(row.source) for row in store.documents()])
    return shards


ALL = ["copy.md", "f0.txt", "f1.txt", "f2.txt", "f3.txt", "m0.txt", "m1.txt", "m2.txt"]


@pytest.mark.thorough
def test_each_document_is_read_once_into_its_shard(
    ray: FakeRay, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "papers"
    results = read(path, folder, tags=("new",))
    library = ShardedLibrary.of(path, None)
    in_one_shard = library.shard_of(folder / "copy.md") == library.shard_of(folder / "manual.md")
    expected = sorted(ALL if in_one_shard else [*ALL, "manual.md"])
    assert names(results) == expected
    assert all(result.row.tags == ("new",) for result in results if result.row is not None)
    assert len(sentences(results)) == 1 and "empty.txt is empty" in sentences(results)[0]
    passed_over = [r for r in results if r.row is None and r.error is None]
    assert sum(result.skipped_files for result in passed_over) == 2
    assert [note for r in passed_over for note in r.skipped if note.endswith("(it is empty)")] == [
        f"{folder}/nothing.txt (it is empty)"
    ]
    shards = contents(path)
    assert sorted(sum(shards, [])) == expected
    for number, shard in enumerate(shards):
        for name in shard:
            file = folder / ("e.zip" if name.startswith("m") and name != "manual.md" else name)
            assert library.shard_of(file) == number
    assert not ray.is_open


@pytest.mark.thorough
def test_reading_again_reads_what_is_new(ray: FakeRay, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "papers"
    read(path, folder)
    (folder / "f1.txt").write_text("It was changed.")
    (folder / "new.txt").write_text("This is new.")
    results = read(path, folder, shards=None)
    assert names(results) == ["f1.txt", "new.txt"]
    assert sum(sum(contents(path), []).count(name) for name in ("f1.txt", "new.txt")) == 2


@pytest.mark.slow
def test_a_worker_that_ends_costs_nothing_but_time(
    ray: FakeRay, folder: Path, tmp_path: Path
) -> None:
    deaths: list[tuple[str, int]] = []

    def kills(name: str, arguments: tuple[Any, ...]) -> bool:
        if name != "read" or arguments in deaths:
            return False
        deaths.append(arguments)  # each document ends one worker
        return True

    ray.kills = kills
    results = read(tmp_path / "papers", folder)
    assert [s for s in sentences(results) if "ended" in s] == []
    assert set(names(results)) >= set(ALL)
    assert sum(result.skipped_files for result in results) == 2
    contents(tmp_path / "papers")


@pytest.mark.thorough
def test_a_document_that_ends_two_workers_is_a_failure(
    ray: FakeRay, folder: Path, tmp_path: Path
) -> None:
    deadly = {(str(folder / "f2.txt"), 0), (str(folder / "e.zip"), 1)}
    ray.kills = lambda name, arguments: name == "read" and arguments in deadly
    results = read(tmp_path / "papers", folder)
    ended = sorted(sentence for sentence in sentences(results) if "ended 2 times" in sentence)
    assert len(ended) == 2
    assert "e.zip, document 2 cannot be read (the worker that read it ended 2 times" in ended[0]
    assert "f2.txt cannot be read" in ended[1] and "its process was killed" in ended[1]
    assert set(ALL) - set(names(results)) == {"f2.txt", "m1.txt"}
    ray.kills = lambda name, arguments: False
    assert names(read(tmp_path / "papers", folder)) == ["f2.txt", "m1.txt"]


@pytest.mark.slow
def test_an_archive_that_always_ends_its_worker_has_an_end(
    ray: FakeRay, folder: Path, tmp_path: Path
) -> None:
    ray.kills = lambda name, arguments: name == "read" and arguments[0].endswith("e.zip")
    results = read(tmp_path / "papers", folder)
    ended = [sentence for sentence in sentences(results) if "ended 2 times" in sentence]
    assert 3 <= len(ended) <= 4
    assert {"f0.txt", "f3.txt"} <= set(names(results))


@pytest.mark.thorough
def test_workers_that_cannot_load_the_model(ray: FakeRay, folder: Path, tmp_path: Path) -> None:
    ray.kills = lambda name, arguments: name == "load"
    with pytest.raises(ConfigError, match="a worker ended 2 times while it loaded the model"):
        read(tmp_path / "papers", folder)
    assert not (tmp_path / "papers").exists() and not ray.is_open
    ray.kills = lambda name, arguments: False
    assert names(read(tmp_path / "papers", folder, shards=3))


@pytest.mark.thorough
def test_a_worker_that_ends_while_it_opens_its_shard(
    ray: FakeRay, folder: Path, tmp_path: Path
) -> None:
    deaths: list[str] = []

    def kills(name: str, arguments: tuple[Any, ...]) -> bool:
        if name == "open" and not deaths:
            deaths.append(name)
            return True
        return False

    ray.kills = kills
    assert set(names(read(tmp_path / "papers", folder))) >= set(ALL)


@pytest.mark.thorough
@pytest.mark.parametrize("victim", sampled([0, 1], {0}, thorough={1}))
def test_a_worker_without_room_waits_for_those_that_are_done(
    ray: FakeRay, folder: Path, tmp_path: Path, victim: int
) -> None:
    library = ShardedLibrary.of(tmp_path / "papers", 2)
    # By their paths, which are others each time, all files may be of one shard.
    shards = sorted({library.shard_of(folder / name) for name in ("f0.txt", "manual.md", "e.zip")})
    victim = shards[victim % len(shards)]
    deaths: list[str] = []

    def kills(name: str, arguments: tuple[Any, ...]) -> bool:
        if name != "read" or deaths or library.shard_of(Path(arguments[0])) != victim:
            return False
        deaths.append(arguments[0])
        ray.room -= 1  # its machine is lost
        return True

    ray.kills, ray.room = kills, 2
    results = read(library.path, folder, start_timeout=0.0)
    assert deaths and set(names(results)) >= set(ALL)
    contents(library.path)

    def kills_all(name: str, arguments: tuple[Any, ...]) -> bool:
        if name == "read":
            ray.room = -2
        return name == "read"

    ray.kills, ray.room = kills_all, 2
    with pytest.raises(ConfigError, match="a worker has not started within 0 s"):
        read(tmp_path / "others", folder, start_timeout=0.0)


def test_mixed_models(
    ray: FakeRay, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = iter([LoadedModel("aa", "fp32"), LoadedModel("bb", "fp32")])
    monkeypatch.setattr(ShardReader, "load", lambda self, settings: next(models))
    with pytest.raises(ConfigError, match="has the model bb in fp32, expected aa in fp32"):
        read(tmp_path / "papers", folder)
    assert not any((tmp_path / "papers.shards").iterdir())


def test_a_library_of_another_model(ray: FakeRay, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "papers"
    read(path, folder / "f0.txt")
    other = ReadingOptions(ModelSettings(str(model_folder(seed=1)), device="cpu", dtype="fp32"))
    library = ShardedLibrary.of(path, None)
    with pytest.raises(FingerprintMismatch, match=r"papers.shards/[01] was made with"):
        list(ingest_shards(library, [str(folder)], address="local", options=other))


@pytest.mark.thorough
def test_a_shard_that_somebody_else_writes(ray: FakeRay, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "papers"
    read(path, folder / "f0.txt")
    library = ShardedLibrary.of(path, None)
    shard = library.shards[library.shard_of(folder / "f1.txt")]
    with Store.open(shard) as store, store._writing(), pytest.raises(LockTimeout):
        read(path, folder / "f1.txt", lock_timeout=0.1)
    assert names(read(path, folder / "f1.txt")) == ["f1.txt"]


@pytest.mark.thorough
def test_what_a_worker_does_not_see(
    ray: FakeRay, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexists = os.path.lexists
    monkeypatch.setattr(
        os.path, "lexists", lambda path: not str(path).endswith("f3.txt") and lexists(path)
    )
    results = read(tmp_path / "papers", folder)
    assert any("f3.txt is not seen on" in sentence for sentence in sentences(results))
    with pytest.raises(ConfigError, match="is not seen on .*, where a worker is to write a shard"):
        open_shard(tmp_path / "absent" / "0")


def open_shard(shard: Path) -> None:
    reader = ShardReader()
    reader.load(MODEL)
    reader.open(str(shard), (), 1.0)


def test_what_this_process_does_not_see(
    ray: FakeRay, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShardReader, "open", lambda *arguments: None)
    monkeypatch.setattr(sharded_reading, "_SEEN_SECONDS", 0.0)
    with pytest.raises(ConfigError, match="that a worker made is not seen here"):
        read(tmp_path / "papers", folder)


def test_what_cannot_be_read_into_shards(ray: FakeRay, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="standard input cannot be read into shards"):
        read(tmp_path / "papers", Path("-"))
    (tmp_path / "nothing").mkdir()
    results = read(tmp_path / "papers", tmp_path / "nothing", tmp_path / "absent.txt")
    assert len(sentences(results)) == 2 and "holds no file" in sentences(results)[0]
    assert not ray.opened  # no worker is started for nothing


@pytest.mark.thorough
def test_leaving_ends_all_workers(ray: FakeRay, folder: Path, tmp_path: Path) -> None:
    library = ShardedLibrary.of(tmp_path / "papers", 2)
    results = ingest_shards(library, [str(folder)], address="local", options=ReadingOptions(MODEL))
    next(results)
    results.close()
    assert not ray.is_open
    assert set(names(read(tmp_path / "papers", folder))) <= set(ALL) | {"manual.md"}
    contents(tmp_path / "papers")


@pytest.mark.thorough
def test_progress_of_all_shards(ray: FakeRay, folder: Path, tmp_path: Path) -> None:
    steps: list[ShardsProgress] = []
    library = ShardedLibrary.of(tmp_path / "papers", 2)
    options = ReadingOptions(MODEL)
    results = list(
        ingest_shards(
            library, [str(folder)], address="local", options=options, progress=steps.append
        )
    )
    assert steps and all(step.total_files == 8 and len(step.documents) == 2 for step in steps)
    assert [step.files for step in steps] == sorted(step.files for step in steps)
    assert steps[-1].tokens <= sum(result.tokens for result in results)
    assert steps[-1].tokens_per_second > 0


def test_how_workers_name_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_setting("drt-small-en") == "drt-small-en"
    monkeypatch.chdir(model_folder().parent)
    assert model_setting(model_folder().name) == str(model_folder())
    with pytest.raises(WeightsError, match="no model or model folder is called 'absent'"):
        model_setting("absent")


def test_an_archive_that_has_ended_counts_once() -> None:
    """Two calls are ahead, and both say that the archive has no more members."""

    class Reading:
        is_closed = False

        def __init__(self) -> None:
            self.results: list[object] = []

        def actor(self, number: int) -> Reading:
            return self

        def call(self, actor: object, call: Any) -> int:
            position: int = call.position
            return position

        def outcome(self, call: Any) -> DocumentResult | None:
            return DocumentResult(f"m{call.position}") if call.position < 3 else None

        def put(self, result: object) -> None:
            self.results.append(result)

    reading = Reading()
    driver = _ShardDriver(reading, 0, [NamedFile(Path("e.zip"), True)])  # type: ignore[arg-type]
    driver.run()
    assert driver.files_done == 1
    assert len([r for r in reading.results if isinstance(r, DocumentResult)]) == 3
