"""A process that tries an address of a Ray cluster, for ``connection``: ``-m ...probe ADDRESS``.

The last line of its output is JSON: ``{"error": null}``, or the reason why it cannot be joined.
"""

from __future__ import annotations

import json
import os
import sys

from drt_engine.cluster.connection import probe


def main() -> None:
    """Try the address, and print what happened."""
    print(json.dumps({"error": probe(sys.argv[1])}), flush=True)
    os._exit(0)  # threads of a failed connection may wait for minutes


if __name__ == "__main__":
    main()
