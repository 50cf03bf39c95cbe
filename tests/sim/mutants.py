"""Faults put into the broker on purpose: the simulator must find every one of them.

Each mutant is a few lines that replace something in a running process; nothing of it is in `src`.
`python -m tests.sim.mutants` plays seeds until each one is found and prints a table; with `--write`
it puts the table into the simulator's README.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ledgerstone.cleaner import planning
from ledgerstone.coordinator.classic_group import ClassicGroup
from ledgerstone.erasure import changes, life
from ledgerstone.erasure.scan_plan import ScanReport
from ledgerstone.erasure.steps import Advance
from ledgerstone.errors import LogStorageError
from ledgerstone.server.cleaning import choice, swap
from ledgerstone.server.erasing.journal import ErasureJournal
from ledgerstone.server.groups.hosted_shard import HostedShard, InFlight
from ledgerstone.server.producer_ids import ProducerIds
from ledgerstone.server.quorum import disk_log
from ledgerstone.sim.cluster import run
from ledgerstone.sim.scenario import draw, parse
from ledgerstone.storage import deleted_files, log_shrink
from ledgerstone.storage.filenames import SWAP
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.producer_state import ProducerStateTable
from ledgerstone.storage.segment import Segment
from tests.sim.txn_mutants import TXN_MUTANTS

README = Path(__file__).parents[2] / "src/ledgerstone/sim/README.md"
BEGIN, END = "<!-- mutants: made by `make sim MUTANTS=1` -->", "<!-- end of mutants -->"
MAX_SEEDS = 200

Patch = pytest.MonkeyPatch


class Mutant(NamedTuple):
    """Some are too rare for a few hundred seeds; the script that once found them is played."""

    name: str
    apply: Callable[[Patch], None]
    script: str | None = None
    profile: str = "mixed"


class Kill(NamedTuple):
    """How many seeds it took, or which script; and the checker that found it."""

    played: str
    checker: str


def hunt(mutant: Mutant, max_seeds: int = MAX_SEEDS) -> Kill | None:
    """None where it survives. A seed that fails without the mutant, too, proves nothing."""
    scenarios = [(str(seed + 1), draw(seed, mutant.profile)) for seed in range(max_seeds)]
    if mutant.script is not None:
        text = (Path(__file__).parent / f"scripts/{mutant.script}.script").read_text()
        scenarios = [(f"script `{mutant.script}`", parse(text))]
    for played, scenario in scenarios:
        with pytest.MonkeyPatch.context() as patch:
            mutant.apply(patch)
            violation = run(scenario).violation
        if violation is not None and run(scenario).violation is None:
            return Kill(played, violation.checker)
    return None


# -- durability -----------------------------------------------------------------------------------


def metadata_is_not_synced(patch: Patch) -> None:
    original = PartitionLog.flush

    def flush(log: PartitionLog, up_to: int | None = None) -> None:
        if log.topic_partition != disk_log.METADATA_PARTITION:
            original(log, up_to)

    patch.setattr(PartitionLog, "flush", flush)


def appends_are_not_synced(patch: Patch) -> None:
    """The log believes in an fsync that was never made; the metadata log alone is honest."""
    original = PartitionLog.flush

    def flush(log: PartitionLog, up_to: int | None = None) -> None:
        if log.topic_partition == disk_log.METADATA_PARTITION:
            original(log, up_to)
            return
        plan = log.plan_flush(up_to)
        if plan is not None:
            log.flush_done(plan)

    patch.setattr(PartitionLog, "flush", flush)


def recovery_point_runs_ahead(patch: Patch) -> None:
    original = PartitionLog.flush_done

    def flush_done(log: PartitionLog, plan: Any) -> None:
        original(log, plan)
        log.recovery_point = log.log_end_offset

    patch.setattr(PartitionLog, "flush_done", flush_done)


def journal_of_erasures_is_not_synced(patch: Patch) -> None:
    original = ErasureJournal._append

    def append(journal: ErasureJournal, records: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PartitionLog, "flush", lambda log, up_to=None: None)
            original(journal, records)

    patch.setattr(ErasureJournal, "_append", append)


def clean_marker_comes_first(patch: Patch) -> None:
    original = LogDir.close

    def close(log_dir: LogDir, *, broker_epoch: int = -1) -> None:
        log_dir._mark_clean_stop(broker_epoch)
        original(log_dir, broker_epoch=broker_epoch)

    patch.setattr(LogDir, "close", close)


def torn_tail_is_not_cut(patch: Patch) -> None:
    """The file keeps its bad bytes, and the next append follows them."""
    original = Segment.recover

    def recover(segment: Segment, *args: Any, **how: Any) -> int:
        size = segment.file.size()
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(segment.file), "truncate", lambda file, size: None)
            cut = original(segment, *args, **how)
        if cut:
            segment.size = size
        return cut

    patch.setattr(Segment, "recover", recover)


def swap_is_decided_too_late(patch: Patch) -> None:
    """The old segments go before the new ones are named."""

    def rename(segments: Any, *, new: Any, old: Any, set_aside: Any) -> None:
        still_here = [each for each in old if each in segments]
        for segment in still_here:
            segments.remove(segment.base_offset)
        for segment in new:
            segments.add(segment)
        for segment in still_here:
            set_aside(segment)
        for segment in new:
            segment.change_suffix(SWAP)
            segment.change_suffix("")

    patch.setattr(log_shrink, "rename_segments", rename)


# -- answers --------------------------------------------------------------------------------------


def failed_append_is_acknowledged(patch: Patch) -> None:
    original = PartitionLog.append_as_leader

    def append(log: PartitionLog, data: Any, **how: Any) -> AppendResult:
        end = log.log_end_offset
        try:
            return original(log, data, **how)
        except LogStorageError:
            return AppendResult(end, end, -1, log.log_start_offset, -1, False)

    patch.setattr(PartitionLog, "append_as_leader", append)


def answered_before_the_append(patch: Patch) -> None:
    """Every twentieth batch is acknowledged and forgotten."""
    original, count = PartitionLog.append_as_leader, [0]

    def append(log: PartitionLog, data: Any, **how: Any) -> AppendResult:
        is_data = log.topic_partition.topic in ("plain", "compact")
        count[0] += is_data
        if is_data and count[0] % 20 == 0:
            end = log.log_end_offset
            # Below the high watermark, so that nobody waits for it.
            return AppendResult(end, end - 1, -1, log.log_start_offset, -1, False)
        return original(log, data, **how)

    patch.setattr(PartitionLog, "append_as_leader", append)


def sequences_are_not_checked(patch: Patch) -> None:
    patch.setattr(ProducerStateTable, "check_append", lambda table, header, *, origin: None)


def high_watermark_beyond_the_end(patch: Patch) -> None:
    def advance(log: PartitionLog, offset: int) -> bool:
        log.high_watermark = max(log.high_watermark, offset + 1)
        return True

    patch.setattr(PartitionLog, "advance_high_watermark", advance)


def commits_are_not_written(patch: Patch) -> None:
    def take(hosted: HostedShard, outcome: Any, now: Any, timeout_ms: int) -> None:
        hosted._log.after_pending(InFlight(outcome, now.monotonic_ms + timeout_ms))

    patch.setattr(HostedShard, "take", take)


def producer_ids_are_not_written(patch: Patch) -> None:
    def ask(ids: ProducerIds) -> None:
        ids._block = range(1000, 2000)
        ids._hand_out()

    patch.setattr(ProducerIds, "_ask_for_block", ask)


def heartbeats_are_ignored(patch: Patch) -> None:
    def heartbeat(group: Any, member_id: str, instance: Any, generation_id: int, turn: Any) -> None:
        group.check_alive()
        group.roster.known(member_id, instance)
        group._check_generation(generation_id)
        group._check_joined()

    patch.setattr(ClassicGroup, "heartbeat", heartbeat)


# -- compaction and erasure -----------------------------------------------------------------------


def tombstones_go_early(patch: Patch) -> None:
    def make_plan(*args: Any, **how: Any) -> Any:
        plan = planning.make_plan(*args, **how)
        return plan if plan is None else replace(plan, delete_retention_ms=0)

    patch.setattr(choice, "make_plan", make_plan)


def cleaner_loses_a_key(patch: Patch) -> None:
    """A swap takes one segment more out of the log than the pass has read."""
    original = swap._rename

    def rename(log: PartitionLog, group: Any) -> Any:
        following = log.segments.after(group.source_bases[-1])
        assert following is not None
        if following is not log.segments.active:
            bases = (*group.source_bases, following.base_offset)
            group = replace(group, source_bases=bases)
        return original(log, group)

    patch.setattr(swap, "_rename", rename)


def swap_waits_for_its_own(patch: Patch) -> None:
    """For its group's segments only: what superseded a record may not be durable yet."""
    original = swap.Swaps.attempt

    def attempt(swaps: swap.Swaps, running: Any) -> Any:
        group, plan = running.held, running.plan
        own = [each for each in plan.segments if each.base_offset in group.source_bases]
        running.plan = replace(plan, segments=tuple(own) or plan.segments)
        try:
            yield from original(swaps, running)
        finally:
            running.plan = plan

    patch.setattr(swap.Swaps, "attempt", attempt)


def receipt_without_waiting_for_old_files(patch: Patch) -> None:
    def removed(erasure: Any, facts: Any, now_ms: int) -> Any:
        return Advance(changes.unlinked(erasure, now_ms=now_ms))

    patch.setattr(life, "_removed", removed)
    patch.setattr(life, "_objection", lambda erasure, scan, facts: None)


def receipt_without_a_second_pass(patch: Patch) -> None:
    def tombstoned(erasure: Any, facts: Any, now_ms: int) -> Any:
        return Advance(changes.stamped(erasure, now_ms=now_ms))

    def stamped(erasure: Any, facts: Any, now_ms: int) -> Any:
        return Advance(changes.removed(erasure, now_ms=now_ms))

    patch.setattr(life, "_tombstoned", tombstoned)
    patch.setattr(life, "_stamped", stamped)
    patch.setattr(life, "_objection", lambda erasure, scan, facts: None)


def scan_overlooks_what_it_finds(patch: Patch) -> None:
    """And nobody waits for the files that were replaced."""
    original = ScanReport.of_replica

    def of_replica(report: ScanReport, *args: Any, **how: Any) -> Any:
        found = original(report, *args, **how)
        return replace(found, records=(), residue=0, residue_places=(), residue_files=())

    def removed(erasure: Any, facts: Any, now_ms: int) -> Any:
        return Advance(changes.unlinked(erasure, now_ms=now_ms))

    patch.setattr(life, "_removed", removed)
    patch.setattr(ScanReport, "of_replica", of_replica)


def unlinks_are_not_synced(patch: Patch) -> None:
    patch.setattr(deleted_files, "_sync", lambda fs, directory: None)


MUTANTS = [
    Mutant("the metadata log is not synced", metadata_is_not_synced),
    Mutant("appends are called synced and are not", appends_are_not_synced),
    Mutant("the recovery point runs ahead of the fsync", recovery_point_runs_ahead),
    Mutant("the journal of erasures is not synced", journal_of_erasures_is_not_synced),
    Mutant("the clean-shutdown marker is written first", clean_marker_comes_first),
    Mutant("a torn tail is not cut at recovery", torn_tail_is_not_cut),
    Mutant("a swap sets the old segments aside first", swap_is_decided_too_late),
    Mutant("a failed append is acknowledged", failed_append_is_acknowledged),
    Mutant("a batch is answered and never appended", answered_before_the_append),
    Mutant("sequence numbers are not checked", sequences_are_not_checked),
    Mutant("the high watermark lies beyond the log's end", high_watermark_beyond_the_end),
    Mutant("commits are answered and not written", commits_are_not_written),
    Mutant("producer ids are drawn without a record", producer_ids_are_not_written),
    Mutant("heartbeats do not extend a session", heartbeats_are_ignored),
    Mutant("tombstones ignore delete.retention.ms", tombstones_go_early),
    Mutant("a swap takes out a segment too many", cleaner_loses_a_key),
    Mutant("a receipt does not wait for replaced files", receipt_without_waiting_for_old_files),
    Mutant("a receipt does not wait for the passes", receipt_without_a_second_pass),
    Mutant("a scan overlooks what it finds", scan_overlooks_what_it_finds),
    Mutant("unlinks are not synced before a receipt", unlinks_are_not_synced),
    Mutant(
        "a swap does not wait for what superseded its records",
        swap_waits_for_its_own,
        "value_superseded_by_unsynced",
    ),
    *(Mutant(name, apply, profile="transactions") for name, apply in TXN_MUTANTS),
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants")
    parser.add_argument("--write", action="store_true", help="put the rows into the README")
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--profile", default="", help="mutants of one profile")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    _be_quiet()
    chosen = [
        each for each in MUTANTS if given.only in each.name and given.profile in ("", each.profile)
    ]
    rows: dict[str, str] = {}
    survivors = 0
    with ProcessPoolExecutor(given.jobs, initializer=_be_quiet) as pool:
        for mutant, kill in zip(chosen, pool.map(hunt, chosen), strict=True):
            survivors += kill is None
            found = ("survived", "") if kill is None else (kill.played, f"`{kill.checker}`")
            rows[mutant.name] = f"| {mutant.name} | {found[0]} | {found[1]} |"
            sys.stdout.write(rows[mutant.name] + "\n")
            sys.stdout.flush()
    if given.write:
        README.write_text(with_rows(README.read_text(), rows))
    sys.stdout.write(f"{len(rows)} mutants, {survivors} survived\n")
    return 1 if survivors else 0


def with_rows(text: str, rows: Mapping[str, str]) -> str:
    """The README with these rows; those of mutants that were not played stay as they are."""
    head, _, rest = text.partition(BEGIN)
    table, _, tail = rest.partition(END)
    known = {line.split("|")[1].strip(): line for line in table.splitlines() if "|" in line}
    known |= rows
    lines = ["| mutant | seeds to kill | found by |", "|---|---|---|"]
    lines += [known[each.name] for each in MUTANTS if each.name in known]
    return f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{tail}"


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
