"""One cleaning pass over one partition, from plan to report. Grade D.

Runs anywhere that has the partition's directory: it knows only the plan, reads sealed segments, and
writes `.cleaned` files. Each group is handed over as soon as it is complete, lowest first, and the
owner of the log swaps it in: an older value is always gone before the tombstone that deleted it.
The rules are in README.md. An aborted pass loses only the files of the current group.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from ledgerstone.cleaner.aborted_txns import AbortedTxns
from ledgerstone.cleaner.group_copy import GroupCopier
from ledgerstone.cleaner.grouping import group_segments
from ledgerstone.cleaner.map_build import MapBuilder
from ledgerstone.cleaner.offset_map import OffsetMap
from ledgerstone.cleaner.plan import (
    CleanedGroup,
    CleaningPlan,
    PassReport,
    PassStats,
    SourceSegment,
)
from ledgerstone.cleaner.throttle import Throttle
from ledgerstone.cleaner.windows import SourceReader
from ledgerstone.clock import Dice
from ledgerstone.errors import CleaningAborted, InvariantViolation
from ledgerstone.fs import Filesystem, join
from ledgerstone.records.kernels import Scratch
from ledgerstone.storage.filenames import Kind, parse_file_name
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.txn_index import AbortedTxnEntry, TxnIndex

_SEED_BYTES: Final = 16


def run_pass(
    fs: Filesystem,
    plan: CleaningPlan,
    *,
    dice: Dice,
    on_group: Callable[[CleanedGroup], None],
    should_abort: Callable[[], bool],
    throttle: Throttle | None = None,
) -> PassReport:
    """Builds the map, then writes group after group and calls `on_group` for each.

    `should_abort` is called before every read and every group. Raises CleaningAborted if it returns
    true, CorruptFile for an invalid batch, OSError as the disk raises it."""
    _check_plan(plan)
    return _Pass(fs, plan, dice, should_abort, throttle).run(on_group)


class _Pass:
    """What the two halves of a pass share."""

    __slots__ = ("_config", "_fs", "_map", "_plan", "_reader", "_should_abort", "_throttle")

    def __init__(
        self,
        fs: Filesystem,
        plan: CleaningPlan,
        dice: Dice,
        should_abort: Callable[[], bool],
        throttle: Throttle | None,
    ) -> None:
        self._fs = fs
        self._plan = plan
        self._should_abort = should_abort
        self._throttle = throttle
        self._config = LogConfig(
            segment_bytes=plan.segment_bytes,
            segment_index_bytes=plan.segment_index_bytes,
            index_interval_bytes=plan.index_interval_bytes,
        )
        scratch = Scratch()
        self._map = OffsetMap(
            plan.dedupe_buffer_bytes,
            scratch,
            load_factor=plan.load_factor,
            seed=dice.random_bytes(_SEED_BYTES),
            # Below the first dirty offset, earlier passes have dropped superseded records.
            latest_offset=plan.first_dirty_offset - 1,
            end_offset=plan.segments[-1].end_offset if plan.segments else 0,
        )
        self._reader = SourceReader(
            plan.window_bytes,
            scratch,
            decompression_limit=plan.decompression_limit_bytes,
            before_read=self._check,
        )

    def run(self, on_group: Callable[[CleanedGroup], None]) -> PassReport:
        plan, stats = self._plan, PassStats()
        entries = self._aborted_txns()
        self._build_map(entries, stats)
        end_offset = self._map.latest_offset + 1
        stats.map_entries, stats.map_slots = self._map.size, self._map.slots
        copier = GroupCopier(
            self._fs,
            plan,
            self._map,
            AbortedTxns(entries),
            self._reader,
            stats,
            config=self._config,
            open_source=self._open,
            charge=self._charge,
        )
        reached = [source for source in plan.segments if source.base_offset < end_offset]
        groups = []
        for sources in group_segments(plan, reached):
            self._check()
            group = copier.copy(sources)
            on_group(group)
            groups.append(group)
        return PassReport(
            topic_partition=plan.topic_partition,
            end_offset=end_offset,
            groups=tuple(groups),
            stats=stats,
            tombstones=copier.traces.traces,
        )

    def _build_map(self, entries: list[AbortedTxnEntry], stats: PassStats) -> None:
        first_dirty = self._plan.first_dirty_offset
        # The walk would never see the end of a transaction that ended before it.
        open_later = [entry for entry in entries if entry.last_offset >= first_dirty]
        builder = MapBuilder(
            self._plan,
            self._map,
            AbortedTxns(open_later),
            self._reader,
            stats,
            open_source=self._open,
            charge=self._charge,
        )
        builder.build([source for source in self._plan.segments if source.end_offset > first_dirty])

    def _aborted_txns(self) -> list[AbortedTxnEntry]:
        """Every aborted transaction that may have data in the plan's segments.

        A transaction is indexed where its marker lies, which may be in a segment beyond the plan.
        Its data is decided nevertheless, and must not pass for committed."""
        if not self._plan.segments:
            return []
        first_base = self._plan.segments[0].base_offset
        entries: list[AbortedTxnEntry] = []
        for name in self._fs.list_dir(self._plan.directory):
            parsed = parse_file_name(name)
            if parsed is None or parsed.kind is not Kind.TXN_INDEX or parsed.suffix:
                continue
            path = join(self._plan.directory, name)
            entries += TxnIndex(self._fs, path, parsed.offset).entries()
        return [entry for entry in entries if entry.last_offset >= first_base]

    def _open(self, source: SourceSegment) -> Segment:
        return Segment(
            self._fs,
            self._plan.directory,
            source.base_offset,
            self._config,
            created_ms=source.mtime_ms,
            size=source.size_bytes,
        )

    def _check(self) -> None:
        if self._should_abort():
            raise CleaningAborted(f"cleaning of {self._plan.topic_partition} was aborted")

    def _charge(self, size_bytes: int) -> None:
        if self._throttle is not None:
            self._throttle.charge(size_bytes, self._check)


def _check_plan(plan: CleaningPlan) -> None:
    for source, following in pairwise(plan.segments):
        if source.end_offset != following.base_offset:
            raise InvariantViolation(
                f"{plan.topic_partition}: segment {source.base_offset} ends at {source.end_offset},"
                f" the next begins at {following.base_offset}"
            )
    if plan.segments and plan.segments[-1].end_offset > plan.first_uncleanable_offset:
        raise InvariantViolation(
            f"{plan.topic_partition}: segment {plan.segments[-1].base_offset} ends at "
            f"{plan.segments[-1].end_offset}, past {plan.first_uncleanable_offset}, the first "
            "uncleanable offset"
        )
