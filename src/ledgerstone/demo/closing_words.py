"""The last page: what was checked, what it cost on disk, what to try next. Shell."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ledgerstone.dataclasses import dataclass
from ledgerstone.demo.broker_process import DemoBroker
from ledgerstone.demo.checking import Check
from ledgerstone.demo.encoding import AUTHORS, FILES
from ledgerstone.demo.passing_time import Sizes
from ledgerstone.demo.telling import Teller, in_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    checks: Sequence[Check]
    sizes: Sequence[Sizes]
    truth_name: str
    seconds: float
    broker: DemoBroker | None  # None: it does not stay
    kept: Path | None


def tell_closing(teller: Teller, closing: Closing) -> None:
    teller.line()
    truth_name = closing.truth_name.format(commit="COMMIT")
    teller.heading(f"Checked, byte by byte, against {truth_name}")
    teller.table(
        ("", "commit", "files", "sha256"),
        [(each.what, each.commit_id, str(each.files), each.digits) for each in closing.checks],
    )
    teller.line()
    teller.heading(f"Topic {FILES} on disk")
    teller.table(
        ("", "segments", "size", "records", "tombstones"),
        [_cells(each) for each in closing.sizes],
    )
    teller.line()
    teller.heading(f"All of it in {closing.seconds:.1f} s. Try next:")
    for command in _commands(closing.broker, closing.kept):
        teller.line(f"  {command}")


def _cells(sizes: Sizes) -> tuple[str, ...]:
    disk = sizes.disk
    counts = str(sizes.records), str(sizes.tombstones)
    return (sizes.when, str(disk.segments), in_bytes(disk.bytes), *counts)


def _commands(broker: DemoBroker | None, kept: Path | None) -> list[str]:
    program = program_name()
    if broker is not None:
        at = f"--bootstrap {broker.bootstrap}"
        return [
            f"{program} state {FILES} --list --limit 5 {at}",
            f"{program} why {FILES} {at}",
            f"{program} cleaner history {AUTHORS} {at}",
        ]
    if kept is not None:
        return [
            f"{program} dump {kept}/data/{FILES}-0",
            f"{program} verify-receipt {kept}/receipt.json --keys-file {kept}/data/erasure.keys",
            f"{program} up --data {kept}/data",
        ]
    return [
        f"{program} demo                  the same, but the broker and its page stay",
        f"{program} demo --keep DIR       look at the files afterwards",
        f"{program} up --data DIR         a broker of your own",
    ]


def program_name() -> str:
    """How this program was called, so that the commands shown can be typed."""
    called = sys.argv[0]
    if Path(called).name != "ledgerstone":
        return f"{sys.executable} -m ledgerstone"
    found = shutil.which("ledgerstone")
    return "ledgerstone" if found and Path(found).samefile(called) else called
