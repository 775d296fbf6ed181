"""The processor's name and instruction sets; imports nothing that may be broken, torch neither."""

from __future__ import annotations

import platform
import re
from pathlib import Path

INSTRUCTION_SETS = {
    "avx2": "AVX2",
    "avx512f": "AVX512",
    "avx512_bf16": "AVX512-BF16",
    "amx_bf16": "AMX",
    "asimd": "NEON",
    "bf16": "BF16",
}


def processor(processors: Path = Path("/proc/cpuinfo")) -> tuple[str, list[str]]:
    """Return the processor's name and those of its instruction sets that matter here."""
    try:
        text = processors.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    names = re.findall(r"(?mi)^(?:model name|cpu model)\s*:\s*(.+)$", text)
    lines = re.findall(r"(?mi)^(?:flags|features)\s*:(.*)$", text)
    flags = set(lines[0].split()) if lines else set()
    name = names[0].strip() if names else platform.processor() or platform.machine()
    return name, [label for flag, label in INSTRUCTION_SETS.items() if flag in flags]
