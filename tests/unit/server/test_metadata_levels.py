"""Directories of older releases keep their metadata.version, and its versions of records."""

from ledgerstone.protocol.messages.metadata_records import FeatureLevelRecord
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.values import record_values
from tests.kit.in_process import InProcess

REGISTER_BROKER = 0


def _versions_of_registrations(machine: InProcess) -> list[int]:
    (data,) = [
        content
        for path, content in machine.fs.files().items()
        if "__cluster_metadata-0/" in path and path.endswith(".log")
    ]
    values = [
        value
        for position, header in iter_headers(data)
        if not header.is_control
        for value in record_values(data, position)
    ]
    return [value[2] for value in values if value is not None and value[1] == REGISTER_BROKER]


def test_a_new_directory_begins_with_the_newest_level(machine: InProcess) -> None:
    assert machine.broker.image.metadata_version == 30
    assert _versions_of_registrations(machine) == [4]


def test_an_older_level_stays_and_says_how_records_are_written(machine: InProcess) -> None:
    level = FeatureLevelRecord(name="metadata.version", feature_level=25)
    machine.broker.controller_link.write([level])

    machine.kill()

    assert machine.broker.image.metadata_version == 25
    assert _versions_of_registrations(machine) == [4, 3]
