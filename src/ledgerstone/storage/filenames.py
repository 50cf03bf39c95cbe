"""Names of the files and directories of a log: made and parsed. Pure.

Owns the names only; the loader decides what a suffix means after a crash. The contract is in
README.md. A foreign name parses to None, and the caller decides.
"""

import enum
import re
from typing import Final, NamedTuple

from ledgerstone.errors import InvalidTopic
from ledgerstone.types import INT32_MAX, INT64_MAX, TopicPartition

# In the log directory.
META_PROPERTIES: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
# Ours alone: see storage/README.md, "Damage".
DAMAGE_NOTES: Final = "damage-notes.json"
SIZES_AT_STOP: Final = "sizes-at-clean-stop.json"
LAST_START: Final = "last-start"
REMOTE_LOG_INDEX_CACHE: Final = "remote-log-index-cache"
# Keys and passwords of `up --secure`. Kafka knows no such directory and would not start with it.
SECURE: Final = "secure"

# In a partition's directory.
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEANING_HISTORY: Final = "cleaning-history.json"
REMOVAL_MARKS: Final = "removal-marks"
# In the directory of the metadata log.
QUORUM_STATE: Final = "quorum-state"
# First records of a cluster, kept by a format; batches, as in a snapshot of the metadata.
BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"

# Suffixes of temporary states, appended to a complete file name.
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
TMP: Final = ".tmp"
# A mark beside the file, not a state of it: see follows.py.
FOLLOWS: Final = ".follows"

MAX_NAME_LENGTH: Final = 255
OFFSET_DIGITS: Final = 20


class Kind(enum.Enum):
    """What a file named after an offset holds. The value is its extension."""

    LOG = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"


class ParsedName(NamedTuple):
    offset: int
    kind: Kind
    suffix: str  # DELETED, CLEANED, SWAP, TMP, FOLLOWS, or empty
    number: int = 0  # for a DELETED file whose plain name was taken: see `aside_suffix`


class DirState(enum.Enum):
    """The life of a partition directory. The value is the last part of its name."""

    LIVE = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class PartitionDir(NamedTuple):
    topic_partition: TopicPartition
    state: DirState
    uuid_hex: str | None  # None for LIVE


_FILE_NAME = re.compile(
    rf"([0-9]{{{OFFSET_DIGITS}}})"
    r"(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)"
    r"(?:\.([1-9][0-9]{0,8})(?=\.deleted))?(\.deleted|\.cleaned|\.swap|\.tmp|\.follows|)"
)
# Greedy: the partition follows the last dash, because topic names may contain dashes and digits.
# No leading zeros: the name must be what `partition_dir_name` makes.
_PARTITION_DIR = re.compile(
    r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})(?:\.([0-9a-f]{32})(-delete|-future|-stray))?"
)


# Offset and epoch; one that is being written has a word more, and ends in `.part`.
_METADATA_SNAPSHOT = re.compile(
    r"[0-9]{20}-[0-9]{10}(?:\.checkpoint(?:\.deleted)?|-[a-z0-9]+\.checkpoint\.part)"
)


def is_metadata_snapshot(name: str) -> bool:
    """Finished, being written, or deleted. It holds batches, as a log does."""
    return _METADATA_SNAPSHOT.fullmatch(name) is not None


def file_name(base_offset: int, kind: Kind, suffix: str = "", number: int = 0) -> str:
    return f"{base_offset:020d}{kind.value}{aside_suffix(number) if number else suffix}"


def aside_suffix(number: int) -> str:
    """The suffix for a file to be unlinked: `.deleted`, or `.1.deleted` and so on while an earlier
    file of that name still waits. Kafka also unlinks everything that ends in `.deleted`."""
    return f".{number}{DELETED}" if number else DELETED


def parse_file_name(name: str) -> ParsedName | None:
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    offset = int(match[1])
    if offset > INT64_MAX:
        return None
    return ParsedName(offset, Kind(match[2]), match[4], int(match[3] or 0))


def partition_dir_name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_dir(name: str) -> PartitionDir | None:
    match = _PARTITION_DIR.fullmatch(name)
    if match is None:
        return None
    partition = int(match[2])
    if partition > INT32_MAX:
        return None
    state = DirState(match[4] or "")
    return PartitionDir(TopicPartition(match[1], partition), state, match[3])


def delete_dir_name(topic_partition: TopicPartition, uuid_hex: str) -> str:
    return _shortened_dir_name(topic_partition, uuid_hex, DirState.DELETE)


def stray_dir_name(topic_partition: TopicPartition, uuid_hex: str) -> str:
    return _shortened_dir_name(topic_partition, uuid_hex, DirState.STRAY)


def future_dir_name(topic_partition: TopicPartition, uuid_hex: str) -> str:
    """Refused if too long: a shortened name would turn the copy into another topic."""
    name = f"{topic_partition}.{uuid_hex}{DirState.FUTURE.value}"
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopic(
            f"{topic_partition}: the directory name of its future copy has {len(name)} characters,"
            f" at most {MAX_NAME_LENGTH} are possible"
        )
    return name


def _shortened_dir_name(topic_partition: TopicPartition, uuid_hex: str, state: DirState) -> str:
    # The topic in a doomed directory's name may be shortened; the random part keeps
    # the name unique.
    tail = f"-{topic_partition.partition}.{uuid_hex}{state.value}"
    return topic_partition.topic[: MAX_NAME_LENGTH - len(tail)] + tail
