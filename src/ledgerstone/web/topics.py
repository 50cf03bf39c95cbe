"""The list of topics, and the form that creates one. Grade D."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.errors import KafkaError
from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.replication.partition import Partition
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.broker import Broker
from ledgerstone.server.controller_link import OnAnswer
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.gate import need
from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.server.request import Request
from ledgerstone.server.session import Session
from ledgerstone.web.forms import form_of, path_of, see_other, whole_number
from ledgerstone.web.hosting import is_internal
from ledgerstone.web.router import NotShown, Rendered

SHOWN: Final = 200
_API_KEY: Final = int(ApiKey.CREATE_TOPICS)
# In the audit log, as on the Kafka port.
_KIND: Final = "topic.create"
_MOST_PARTITIONS: Final = 10_000


class TopicRow(NamedTuple):
    name: str
    is_internal: bool
    partition_count: int
    offsets: int  # between start and end of its logs, including compacted ones
    size_bytes: int
    segments: int
    policy: str
    is_failing: bool


def topics_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    wanted = request.query.get("q", "")
    asker = request.asker
    own, internal = _facts(broker, wanted, asker), _facts(broker, wanted, asker, of_cluster=True)
    facts = {"own": own, "internal": internal, "q": wanted}
    # A filtered list is not updated while it is open.
    if wanted:
        return Rendered("topics.html", facts)
    return Rendered("topics.html", {**facts, "live": ("topics", "internal_topics")})


def topics_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("topics_fragment.html", {"list": _facts(broker, "", asker)})


def internal_topics_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("topics_fragment.html", {"list": _facts(broker, "", asker, of_cluster=True)})


def _facts(
    broker: Broker, wanted: str, asker: Asker, *, of_cluster: bool = False
) -> dict[str, object]:
    """Users' topics, or internal ones, which are hidden by default."""
    names = sorted(
        name
        for name in broker.image.topics
        if wanted.lower() in name.lower()
        and is_internal(name) is of_cluster
        and asker.sees_topic(name)
    )
    shown = names[:SHOWN]
    by_topic: dict[str, list[Partition]] = {name: [] for name in shown}
    for partition in broker.partitions:
        if partition.topic_partition.topic in by_topic:
            by_topic[partition.topic_partition.topic].append(partition)
    return {
        "rows": [_row(broker, name, hosted) for name, hosted in by_topic.items()],
        "hidden": len(names) - len(shown),
    }


def _row(broker: Broker, name: str, hosted: list[Partition]) -> TopicRow:
    logs = [each.log for each in hosted]
    return TopicRow(
        name=name,
        is_internal=is_internal(name),
        partition_count=len(broker.image.topics[name].partitions),
        offsets=sum(log.log_end_offset - log.log_start_offset for log in logs),
        size_bytes=sum(log.size_bytes for log in logs),
        segments=sum(len(log.segments) for log in logs),
        policy=", ".join(logs[0].config.cleanup_policy) if logs else "",
        is_failing=any(log.failure is not None for log in logs),
    )


def create_topic(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    fields = form_of(request)
    name = fields.get("name", "").strip()
    if not request.asker.may_on_cluster(AclOperation.CREATE):
        need(broker, request.asker, AclOperation.CREATE, AclResourceType.TOPIC, name)
    partitions = whole_number(fields, "partitions", at_most=_MOST_PARTITIONS)
    wanted = CreateTopicsRequestTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1,
        configs=_configs(fields),
    )
    answers: list[ApiMessage] = []
    try:
        client = _client(broker, request.asker)
        heard = _written_down(broker, request.asker, client, name, answers.append)
        broker.controller_link.ask(CreateTopicsRequest(topics=[wanted]), heard, client=client)
    except (KafkaError, OSError) as error:
        raise NotShown(503, f"The topic was not created: {error}") from None
    if not answers:
        return see_other(path_of("topics"), notice=f"Topic {name} is being created.")
    (answer,) = answers
    assert isinstance(answer, CreateTopicsResponse)
    refusal = answer.topics[0]
    if refusal.error_code:
        raise NotShown(400, f"The topic was not created: {refusal.error_message}")
    return see_other(path_of("topics", name), notice=f"Topic {name} was created.")


def _client(broker: Broker, asker: Asker) -> Request | None:
    """In whose name another node is asked. None: the broker's own, for who may do everything here
    and is not known there."""
    if asker.rights is None or asker.principal is None:
        return None
    session = Session(asker.host, "HTTP", asker.principal)
    version, now_ms = APIS[_API_KEY].last_version, broker.clock.monotonic_ms()
    return Request(-1, _API_KEY, version, 0, "ledgerstone-page", session, now_ms)


def _written_down(
    broker: Broker, asker: Asker, client: Request | None, name: str, then: OnAnswer
) -> OnAnswer:
    """In the audit log, before it is done: OSError where that fails. A controller elsewhere writes
    down itself what it is asked in the name of a client."""
    auditor = broker.auditor
    if auditor is None or (client is not None and broker.controller_link.forwards(client)):
        return then
    known = (("principal", asker.principal), ("host", asker.host or None))
    who = {key: str(value) for key, value in known if value is not None}
    facts = {"path": "/topics", "what": [name]}
    auditor.begun(_KIND, who, facts)

    def answered(answer: ApiMessage) -> None:
        assert isinstance(answer, CreateTopicsResponse)
        is_refused = any(each.error_code for each in answer.topics)
        auditor.ended(_KIND, who, facts, 400 if is_refused else 200)
        then(answer)

    return answered


def _configs(fields: dict[str, str]) -> list[CreateTopicsRequestConfig]:
    configs = []
    if fields.get("policy"):
        configs.append(CreateTopicsRequestConfig("cleanup.policy", fields["policy"]))
    for line in fields.get("configs", "").splitlines():
        if line.strip():
            key, equals, value = line.partition("=")
            if not equals:
                raise NotShown(400, f"Settings are key=value, one a line; not {line[:80]!r}.")
            configs.append(CreateTopicsRequestConfig(key.strip(), value.strip()))
    return configs
