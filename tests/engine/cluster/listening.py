"""Where a process and those that it started can be reached: their sockets that listen."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
from pathlib import Path

_LISTENS = "0A"  # the state of a TCP socket
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def other_addresses(pid: int) -> list[str]:
    """Return a line for each listening socket that other machines may reach.

    Raises AssertionError where nothing listens at all: then the process was not looked at.
    """
    sockets = _listening_sockets()
    lines, count = [], 0
    for process in _with_descendants(pid):
        for inode in _sockets_of(process):
            if inode in sockets:
                address, port = sockets[inode]
                count += 1
                if not _is_loopback(address):
                    name = Path(f"/proc/{process}/comm").read_text().strip()
                    lines.append(f"{name} listens at {address}, port {port}")
    assert count, f"no socket of {pid} listens"
    return lines


def named_descendants(pid: int, name: str) -> list[int]:
    """Return the processes with a name that a process has started."""
    return [
        process
        for process in _with_descendants(pid)
        if Path(f"/proc/{process}/comm").read_text().strip() == name
    ]


def _is_loopback(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _listening_sockets() -> dict[str, tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """Return addresses and ports by the sockets' inodes: TCP that listens, UDP that is bound."""
    sockets = {}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            _, local, remote, state, *rest = line.split()
            listens = state == _LISTENS if table.startswith("tcp") else remote.endswith(":0000")
            if listens:
                address, _, port = local.partition(":")
                sockets[rest[5]] = (_address(address), int(port, 16))
    return sockets


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address that the kernel prints as numbers of 32 bits in the machine's order."""
    words = [int(text[place : place + 8], 16) for place in range(0, len(text), 8)]
    data = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return ipaddress.ip_address(socket.inet_ntop(family, data))


def _sockets_of(pid: int) -> set[str]:
    inodes = set()
    try:
        for file in os.scandir(f"/proc/{pid}/fd"):
            if match := _SOCKET.fullmatch(os.readlink(file.path)):
                inodes.add(match[1])
    except OSError:  # the process, or the file, is gone
        pass
    return inodes


def _with_descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                status = (process / "stat").read_text()
            except OSError:
                continue
            parents[int(process.name)] = int(status.rpartition(")")[2].split()[1])
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family
