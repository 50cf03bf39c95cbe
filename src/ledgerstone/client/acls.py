"""ACLs: read, make, remove. Shell over a `Client`."""

from collections.abc import Iterable, Sequence

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import check
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
from ledgerstone.security.acl import Acl, AclFilter


def describe_acls(client: Client, wanted: AclFilter) -> list[Acl]:
    response = client.call(DescribeAclsRequest(*wanted), DescribeAclsResponse)
    check(response.error_code, "ACLs", response.error_message)
    return [
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in response.resources
        for each in resource.acls
    ]


def create_acls(client: Client, acls: Sequence[Acl]) -> None:
    """Those that are there already stay. Those before one that is refused are made."""
    request = CreateAclsRequest([CreateAclsCreation(*each) for each in acls])
    response = client.call(request, CreateAclsResponse)
    for acl, result in zip(acls, response.results, strict=True):
        check(result.error_code, f"ACL for {acl.principal}", result.error_message)


def delete_acls(client: Client, filters: Iterable[AclFilter]) -> list[Acl]:
    """What was removed, each once."""
    request = DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters])
    response = client.call(request, DeleteAclsResponse)
    removed: dict[Acl, None] = {}
    for result in response.filter_results:
        check(result.error_code, "ACLs", result.error_message)
        for each in result.matching_acls:
            check(each.error_code, f"ACL for {each.principal}", each.error_message)
            acl = Acl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            removed[acl] = None
    return list(removed)
