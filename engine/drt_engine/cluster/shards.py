"""A library in shards: where they are, which documents each gets, and the list that joins them.

Of the library ``papers`` the shards are the folders ``papers.shards/0``, ``1``, ...: ordinary
libraries. ``papers`` is the file that lists them. Knows neither Ray nor models.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drt_engine.errors import ConfigError, StoreError
from drt_engine.store.federation import is_list, library_folders, write_list

SUFFIX = ".shards"
_MOST = 4096  # libraries in one list


@dataclass(frozen=True)
class ShardedLibrary:
    """The shards of a library, which the file ``path`` lists; make one with ``of``."""

    path: Path
    count: int

    @classmethod
    def of(cls, path: Path, count: int | None) -> ShardedLibrary:
        """Return a library of so many shards, by default as many as it has.

        Raises ConfigError where it has another number of shards, where it is a library without
        shards, and for no number.
        """
        path = Path(os.path.abspath(path))
        if count is not None and not 1 <= count <= _MOST:
            raise ConfigError(f"shards is {count}, expected 1 to {_MOST}")
        if path.exists() and not is_list(path):
            raise ConfigError(
                f"{path} is a library without shards, expected one with shards or a new name:"
                " name another with --library"
            )
        present = cls._present(path)
        if count is None and not present:
            raise ConfigError(
                f"there is no library with shards at {path}, and it is not said how many it is to"
                " have: say it with --shards"
            )
        if count is not None and present and present != count:
            raise ConfigError(
                f"the library {path} has {present} shards, expected {count}: use --shards"
                f" {present}, or read the documents into another library, which --library names"
            )
        return cls(path, count or present)

    @classmethod
    def _present(cls, path: Path) -> int:
        """Return how many shards a library has, 0 where there is none."""
        if not path.exists():
            return len(_numbered(_folder(path)))
        folders = [Path(os.path.abspath(folder)) for folder in library_folders([path])]
        library = cls(path, len(folders))
        if folders != library.shards:
            raise ConfigError(
                f"{path} lists libraries that are not its shards, expected those in"
                f" {_folder(path)}: name another library with --library"
            )
        return library.count

    @property
    def folder(self) -> Path:
        """The folder of the shards."""
        return _folder(self.path)

    @property
    def shards(self) -> list[Path]:
        """The shards' own folders, in order."""
        return [self.folder / str(number) for number in range(self.count)]

    def shard_of(self, file: Path) -> int:
        """Return the number of the shard for a file, which depends on its absolute path alone.

        So a file that has changed replaces its older version, and an archive has one shard.
        """
        digest = hashlib.sha256(os.fsencode(os.path.abspath(file))).digest()
        return int.from_bytes(digest[:8], "big") % self.count

    def make_folder(self) -> None:
        """Make the folder of the shards; StoreError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make the folder {self.folder} ({error.strerror}): check its place"
            ) from error

    def write_list(self) -> None:
        """Write the list of the shards, unless it is there; StoreError."""
        if not self.path.exists():
            write_list(self.path, self.shards)


def _folder(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _numbered(folder: Path) -> Sequence[str]:
    """Return the names of shards in a folder, which may not be there."""
    try:
        return [name for name in os.listdir(folder) if name.isdecimal()]
    except OSError:
        return []
