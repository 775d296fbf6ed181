"""Where shards are, which files each gets, and every way in which a library cannot have them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drt_engine.cluster.shards import ShardedLibrary
from drt_engine.errors import ConfigError, StoreError
from drt_engine.store.federation import library_folders, write_list
from tests.model_folder import library
from tests.tables import each_row


def made(path: Path, count: int) -> ShardedLibrary:
    """Make a library of empty shards."""
    sharded = ShardedLibrary.of(path, count)
    sharded.make_folder()
    for shard in sharded.shards:
        with library(shard):
            pass
    sharded.write_list()
    return sharded


def test_the_list_names_the_shards_in_order(tmp_path: Path) -> None:
    sharded = made(tmp_path / "papers", 3)
    folders = [tmp_path / "papers.shards" / name for name in "012"]
    assert sharded.shards == folders == library_folders([tmp_path / "papers"])
    assert ShardedLibrary.of(tmp_path / "papers", None) == sharded
    assert ShardedLibrary.of(tmp_path / "papers", 3) == sharded
    (tmp_path / "papers").unlink()
    assert ShardedLibrary.of(tmp_path / "papers", None) == sharded


def test_a_library_that_was_moved_as_a_whole(tmp_path: Path) -> None:
    made(tmp_path / "papers", 2)
    (tmp_path / "elsewhere").mkdir()
    for name in ("papers", "papers.shards"):
        shutil.move(tmp_path / name, tmp_path / "elsewhere")
    assert ShardedLibrary.of(tmp_path / "elsewhere" / "papers", None).count == 2


def test_the_shard_of_a_file_depends_on_its_path_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharded = ShardedLibrary.of(tmp_path / "papers", 4)
    files = [tmp_path / f"{number}.txt" for number in range(200)]
    shards = [sharded.shard_of(file) for file in files]
    assert set(shards) == {0, 1, 2, 3}
    assert max(shards.count(shard) for shard in range(4)) < 80
    monkeypatch.chdir(tmp_path)
    assert [sharded.shard_of(Path(file.name)) for file in files] == shards
    assert ShardedLibrary.of(tmp_path / "other", 4).shard_of(Path("/data/a.md")) == 0


@each_row("count", [0, -1, 4097])
def test_a_number_of_shards_that_cannot_be(tmp_path: Path, count: int) -> None:
    with pytest.raises(ConfigError, match=f"shards is {count}, expected 1 to 4096"):
        ShardedLibrary.of(tmp_path / "papers", count)


def test_no_number_for_a_new_library(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is not said how many it is to have: say it with"):
        ShardedLibrary.of(tmp_path / "papers", None)


@pytest.mark.parametrize("has_list", [True, False])
def test_another_number_than_before(tmp_path: Path, has_list: bool) -> None:
    made(tmp_path / "papers", 2)
    if not has_list:
        (tmp_path / "papers").unlink()
    with pytest.raises(ConfigError, match="has 2 shards, expected 3: use --shards 2, or read"):
        ShardedLibrary.of(tmp_path / "papers", 3)


def test_a_library_without_shards(tmp_path: Path) -> None:
    with library(tmp_path / "papers"):
        pass
    with pytest.raises(ConfigError, match="is a library without shards, expected one with shards"):
        ShardedLibrary.of(tmp_path / "papers", 2)


def test_a_list_of_other_libraries(tmp_path: Path) -> None:
    write_list(tmp_path / "papers", [tmp_path / "mine", tmp_path / "yours"])
    with pytest.raises(ConfigError, match="lists libraries that are not its shards"):
        ShardedLibrary.of(tmp_path / "papers", 2)


def test_a_file_that_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "papers").write_text("hello")
    with pytest.raises(StoreError, match="neither a library's folder nor a whole list"):
        ShardedLibrary.of(tmp_path / "papers", 2)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "papers.shards").write_text("in the way")
    with pytest.raises(StoreError, match="cannot make the folder .*papers.shards"):
        ShardedLibrary.of(tmp_path / "papers", 2).make_folder()
