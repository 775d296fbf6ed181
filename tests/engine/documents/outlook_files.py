"""Makes Outlook messages: streams in the compound file that MS-CFB and MS-OXMSG describe."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

SECTOR, MINI, CUTOFF = 512, 64, 4096
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
TEXT, TIME = 0x001F, 0x0040
SUBJECT, BODY, HEADERS, SENT = 0x0037, 0x1000, 0x007D, 0x0039
SENDER, SENDER_ADDRESS, NAME, ADDRESS = 0x0C1A, 0x0C1F, 0x3001, 0x3003
FILE_NAME, FILE_DATA, METHOD = 0x3707, 0x3701, 0x3705

Tree = Mapping[str, "bytes | Tree"]


def compound_file(tree: Tree) -> bytes:
    """Return a compound file of version 3 with these streams and storages, all of them small."""
    entries: list[list[object]] = [["Root Entry", 5, FREE, FREE, FREE, 0, 0]]
    mini, mini_fat = b"", list[int]()

    def add(children: Tree, parent: int) -> None:
        nonlocal mini
        order = sorted(children, key=lambda name: (len(name), name.upper()))
        places = []
        for name in order:
            value, place = children[name], len(entries)
            places.append(place)
            if isinstance(value, bytes):
                assert len(value) < CUTOFF
                first = len(mini) // MINI if value else END
                count = -(-len(value) // MINI)
                mini += value.ljust(count * MINI, b"\0")
                mini_fat.extend([*range(first + 1, first + count), END] if count else [])
                entries.append([name, 2, FREE, FREE, FREE, first, len(value)])
            else:
                entries.append([name, 1, FREE, FREE, FREE, 0, 0])
                add(value, place)
        for place, following in zip(places, places[1:], strict=False):
            entries[place][3] = following  # a tree that is a list is a tree
        entries[parent][4] = places[0] if places else FREE

    add(tree, 0)
    while len(entries) % 4:
        entries.append(["", 0, FREE, FREE, FREE, 0, 0])
    mini = mini.ljust(-(-len(mini) // SECTOR) * SECTOR, b"\0")
    directory, tables, data = len(entries) // 4, -(-len(mini_fat) // 128), len(mini) // SECTOR
    # sectors: the FAT, the directory, the table of small sectors, and these
    starts = (0, 1, 1 + directory, 1 + directory + tables)
    entries[0][5], entries[0][6] = starts[3], len(mini)
    fat = [FAT]
    for start, count in zip(starts[1:], (directory, tables, data), strict=True):
        fat += [*range(start + 1, start + count), END]
    assert len(fat) <= 128
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack("<HHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, CUTOFF, starts[2],
                        tables, END, 0, 0)  # fmt: skip
    head += struct.pack("<108I", *[FREE] * 108)
    names = b"".join(
        str(name).encode("utf-16-le").ljust(64, b"\0")
        + struct.pack("<HBB3I16x4x16xIQ", 2 * len(str(name)) + 2 if name else 0, kind, 1, left,
                      right, child, start, size)
        for name, kind, left, right, child, start, size in entries
    )  # fmt: skip
    numbers = [*fat, *[FREE] * (128 - len(fat))]
    small = [*mini_fat, *[FREE] * (128 * tables - len(mini_fat))]
    return (
        head
        + struct.pack("<128I", *numbers)
        + names
        + struct.pack(f"<{len(small)}I", *small)
        + mini
    )


def properties(head: int, texts: Mapping[int, str], times: Mapping[int, int] | None = None) -> Tree:
    """Return the streams of an object's properties; ``head`` is the size of their list's head."""
    streams: dict[str, bytes | Tree] = {}
    listed = bytes(head)
    for number, text in texts.items():
        data = text.encode("utf-16-le")
        listed += struct.pack("<HHIII", TEXT, number, 6, len(data) + 2, 0)
        streams[f"__substg1.0_{number:04X}{TEXT:04X}"] = data
    for number, value in (times or {}).items():
        listed += struct.pack("<HHIQ", TIME, number, 6, value)
    return {**streams, "__properties_version1.0": listed}


def message(
    texts: Mapping[int, str],
    *,
    people: Sequence[tuple[str, str]] = (),
    attachments: Mapping[str, bytes] | None = None,
    sent: int = 0,
) -> bytes:
    """Return a message; ``sent`` is in tenths of microseconds since 1601."""
    files = attachments or {}
    tree = dict(properties(32, {0x001A: "IPM.Note", **texts}, {SENT: sent}))
    for number, (name, address) in enumerate(people):
        tree[f"__recip_version1.0_#{number:08X}"] = properties(8, {NAME: name, ADDRESS: address})
    for number, (name, data) in enumerate(files.items()):
        storage = dict(properties(8, {FILE_NAME: name}))
        storage[f"__substg1.0_{FILE_DATA:04X}0102"] = data
        listed = storage["__properties_version1.0"]
        assert isinstance(listed, bytes)
        listed += struct.pack("<HHIII", 0x0102, FILE_DATA, 6, len(data), 0)
        listed += struct.pack("<HHIII", 0x0003, METHOD, 6, 1, 0)
        storage["__properties_version1.0"] = listed
        tree[f"__attach_version1.0_#{number:08X}"] = storage
    head = struct.pack("<8x4I8x", len(people), len(files), len(people), len(files))
    listed = tree["__properties_version1.0"]
    assert isinstance(listed, bytes)
    tree["__properties_version1.0"] = head + listed[32:]
    return compound_file(tree)
