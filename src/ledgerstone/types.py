"""Types that every package shares, and Kafka's sentinels for "none". Pure."""

from typing import Final, NamedTuple

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

# Buffers that the record codecs accept without a copy.
Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class AbortedTxn(NamedTuple):
    """One aborted transaction as a read_committed reader needs it."""

    producer_id: int
    first_offset: int
