"""`python -m ledgerstone.sim.history FILE...`: checks histories of clients. Shell.

Each file has one operation a line. Files are parts of one history: drivers write one each. Prints
what was looked at and every anomaly; exit code 1 where there is one.
"""

import sys
from collections import Counter
from pathlib import Path

from ledgerstone.sim.history.check import check
from ledgerstone.sim.history.lines import parse
from ledgerstone.sim.history.operations import ClientHistory


def main(paths: list[str]) -> int:
    if not paths:
        _say(__doc__ or "")
        return 2
    history = ClientHistory()
    for path in paths:
        with Path(path).open(encoding="utf-8") as lines:
            history.operations.extend(parse(lines).operations)
    kinds = Counter(type(each).__name__ for each in history.operations)
    _say(", ".join(f"{count} {name}" for name, count in sorted(kinds.items())))
    anomalies = check(history)
    for anomaly in anomalies:
        _say(str(anomaly))
    _say(f"{len(anomalies)} anomalies in {len(history.operations)} operations")
    return 1 if anomalies else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
