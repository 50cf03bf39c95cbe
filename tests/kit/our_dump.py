"""Decodes the files of a partition with our own code, into the terms of Kafka's dump tool."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import PurePath

from golden.kafka_tools import (
    DUMPED_SUFFIXES,
    DumpedAbortedTxn,
    DumpedBatch,
    DumpedIndexEntry,
    DumpedProducer,
    DumpedRecord,
    DumpedTimeIndexEntry,
    FileDump,
)
from ledgerstone.records.batch import BatchHeader, iter_headers, verify_crc
from ledgerstone.records.control import ControlRecord, read_control_record
from ledgerstone.records.record import Record, iter_records
from ledgerstone.storage import offset_index, time_index, txn_index
from ledgerstone.storage.producer_snapshot import SnapshotEntry, decode_snapshot
from ledgerstone.types import INT32_MAX


def read_files(files: Mapping[str, bytes]) -> dict[str, FileDump]:
    """The files, by name, that the dump tool reads too."""
    suffixes = {name: PurePath(name).suffix for name in files}
    return {
        name: _read_file(name, files[name])
        for name, suffix in suffixes.items()
        if suffix in DUMPED_SUFFIXES
    }


def _read_file(name: str, data: bytes) -> FileDump:
    path = PurePath(name)
    base_offset = int(path.stem)
    match path.suffix:
        case ".log":
            batches = list(_batches(data))
            offsets = [record.offset for batch in batches for record in batch.records]
            gaps = [(a, b) for a, b in pairwise(offsets) if b != a + 1]
            return FileDump(name=name, batches=batches, gaps=gaps)
        case ".index":
            index = offset_index.decode_entries(data, base_offset)
            return FileDump(
                name=name, index=[DumpedIndexEntry(offset=o, position=p) for o, p in index]
            )
        case ".timeindex":
            times = time_index.decode_entries(data, base_offset)
            return FileDump(
                name=name,
                time_index=[DumpedTimeIndexEntry(timestamp=t, offset=o) for t, o in times],
            )
        case ".txnindex":
            aborted = txn_index.decode_entries(data, name)
            return FileDump(
                name=name,
                aborted_txns=[DumpedAbortedTxn(version=0, **txn._asdict()) for txn in aborted],
            )
        case _:
            return FileDump(
                name=name, producers=[dumped_producer(e) for e in decode_snapshot(data)]
            )


def _batches(data: bytes) -> Iterator[DumpedBatch]:
    end = 0
    for position, header in iter_headers(data):
        verify_crc(data, position, header)
        control = None
        if header.is_control and header.record_count:
            control = read_control_record(data, position)
        records = [_record(header, record, control) for record in iter_records(data, position)]
        yield DumpedBatch(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            count=header.record_count,
            base_sequence=header.base_sequence,
            last_sequence=header.last_sequence,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            partition_leader_epoch=header.leader_epoch,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
            delete_horizon_ms=header.delete_horizon_ms,
            position=position,
            timestamp_type=_kind(header),
            max_timestamp=header.max_timestamp,
            size=header.size,
            magic=header.magic,
            compresscodec=header.codec.name.lower(),
            crc=header.crc,
            isvalid=True,
            records=tuple(records),
        )
        end = position + header.size
    assert end == len(data), f"{len(data) - end} bytes after the last batch"


def _record(header: BatchHeader, record: Record, control: ControlRecord | None) -> DumpedRecord:
    """Of a marker the tool shows what it says, not the bytes that say it."""
    delta = record.offset - header.base_offset
    first = header.base_sequence
    return DumpedRecord(
        offset=record.offset,
        timestamp_type=_kind(header),
        timestamp=record.timestamp,
        sequence=-1 if first < 0 else (first + delta) & INT32_MAX,
        key=record.key if control is None else None,
        value=record.value if control is None else None,
        headers=tuple((name.encode(), value) for name, value in record.headers),
        control_type=None if control is None else control.type.name,
        coordinator_epoch=None if control is None else control.coordinator_epoch,
    )


def _kind(header: BatchHeader) -> str:
    return "LogAppendTime" if header.timestamp_type else "CreateTime"


def dumped_producer(entry: SnapshotEntry) -> DumpedProducer:
    first = entry.current_txn_first_offset
    known = entry.last_offset >= 0
    return DumpedProducer(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=None if first < 0 else first,
        last_timestamp=entry.timestamp,
        first_sequence=(entry.last_sequence - entry.offset_delta) & INT32_MAX if known else None,
        last_sequence=entry.last_sequence if known else None,
        last_offset=entry.last_offset if known else None,
        offset_delta=entry.offset_delta if known else None,
        timestamp=entry.timestamp if known else None,
    )
