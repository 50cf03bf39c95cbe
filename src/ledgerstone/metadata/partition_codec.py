"""The two records that fill the log of a large cluster, past the general codec. Pure.

A partition in its usual shape (no reassignment, no eligible replicas, few replicas) is one struct,
known by its counts; a change is a short list of tagged fields. Everything else is None: the general
codec reads and writes it, and says what is wrong with it. Both give the same records and bytes.
"""

import struct
from functools import cache
from typing import Final

from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord

PARTITION_PREFIXES: Final = (b"\x01\x03\x01", b"\x01\x03\x02")
CHANGE_PREFIXES: Final = (b"\x01\x05\x01", b"\x01\x05\x02")

# Where the number of replicas is: after the prefix, the partition and the topic id.
_COUNT_AT: Final = 23
# Counts are one byte up to here, one more than the number of items.
_MOST: Final = 100
_NONE: Final = 1
_HEAD: Final = struct.Struct(">3si16sB")
_INT: Final = struct.Struct(">i")
_LEADER_UNCHANGED: Final = -2
_ISR: Final = 0
_LEADER: Final = 1
# Brokers have few directories and partitions many: one object for each id.
_DIRECTORIES: Final[dict[bytes, bytes]] = {}
_MOST_DIRECTORIES: Final = 10_000


@cache
def _shape(replicas: int, isr: int) -> struct.Struct:
    directories = "16s" * replicas
    return struct.Struct(f">3si16sB{replicas}iB{isr}iBBiiiB{directories}B")


@cache
def _ints(count: int) -> struct.Struct:
    return struct.Struct(f">{count}i")


def read_partition(data: bytes) -> PartitionRecord | None:
    """Of a value that begins with one of PARTITION_PREFIXES."""
    try:
        count = data[_COUNT_AT] - 1
        isr_count = data[_COUNT_AT + 1 + 4 * count] - 1
    except IndexError:
        return None
    if not 0 <= count < _MOST or not 0 <= isr_count < _MOST:
        return None
    shape = _shape(count, isr_count)
    if len(data) != shape.size:
        return None
    found = shape.unpack(data)
    end = 5 + count + isr_count  # After the replicas in sync.
    removing, adding, leader, leader_epoch, partition_epoch, directories = found[end : end + 6]
    if removing != _NONE or adding != _NONE or directories != count + 1 or found[-1]:
        return None
    return PartitionRecord(
        found[1],
        found[2],
        list(found[4 : 4 + count]),
        list(found[5 + count : end]),
        [],
        [],
        leader,
        0,
        leader_epoch,
        partition_epoch,
        [_DIRECTORIES.get(each) or _remember(each) for each in found[end + 6 : -1]],
        None,
        None,
    )


def write_partition(record: PartitionRecord, version: int) -> bytes | None:
    replicas, isr, directories = record.replicas, record.isr, record.directories
    count, isr_count = len(replicas), len(isr)
    if (
        record.removing_replicas
        or record.adding_replicas
        or record.leader_recovery_state
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
        or len(directories) != count
        or count >= _MOST
        or isr_count >= _MOST
        or version not in (1, 2)
    ):
        return None
    try:
        return _shape(count, isr_count).pack(
            PARTITION_PREFIXES[version - 1],
            record.partition_id,
            record.topic_id,
            count + 1,
            *replicas,
            isr_count + 1,
            *isr,
            _NONE,
            _NONE,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            count + 1,
            *directories,
            0,
        )
    except struct.error:
        return None


def read_change(data: bytes) -> PartitionChangeRecord | None:
    """Of a value that begins with one of CHANGE_PREFIXES: another leader, ISR or both."""
    size = len(data)
    if size < _HEAD.size:
        return None
    _, partition_id, topic_id, fields = _HEAD.unpack_from(data)
    at, last_tag = _HEAD.size, -1
    isr, leader = None, _LEADER_UNCHANGED
    for _ in range(fields):
        if at + 2 > size:
            return None
        tag, end = data[at], at + 2 + data[at + 1]
        if tag <= last_tag or end > size:
            return None
        if tag == _LEADER and end == at + 6:
            (leader,) = _INT.unpack_from(data, at + 2)
        elif tag == _ISR and end > at + 2 and end == at + 3 + 4 * (data[at + 2] - 1):
            isr = list(_ints(data[at + 2] - 1).unpack_from(data, at + 3))
        else:
            return None
        at, last_tag = end, tag
    if at != size:
        return None
    return PartitionChangeRecord(partition_id, topic_id, isr, leader)


def _remember(directory: bytes) -> bytes:
    if len(_DIRECTORIES) >= _MOST_DIRECTORIES:
        _DIRECTORIES.clear()
    _DIRECTORIES[directory] = directory
    return directory
