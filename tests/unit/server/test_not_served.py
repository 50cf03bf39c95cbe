"""What is not built is refused with codes that clients take for final, or told that it is empty."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ledgerstone.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ledgerstone.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsUser,
)
from ledgerstone.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ledgerstone.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from ledgerstone.security.acl import AclFilter
from tests.kit.in_process import Client

ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
SECURITY_DISABLED = 54
RESOURCE_NOT_FOUND = 91


def test_consumer_of_the_new_protocol_is_told_at_once(client: Client) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", topic_partitions=[])

    answer = client.ask(request, ConsumerGroupHeartbeatResponse)

    assert answer.error_code == UNSUPPORTED_VERSION
    assert "group.protocol=classic" in (answer.error_message or "")


def test_share_group_is_refused(client: Client) -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m")

    answer = client.ask(request, ShareGroupHeartbeatResponse)

    assert answer.error_code == UNSUPPORTED_VERSION
    assert "share groups" in (answer.error_message or "")


def test_login_is_refused_where_nobody_logs_in(client: Client) -> None:
    answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)

    assert (answer.error_code, answer.mechanisms) == (ILLEGAL_SASL_STATE, [])


def test_acls_are_disabled(client: Client) -> None:
    acl, wanted = CreateAclsCreation(2, "t", 3, "User:a", "*", 3, 3), AclFilter()
    described = client.ask(DescribeAclsRequest(*wanted), DescribeAclsResponse)
    created = client.ask(CreateAclsRequest(creations=[acl]), CreateAclsResponse)
    twice = DeleteAclsRequest(filters=[DeleteAclsFilter(*wanted)] * 2)
    deleted = client.ask(twice, DeleteAclsResponse)

    assert described.error_code == SECURITY_DISABLED
    assert [each.error_code for each in created.results] == [SECURITY_DISABLED]
    assert [each.error_code for each in deleted.filter_results] == [SECURITY_DISABLED] * 2


def test_at_first_there_are_no_quotas_and_no_credentials(client: Client) -> None:
    quotas = client.ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    everybody = client.ask(
        DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse
    )
    somebody = client.ask(
        DescribeUserScramCredentialsRequest(users=[DescribeUserScramCredentialsUser("ann")]),
        DescribeUserScramCredentialsResponse,
    )
    twice = client.ask(
        DescribeUserScramCredentialsRequest(users=[DescribeUserScramCredentialsUser("ann")] * 2),
        DescribeUserScramCredentialsResponse,
    )

    assert (quotas.error_code, quotas.entries) == (ErrorCode.NONE, [])
    assert (everybody.error_code, everybody.results) == (ErrorCode.NONE, [])
    assert [(each.user, each.error_code) for each in somebody.results] == [
        ("ann", RESOURCE_NOT_FOUND)
    ]
    assert [(each.user, each.error_code) for each in twice.results] == [
        ("ann", ErrorCode.DUPLICATE_RESOURCE)
    ]


@pytest.mark.parametrize("api_key", [69, 71, 72, 77, 78])
def test_what_would_change_or_promise_something_is_not_offered(
    client: Client, api_key: int
) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")

    answer = client.ask(request, ApiVersionsResponse)

    assert api_key not in [each.api_key for each in answer.api_keys]


def test_supported_metadata_versions_begin_where_those_of_kafka_4_begin(client: Client) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")

    first = client.ask(request, ApiVersionsResponse).supported_features[0]

    assert (first.name, first.min_version) == ("metadata.version", 7)
