"""Follows other leaders: asks what `replication.fetching` wants asked, over `Calls`. Grade D.

One fetcher for each leader and each of num.replica.fetchers; each has its own connection, and one
request in flight. An answer is appended and the next request leaves in the same turn.
"""

import logging
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from ledgerstone.clock import Clock
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.reachable import endpoint_of
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import FetchRequest, FetchResponse
from ledgerstone.protocol.messages.list_offsets import ListOffsetsResponse
from ledgerstone.raft.replica import Peer
from ledgerstone.replication.fetching.fetcher import ReplicaFetcher
from ledgerstone.replication.fetching.followed import FetchNote, FetchNoteKind, FetchOutcome
from ledgerstone.replication.fetching.wire import LEAST_FETCH_VERSION, FetchSettings
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.throttle import ReplicationThrottle
from ledgerstone.server.calls import CallFailed
from ledgerstone.server.controller_channel import AsksNodes
from ledgerstone.server.effects import Effect
from ledgerstone.server.results import Result
from ledgerstone.server.throttle import LogThrottle, shown
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
_EXPECTED: Final = (KafkaError, StorageError, OSError)
PURPOSE: Final = "replication"
EXPRESS_PURPOSE: Final = "replication-express"


class ReplicatingTurn(Protocol):
    """The broker, as far as replicas that grow change what happens in this turn."""

    def replicated(self, topic_partition: TopicPartition) -> None: ...

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None: ...

    def log_failed(self, topic_partition: TopicPartition | None, error: Exception) -> None: ...


class _Line(NamedTuple):
    leader_id: int
    number: int
    # For partitions that came while the fetcher of that number waits for an answer.
    is_express: bool = False


class _Following(NamedTuple):
    leader_id: int
    number: int
    partition: Partition
    leader_epoch: int

    def is_same(self, other: "_Following") -> bool:
        return self.partition is other.partition and (self[:2], self[3]) == (other[:2], other[3])


class Replicating:
    """`Agent`. Nothing is fetched before `start`, nor after `stop`."""

    def __init__(
        self,
        *,
        clock: Clock,
        partitions: HostedPartitions,
        image: Callable[[], MetadataImage],
        listener_name: str,
        broker_epoch: Callable[[], int],
        calls: Sequence[AsksNodes],
        express_calls: Sequence[AsksNodes],
        settings: FetchSettings,
        timeout_ms: int,
        throttle: ReplicationThrottle,
        static_values: Mapping[str, str],
    ) -> None:
        self.turn: ReplicatingTurn | None = None
        self.bytes_in = 0
        self.fetchers: dict[_Line, ReplicaFetcher] = {}
        self._clock = clock
        self._partitions = partitions
        self._image = image
        self._listener_name = listener_name
        self._broker_epoch = broker_epoch
        self._calls = {False: tuple(calls), True: tuple(express_calls)}
        self._fetchers_per_leader = len(calls)
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._throttle = throttle
        self._static_values = static_values
        self._followed: dict[TopicPartition, _Following] = {}
        self._line_of: dict[TopicPartition, _Line] = {}
        self._is_running = False
        self._lines_told = LogThrottle()

    # -- which partitions ---------------------------------------------------------------------

    def start(self) -> None:
        """After the first publish: the logs are open, and the broker knows the leaders."""
        self._is_running = True
        self._go_on_all()

    def stop(self) -> None:
        """Answers that are still to come are not appended."""
        self._is_running = False
        self.fetchers.clear()
        self._followed.clear()
        self._line_of.clear()

    def followings_changed(self, changed: Iterable[TopicPartition]) -> None:
        """Partitions follow another leader or epoch, or follow no longer."""
        for topic_partition in changed:
            partition = self._partitions.find(topic_partition)
            wanted = None if partition is None else self._wanted(partition)
            known = self._followed.get(topic_partition)
            if known is not None and wanted is not None and known.is_same(wanted):
                continue
            if known is not None:
                del self._followed[topic_partition]
                self.fetchers[self._line_of.pop(topic_partition)].unfollow(topic_partition)
            if wanted is not None:
                self._follow(wanted)
        for line, fetcher in list(self.fetchers.items()):
            if fetcher.is_idle and not fetcher.is_in_flight:
                del self.fetchers[line]
        self._go_on_all()

    def report_changed(self, topic_partition: TopicPartition) -> None:
        """Something that the next request tells about the partition has changed."""
        line = self._line_of.get(topic_partition)
        if line is not None:
            self.fetchers[line].touch(topic_partition)

    def _wanted(self, partition: Partition) -> _Following | None:
        if partition.is_leader or partition.leader_id == NO_LEADER:
            return None
        topic, number = partition.topic_partition
        # The same after every start, which `hash` is not.
        index = (zlib.crc32(topic.encode()) + number) % self._fetchers_per_leader
        return _Following(partition.leader_id, index, partition, partition.leader_epoch)

    def _follow(self, wanted: _Following) -> None:
        leader_id, number, partition, leader_epoch = wanted
        line = _Line(leader_id, number)
        fetcher = self.fetchers.get(line)
        if fetcher is not None and fetcher.is_in_flight:
            # The leader may hold that request for replica.fetch.wait.max.ms, and producers wait for
            # this replica: it goes ahead on a connection of its own, until the answer has come.
            line = line._replace(is_express=True)
            fetcher = self.fetchers.get(line)
        if fetcher is None:
            fetcher = self.fetchers[line] = ReplicaFetcher(
                self._settings, self._throttle, keeps_session=not line.is_express
            )
        topic_partition = partition.topic_partition
        self._followed[topic_partition] = wanted
        self._line_of[topic_partition] = line
        outcome = fetcher.follow(topic_partition, partition.topic_id, partition, leader_epoch)
        self._take(line, outcome)

    def _adopt_express(self, line: _Line, fetcher: ReplicaFetcher) -> None:
        express = self.fetchers.pop(line._replace(is_express=True), None)
        if express is not None:
            for topic_partition in [*(each.topic_partition for each in express), *express.failed]:
                self._line_of[topic_partition] = line
            fetcher.adopt(express)

    # -- asking -------------------------------------------------------------------------------

    def _go_on_all(self) -> None:
        if self._is_running:
            now_ms = self._clock.monotonic_ms()
            for line in list(self.fetchers):
                self._go_on(line, now_ms)

    def _go_on(self, line: _Line, now_ms: int) -> None:
        fetcher = self.fetchers[line]
        due_ms = fetcher.next_due_ms(now_ms)
        if due_ms is None or due_ms > now_ms:
            return
        request = fetcher.next_request(now_ms, self._broker_epoch())
        if request is None:
            return
        peer = self._peer(line.leader_id)
        if peer is None:
            reason = f"broker {line.leader_id} has no listener {self._listener_name}"
            self._take(line, fetcher.lost(now_ms, reason))
            return
        self._calls[line.is_express][line.number].ask(
            peer,
            request,
            partial(self._answered, line, fetcher),
            timeout_ms=self._timeout_ms,
            least_version=LEAST_FETCH_VERSION if isinstance(request, FetchRequest) else 0,
        )

    def _peer(self, leader_id: int) -> Peer | None:
        """A fenced broker is asked as long as the metadata names it as leader."""
        broker = self._image().brokers.get(leader_id)
        endpoint = None if broker is None else endpoint_of(broker, self._listener_name)
        return None if endpoint is None else Peer(leader_id, endpoint.host, endpoint.port)

    def _answered(
        self, line: _Line, fetcher: ReplicaFetcher, answer: ApiMessage | CallFailed
    ) -> None:
        if self.fetchers.get(line) is not fetcher:
            return
        now_ms = self._clock.monotonic_ms()
        if isinstance(answer, FetchResponse):
            outcome = fetcher.answered(answer, now_ms)
        elif isinstance(answer, ListOffsetsResponse):
            outcome = fetcher.offsets_answered(answer, now_ms)
        else:
            assert isinstance(answer, CallFailed), answer
            outcome = fetcher.lost(now_ms, answer.reason)
        self._take(line, outcome)
        if not line.is_express:
            self._adopt_express(line, fetcher)
        if fetcher.is_idle:
            del self.fetchers[line]
        else:
            self._go_on(line, now_ms)

    # -- what came of it ----------------------------------------------------------------------

    def _take(self, line: _Line, outcome: FetchOutcome) -> None:
        turn = self.turn
        assert turn is not None
        for topic_partition, size_bytes in outcome.grown:
            self.bytes_in += size_bytes
            self._throttle.record(topic_partition, size_bytes, self._clock.monotonic_ms())
            turn.replicated(topic_partition)
        for topic_partition in outcome.committed:
            turn.high_watermark_moved(topic_partition)
        for note in outcome.notes:
            self._tell(line, note)

    def _tell(self, line: _Line, note: FetchNote) -> None:
        if note.error is not None and self.turn is not None:
            self.turn.log_failed(note.topic_partition, note.error)
        text = "%s partition=%s leader=%d reason=%s"
        values = note.kind.value, note.topic_partition, line.leader_id, shown(note.reason)
        if note.kind is FetchNoteKind.DELAYED:
            # Every partition of a leader that is down, again and again: one line tells it.
            kind = f"{note.kind.value} {line.leader_id}"
            suppressed = self._lines_told.admit(kind, self._clock.monotonic_ms())
            if suppressed is not None:
                _LOG.warning(text + " suppressed=%d", *values, suppressed)
            return
        error = note.error
        # A fault of ours is worth its trace.
        trace = None if isinstance(error, (*_EXPECTED, type(None))) else error
        level = logging.ERROR if error else logging.WARNING
        if note.kind is FetchNoteKind.FAILED and error is None:
            # The leader has moved on; the metadata will say to whom.
            level = logging.INFO
        _LOG.log(level, text, *values, exc_info=trace)

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if not self._is_running:
            return None
        now_ms = self._clock.monotonic_ms()
        due = [each.next_due_ms(now_ms) for each in self.fetchers.values()]
        return min((each for each in due if each is not None), default=None)

    def tick(self) -> list[Effect]:
        self._go_on_all()
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        image = self._image()
        # A topic that comes back under its name does not inherit what the old one had.
        names = [each.name for each in (*delta.topics_deleted, *delta.topics_created)]
        is_named = any(map(self._throttle.names, names)) or any(map(image.topic_config, names))
        if delta.configs_changed or is_named:
            self._throttle.follow_settings(image, "follower", self._static_values)
        return []
