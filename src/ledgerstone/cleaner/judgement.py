"""Decides about each batch of a window before its records are read. Pure.

Headers, producers and the transactions seen so far decide about whole batches; `OffsetMap.judge`
decides about records. The rules are numbered in README.md. Most windows have neither transactions
nor a producer's last batch, so rules for all batches of a window are single operations on columns,
and only the exceptions are handled one by one.
"""

from typing import Final, Generic

import numpy as np
from numpy.typing import NDArray

from ledgerstone.cleaner.aborted_txns import AbortedTxns, Entry
from ledgerstone.cleaner.plan import CleaningPlan, TombstoneRange
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.records.batch import CONTROL_FLAG, DELETE_HORIZON_FLAG, TRANSACTIONAL_FLAG
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.records.kernels import BatchAction, Batches, Checked
from ledgerstone.types import Buffer

_RETAIN_EMPTY: Final = np.uint8(BatchAction.RETAIN_EMPTY)


@dataclass(slots=True, kw_only=True)
class BatchDecisions:
    """One row per batch of the window, and the counts that headers alone can give."""

    actions: NDArray[np.uint8]  # `BatchAction` flags
    dropped_aborted: int = 0
    dropped_markers: int = 0
    earliest_horizon_ms: int | None = None  # of markers waiting for it
    # Markers past their horizon that other replicas need; they wait as tombstones do.
    held_markers: list[TombstoneRange] = field(default_factory=list)
    removed_to: int = 0  # every marker that goes lies below

    @property
    def discarded(self) -> NDArray[np.bool_]:
        """Batches that lose all their records: no need to parse them."""
        discarded: NDArray[np.bool_] = (self.actions & BatchAction.DISCARD) != 0
        return discarded

    def discard(self, index: int) -> None:
        self.actions[index] |= BatchAction.DISCARD

    def wait_for(self, horizon_ms: int) -> None:
        known = self.earliest_horizon_ms
        self.earliest_horizon_ms = horizon_ms if known is None else min(known, horizon_ms)


class BatchJudge(Generic[Entry]):
    """Decides about the batches of the copy, which must come in log order."""

    __slots__ = ("_last_data_offsets", "_plan", "_txns")

    def __init__(self, plan: CleaningPlan, txns: AbortedTxns[Entry]) -> None:
        self._plan = plan
        self._txns = txns
        offsets = [last.last_data_offset for last in plan.producers.values()]
        self._last_data_offsets = np.array(
            sorted(offset for offset in offsets if offset is not None), np.int64
        )

    def has_no_say(self, checked: Checked, last_offset: int) -> bool:
        """Whether the records alone decide about all batches of a window, up to `last_offset`."""
        if checked.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
            return False
        first_offset = int(checked.batches.base_offset[0])
        if first_offset <= self._plan.first_uncleanable_offset - 1 <= last_offset:
            return False
        known = self._last_data_offsets
        at = int(known.searchsorted(first_offset)) if len(known) else 0
        return at == len(known) or bool(known[at] > last_offset)

    def decide(self, buffer: Buffer, batches: Batches) -> BatchDecisions:
        decisions = BatchDecisions(actions=np.zeros(len(batches), np.uint8))
        in_txn = batches.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
        has_txn = bool(in_txn.any())
        for index in np.flatnonzero(in_txn).tolist() if has_txn else ():
            if batches.attributes[index] & CONTROL_FLAG:
                self._decide_control(buffer, batches, index, decisions)
            else:
                self._decide_transactional(batches, index, decisions)
        decisions.actions |= self._must_stay(batches, has_txn=has_txn) * _RETAIN_EMPTY
        return decisions

    def _decide_transactional(
        self, batches: Batches, index: int, decisions: BatchDecisions
    ) -> None:
        producer_id = int(batches.producer_id[index])
        if self._txns.on_data(producer_id, int(batches.last_offset[index])):
            decisions.discard(index)
            decisions.dropped_aborted += int(batches.record_count[index])

    def _decide_control(
        self, buffer: Buffer, batches: Batches, index: int, decisions: BatchDecisions
    ) -> None:
        kind = control_type(buffer, batches, index)
        producer_id = int(batches.producer_id[index])
        is_idle = self._txns.on_marker(producer_id, int(batches.last_offset[index]), kind)
        if not is_idle or kind is None:
            return
        horizon_ms = self._plan.new_horizon_ms
        if batches.attributes[index] & DELETE_HORIZON_FLAG:
            horizon_ms = int(batches.base_timestamp[index])
            if horizon_ms <= self._plan.now_ms:
                self._decide_expired(int(batches.last_offset[index]), horizon_ms, index, decisions)
                return
        else:
            decisions.actions[index] |= BatchAction.STAMP
        decisions.wait_for(horizon_ms)

    def _decide_expired(
        self, offset: int, horizon_ms: int, index: int, decisions: BatchDecisions
    ) -> None:
        if offset >= self._plan.removable_to:
            decisions.held_markers.append(TombstoneRange(offset, offset, horizon_ms))
            return
        decisions.discard(index)
        decisions.dropped_markers += 1
        decisions.removed_to = max(decisions.removed_to, offset + 1)

    def _must_stay(self, batches: Batches, *, has_txn: bool) -> NDArray[np.bool_]:
        """Batches whose header stays even if all their records go."""
        # The end of the log must not move back if the tail is compacted away: KAFKA-17076.
        must_stay: NDArray[np.bool_]
        must_stay = batches.last_offset == self._plan.first_uncleanable_offset - 1
        if not has_txn and not len(self._last_data_offsets):
            return must_stay
        for index in self._possible_last_batches(batches):
            last = self._plan.producers.get(int(batches.producer_id[index]))
            if last is None:
                continue
            if last.last_data_offset is not None:
                is_last = last.last_data_offset == batches.last_offset[index]
            else:
                is_control = bool(batches.attributes[index] & CONTROL_FLAG)
                is_last = is_control and last.producer_epoch == batches.producer_epoch[index]
            if is_last:
                must_stay[index] = True
        return must_stay

    def _possible_last_batches(self, batches: Batches) -> list[int]:
        """Control batches, and those that end where some producer's last batch ends."""
        possible = (batches.attributes & CONTROL_FLAG) != 0
        known = self._last_data_offsets
        if len(known):
            nearest = np.searchsorted(known, batches.last_offset).clip(max=len(known) - 1)
            possible |= known[nearest] == batches.last_offset
        possible &= batches.producer_id >= 0
        indexes: list[int] = np.flatnonzero(possible).tolist()
        return indexes


def control_type(buffer: Buffer, batches: Batches, index: int) -> ControlType | None:
    """The type of a control batch; None if a pass has emptied it."""
    if batches.record_count[index] == 0:
        return None
    return read_control_record(buffer, int(batches.position[index])).type
