"""The table of docs/reliability.md: what the sweep of `tests.kit.damage` finds, in words.

`python -m tests.kit.damage_table` writes it into the document.
"""

from functools import cache
from pathlib import Path
from typing import Final

from tests.kit.damage import STOPS, WAYS, cases, verdict_on

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "reliability.md"
NOTHING: Final = "nothing"
_BEGIN: Final = "<!-- made by tests/kit/damage_table.py -->\n"
_END: Final = "<!-- end -->\n"

# Why no report is needed, by the prefix of the kind's name.
HARMLESS: Final = {
    "`.index`": "an entry is checked when it is used, and the index rebuilt if it misleads",
    "`.timeindex`": "an entry is checked when it is used, and the index rebuilt if it misleads",
    "`.txnindex`": "entries are held against their markers at the start, and the index rebuilt",
    "`.snapshot`": "producers are read from the log again",
    "`.kafka_cleanshutdown`": "only its existence counts; without it what is unsynced is checked",
    "`sizes-at-clean-stop.json`": "without it only a part of the checks is made",
    "`last-start`": "without it a crash counts as power loss",
    "`cleaner-offset-checkpoint`": "at worst records are cleaned once more",
    "`cleaning-history.json`": "history for people; horizons are found again by the next pass",
    "`replication-offset-checkpoint`": "one replica: the log's end is what readers see",
    "`recovery-point-offset-checkpoint`": "less is checked at the start, and the rest when read",
    "`log-start-offset-checkpoint`": "numbers without a checksum: see below",
    "`quorum-state`": "a sole voter begins an epoch after the last one of its log; see below",
}


def harmless(kind: str) -> str | None:
    return next((why for begin, why in HARMLESS.items() if kind.startswith(begin)), None)


@cache
def made() -> str:
    rows: dict[str, dict[tuple[str, str], str]] = {}
    for stop in STOPS:
        for case in cases(stop):
            for way in WAYS:
                outcome = verdict_on(stop, case, way).outcome
                rows.setdefault(case.kind, {})[stop, way] = outcome
    lines = [
        f"| file | {' | '.join(WAYS)} |",
        f"|---|{'---|' * len(WAYS)}",
        *(_row(kind, found) for kind, found in sorted(rows.items())),
        "",
        "Nothing is said, because nothing is lost:",
        "",
        *(f"- {kind}: {why}" for kind, why in HARMLESS.items()),
    ]
    return "\n".join(lines) + "\n"


def _row(kind: str, found: dict[tuple[str, str], str]) -> str:
    cells = []
    for way in WAYS:
        clean, unclean = (found.get((stop, way)) for stop in STOPS)
        if clean is None or unclean is None or clean == unclean:
            cells.append(clean or unclean or "")
        else:
            cells.append(f"{clean}; unclean: {unclean}")
    return f"| {kind} | {' | '.join(cells)} |"


def in_document() -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(_BEGIN)[2].partition(_END)[0]


def _write() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    DOCUMENT.write_text(f"{before}{_BEGIN}{made()}{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    _write()
