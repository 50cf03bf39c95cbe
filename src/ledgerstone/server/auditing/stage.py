"""Changes on the Kafka port, written down before they are made. Grade D, through the handlers.

Behind the `authorised` stage: what is refused there is a denial, and no change.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.metadata.not_controller import refusal
from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, Struct
from ledgerstone.security.acl import Acl
from ledgerstone.server.auditing.auditor import Auditor
from ledgerstone.server.authorising.table import DECIDED_BY_CONTROLLER
from ledgerstone.server.broker import Broker
from ledgerstone.server.part_of_request import PartOfRequest, pass_part_on
from ledgerstone.server.request import Answer, Disconnect, Request
from ledgerstone.server.stages import Handler, Stage
from ledgerstone.uuid_text import uuid_to_text

_MARKER_SENDER: Final = re.compile(r"broker-\d+-txn-marker-sender")
_NO_ROOM: Final = "the audit log cannot be written, so nothing is changed"


class Audited(NamedTuple):
    kind: str
    # What a request is about, as texts; keys of settings but never their values.
    what: Callable[[Any], list[str]]
    # Brokers ask for the same all the time: only what a person asks for is written.
    by_hand: bool = False
    # Principals and users are people: what is said of them can be redacted.
    names_people: bool = False


def _names(field: str, name: str = "name") -> Callable[[Any], list[str]]:
    return lambda message: [str(getattr(each, name)) for each in getattr(message, field)]


def _deleted(message: Any) -> list[str]:  # noqa: ANN401 - of its API's class
    by_id = [each.name or uuid_to_text(each.topic_id) for each in message.topics]
    return [*message.topic_names, *by_id]


def _settings(message: Any) -> list[str]:  # noqa: ANN401
    return [
        f"{each.resource_type}:{each.resource_name}:{','.join(key.name for key in each.configs)}"
        for each in message.resources
    ]


def _acls(message: Any) -> list[str]:  # noqa: ANN401
    return [str(tuple(_fields(each))) for each in message.creations]


def _filters(message: Any) -> list[str]:  # noqa: ANN401
    return [str(tuple(_fields(each))) for each in message.filters]


def _fields(acl: Struct) -> list[object]:
    return [getattr(acl, name) for name in acl.__slots__[: len(Acl._fields)]]


def _records(message: Any) -> list[str]:  # noqa: ANN401
    return [
        f"{topic.name}-{each.partition_index}:{each.offset}"
        for topic in message.topics
        for each in topic.partitions
    ]


def _quotas(message: Any) -> list[str]:  # noqa: ANN401
    return [
        f"{[(part.entity_type, part.entity_name) for part in each.entity]}:"
        f"{','.join(op.key for op in each.ops)}"
        for each in message.entries
    ]


def _users(message: Any) -> list[str]:  # noqa: ANN401
    return [each.name for each in (*message.deletions, *message.upsertions)]


def _elected(message: Any) -> list[str]:  # noqa: ANN401
    if message.topic_partitions is None:
        return ["every partition"]
    return [f"{each.topic}-{each.partitions}" for each in message.topic_partitions]


def _moved(message: Any) -> list[str]:  # noqa: ANN401
    return [
        f"{topic.name}-{topic.partitions}:{each.path}"
        for each in message.dirs
        for topic in each.topics
    ]


def _markers(message: Any) -> list[str]:  # noqa: ANN401
    return [
        f"producer {each.producer_id} epoch {each.producer_epoch} "
        f"{'commit' if each.transaction_result else 'abort'} "
        f"{[f'{topic.name}-{topic.partition_indexes}' for topic in each.topics]}"
        for each in message.markers
    ]


def _is_broker(broker: Broker, request: Request) -> bool:
    """As a coordinator of this cluster sends markers. Who may send any may also call itself so."""
    cluster = broker.config.cluster
    return (
        cluster.is_configured
        and request.session.listener == cluster.inter_broker_listener_name
        and _MARKER_SENDER.fullmatch(request.client_id or "") is not None
    )


AUDITED: Final[Mapping[int, Audited]] = {
    ApiKey.CREATE_TOPICS: Audited("topic.create", _names("topics")),
    ApiKey.DELETE_TOPICS: Audited("topic.delete", _deleted),
    ApiKey.CREATE_PARTITIONS: Audited("topic.grow", _names("topics")),
    ApiKey.ALTER_CONFIGS: Audited("config.alter", _settings),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Audited("config.alter", _settings),
    ApiKey.CREATE_ACLS: Audited("acl.create", _acls, names_people=True),
    ApiKey.DELETE_ACLS: Audited("acl.delete", _filters, names_people=True),
    ApiKey.ALTER_CLIENT_QUOTAS: Audited("quota.alter", _quotas, names_people=True),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Audited("user.alter", _users, names_people=True),
    ApiKey.DELETE_RECORDS: Audited("records.delete", _records),
    ApiKey.DELETE_GROUPS: Audited("group.delete", lambda message: list(message.groups_names)),
    ApiKey.OFFSET_DELETE: Audited("group.offsets", lambda message: [message.group_id]),
    ApiKey.ELECT_LEADERS: Audited("leaders.elect", _elected),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Audited("replicas.move", _moved),
    ApiKey.WRITE_TXN_MARKERS: Audited("txn.abort", _markers, by_hand=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Audited("replicas.move", _names("topics")),
    ApiKey.UPDATE_FEATURES: Audited("feature.update", _names("feature_updates", "feature")),
    ApiKey.UNREGISTER_BROKER: Audited(
        "broker.unregister", lambda message: [str(message.broker_id)]
    ),
    ApiKey.ADD_RAFT_VOTER: Audited("voter.add", lambda message: [str(message.voter_id)]),
    ApiKey.REMOVE_RAFT_VOTER: Audited("voter.remove", lambda message: [str(message.voter_id)]),
}


def audited(auditor: Auditor) -> Stage[Broker]:
    auditor.audited = frozenset(AUDITED)

    def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
        rule = AUDITED.get(api_key)
        if rule is None:
            return handler
        kind, what, is_by_hand, names_people = rule
        is_decided_by_controller = api_key in DECIDED_BY_CONTROLLER

        def write_down(broker: Broker, request: Request, message: ApiMessage) -> Answer:
            is_elsewhere = is_decided_by_controller and broker.controller_link.forwards(request)
            if is_elsewhere or getattr(message, "validate_only", False):
                return handler(broker, request, message)
            if is_by_hand and _is_broker(broker, request):
                return handler(broker, request, message)
            if isinstance(request, PartOfRequest) and request.is_only_wrong:
                auditor.only_wrong(request, kind)
                return handler(broker, request, message)
            try:
                auditor.asked(request, kind, what(message), names_people=names_people)
            except OSError as error:
                broker.log_failed(None, error)
                return _refused(message)

            def finish(response: ApiMessage) -> ApiMessage:
                auditor.answered(request, kind, Counter(_codes(response)))
                return response

            return pass_part_on(broker, request, message, handler, finish)

        return write_down

    return stage


def _refused(message: ApiMessage) -> ApiMessage:
    code = ErrorCode.KAFKA_STORAGE_ERROR
    try:
        return refusal(message, code, _NO_ROOM)
    except Exception as error:
        raise Disconnect(_NO_ROOM) from error


def _codes(value: object) -> Iterator[int]:
    """Every code of an answer, wherever it stands."""
    if isinstance(value, list):
        for each in value:
            yield from _codes(each)
    elif isinstance(value, Struct):
        for name in value.__slots__:
            each = getattr(value, name)
            if name.endswith("error_code"):
                yield each
            elif isinstance(each, list):
                yield from _codes(each)
