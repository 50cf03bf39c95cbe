"""The JSON API of the second port: what Kafka's protocol has no request for. Grade D.

    GET  /api/v1/clock                        the broker's time, and whether it can be moved
    POST /api/v1/clock/advance {"ms": n}      moves it; only under `up --clock virtual`
    GET  /api/v1/topics/T/cleaning            state and gates of each partition hosted here
    POST /api/v1/topics/T/compact {"partition": n}    asks for passes, answers with tickets
    GET  /api/v1/tickets/N                    what became of one of them
    GET  /api/v1/cleaner/history[?topic=T]    the passes that are remembered, newest first

What is about erasures is in `http_erasure`, about tombstones in `http_guard`, about the anatomy of
logs in `http_anatomy`, about damage in `http_damage`, about transactions in `http_transactions`,
about quotas in `http_quotas`, about the cluster in `http_cluster`, about the audit log in
`http_audit`.
Errors are JSON too: {"error": why}. Who asks is found out before; which right a call needs is in
`route_rights`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.view import history_json, partition_status, ticket_json
from ledgerstone.server.erasing.work import NotYet
from ledgerstone.server.http import anatomy as http_anatomy
from ledgerstone.server.http import audit as http_audit
from ledgerstone.server.http import cluster as http_cluster
from ledgerstone.server.http import damage as http_damage
from ledgerstone.server.http import erasure as http_erasure
from ledgerstone.server.http import guard as http_guard
from ledgerstone.server.http import quotas as http_quotas
from ledgerstone.server.http import transactions as http_transactions
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.forwarded import routed
from ledgerstone.server.http.gate import check_route, need_on_topic
from ledgerstone.server.http.json_body import Refused, Retried, body_of, json_page
from ledgerstone.server.http.server import HttpRequest, Page, PagePause, SlowPage
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.auditing.http_acts import HttpAct

PREFIX: Final = "/api/v1/"
# A century; nobody needs more, and sums with it stay far from 64 bits.
LONGEST_ADVANCE_MS: Final = 100 * 366 * 86_400_000
_HISTORY_LIMIT: Final = 1000
# Shorter than the command line waits.
WAIT_MS: Final = 25_000
_PAUSE_S: Final = 0.01


def reads_only(path: str) -> bool:
    """Whether a POST to the path changes nothing: a body keeps keys out of addresses."""
    match path.removeprefix(PREFIX).split("/"):
        case ["topics", _, "where"]:
            return path.startswith(PREFIX)
        case _:
            return False


def begin(broker: Broker, request: HttpRequest) -> Page | SlowPage | None:
    """None for a path that is not the API's. What does not have to wait is answered at once."""
    if not request.path.startswith(PREFIX):
        return None
    asked = ApiCall(broker, request)
    try:
        return asked.attempt()
    except NotYet as reason:
        return _waiting(broker, asked, str(reason))


def handle(broker: Broker, request: HttpRequest) -> Page | None:
    """For callers that cannot wait; what would have to is 503."""
    if not request.path.startswith(PREFIX):
        return None
    try:
        return ApiCall(broker, request).attempt()
    except NotYet as reason:
        return json_page(503, {"error": f"not yet: {reason}"})


def _waiting(broker: Broker, asked: "ApiCall", reason: str) -> SlowPage:
    deadline_ms = broker.clock.monotonic_ms() + WAIT_MS
    while broker.clock.monotonic_ms() < deadline_ms:
        yield PagePause(_PAUSE_S)
        try:
            return asked.attempt()
        except NotYet as not_yet:
            reason = str(not_yet)
    return json_page(503, {"error": f"not in time: {reason}"})


class ApiCall:
    """One call, tried until it is answered. A change is made once, however often it is tried."""

    def __init__(self, broker: Broker, request: HttpRequest, *, is_routed: bool = True) -> None:
        """Not `is_routed`: another broker sent it here, and it goes no further."""
        self._broker = broker
        self._request = request
        self._is_routed = is_routed
        self._retried: Retried | None = None
        self._is_allowed = False
        # What the audit log says of it, once it has.
        self._act: HttpAct | None = None

    def _write_down(self, parts: list[str]) -> None:
        """In the audit log, before it is done, and once. Paths have no keys in them."""
        auditor, request = self._broker.auditor, self._request
        if auditor is None or self._act is not None or not self._is_routed:
            return
        if request.method != "POST":
            return
        from ledgerstone.server.auditing.http_acts import act_of

        asker = request.asker
        principal = None if asker.principal is None else str(asker.principal)
        host = asker.host or None
        act = act_of(parts, request.path, request.body, principal=principal, host=host)
        try:
            auditor.begun(act.kind, act.who, act.facts)
        except OSError as error:
            raise Refused(503, f"the audit log cannot be written: {error}") from error
        self._act = act

    def attempt(self) -> Page:
        """NotYet where it has to be tried again."""
        page = self._attempt()
        if self._act is not None and self._broker.auditor is not None:
            self._broker.auditor.ended(self._act.kind, self._act.who, self._act.facts, page.status)
        return page

    def _attempt(self) -> Page:
        try:
            if not self._is_allowed:
                check_route(self._broker, self._request)
                self._is_allowed = True
            path = self._request.path.removeprefix(PREFIX)
            parts = [unquote(part) for part in path.split("/")]
            self._write_down(parts)
            if self._retried is None:
                content = _dispatch(self._broker, self._request, parts, is_routed=self._is_routed)
                if isinstance(content, Retried):
                    self._retried = content
            if self._retried is not None:
                content = self._retried.attempt()
        except Refused as error:
            return json_page(error.status, {"error": str(error)})
        return content if isinstance(content, Page) else json_page(200, content)


def _dispatch(broker: Broker, request: HttpRequest, parts: list[str], *, is_routed: bool) -> object:
    calls: Mapping[str, Callable[[], object]]
    match parts:
        case ["clock"]:
            calls = {"GET": lambda: _clock(broker)}
        case ["clock", "advance"]:
            calls = {"POST": lambda: _advance(broker, request)}
        case ["topics", topic, "cleaning"]:
            calls = {"GET": lambda: _cleaning(broker, topic, request.asker)}
        case ["topics", topic, "compact"]:
            calls = {"POST": lambda: _compact(broker, topic, request)}
        case ["tickets", number]:
            calls = {"GET": lambda: _ticket(broker, request, number)}
        case ["cleaner", "history"]:
            calls = {"GET": lambda: _history(broker, request)}
        case _:
            found = http_erasure.calls(broker, request, parts)
            if found is not None and http_erasure.is_for_coordinator(parts):
                found = routed(broker, request, found, is_routed=is_routed)
            found = found or http_guard.calls(broker, request, parts)
            found = found or http_anatomy.calls(broker, request, parts)
            found = found or http_damage.calls(broker, request, parts)
            found = found or http_transactions.calls(broker, request, parts)
            found = found or http_quotas.calls(broker, parts)
            found = found or http_cluster.calls(broker, request, parts)
            found = found or http_audit.calls(broker, request, parts)
            if found is None:
                raise Refused(404, f"there is no {request.path}")
            calls = found
    method = "GET" if request.method == "HEAD" else request.method
    if method not in calls:
        raise Refused(405, f"{request.path} takes {' and '.join(calls)}")
    return calls[method]()


def _clock(broker: Broker) -> object:
    clock = broker.clock
    is_virtual = isinstance(clock, MovableClock)
    return {
        "now_ms": clock.now_ms(),
        "virtual": is_virtual,
        "ahead_ms": clock.ahead_ms if isinstance(clock, MovableClock) else 0,
    }


def _advance(broker: Broker, request: HttpRequest) -> object:
    if not isinstance(broker.clock, MovableClock):
        raise Refused(409, "this broker keeps real time; start it with --clock virtual")
    ms = body_of(request).get("ms")
    if type(ms) is not int or not 0 <= ms <= LONGEST_ADVANCE_MS:
        raise Refused(400, f"ms must be a whole number from 0 to {LONGEST_ADVANCE_MS}")
    broker.clock.advance(ms)
    broker.clock_moved()
    return _clock(broker)


def _hosted(broker: Broker, topic: str) -> list[Partition]:
    found = [each for each in broker.partitions if each.topic_partition.topic == topic]
    if not found:
        raise Refused(404, f"no partition of topic {topic} is hosted here")
    return sorted(found, key=lambda each: each.topic_partition.partition)


def _cleaning(broker: Broker, topic: str, asker: Asker) -> object:
    try:
        return {
            "partitions": [
                partition_status(broker.cleaning, each, asker) for each in _hosted(broker, topic)
            ]
        }
    except (OSError, StorageError, KafkaError) as error:
        raise Refused(503, f"the log cannot be read: {error}") from error


def _compact(broker: Broker, topic: str, request: HttpRequest) -> object:
    partitions = _hosted(broker, topic)
    number = body_of(request).get("partition")
    if number is not None:
        partitions = [each for each in partitions if each.topic_partition.partition == number]
        if not partitions or type(number) is not int:
            raise Refused(404, f"partition {number} of topic {topic} is not hosted here")
    if not partitions[0].log.config.compacts:
        raise Refused(409, f"cleanup.policy of {topic} does not contain compact")
    settings = broker.cleaning.settings
    if not settings.enable or settings.threads == 0:
        raise Refused(409, "the cleaner is switched off: log.cleaner.enable or log.cleaner.threads")
    tickets = [broker.cleaning.ask(each.topic_partition) for each in partitions]
    return {"tickets": [ticket_json(each) for each in tickets]}


def _ticket(broker: Broker, request: HttpRequest, number: str) -> object:
    is_number = number.isascii() and number.isdecimal() and len(number) <= 18
    ticket = broker.cleaning.tickets.get(int(number)) if is_number else None
    if ticket is None or not request.asker.sees_topic(ticket.topic_partition.topic):
        raise Refused(404, f"there is no ticket {number}")
    return ticket_json(ticket)


def _history(broker: Broker, request: HttpRequest) -> object:
    topic = request.query.get("topic")
    if topic is not None:
        need_on_topic(broker, request.asker, AclOperation.DESCRIBE, topic)
    partitions = [
        each
        for each in (broker.partitions if topic is None else _hosted(broker, topic))
        if _is_wanted(each.topic_partition, request.query.get("partition"))
        and request.asker.sees_topic(each.topic_partition.topic)
    ]
    runs = [run for partition in partitions for run in history_json(broker.cleaning, partition)]
    runs.sort(key=lambda run: -int(run["ended_ms"]))
    return {"runs": runs[:_HISTORY_LIMIT]}


def _is_wanted(tp: TopicPartition, number: str | None) -> bool:
    return number is None or str(tp.partition) == number
