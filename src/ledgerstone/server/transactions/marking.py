"""WriteTxnMarkers as the coordinator asks it: the request, and what an answer means. Pure."""

import enum
from collections.abc import Mapping
from typing import Final

from ledgerstone.coordinator.transactions.transaction_records import by_topic
from ledgerstone.coordinator.transactions.turn import UnwrittenMarkers
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from ledgerstone.types import INT64_MAX, TopicPartition

_FIRST_RETRY_MS: Final = 50
_LONGEST_RETRY_MS: Final = 1000


class MarkerVerdict(enum.Enum):
    DONE = "the partition needs no marker any more"
    RETRY = "not now, or not here"
    FENCED = "a newer coordinator works on the transaction"


_VERDICTS: Final[Mapping[int, MarkerVerdict]] = {
    ErrorCode.NONE: MarkerVerdict.DONE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: MarkerVerdict.DONE,
    ErrorCode.UNSUPPORTED_VERSION: MarkerVerdict.DONE,
    ErrorCode.INVALID_PRODUCER_EPOCH: MarkerVerdict.FENCED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: MarkerVerdict.FENCED,
}


def markers_request(
    markers: UnwrittenMarkers, partitions: list[TopicPartition], coordinator_epoch: int
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequestMarker(
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                transaction_result=markers.commit,
                topics=[
                    WriteTxnMarkersRequestTopic(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic(partitions).items()
                ],
                coordinator_epoch=coordinator_epoch,
                transaction_version=markers.transaction_version,
            )
        ]
    )


def verdicts(
    response: WriteTxnMarkersResponse,
) -> dict[MarkerVerdict, dict[TopicPartition, int]]:
    """The partitions of each verdict, with their error codes. An unknown code is tried again: a
    decided transaction must not hang for a word that we do not know."""
    found: dict[MarkerVerdict, dict[TopicPartition, int]] = {each: {} for each in MarkerVerdict}
    for marker in response.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                verdict = _VERDICTS.get(each.error_code, MarkerVerdict.RETRY)
                found[verdict][TopicPartition(topic.name, each.partition_index)] = each.error_code
    return found


@dataclass(slots=True)
class Retry:
    due_ms: int  # INT64_MAX: it is being tried.
    wait_ms: int


class Retries:
    """Transactions whose markers are to be written again, each by its shard and id."""

    __slots__ = ("_all", "_is_changed", "_next_deadline_ms")

    def __init__(self) -> None:
        self._all: dict[tuple[int, str], Retry] = {}
        self._next_deadline_ms: int | None = None
        self._is_changed = False

    @property
    def next_deadline_ms(self) -> int | None:
        """Looked for when it is asked for: one answer of a leader changes thousands of them."""
        if self._is_changed:
            due = (each.due_ms for each in self._all.values())
            self._next_deadline_ms, self._is_changed = min(due, default=None), False
        return self._next_deadline_ms

    def __len__(self) -> int:
        return len(self._all)

    def later(self, number: int, transactional_id: str, now_ms: int) -> None:
        """Each time it waits twice as long, up to a second."""
        known = self._all.get((number, transactional_id))
        wait_ms = _FIRST_RETRY_MS if known is None else min(known.wait_ms * 2, _LONGEST_RETRY_MS)
        self._all[number, transactional_id] = Retry(now_ms + wait_ms, wait_ms)
        self._is_changed = True

    def soon(self, number: int, transactional_id: str, now_ms: int) -> None:
        """With the next tick, as if it had not been tried."""
        self._all[number, transactional_id] = Retry(now_ms, _FIRST_RETRY_MS // 2)
        self._is_changed = True

    def due(self, now_ms: int) -> list[tuple[int, str]]:
        """They are tried now. How long they have waited stays known until they are forgotten."""
        found = [key for key, retry in self._all.items() if retry.due_ms <= now_ms]
        for key in found:
            self._all[key].due_ms = INT64_MAX
        self._is_changed = True
        return found

    def hurry(self, now_ms: int) -> None:
        """Something has changed: those that wait are tried without waiting."""
        for retry in self._all.values():
            if retry.due_ms != INT64_MAX:
                retry.due_ms = now_ms
        self._is_changed = True

    def forget(self, number: int, transactional_id: str) -> None:
        if self._all.pop((number, transactional_id), None) is not None:
            self._is_changed = True

    def forget_shard(self, number: int) -> None:
        for key in [key for key in self._all if key[0] == number]:
            del self._all[key]
        self._is_changed = True
