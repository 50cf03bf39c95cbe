"""How long three real nodes need until a topic can be made again after their leader is lost.

    PYTHONPATH=tools python -m bench.failover ledgerstone --rounds 50
    PYTHONPATH=tools python -m bench.failover kafka --rounds 10 --fault pause

Both programs read the same server.properties (`process.roles=broker,controller`). What
`tests.crash.failover` checks after every round is checked here, too.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.crash.failover import rounds
from tests.kit.nodes import KAFKA, LEDGERSTONE


def quantile(values: list[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("kind", choices=(KAFKA, LEDGERSTONE))
    options.add_argument("--rounds", type=int, default=50)
    options.add_argument("--fault", choices=("kill", "pause"), default="kill")
    chosen = options.parse_args()
    times = []
    with tempfile.TemporaryDirectory(prefix="failover-") as work:
        for each in rounds(chosen.kind, chosen.fault, chosen.rounds, Path(work)):
            times.append(each.topic_s)
            print(
                f"{len(times)}: {each.fault} node {each.former.leader_id}, {each.topic_s:.2f} s",
                flush=True,
            )
    print(
        f"{chosen.kind}, {chosen.fault}, {len(times)} rounds: p50 {statistics.median(times):.2f} s,"
        f" p99 {quantile(times, 0.99):.2f} s, least {min(times):.2f} s, most {max(times):.2f} s"
    )


if __name__ == "__main__":
    main()
