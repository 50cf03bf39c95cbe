"""expected.json: what an independent client and Kafka's own dump tool say about golden files.

Names follow the dump tool; headers are pairs of text key and hex value or null. Values longer
than LONG_VALUE bytes are given by size and SHA-256.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from golden.kafka_client import SeenPartition, SeenRecord
from golden.kafka_tools import DumpedBatch, KafkaToolError, PartitionDump

LONG_VALUE = 1024
Json = object


def describe_partition(
    seen: SeenPartition, dump: PartitionDump, directory: Path, config: Mapping[str, str]
) -> dict[str, Json]:
    """All that is known about one partition directory. Fails if the two readers disagree."""
    _check_agreement(seen, dump)
    description: dict[str, Json] = {
        "topic": seen.topic,
        "partition": seen.partition,
        "config": dict(config),
        "logStartOffset": seen.log_start_offset,
        "logEndOffset": seen.log_end_offset,
        "lastStableOffset": seen.last_stable_offset,
        "files": describe_files(directory),
        "batches": [
            {"segment": log.name, **_batch(batch)}
            for log in dump.of_kind(".log")
            for batch in log.batches
        ],
        "index": {
            file.name: [[entry.offset, entry.position] for entry in file.index]
            for file in dump.of_kind(".index")
        },
        "timeindex": {
            file.name: [[entry.timestamp, entry.offset] for entry in file.time_index]
            for file in dump.of_kind(".timeindex")
        },
        "txnindex": {
            file.name: [_camel(entry) for entry in file.aborted_txns]
            for file in dump.of_kind(".txnindex")
        },
        "snapshot": {
            file.name: [_camel(entry) for entry in file.producers]
            for file in dump.of_kind(".snapshot")
        },
        "dumpProblems": dump.problems,
        "records": [_record(record) for record in seen.uncommitted],
    }
    if any(batch.is_transactional for batch in dump.batches):
        description["recordsReadCommitted"] = [_record(record) for record in seen.committed]
    return description


def _check_agreement(seen: SeenPartition, dump: PartitionDump) -> None:
    dumped = [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for batch in dump.batches
        if not batch.is_control
        for record in batch.records
        if record.offset >= seen.log_start_offset
    ]
    consumed = [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in seen.uncommitted
    ]
    if dumped != consumed:
        odd = next((pair for pair in zip(dumped, consumed, strict=False) if pair[0] != pair[1]), "")
        raise KafkaToolError(
            f"{seen.topic}: dump has {len(dumped)} records, consumer {len(consumed)}; {odd}"
        )


def describe_files(directory: Path) -> dict[str, Json]:
    """Size and modification time, which git does not keep, of every file."""
    return {
        path.name: {"size": path.stat().st_size, "mtimeMs": int(path.stat().st_mtime * 1000)}
        for path in sorted(directory.iterdir())
        if path.is_file()
    }


def _batch(batch: DumpedBatch) -> dict[str, Json]:
    described = _camel(batch)
    del described["records"]
    markers = [
        {"controlType": record.control_type, "coordinatorEpoch": record.coordinator_epoch}
        for record in batch.records
        if record.control_type is not None
    ]
    if markers:
        described["markers"] = markers
    described["recordOffsets"] = _ranges(record.offset for record in batch.records)
    return described


def _ranges(offsets: Iterable[int]) -> list[list[int]]:
    """Offsets as inclusive runs; holes show what cleaning removed."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset - 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return runs


def _record(record: SeenRecord) -> dict[str, Json]:
    described: dict[str, Json] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": record.timestamp_type,
        "key": _hex(record.key),
    }
    if record.value is not None and len(record.value) > LONG_VALUE:
        described["valueSize"] = len(record.value)
        described["valueSha256"] = hashlib.sha256(record.value).hexdigest()
    else:
        described["value"] = _hex(record.value)
    described["headers"] = [[name.decode(), _hex(value)] for name, value in record.headers]
    return described


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _camel(value: object) -> dict[str, Json]:
    assert dataclasses.is_dataclass(value)
    described: dict[str, Json] = {}
    for item in dataclasses.fields(value):
        first, *rest = item.name.split("_")
        described[first + "".join(word.capitalize() for word in rest)] = getattr(value, item.name)
    return described


def write_json(path: Path, document: Mapping[str, Json]) -> None:
    """Maps spread over lines, the elements of a list one to a line: small, and diffs well."""
    path.write_text(_layout(document, "") + "\n", encoding="utf-8")


def _layout(value: Json, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, Mapping) and value and len(indent) < 3:
        rows = [f"{json.dumps(key)}: {_layout(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        rows = [json.dumps(item, separators=(",", ":")) for item in value]
        return "[\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}]"
    return json.dumps(value, separators=(",", ":"))
