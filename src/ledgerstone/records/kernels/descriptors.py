"""What each kernel is handed: a struct, declared once, field by field. Pure.

Both sides come from these classes. The build gives kernels their fields by name
(`descriptor_types.py`), the glue gets a struct to fill (`filling.py`), and tests make one of plain
Python objects to run a kernel uncompiled. Every field takes eight bytes, in the order declared, a
base class's first. No kernel writes to its descriptor.

Kernels with up to eight arguments take them one by one; `abi.py` lists those.
"""

import inspect
from typing import Annotated, Final, NamedTuple, dataclass_transform

from ledgerstone.records.kernels.source.words import Pointer

# The types of fields: what tests and readers see, and what a machine does.
U8s = Annotated[Pointer, "u8*"]
I16s = Annotated[Pointer, "i16*"]
I32s = Annotated[Pointer, "i32*"]
I64s = Annotated[Pointer, "i64*"]
U64s = Annotated[Pointer, "u64*"]
I64 = Annotated[int, "i64"]
U64 = Annotated[int, "u64"]

FIELD_BYTES: Final = 8


@dataclass_transform(kw_only_default=True)
class Descriptor:
    """The base of all declarations. As an object it is what a kernel sees when run uncompiled."""

    def __init__(self, **values: object) -> None:
        names = {field.name for field in fields_of(type(self))}
        if values.keys() != names:
            raise TypeError(f"{type(self).__name__}: {sorted(values.keys() ^ names)}")
        vars(self).update(values)


class DescriptorField(NamedTuple):
    name: str
    kind: str  # as abi.py spells argument types


def fields_of(declaration: type[Descriptor]) -> tuple[DescriptorField, ...]:
    return tuple(
        DescriptorField(name, annotation.__metadata__[0])
        for each in reversed(declaration.__mro__)
        if each not in (object, Descriptor)
        for name, annotation in inspect.get_annotations(each).items()
    )


# -- windows of batches ---------------------------------------------------------------------------


class WindowCall(Descriptor):
    """Bytes with virtual positions: README.md, "Virtual positions"."""

    buffer: U8s  # the window as it was read
    split: I64  # bytes in `buffer`; positions from here on lie in the arena
    arena: U8s  # decompressed payloads


class BatchesCall(WindowCall):
    rows: I64s  # field f of batch b is rows[f * capacity + b]; `source.walk` names the fields
    capacity: I64
    batch_end: I64  # the batch to stop before


class WalkCall(BatchesCall):
    min_offset: I64  # records before it get no row
    wide: I64s  # offset, timestamp, key start, value start, headers start: `room` places each
    narrow: I32s  # length of key, value and headers, header count, batch: `room` places each
    room: I64
    report: I64s  # records written; with a fault also batch, record, position


class RewriteCall(BatchesCall):
    timestamp: I64s  # this and the next three: a place for each record
    record_end: I64s  # virtual position
    value_length: I32s  # -1: a tombstone
    keep: U8s  # 0: the record goes
    actions: U8s  # bits of `BatchAction`, for each batch
    horizon: I64  # delete horizon for batches that need one; -1: none to set
    out: U8s  # what is left of the batches
    out_room: I64
    outcomes: I64s  # field f of batch b is outcomes[f * capacity + b]; see `source.rewrite`
    report: I64s  # bytes written; with a fault batch, record, position


class CleaningCall(RewriteCall):
    """Both halves of a cleaning: one maps keys, the other judges and rewrites. The columns hold
    `room` records at a time, and the halves use the same ones."""

    batch_start: I64
    offset: I64s
    key_start: I64s  # virtual position
    key_length: I32s  # -1: no key
    batch_index: I32s
    low: U64s  # SipHash of the key, both words
    high: U64s
    lanes: U64s  # LANE_WORDS places for hashing
    room: I64  # places in each column
    k0: U64  # seed of the SipHash
    k1: U64
    table: U64s  # last offset of each key: three words a slot
    slots: I64
    newest: U64s  # a bit for each offset; set: the newest record of its key
    first_offset: I64  # of the first bit
    bits: I64  # 0: no bits, ask the table
    limit: I64  # mapping: keys the table may hold
    min_offset: I64  # mapping: records before it are passed over
    state: I64s  # mapping: how far it came; `source.cleaning` names the fields
    rules: I64s  # judging: `JudgementRules`
    counts: I64s  # judging: records of each kind, ranges of tombstones


class FoldCall(BatchesCall):
    """The columns hold `room` records at a time."""

    end: I64  # virtual position behind the arena
    skip: U8s  # not 0: pass over the batch
    checks_crc: I64  # 0: the caller has checked CRCs
    start_offset: I64
    end_offset: I64
    k0: U64  # seed of the keys' hashes
    k1: U64
    c0: U64  # seed of the contents' hashes
    c1: U64
    table: U64s  # tag and number of each key, one word a slot
    slots: I64
    facts: U64s  # `stride` words for each key, by number
    stride: I64
    limit: I64  # keys `facts` has room for
    offset: I64s  # this and the next seven: a column
    key_start: I64s
    content_start: I64s
    number: I64s  # of the key
    key_length: I32s
    content_length: I32s
    low: U64s
    high: U64s
    lanes: U64s  # `contents.PIECE_LANE_WORDS` places for hashing
    room: I64
    state: I64s  # how far it came, and counts; `source.folding` names the fields
    report: I64s  # with a fault batch, record, detail; whether CRCs were checked


# -- spans of a window ----------------------------------------------------------------------------


class SpansCall(WindowCall):
    """Every span is checked against the window before it is read."""

    end: I64  # virtual position behind the arena
    start: I64s  # virtual positions
    length: I32s  # -1: null
    count: I64
    report: I64s  # the index of a bad span


class HashCall(SpansCall):
    k0: U64
    k1: U64
    low: U64s
    high: U64s
    lanes: U64s  # LANE_WORDS places


class GatherCall(SpansCall):
    validity: U8s  # a bit for each span, zeros before
    data: U8s
    room: I64  # bytes in `data`


class SmallGatherCall(GatherCall):
    offsets: I32s  # where each span begins in `data`, and the end


class LargeGatherCall(GatherCall):
    offsets: I64s  # the same, of 2 GiB and more


class ViewsCall(SpansCall):
    views: U8s  # sixteen bytes for each span, zeros before
    validity: U8s  # a bit for each span, zeros before


class HeadersCall(SpansCall):
    """The spans are those of whole header lists."""

    header_count: I32s
    lists: I32s  # where each record's headers begin: one place more than `count`
    key_start: I64s  # this and the next three: `room` places
    key_length: I32s
    value_start: I64s
    value_length: I32s
    room: I64


# -- searches -------------------------------------------------------------------------------------


class SearchCall(Descriptor):
    """Windows of `length` bytes, wholly in [start, end) of a buffer."""

    buffer: U8s
    start: I64
    end: I64
    length: I64
    positions: I64s  # where they are
    room: I64  # places in `positions`
    report: I64s


class RollingCall(SearchCall):
    base: U64  # of the fingerprint
    k0: U64
    k1: U64
    known: U8s  # the filter: 2 ** filter_bits flags
    filter_bits: I64
    fingerprints: U64s  # sorted
    low: U64s  # SipHash of each string, both words
    high: U64s
    count: I64  # strings
    leaving: U64s  # scratch: 256 places
    free_from: I64s  # scratch: LANES * count places
    which: I32s  # index of the string, `room` places


class CandidatesCall(SearchCall):
    powers: I16s  # base to 1, 2, 4, 8 and so on: 32 of them
    doubled: I16s  # this and the next two: `scratch` places
    spare: I16s
    sums: I16s
    scratch: I64
    block: I64  # windows at a time
    wanted: I16s  # low bits of fingerprints
    wanted_count: I64


# -- keys and indexes -----------------------------------------------------------------------------


class KeysCall(Descriptor):
    """Keys by their hashes."""

    table: U64s
    slots: I64
    low: U64s
    high: U64s
    count: I64
    number: I64s  # the answer: a number for each key, -1 without one


class NumberCall(KeysCall):
    """`table` has three words a slot."""

    key_length: I32s  # -1: no key
    start: I64  # the first row to number
    limit: I64  # keys the table may hold
    state: I64s  # keys in the table, rows done


class FindCall(KeysCall):
    """`table` has one word a slot."""

    facts: U64s  # `stride` words for each key, by number
    size: I64  # keys in `facts`
    stride: I64


class IndexCall(Descriptor):
    """Batches that lie one after the other."""

    size: I64s  # bytes of each; 0: it was dropped
    last_offset: I64s
    max_timestamp: I64s
    count: I64
    base_offset: I64  # of the segment
    interval_bytes: I64
    state: I64s  # `source.index_entries` names the fields
    offset_entries: U8s  # room for one entry a batch
    time_entries: U8s  # the same


class RebuildCall(Descriptor):
    """A window of a segment that is rebuilt from its log file."""

    buffer: U8s
    end: I64
    base_offset: I64  # of the segment
    interval_bytes: I64
    offset_room: I64  # entries of the whole segment
    time_room: I64
    is_gapless: I64
    rows: I64  # of each kind below, in one call
    state: I64s  # `source.rebuilding` names the fields
    offset_keys: I32s
    offset_positions: I32s
    time_keys: I64s
    time_offsets: I32s
    producer_ids: I64s
    produced_at: I64s
