"""What is decided is written, answered, and marked in every partition; in this order. Grade D.

Nobody waits for a marker that need not. The answer leaves first, and what it decided is carried out
by a `FollowUp`, before this broker serves anybody else. So where this broker leads all partitions,
and each has one replica, whoever has the answer finds the transaction ended.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.coordinator.transactions.turn import (
    DecidedAnswer,
    TxnOutcome,
    UnwrittenMarkers,
)
from ledgerstone.coordinator.turn import Now
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError, LogStorageError, StorageError
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from ledgerstone.server.effects import FollowUp
from ledgerstone.server.groups.needs import Appends, CountsTombstones, DiskTrouble
from ledgerstone.server.throttle import shown
from ledgerstone.server.transactions.hosted_shard import HostedTransactions
from ledgerstone.server.transactions.marking import (
    MarkerVerdict,
    Retries,
    markers_request,
    verdicts,
)
from ledgerstone.server.transactions.needs import ActsInTurn, WritesMarkers
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)

TROUBLE: Final = (KafkaError, StorageError, OSError)


@dataclass(slots=True, kw_only=True)
class Settling:
    clock: Clock
    image: Callable[[], MetadataImage]  # the newest
    shards: TransactionShards
    cleaning: CountsTombstones
    disk: DiskTrouble
    appends: Appends
    markers: WritesMarkers
    turn: ActsInTurn
    retries: Retries = field(default_factory=Retries)
    # Shards with records that are not committed yet; on a single node, none between two turns.
    waiting: dict[int, HostedTransactions] = field(default_factory=dict)
    # Decided and answered in this turn, with the coordinator that did so: to be marked.
    _decided: list[tuple[int, HostedTransactions, str]] = field(default_factory=list)
    # Partitions whose leaders were asked and have not answered, by shard and transactional id.
    _under_way: dict[tuple[int, str], set[TopicPartition]] = field(default_factory=dict)

    def settle(self, number: int, hosted: HostedTransactions, outcome: TxnOutcome) -> None:
        """Records first, then answers: nothing is said that could still be lost."""
        if not outcome.changes:
            deliver(outcome.answers)
            return
        now = Now(self.clock.now_ms(), self.clock.monotonic_ms())
        topic_partition = hosted.partition.topic_partition
        try:
            appended = hosted.take(outcome, now)
        except TROUBLE as error:
            self.disk.log_failed(topic_partition, error, now.monotonic_ms)
            code = error.code if isinstance(error, KafkaError) else LogStorageError.code
            instead = hosted.shard.append_failed(outcome, code)
            for transactional_id in instead.to_mark:
                self.retries.later(number, transactional_id, now.monotonic_ms)
            deliver(instead.answers)
            return
        self.appends.appended(topic_partition, appended.size)
        if appended.tombstone_count:
            self.cleaning.appended(hosted.partition.log, appended.tombstone_count)
        self.advance(number, hosted)

    def advance(self, number: int, hosted: HostedTransactions) -> None:
        """What is committed is true. Answers leave before markers are sent."""
        for outcome in hosted.committed():
            to_mark = hosted.shard.committed(outcome).to_mark
            deliver(outcome.answers)
            if not outcome.answers:
                for transactional_id in to_mark:
                    self._mark(number, hosted, transactional_id)
            elif to_mark:
                self._decided += [(number, hosted, each) for each in to_mark]
                self.turn.act([FollowUp()])
        if hosted.in_flight:
            self.waiting[number] = hosted
        else:
            self.waiting.pop(number, None)

    def follow_up(self) -> None:
        """Sends the markers of what was decided in this turn. Also asked before a further request
        is put to a shard, so that nobody meets a transaction that merely awaits its markers."""
        while self._decided:
            decided, self._decided = self._decided, []
            for number, hosted, transactional_id in decided:
                if self.shards.by_number.get(number) is hosted:
                    self._mark(number, hosted, transactional_id)

    # -- markers ------------------------------------------------------------------------------

    def mark_loaded(self, number: int, transactional_ids: Iterable[str]) -> None:
        """What another coordinator, or this one before a crash, has left unmarked. With the next
        tick, since the leaders of other partitions may still be loading."""
        now_ms = self.clock.monotonic_ms()
        for transactional_id in transactional_ids:
            self.retries.soon(number, transactional_id, now_ms)

    def mark_due(self) -> None:
        for number, transactional_id in self.retries.due(self.clock.monotonic_ms()):
            self._mark(number, self.shards.by_number[number], transactional_id)

    def forget_shard(self, number: int) -> None:
        """Another coordinator has taken over."""
        self.waiting.pop(number, None)
        self.retries.forget_shard(number)
        for key in [key for key in self._under_way if key[0] == number]:
            del self._under_way[key]

    def _mark(self, number: int, hosted: HostedTransactions, transactional_id: str) -> None:
        """Asks for the markers that are missing; without any, the transaction is over."""
        markers = hosted.shard.markers(transactional_id)
        if markers is None:
            self.retries.forget(number, transactional_id)
            return
        image = self.image()
        gone = [each for each in markers.partitions if image.partition(*each) is None]
        if gone or not markers.partitions:
            self._marked(number, hosted, markers, gone)
        under_way = self._under_way.get((number, transactional_id), set())
        settled = under_way.union(gone)
        to_ask = [each for each in markers.partitions if each not in settled]
        if not to_ask:
            return
        self._under_way[number, transactional_id] = under_way.union(to_ask)
        request = markers_request(markers, to_ask, hosted.coordinator_epoch)
        self.markers.write_markers(request, partial(self._answered, number, hosted, markers))

    def _answered(
        self,
        number: int,
        hosted: HostedTransactions,
        markers: UnwrittenMarkers,
        response: WriteTxnMarkersResponse,
    ) -> None:
        if self.shards.by_number.get(number) is not hosted:
            # Another coordinator has taken over, and writes them all again.
            return
        found = verdicts(response)
        under_way = self._under_way.get((number, markers.transactional_id))
        if under_way is not None:
            for partitions in found.values():
                under_way.difference_update(partitions)
            if not under_way:
                del self._under_way[number, markers.transactional_id]
        fenced = found[MarkerVerdict.FENCED]
        if fenced:
            _LOG.warning(
                "markers refused transactional_id=%s producer_id=%d epoch=%d codes=%s",
                shown(markers.transactional_id), markers.producer_id, markers.producer_epoch,
                {str(each): code for each, code in fenced.items()},
            )  # fmt: skip
            self.retries.forget(number, markers.transactional_id)
            return
        if found[MarkerVerdict.RETRY]:
            self.retries.later(number, markers.transactional_id, self.clock.monotonic_ms())
        self._marked(number, hosted, markers, list(found[MarkerVerdict.DONE]))

    def _marked(
        self,
        number: int,
        hosted: HostedTransactions,
        markers: UnwrittenMarkers,
        partitions: Sequence[TopicPartition],
    ) -> None:
        outcome = hosted.shard.marked(markers, partitions, self.clock.now_ms())
        if outcome.changes:
            self.retries.forget(number, markers.transactional_id)
            self._under_way.pop((number, markers.transactional_id), None)
            self.settle(number, hosted, outcome)


def deliver(answers: Iterable[DecidedAnswer]) -> None:
    for token, decided in answers:
        assert callable(token)
        token(decided)
