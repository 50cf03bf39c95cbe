"""The generated message classes are what the schemas say, and comfortable to use."""

from pathlib import Path

import codegen
from ledgerstone.protocol.messages.fetch import FetchPartitionResponse, FetchRequest
from ledgerstone.protocol.messages.metadata_records import RegisterBrokerRecord
from ledgerstone.protocol.messages.produce import ProduceRequest, ProduceResponse


def test_committed_modules_are_what_the_schemas_say(tmp_path: Path) -> None:
    codegen.generate(tmp_path)

    assert codegen.differences(tmp_path) == []


def test_every_field_has_a_default_so_a_handler_sets_only_what_matters() -> None:
    response = FetchPartitionResponse(partition_index=3)

    assert response.last_stable_offset == -1
    assert response.records is None
    assert response.current_leader is None
    assert RegisterBrokerRecord().fenced is True


def test_lists_are_not_shared_between_messages() -> None:
    ProduceResponse().responses.append(None)  # type: ignore[arg-type]

    assert ProduceResponse().responses == []


def test_class_knows_its_api_without_an_instance() -> None:
    assert (ProduceRequest.api_key, ProduceRequest.name) == (0, "Produce")
    assert (FetchRequest.api_key, FetchRequest.name) == (1, "Fetch")
    assert RegisterBrokerRecord.record_type == 0
