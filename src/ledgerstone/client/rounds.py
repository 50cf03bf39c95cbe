"""One request to the leaders of many partitions, in rounds until each has a result. Pure.

A round asks every leader for its partitions. Those that fail with a retriable error go into the
next round, after a pause and with fresh metadata; the rest have succeeded or failed.
"""

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from ledgerstone.client.cluster import NO_NODE, ask_about
from ledgerstone.client.errors import error_of
from ledgerstone.client.reactions import Reaction, reaction_to
from ledgerstone.client.session import ClientSession
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.types import TopicPartition

A = TypeVar("A")
W = TypeVar("W")


class PartitionAnswer(NamedTuple, Generic[A]):
    partition: TopicPartition
    error_code: int
    value: A
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionAnswers(Generic[A]):
    """The result of each partition: every one is in either `done` or `failed`."""

    done: dict[TopicPartition, A] = field(default_factory=dict)
    failed: dict[TopicPartition, KafkaError] = field(default_factory=dict)

    def all_done(self) -> dict[TopicPartition, A]:
        for error in self.failed.values():
            raise error
        return self.done


class Rounds(Generic[W, A]):
    def __init__(
        self,
        session: ClientSession,
        api_name: str,
        wanted: Mapping[TopicPartition, W],
        *,
        now_ms: int,
        timeout_ms: int | None = None,
    ) -> None:
        limit_ms = session.config.call_timeout_ms if timeout_ms is None else timeout_ms
        self.pending = dict(wanted)
        self.answers: PartitionAnswers[A] = PartitionAnswers()
        self._session = session
        self._api_name = api_name
        self._started_ms = now_ms
        self._deadline_ms = now_ms + limit_ms
        self._failures = 0

    def remaining_ms(self, now_ms: int) -> int:
        return max(self._deadline_ms - now_ms, 0)

    def metadata_to_ask(self, now_ms: int) -> MetadataRequest | None:
        """The lookup needed before the pending partitions can be grouped."""
        cluster = self._session.cluster
        max_age_ms = self._session.config.metadata_max_age_ms
        topics = dict.fromkeys(partition.topic for partition in self.pending)
        unknown = [t for t in topics if not cluster.knows(t, now_ms=now_ms, max_age_ms=max_age_ms)]
        return ask_about(unknown) if unknown else None

    def by_leader(self, now_ms: int) -> dict[int, dict[TopicPartition, W]]:
        """The round's requests by node id. Partitions without a leader count as refused."""
        groups: dict[int, dict[TopicPartition, W]] = {}
        leaderless: dict[TopicPartition, int] = {}
        cluster = self._session.cluster
        for partition, what in self.pending.items():
            leader_id = cluster.leader_of(partition)
            if leader_id == NO_NODE or leader_id not in cluster.brokers:
                leaderless[partition] = cluster.why_leaderless(partition)
            else:
                groups.setdefault(leader_id, {})[partition] = what
        # A refusal makes the client forget the topic, so all leaders are looked up before.
        for partition, code in leaderless.items():
            self._refused(partition, code, None, now_ms)
        return groups

    def take(
        self,
        group: Iterable[TopicPartition],
        answers: Iterable[PartitionAnswer[A]],
        now_ms: int,
    ) -> None:
        """Takes a leader's results for the partitions it was asked about."""
        by_partition = {answer.partition: answer for answer in answers}
        for partition in group:
            answer = by_partition.get(partition)
            if answer is None:
                missing = "missing from the response"
                self._refused(partition, ErrorCode.UNKNOWN_SERVER_ERROR, missing, now_ms)
            elif answer.error_code == ErrorCode.NONE:
                del self.pending[partition]
                self.answers.done[partition] = answer.value
            else:
                self._refused(partition, answer.error_code, answer.message, now_ms)

    def leader_lost(
        self, partitions: Iterable[TopicPartition], error: KafkaError, now_ms: int
    ) -> None:
        for partition in partitions:
            self._refused(partition, error.code, str(error), now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """How long to wait before the next round."""
        self._failures += 1
        return min(self._session.backoff.after(self._failures), self.remaining_ms(now_ms))

    def _refused(
        self, partition: TopicPartition, code: int, message: str | None, now_ms: int
    ) -> None:
        reaction = reaction_to(code)
        if reaction is Reaction.REFRESH_METADATA:
            self._session.cluster.forget(partition.topic)
        patience_ms = self._deadline_ms - self._started_ms
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            patience_ms = min(patience_ms, self._session.config.unknown_topic_patience_ms)
        if reaction is Reaction.FAIL or now_ms - self._started_ms >= patience_ms:
            del self.pending[partition]
            subject = f"{self._api_name} {partition}"
            self.answers.failed[partition] = error_of(code, subject, message)
