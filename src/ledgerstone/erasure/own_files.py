"""The broker's own files, read for what users can have put into them. Grade P.

Looked at as bytes, a checkpoint or a history holds any five digits and many a word, so that
ordinary keys would be found for ever. Here each kind of file has a reader that tells its *fields*:
names and texts, decoded, whatever their escaping. Field names, closed lists of words and numbers
are the broker's. A file that is not exactly what the broker writes is told to be foreign, and is
searched whole. Contract: README.md, "Search and scan".
"""

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from zlib import crc32

from ledgerstone.config.properties import format_properties, parse_properties
from ledgerstone.erasure.mark_slot import MARK_FILE, SLOT_BYTES, is_mark
from ledgerstone.errors import LedgerstoneError
from ledgerstone.metadata.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS
from ledgerstone.storage import filenames as names
from ledgerstone.storage.filenames import Kind, parse_file_name
from ledgerstone.storage.producer_snapshot import decode_snapshot
from ledgerstone.storage.removal_marks import decode_marks

TOPIC_NAMES: Final = "topic names"
GROUP_IDS: Final = "group ids"
IDENTITIES: Final = "ids of clusters, directories and topics"
DIRECTORIES: Final = "names of partition directories"
LOG_DIRS: Final = "paths of log directories"
# What is found in these is counted and told; what is found in a text stands in a receipt's way.
NAMES: Final = (TOPIC_NAMES, GROUP_IDS, IDENTITIES, DIRECTORIES, LOG_DIRS)
TEXTS: Final = "texts"

# Whatever is larger is searched as bytes, in windows.
MAX_BYTES: Final = 64 << 20
_OWN_TOPICS: Final = frozenset(name.encode() for name in (CLUSTER_METADATA, *INTERNAL_TOPICS))
SECRETS_FILE: Final = "erasure.keys"
# One that was set aside (`secrets_file`): a part of its public key, and a number.
_ASIDE_SECRETS: Final = re.compile(r"(erasure\.keys)\.aside-[0-9a-f]{16}(?:\.[0-9]{1,9})?")


class FileField(NamedTuple):
    what: str  # one of NAMES, or TEXTS
    content: bytes


class Foreign(ValueError):
    """Not what the broker writes under this name."""


Reader = Callable[[bytes, int], list[FileField]]


def read_fields(name: str, data: bytes, log_bytes: int) -> list[FileField] | None:
    """The fields of a file of this name, None where it is not what the broker writes under it.

    `log_bytes` is the size of the log that an index belongs to. A reader accounts for every byte:
    what it does not tell is of the broker's own making."""
    reader = _reader_of(name)
    if reader is None:
        return None
    try:
        return reader(data, log_bytes)
    except (ValueError, KeyError, TypeError, RecursionError, LedgerstoneError):
        return None


def is_own(name: str) -> bool:
    """Whether the broker writes files of this name; logs are among them."""
    if parse_file_name(name) is not None or _plain(name) in _BY_NAME:
        return True
    return names.is_metadata_snapshot(name)


def has_reader(name: str) -> bool:
    return _reader_of(name) is not None


def _reader_of(name: str) -> Reader | None:
    parsed = parse_file_name(name)
    if parsed is None:
        return _BY_NAME.get(_plain(name))
    # A log is read as batches.
    return _empty if parsed.suffix == names.FOLLOWS else _BY_KIND.get(parsed.kind)


def _plain(name: str) -> str:
    aside = _ASIDE_SECRETS.fullmatch(name)
    return name.removesuffix(names.TMP) if aside is None else aside[1]


def hidden_texts(name: str, data: bytes) -> list[bytes]:
    """Of a file that is searched whole: texts that its escapes would hide from that."""
    try:
        if _plain(name) == names.META_PROPERTIES:
            words = [word for pair in parse_properties(data).items() for word in pair]
            return [_utf8(word) for word in words if word.encode("latin-1", "ignore") not in data]
        found = json_fields(json.loads(data), names=frozenset())
        return [each.content for each in found if each.content not in data]
    except (ValueError, RecursionError):
        return []


def field_of_dir(name: str) -> FileField | None:
    """The part of a directory's name that users chose; None where the directory is foreign."""
    parsed = names.parse_partition_dir(name)
    if parsed is None:
        return None
    topic = parsed.topic_partition.topic.encode()
    return FileField(DIRECTORIES, b"" if topic in _OWN_TOPICS else topic)


# -- text files -----------------------------------------------------------------------------------

_CHECKPOINT: Final = re.compile(rb"0\n([0-9]{1,10})\n((?:\S+ [0-9]{1,10} [0-9]{1,19}\n)*)")
_EPOCHS: Final = re.compile(rb"0\n([0-9]{1,10})\n((?:[0-9]{1,10} [0-9]{1,19}\n)*)")
_JAVA_DATE: Final = re.compile(rb"(?:[A-Z][a-z]{2} ){2}[0-9]{2} [0-9:]{8} [A-Z]{1,5} [0-9]{4}")
_PARTITION_METADATA: Final = re.compile(rb"version: ?0\ntopic_id: ?([A-Za-z0-9_-]{22})\n?")


def _offsets(data: bytes, log_bytes: int) -> list[FileField]:
    topics = [line.split()[0] for line in _entries(_CHECKPOINT, data)]
    return [FileField(TOPIC_NAMES, topic) for topic in topics if topic not in _OWN_TOPICS]


def _epochs(data: bytes, log_bytes: int) -> list[FileField]:
    _entries(_EPOCHS, data)
    return []


def _entries(form: re.Pattern[bytes], data: bytes) -> list[bytes]:
    if not data:
        return []
    match = form.fullmatch(data)
    lines = match[2].splitlines() if match else []
    if match is None or len(lines) != int(match[1]):
        raise Foreign("no checkpoint")
    return lines


def _partition_metadata(data: bytes, log_bytes: int) -> list[FileField]:
    match = _PARTITION_METADATA.fullmatch(data)
    if match is None:
        raise Foreign("no topic id")
    return [FileField(IDENTITIES, match[1])]


def _removal_marks(data: bytes, log_bytes: int) -> list[FileField]:
    decode_marks(data, names.REMOVAL_MARKS)
    return []


def _meta_properties(data: bytes, log_bytes: int) -> list[FileField]:
    properties = parse_properties(data)
    lines = data.split(b"\n")
    told = [line for line in lines if line and not line.startswith(b"#")]
    # Kafka writes them in any order, and a date above.
    if sorted(told) != format_properties(properties).split(b"\n")[1:-1] or lines[-1]:
        raise Foreign("properties in another form")
    comments = [line[1:] for line in lines if line.startswith(b"#")]
    fields = [FileField(TEXTS, each) for each in comments if not _JAVA_DATE.fullmatch(each)]
    for name, value in properties.items():
        if name in ("cluster.id", "directory.id"):
            fields.append(FileField(IDENTITIES, _utf8(value)))
        elif name not in ("version", "node.id", "broker.id") or not value.isdecimal():
            fields += [FileField(TEXTS, _utf8(name)), FileField(TEXTS, _utf8(value))]
    return fields


def _last_start(data: bytes, log_bytes: int) -> list[FileField]:
    properties = parse_properties(data)
    if format_properties(properties) != data:
        raise Foreign("properties in another form")
    if properties.keys() != {"boot.id", "cluster.id", "directory.id"}:
        raise Foreign("other names")
    return [FileField(IDENTITIES, _utf8(value)) for value in properties.values()]


def _empty(data: bytes, log_bytes: int) -> list[FileField]:
    if data:
        raise Foreign("a mark with content")
    return []


# -- JSON -----------------------------------------------------------------------------------------

_HISTORY_NAMES: Final = frozenset({
    "version", "runs", "tombstones",
    "started_ms", "ended_ms", "duration_ms", "reason", "outcome", "detail", "first_dirty_offset",
    "end_offset", "segments_before", "segments_after", "stats",
    "bytes_read", "bytes_written", "map_bytes_read", "records_read", "records_kept",
    "dropped_superseded", "dropped_tombstones", "dropped_aborted", "dropped_keyless",
    "dropped_markers", "tombstones_stamped", "tombstones_held", "tombstones_kept",
    "markers_held",
    "batches_emptied", "map_entries", "map_slots", "earliest_horizon_ms",
    "earliest_marker_horizon_ms",
    "pending", "removed_below_offset", "removed_at_ms", "missed", "group_id", "committed_offset",
    "first_offset", "last_offset", "at_ms", "is_announced",
})  # fmt: skip
# Closed lists: what passes are made for, and how they end.
_HISTORY_WORDS: Final = frozenset({
    "cleaned", "aborted", "failed",
    "a pass was requested", "a delete horizon has passed", "max.compaction.lag.ms has passed",
    "somebody asked for it",  # as older histories say it
    "a tombstone has waited for its first pass long enough",
    "it was cleaned before, and its horizons are not known",
    "the dirty ratio is above min.cleanable.dirty.ratio",
})  # fmt: skip


def _history(data: bytes, log_bytes: int) -> list[FileField]:
    content = _json(data, separators=(",", ":"))
    return list(json_fields(content, names=_HISTORY_NAMES, words=_HISTORY_WORDS, kinds=_KINDS))


def _clean_shutdown(data: bytes, log_bytes: int) -> list[FileField]:
    if not data:
        return []
    content = _json(data, separators=(",", ":"), end="")
    return list(json_fields(content, names=frozenset({"version", "brokerEpoch"})))


def _secrets(data: bytes, log_bytes: int) -> list[FileField]:
    content = _json(data, indent=1)
    known = frozenset({"version", "salt", "signing_key", "created_ms"})
    return list(json_fields(content, names=known))


_NOTE_NAMES: Final = frozenset({
    "version", "notes", "partition", "path", "position", "size_bytes", "reason", "is_gap",
    "outcome", "found_ms", "acknowledged_ms",
})  # fmt: skip
_NOTE_WORDS: Final = frozenset({"offline", "read-only", "cut", "told"})


def _damage_notes(data: bytes, log_bytes: int) -> list[FileField]:
    content = _json(data, indent=1, end="")
    if not isinstance(content, dict):
        raise Foreign("no notes")
    sizes = content.pop("sizes")
    for note in content["notes"]:
        # The directory's name is a user's, the file's is ours.
        directory, _, name = note["path"].rpartition("/")
        note["path"] = directory if is_own(name) else note["path"]
    kinds = {"partition": DIRECTORIES, "path": LOG_DIRS}
    told = json_fields(content, names=_NOTE_NAMES, words=_NOTE_WORDS, kinds=kinds)
    return [*told, *_by_partition(sizes)]


def _sizes_at_stop(data: bytes, log_bytes: int) -> list[FileField]:
    body, _, check = data.partition(b"\n")
    content = _json(body, separators=(",", ":"), end="")
    if not isinstance(content, dict) or check != b"%08x\n" % crc32(body):
        raise Foreign("no sizes of a clean stop")
    if content.keys() != {"version", "marker", "sizes", "indexes", "ends", "starts"}:
        raise Foreign("other names")
    by_partition = (_by_partition(each) for each in content.values() if isinstance(each, dict))
    return [field for fields in by_partition for field in fields]


def _by_partition(content: object) -> Iterator[FileField]:
    """Numbers, or numbers by number, under the names of partitions' directories."""
    if not isinstance(content, dict):
        raise Foreign("nothing by partition")
    for name, facts in content.items():
        field = field_of_dir(name)
        if field is None:
            raise Foreign("no partition")
        yield field
        below = facts if isinstance(facts, dict) else {"0": facts}
        if not all(number.isdecimal() for number in below):
            raise Foreign("no base offset")
        yield from json_fields(list(below.values()), names=frozenset())


_KINDS: Final = {"group_id": GROUP_IDS}


def _json(
    data: bytes,
    *,
    separators: tuple[str, str] | None = None,
    indent: int | None = None,
    end: str = "\n",
) -> object:
    """The content, if the bytes are the one way in which the broker writes it: then nothing is in
    them that is not in the content, neither spaces nor a name twice."""
    content: object = json.loads(data)
    if (json.dumps(content, separators=separators, indent=indent) + end).encode() != data:
        raise Foreign("JSON in another form")
    return content


def json_fields(
    content: object,
    *,
    names: frozenset[str],
    words: frozenset[str] = frozenset(),
    kinds: Mapping[str, str] = {},
    under: str = "",
) -> Iterator[FileField]:
    """Every text, and every name that is not one of `names`; neither numbers nor `words`."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name not in names:
                yield FileField(TEXTS, _utf8(name))
            yield from json_fields(value, names=names, words=words, kinds=kinds, under=name)
    elif isinstance(content, list):
        for value in content:
            yield from json_fields(value, names=names, words=words, kinds=kinds, under=under)
    elif isinstance(content, str) and content not in words:
        yield FileField(kinds.get(under, TEXTS), _utf8(content))


def _utf8(text: str) -> bytes:
    """Half of a surrogate pair can be in JSON, and in no key that is text."""
    return text.encode("utf-8", "surrogatepass")


# -- numbers --------------------------------------------------------------------------------------

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_TXN_ENTRY: Final = struct.Struct(">hqqqq")
# Later times come from no clock: the year 2248.
_MAX_TIME_MS: Final = 1 << 43


def _offset_index(data: bytes, log_bytes: int) -> list[FileField]:
    entries = _rising(_OFFSET_ENTRY, data)
    if any(position >= log_bytes for _, position in entries):
        raise Foreign("a position outside of the log")
    return []


def _time_index(data: bytes, log_bytes: int) -> list[FileField]:
    if any(time_ms >= _MAX_TIME_MS for time_ms, _ in _rising(_TIME_ENTRY, data)):
        raise Foreign("a time outside of time")
    return []


def _rising(form: struct.Struct, data: bytes) -> list[tuple[int, int]]:
    """Entries that rise in both numbers; behind them may be room that was taken in advance."""
    used = len(data.rstrip(b"\0"))
    used += -used % form.size
    if used > len(data):
        raise Foreign("part of an entry")
    entries: list[tuple[int, int]] = list(form.iter_unpack(data[:used]))
    before = (-1, -1)
    for entry in entries:
        if min(entry) < 0 or entry[0] <= before[0] or entry[1] < before[1]:
            raise Foreign("entries that do not rise")
        before = entry
    return entries


def _txn_index(data: bytes, log_bytes: int) -> list[FileField]:
    if len(data) % _TXN_ENTRY.size:
        raise Foreign("part of an entry")
    before = -1
    for version, producer_id, first, last, stable in _TXN_ENTRY.iter_unpack(data):
        if version != 0 or producer_id < 0 or not 0 <= first <= last or last <= before:
            raise Foreign("no aborted transaction")
        if not 0 <= stable <= last + 1:
            raise Foreign("no last stable offset")
        before = last
    return []


def _snapshot(data: bytes, log_bytes: int) -> list[FileField]:
    decode_snapshot(data)
    return []


def _mark(data: bytes, log_bytes: int) -> list[FileField]:
    """How far the journal has gone: numbers and codes, and zeros where nothing is yet."""
    slots = [data[at : at + SLOT_BYTES] for at in range(0, len(data), SLOT_BYTES)]
    if any(slot.strip(b"\0") and not is_mark(slot) for slot in slots):
        raise Foreign("no mark")
    return []


_BY_KIND: Final[Mapping[Kind, Reader]] = {
    Kind.INDEX: _offset_index,
    Kind.TIME_INDEX: _time_index,
    Kind.TXN_INDEX: _txn_index,
    Kind.SNAPSHOT: _snapshot,
}
# As in `raft.hard_state`, and in Kafka.
_STATIC_STATE: Final = re.compile(
    rb'\{"clusterId":"","leaderId":-?[0-9]{1,10},"leaderEpoch":[0-9]{1,10},"votedId":-?[0-9]{1,10},'
    rb'"appliedOffset":0,"currentVoters":\[(?:\{"voterId":[0-9]{1,10}\},?)*\],"data_version":0\}'
)
_DYNAMIC_STATE: Final = re.compile(
    rb'\{"leaderId":-?[0-9]{1,10},"leaderEpoch":[0-9]{1,10},"votedId":-?[0-9]{1,10},'
    rb'"votedDirectoryId":"([A-Za-z0-9_-]{22})","data_version":1\}'
)


def _quorum_state(data: bytes, log_bytes: int) -> list[FileField]:
    if _STATIC_STATE.fullmatch(data):
        return []
    found = _DYNAMIC_STATE.fullmatch(data)
    if found is None:
        raise Foreign("not a vote")
    return [FileField(IDENTITIES, found[1])]


_BY_NAME: Final[Mapping[str, Reader]] = {
    names.META_PROPERTIES: _meta_properties,
    names.LOCK_FILE: _empty,
    names.CLEAN_SHUTDOWN_FILE: _clean_shutdown,
    names.RECOVERY_POINT_CHECKPOINT: _offsets,
    names.LOG_START_OFFSET_CHECKPOINT: _offsets,
    names.HIGH_WATERMARK_CHECKPOINT: _offsets,
    names.CLEANER_OFFSET_CHECKPOINT: _offsets,
    names.LEADER_EPOCH_CHECKPOINT: _epochs,
    names.PARTITION_METADATA: _partition_metadata,
    names.CLEANING_HISTORY: _history,
    names.REMOVAL_MARKS: _removal_marks,
    SECRETS_FILE: _secrets,
    MARK_FILE: _mark,
    names.DAMAGE_NOTES: _damage_notes,
    names.SIZES_AT_STOP: _sizes_at_stop,
    names.LAST_START: _last_start,
    names.QUORUM_STATE: _quorum_state,
}
