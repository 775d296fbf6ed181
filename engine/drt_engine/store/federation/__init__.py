"""Several libraries asked as one, with the same answers as from one that holds all documents."""

from __future__ import annotations

from drt_engine.store.federation.list_file import is_list, library_folders, write_list
from drt_engine.store.federation.store import FederatedStore

__all__ = ["FederatedStore", "is_list", "library_folders", "write_list"]
