"""Steps that scenarios share: append, end a transaction, fetch, and look at what is on disk."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ledgerstone.fs import FileSlice, Filesystem, join, parent_of
from ledgerstone.records.batch import BatchHeader, iter_headers, read_header
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.record import Record, iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.types import Buffer
from tests.kit.logs import T0, World, batch

# A batch of one record with a key and a value of one byte each.
ONE_BYTES = 70
ONE = ("k", "v")


def disk(world: World) -> SimFilesystem:
    assert isinstance(world.fs, SimFilesystem)
    return world.fs


def durable(world: World) -> World:
    """The partition's directory exists and survives power loss, as one a log directory made."""
    fs = disk(world)
    fs.make_dir(world.directory)
    fs.fsync_dir(parent_of(world.directory))
    fs.fsync_dir("/")
    return world


def killed(world: World) -> World:
    """The process ends without a word; what it wrote stays."""
    disk(world).kill()
    return world


# -- writing --------------------------------------------------------------------------------------


def append(
    log: PartitionLog, *pairs: tuple[str | None, str | None], leader_epoch: int = 0, **fields: Any
) -> AppendResult:
    return log.append_as_leader(batch(*(pairs or (ONE,)), **fields), leader_epoch=leader_epoch)


def append_ones(log: PartitionLog, count: int, **fields: Any) -> None:
    """`count` batches of ONE_BYTES each."""
    for _ in range(count):
        append(log, ONE, **fields)


def append_txn(
    log: PartitionLog, producer_id: int, base_sequence: int, count: int = 1, **fields: Any
) -> AppendResult:
    """A transactional batch of `count` records."""
    return append(
        log,
        *[(f"{producer_id}-{base_sequence + n}", "v") for n in range(count)],
        producer_id=producer_id,
        producer_epoch=fields.pop("producer_epoch", 0),
        base_sequence=base_sequence,
        transactional=True,
        **fields,
    )


def end_txn(
    log: PartitionLog,
    producer_id: int,
    *,
    commit: bool,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = T0,
) -> AppendResult:
    marker = end_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
    )
    return log.append_as_leader(marker, leader_epoch=0, origin=Origin.COORDINATOR)


def replicate_all(log: PartitionLog) -> None:
    """Every follower has everything."""
    log.advance_high_watermark(log.log_end_offset)


def stored(
    base_offset: int, *keys: str, timestamp: int | None = T0, leader_epoch: int = 0, **fields: Any
) -> bytearray:
    """A batch as it lies in a log: with its offsets, one record for each key."""
    return build_batch(
        [(timestamp, key.encode(), b"v", ()) for key in keys],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        **fields,
    )


# -- segments on their own ------------------------------------------------------------------------


def new_segment(world: World, base_offset: int, *, suffix: str = "", **config: Any) -> Segment:
    fs = disk(world)
    fs.make_dir(world.directory)
    segment = Segment(
        fs,
        world.directory,
        base_offset,
        LogConfig(**config),
        created_ms=world.clock.now_ms(),
        suffix=suffix,
    )
    segment.create()
    return segment


def fill(segment: Segment, *batches: bytearray) -> Segment:
    """Each batch with an append of its own."""
    for data in batches:
        segment.append(data, [read_header(data)])
    return segment


def cleaned_copy(world: World, log: PartitionLog, base_offset: int, keep: Sequence[int]) -> Segment:
    """What a cleaner would hand over: a complete `.cleaned` segment with the offsets in `keep`."""
    segment = new_segment(world, base_offset, suffix=CLEANED)
    for source in log.segments:
        content = source.file.pread(source.size, 0)
        for position, header in iter_headers(content):
            if header.last_offset in keep:
                segment.append(content[position : position + header.size], [header])
    segment.seal()
    return segment


# -- looking --------------------------------------------------------------------------------------


def records_in(piece: FileSlice | None) -> list[Record]:
    content = b"" if piece is None else piece.read()
    return [
        record
        for position, header in iter_headers(content)
        if not header.is_control
        for record in iter_records(content, position)
    ]


def batches_in(piece: FileSlice | None) -> list[tuple[int, int]]:
    """First and last offset of each batch."""
    content = b"" if piece is None else piece.read()
    return [(header.base_offset, header.last_offset) for _, header in iter_headers(content)]


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    return [
        header
        for segment in log.segments
        for _, header in iter_headers(segment.file.pread(segment.size, 0))
    ]


def keys_of(records: Iterable[Record]) -> list[str]:
    return [(record.key or b"").decode() for record in records]


def names(world: World, ending: str = "") -> list[str]:
    """The files of the partition, sorted."""
    return [name for name in disk(world).list_dir(world.directory) if name.endswith(ending)]


def put(fs: Filesystem, path: str, data: Buffer, position: int = 0) -> None:
    file = fs.open(path, create=True)
    file.pwrite(data, position)
    file.close()


def content_of(world: World, name: str) -> bytes:
    return bytes(disk(world).files()[join(world.directory, name)])


def rename(world: World, source: str, target: str) -> None:
    disk(world).rename(join(world.directory, source), join(world.directory, target))


class LogFacts(NamedTuple):
    """Everything about a log that an operation without effect must leave alone."""

    offsets: tuple[int, ...]
    bases: list[int]
    producers: list[Any]
    epochs: list[Any]
    files: dict[str, bytes]


def facts(world: World, log: PartitionLog) -> LogFacts:
    return LogFacts(
        (
            log.log_start_offset,
            log.high_watermark,
            log.last_stable_offset,
            log.log_end_offset,
            log.recovery_point,
        ),
        log.segments.bases(),
        log.producers.entries(),
        log.epochs.entries(),
        {path: bytes(data) for path, data in disk(world).files().items()},
    )
