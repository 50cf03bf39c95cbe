"""Answers to requests for the controller that no controller has decided about. Pure.

The code stands in the place each API has for it. NOT_CONTROLLER makes clients look for the
controller again. A change that was under way may still happen, so a retry may find it done.
"""

from typing import Any, Final, cast

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.codec import api_class
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntry,
)
from ledgerstone.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
)
from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResult,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResult,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)

_REASON: Final = "this node is not the controller"
# Where the results of an answer without a code for the whole of it are.
_RESULTS: Final = ("topics", "responses", "results", "filter_results", "entries")


def not_controller(request: ApiMessage) -> ApiMessage:
    return refusal(request, ErrorCode.NOT_CONTROLLER, _REASON)


def says_not_controller(response: ApiMessage) -> bool:
    """Whether another node has to be asked."""
    code = ErrorCode.NOT_CONTROLLER
    if getattr(response, "error_code", 0) == code:
        return True
    results = next((getattr(response, n) for n in _RESULTS if hasattr(response, n)), ())
    return any(getattr(each, "error_code", 0) == code for each in results)


def refusal(request: ApiMessage, code: int, reason: str) -> ApiMessage:
    """The same code for everything that was asked for."""
    match request:
        case CreateTopicsRequest():
            names = dict.fromkeys(topic.name for topic in request.topics)
            return CreateTopicsResponse(
                topics=[
                    CreateTopicsResponseTopic(name=name, error_code=code, error_message=reason)
                    for name in names
                ]
            )
        case DeleteTopicsRequest():
            by_name = [DeleteTopicsResult(name=name) for name in request.topic_names]
            by_both = [DeleteTopicsResult(each.name, each.topic_id) for each in request.topics]
            for result in (*by_name, *by_both):
                result.error_code, result.error_message = code, reason
            return DeleteTopicsResponse(responses=[*by_both, *by_name])
        case CreatePartitionsRequest():
            names = dict.fromkeys(topic.name for topic in request.topics)
            results = [CreatePartitionsResult(name, code, reason) for name in names]
            return CreatePartitionsResponse(results=results)
        case IncrementalAlterConfigsRequest():
            return IncrementalAlterConfigsResponse(
                responses=[
                    IncrementalAlterConfigsResult(
                        code, reason, each.resource_type, each.resource_name
                    )
                    for each in request.resources
                ]
            )
        case AlterUserScramCredentialsRequest():
            users = [each.name for each in request.deletions]
            users += [each.name for each in request.upsertions]
            return AlterUserScramCredentialsResponse(
                results=[
                    AlterUserScramCredentialsResult(user, code, reason)
                    for user in dict.fromkeys(users)
                ]
            )
        case CreateAclsRequest():
            return CreateAclsResponse(
                results=[CreateAclsResult(code, reason) for _ in request.creations]
            )
        case DeleteAclsRequest():
            return DeleteAclsResponse(
                filter_results=[DeleteAclsFilterResult(code, reason) for _ in request.filters]
            )
        case AlterClientQuotasRequest():
            return AlterClientQuotasResponse(
                entries=[
                    AlterClientQuotasResponseEntry(code, reason, each.entity)
                    for each in request.entries
                ]
            )
        case AlterConfigsRequest():
            return AlterConfigsResponse(
                responses=[
                    AlterConfigsResult(code, reason, each.resource_type, each.resource_name)
                    for each in request.resources
                ]
            )
        case _:
            return _with_one_code(request, code, reason)


def _with_one_code(request: ApiMessage, code: int, reason: str) -> ApiMessage:
    response: Any = api_class(request.api_key, "Response")()
    if not hasattr(response, "error_code"):
        raise InvariantViolation(f"{request.name} has no place for an error")
    response.error_code = code
    if hasattr(response, "error_message"):
        response.error_message = reason
    return cast(ApiMessage, response)
