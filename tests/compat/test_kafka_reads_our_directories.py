"""Apache Kafka's own dump tool on directories we wrote: it must see what was written.

Each directory has three descriptions in the words of that tool: the model of what was asked for,
what Kafka reads in the files, and what our own decoders read. All three must be the same, file by
file and field by field. Needs Java, and Maven for the first run: `make kafka-reads`.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

import kafka_reads
from golden.kafka_tools import FileDump, PartitionDump
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.system import OsFilesystem
from tests.kit.directories import KINDS, write_directories
from tests.kit.expected_dump import LogModel
from tests.kit.logs import T0
from tests.kit.our_dump import read_files

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka's tools need Java"),
]
NAMES = [kind.name for kind in KINDS]


class Reading(NamedTuple):
    model: LogModel
    directory: Path
    kafkas: PartitionDump


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Reading]:
    """All directories in one go: four JVMs start, however many there are."""
    path = tmp_path_factory.mktemp("log-dir")
    models = write_directories(OsFilesystem(), str(path), now_ms=T0)
    directories = [path / f"{name}-0" for name in NAMES]
    dumps = kafka_reads.read(directories)
    return {
        name: Reading(models[name], directory, dump)
        for name, directory, dump in zip(NAMES, directories, dumps, strict=True)
    }


@pytest.mark.parametrize("name", NAMES)
def test_kafka_has_nothing_to_complain_about(readings: Mapping[str, Reading], name: str) -> None:
    model, _, kafkas = readings[name]

    assert sorted(kafka_reads.problems_of(kafkas)) == sorted(false_alarms(model))


@pytest.mark.parametrize("name", NAMES)
def test_kafka_reads_what_was_written(readings: Mapping[str, Reading], name: str) -> None:
    model, _, kafkas = readings[name]

    expected = model.files()

    assert sorted(kafkas.files) == sorted(expected)
    for file in expected:
        assert_same(kafkas.files[file], expected[file])


@pytest.mark.parametrize("name", NAMES)
def test_we_read_what_kafka_reads(readings: Mapping[str, Reading], name: str) -> None:
    _, directory, kafkas = readings[name]

    ours = read_files({path.name: path.read_bytes() for path in directory.iterdir()})

    assert sorted(ours) == sorted(kafkas.files)
    for file in ours:
        assert_same(ours[file], kafkas.files[file])


def assert_same(found: FileDump, expected: FileDump) -> None:
    """In small steps: a difference is one batch or entry, not two long lists."""
    for mine, theirs in zip(found.batches, expected.batches, strict=False):
        assert mine == theirs, found.name
    # Kafka's complaints have their own test.
    assert replace(found, problems=[]) == replace(expected, problems=[])


def false_alarms(model: LogModel) -> Iterator[str]:
    """A batch that cleaning has emptied keeps its largest timestamp, and an index entry may carry
    it, Kafka's own too. The tool looks for the record that had it."""
    for segment in model.segments:
        empty = [batch.last_offset for batch in segment.batches if batch.count == 0]
        for entry in segment.time_index:
            if entry.offset in empty:
                file = file_name(segment.base_offset, Kind.TIME_INDEX)
                stamps = f"Index timestamp: {entry.timestamp}, log timestamp: -1"
                for run in ("", "--verify-index-only: "):
                    yield f"{file}: {run}Found timestamp mismatch in: {stamps}"
