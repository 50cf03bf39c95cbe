"""The generated message classes are what the schemas say, and comfortable to use."""

from pathlib import Path

import pytest

import codegen
from ledgerstone.errors import UnsupportedVersion
from ledgerstone.protocol.api import OFFERED
from ledgerstone.protocol.codec import api_class
from ledgerstone.protocol.messages import APIS, ApiKey
from ledgerstone.protocol.messages.fetch import FetchPartitionResponse, FetchRequest
from ledgerstone.protocol.messages.metadata_records import RegisterBrokerRecord
from ledgerstone.protocol.messages.produce import ProduceRequest, ProduceResponse


def test_committed_modules_are_what_the_schemas_say(tmp_path: Path) -> None:
    codegen.generate(tmp_path)

    assert codegen.differences(tmp_path) == []


def test_every_schema_has_a_module_or_belongs_to_a_feature_that_is_not_built() -> None:
    schemas = {path.stem for path in codegen.SCHEMAS.glob("*.txt")}
    modules = {path.stem for path in codegen.MESSAGES.glob("*.py")} - {"__init__"}

    assert schemas >= codegen.NOT_BUILT
    assert modules == schemas - codegen.NOT_BUILT


def test_api_that_is_not_built_is_known_but_has_no_messages() -> None:
    api = APIS[ApiKey.SHARE_FETCH]

    assert (api.name, api.module, api.last_version) == ("ShareFetch", None, 2)
    assert ApiKey.SHARE_FETCH not in OFFERED
    with pytest.raises(UnsupportedVersion, match="api key 78 is not supported"):
        api_class(ApiKey.SHARE_FETCH, "Request")


def test_every_offered_api_has_messages() -> None:
    assert [key for key in OFFERED if APIS[key].module is None] == []


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
