"""CreateAcls and DeleteAcls. Pure: image and request in, records and response out.

Each ACL and each filter is judged by itself. An ACL that is there already is a success without a
record. Rules in README.md.
"""

import ipaddress
from typing import Final

from ledgerstone.clock import Dice
from ledgerstone.errors import InvalidRequest, KafkaError, PolicyViolation
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResult,
)
from ledgerstone.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ledgerstone.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from ledgerstone.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from ledgerstone.uuid_text import random_uuid

MAX_ACLS_PER_REQUEST: Final = 10_000

_RESOURCE_TYPES: Final = frozenset(AclResourceType) - {AclResourceType.ANY}
_OPERATIONS: Final = frozenset(AclOperation) - {AclOperation.ANY}
_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_PERMISSIONS: Final = (PermissionType.DENY, PermissionType.ALLOW)


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, dice: Dice
) -> Decision[CreateAclsResponse]:
    created: dict[Acl, None] = {}
    results = []
    for creation in request.creations:
        try:
            acl = _checked(creation)
        except KafkaError as error:
            results.append(CreateAclsResult(error.code, reason_of(error)))
            continue
        if acl not in image.acl_ids:
            created[acl] = None
        results.append(CreateAclsResult())
    if len(created) > MAX_ACLS_PER_REQUEST:
        return Decision([], _too_many(results))
    records: list[MetadataRecord] = [
        AccessControlEntryRecord(random_uuid(dice), *acl) for acl in created
    ]
    return Decision(records, CreateAclsResponse(results=results))


def _too_many(results: list[CreateAclsResult]) -> CreateAclsResponse:
    """Whatever could have been made is refused; what was refused before keeps its reason."""
    code = PolicyViolation.code
    refused = CreateAclsResult(code, "Unable to perform excessively large batch operation.")
    return CreateAclsResponse(results=[each if each.error_code else refused for each in results])


def _checked(creation: CreateAclsCreation) -> Acl:
    name, principal = creation.resource_name, creation.principal
    if creation.resource_type == AclResourceType.CLUSTER and name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise InvalidRequest("Invalid empty resource name")
    if creation.resource_type not in _RESOURCE_TYPES:
        raise InvalidRequest(f"Invalid resourceType {creation.resource_type}")
    if creation.resource_pattern_type not in _PATTERNS:
        raise InvalidRequest(f"Invalid patternType {creation.resource_pattern_type}")
    if creation.operation not in _OPERATIONS:
        raise InvalidRequest(f"Invalid operation {creation.operation}")
    if creation.permission_type not in _PERMISSIONS:
        raise InvalidRequest(f"Invalid permissionType {creation.permission_type}")
    if ":" not in principal:
        raise InvalidRequest(f"Could not parse principal from `{principal}`: it has no colon")
    _check_host(creation.host)
    return Acl(
        creation.resource_type,
        name,
        creation.resource_pattern_type,
        principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _check_host(host: str) -> None:
    """Differs from Kafka: there a rule for a host that no client can have is kept, and a DENY that
    was meant to protect something protects nothing."""
    if host == WILDCARD:
        return
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise InvalidRequest(f"host {host!r} is neither an IP address nor *") from None


def delete_acls(image: MetadataImage, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    """Two filters may name the same ACL: it goes once, and both report it. What is reported is
    bounded, too: a thousand filters that match everything would fill the memory with their answers.
    """
    removed: dict[bytes, None] = {}
    reported = 0
    results = []
    for each in request.filters:
        try:
            wanted = _filter_of(each)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error.code, reason_of(error)))
            continue
        found = {acl_id: acl for acl_id, acl in image.acls.items() if wanted.matches(acl)}
        removed |= dict.fromkeys(found)
        reported += len(found)
        # Differs from Kafka, which counts what several filters match only once.
        if reported > MAX_ACLS_PER_REQUEST:
            return Decision([], _too_many_removed(request))
        matching = [DeleteAclsMatchingAcl(0, None, *acl) for acl in found.values()]
        results.append(DeleteAclsFilterResult(matching_acls=matching))
    records: list[MetadataRecord] = [RemoveAccessControlEntryRecord(each) for each in removed]
    return Decision(records, DeleteAclsResponse(filter_results=results))


def _too_many_removed(request: DeleteAclsRequest) -> DeleteAclsResponse:
    reason = f"Cannot remove more than {MAX_ACLS_PER_REQUEST} acls in a single delete operation."
    refused = DeleteAclsFilterResult(InvalidRequest.code, reason)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def _filter_of(asked: DeleteAclsFilter) -> AclFilter:
    if asked.resource_type_filter not in list(AclResourceType):
        raise InvalidRequest("Unknown patternFilter.")
    if asked.pattern_type_filter not in list(PatternType):
        raise InvalidRequest("Unknown patternFilter.")
    if asked.operation not in list(AclOperation):
        raise InvalidRequest("Unknown entryFilter.")
    if asked.permission_type not in list(PermissionType):
        raise InvalidRequest("Unknown entryFilter.")
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
