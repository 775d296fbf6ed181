"""A Ray of several nodes on the loopback: ``python -m tests.engine.cluster.ray_nodes N``.

Prints the address of a head without processors once N nodes of one processor each have joined it.
A line on standard input names a node, by its number, that is to be lost; their end is its own.
"""

from __future__ import annotations

import logging
import sys

from ray.cluster_utils import Cluster

_OBJECT_STORE = 80 << 20  # bytes


def main() -> None:
    """Start the nodes, and lose those that are named."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    head = {"num_cpus": 0, "include_dashboard": False}
    options = {"node_ip_address": "127.0.0.1", "object_store_memory": _OBJECT_STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head | options)
    try:
        nodes = [cluster.add_node(num_cpus=1, **options) for _ in range(int(sys.argv[1]))]
        print(cluster.address, flush=True)
        for line in sys.stdin:
            cluster.remove_node(nodes[int(line)], allow_graceful=False)
            print("lost", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
