"""What `cluster up --ready-file` writes. Pure.

Written when all nodes are up, and again whenever a node has come or gone. `up` is false while a
node is down; its `pid` is that of the process that ended. Tokens grant changes through the pages.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def ready_facts(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`nodes` as the supervisor describes them."""
    return {
        "bootstrap": ",".join(each["bootstrap"] for each in nodes),
        "http": nodes[0]["http"],
        "nodes": {
            str(each["id"]): {
                "pid": each["pid"],
                "bootstrap": each["bootstrap"],
                "http": each["http"],
                "up": each["state"] == "up",
                "token": each["token"],
            }
            for each in nodes
        },
    }
