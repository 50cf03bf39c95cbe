"""The part of the JSON API that is about erasures. Grade D.

    POST /api/v1/topics/T/where {"key": …}       begins a search, answers with a ticket;
         "replicas": true for every replica, each place with its broker
    GET  /api/v1/searches/N                      what it found
    POST /api/v1/topics/T/erasures {"key": … or "keys": […], "reason", "requested_by",
         "within_ms" or "deadline_ms", "after_ms", "verifiers", "outputs_wait_ms",
         "abort_open"}
    GET  /api/v1/erasures[?overdue][?open][?topic=T][?stage=S][?after=ID][?limit=N]
         the newest first, at most 1000; `next` is what to ask `after` for the rest
    GET  /api/v1/erasures/ID
    POST /api/v1/erasures/ID/cancel {"by": …}
    POST /api/v1/erasures/ID/abandon {"by", "reason"}     where it can no longer be cancelled
    POST /api/v1/erasures/ID/accept {"file", "by", "reason", "broker"}   what a scan found may stay;
         without "file": that broker is destroyed, and will not be scanned
    GET  /api/v1/erasures/ID/receipt             the very bytes that were signed
    GET  /api/v1/erasures/ID/supplements         evidence since the receipt, as it was signed
    GET  /api/v1/erasures/ID/supplements/N       the very bytes of one
    POST /api/v1/erasures/ID/evidence {"verifier", "group", and either "output", "verdict",
         "evidence" or "words": [{"output", "verdict", "evidence"}, …]}
    GET  /api/v1/erasures-public-key             what receipts of this broker are signed with
    GET  /api/v1/erasures-journal                how far the journal is, and its breaks
    POST /api/v1/erasures-journal/acknowledge {"by": …}   the breaks are known

Keys come in base64 and in bodies alone, since paths are logged; no answer repeats one.
"""

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ledgerstone.erasure.erasure import Erasure, Evidence, ScanOutcome, Stage
from ledgerstone.erasure.key_print import SALT_BYTES, PrintKey
from ledgerstone.erasure.scan_plan import KeyPrints
from ledgerstone.errors import InvalidRequest, KafkaError, StorageError
from ledgerstone.metadata.config_entries import topic_values
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.broker import Broker
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.requests import JournalChange
from ledgerstone.server.erasing.scans import missing_partition
from ledgerstone.server.erasing.searching import where, where_on_replicas
from ledgerstone.server.erasing.view import erasure_json, is_overdue, journal_json
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.gate import need
from ledgerstone.server.http.json_body import Refused, Retried, body_of
from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.types import TopicPartition

MAX_KEYS: Final = 1_000
MAX_LISTED: Final = 1_000
MAX_WORDS: Final = 64
Calls = Mapping[str, Callable[[], object]]
T = TypeVar("T")


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about erasures."""
    match parts:
        case ["topics", topic, "where"]:
            return {"POST": lambda: _where(broker, topic, request)}
        case ["searches", number]:
            return {"GET": lambda: _search(broker, request, number)}
        case ["topics", topic, "erasures"]:
            return {"POST": lambda: _erase(broker, topic, request)}
        case ["erasures"]:
            return {"GET": lambda: _list(broker, request)}
        case ["erasures-journal"]:
            return {"GET": lambda: journal_json(broker.erasing)}
        case ["erasures-journal", "acknowledge"]:
            return {"POST": lambda: _acknowledge(broker, request)}
        case ["erasures-public-key"]:
            return {"GET": lambda: _public_key(broker)}
        case ["erasures", erasure_id]:
            return {"GET": lambda: _one(broker, erasure_id, request)}
        case ["erasures", erasure_id, "cancel"]:
            return {"POST": lambda: _cancel(broker, erasure_id, request)}
        case ["erasures", erasure_id, "abandon"]:
            return {"POST": lambda: _abandon(broker, erasure_id, request)}
        case ["erasures", erasure_id, "accept"]:
            return {"POST": lambda: _accept(broker, erasure_id, request)}
        case ["erasures", erasure_id, "receipt"]:
            return {"GET": lambda: _receipt(broker, erasure_id, request)}
        case ["erasures", erasure_id, "supplements"]:
            return {"GET": lambda: _supplements(broker, erasure_id, request)}
        case ["erasures", erasure_id, "supplements", number]:
            return {"GET": lambda: _supplement(broker, erasure_id, number, request)}
        case ["erasures", erasure_id, "evidence"]:
            return {"POST": lambda: _evidence(broker, erasure_id, request)}
        case _:
            return None


def is_for_coordinator(parts: list[str]) -> bool:
    """Whether the broker that leads the journal answers; searches any broker can begin."""
    return parts[0] != "searches" and parts[-1] != "where"


# -- where ----------------------------------------------------------------------------------------


def _where(broker: Broker, topic: str, request: HttpRequest) -> object:
    body = body_of(request)
    key = _key(body.get("key"))
    if topic not in broker.image.topics:
        raise Refused(404, f"there is no topic {topic}")
    erasing = broker.erasing
    missing = (
        missing_partition(broker.image, broker.partitions, topic) if erasing.is_alone else None
    )
    if missing is not None:
        raise Refused(503, missing)
    # A salt for this one question: nothing of it is kept.
    print_key = PrintKey.from_salt(broker.dice.random_bytes(SALT_BYTES))
    keys = KeyPrints.under(print_key, [print_key.print_of(topic, key)])
    look = where_on_replicas if _flag(body, "replicas") else where
    return look(erasing, topic, keys).to_json()


def _search(broker: Broker, request: HttpRequest, number: str) -> object:
    is_number = number.isascii() and number.isdecimal() and len(number) <= 18
    ticket = broker.erasing.tickets.get(int(number)) if is_number else None
    if ticket is None or not request.asker.may_on_topic(AclOperation.READ, ticket.topic):
        raise Refused(404, f"there is no search {number}")
    return ticket.to_json()


# -- erasures -------------------------------------------------------------------------------------


def _erase(broker: Broker, topic: str, request: HttpRequest) -> object:
    from ledgerstone.erasure.request import ErasureRequest

    body = body_of(request)
    keys = _keys(body)
    topic_id = _erasable(broker, topic)
    verifiers = body.get("verifiers")
    if verifiers is None:
        verifiers = list(broker.erasing.installed_verifiers())
    if not isinstance(verifiers, list) or not all(type(each) is str for each in verifiers):
        raise Refused(400, "verifiers must be a list of names")
    requests = [
        ErasureRequest(
            topic=topic,
            topic_id=topic_id,
            key=key,
            reason=_text(body, "reason"),
            requested_by=request.asker.signed(_text(body, "requested_by")),
            after_ms=_whole(body, "after_ms") or 0,
            deadline_ms=_whole(body, "deadline_ms"),
            within_ms=_whole(body, "within_ms"),
            awaited_verifiers=verifiers,
            outputs_wait_ms=_whole(body, "outputs_wait_ms"),
            abort_open=_flag(body, "abort_open"),
        )
        for key in keys
    ]
    change = broker.erasing.requests.new(requests)

    def answer() -> object:
        made = _answering(change.attempt)
        broker.erasing.requests.look_at(made)
        return {
            "now_ms": broker.clock.now_ms(),
            # All have the same topic and deadline.
            "warning": broker.erasing.requests.why_not_in_time(made[0]),
            "erasures": [erasure_json(broker.erasing, each) for each in made],
        }

    return Retried(answer)


def _erasable(broker: Broker, topic: str) -> bytes:
    image = broker.image.topics.get(topic)
    if image is None:
        raise Refused(404, f"there is no topic {topic}")
    if topic in INTERNAL_TOPICS:
        raise Refused(409, f"{topic} is the cluster's own")
    if not _compacts(broker, topic):
        raise Refused(
            409,
            f"cleanup.policy of {topic} does not contain compact: a tombstone would remove nothing",
        )
    return image.topic_id


def _compacts(broker: Broker, topic: str) -> bool:
    hosted = broker.partitions.find(TopicPartition(topic, 0))
    if hosted is not None:
        return hosted.log.config.compacts
    policy = topic_values(broker.image, broker.config, topic)["cleanup.policy"]
    assert isinstance(policy, tuple)
    return "compact" in policy


def _list(broker: Broker, request: HttpRequest) -> object:
    query = request.query
    stage = query.get("stage")
    if stage is not None and stage not in [each.value for each in Stage]:
        raise Refused(400, f"there is no stage {stage}")
    found = [
        each
        for each in reversed(list(broker.erasing.journal.book))
        if query.get("topic") in (None, each.topic)
        and request.asker.sees_topic(each.topic)
        and stage in (None, each.stage.value)
        and ("open" not in query or not each.is_over)
        and ("overdue" not in query or is_overdue(broker.erasing, each))
    ]
    total, found = len(found), _after(found, query.get("after"))
    shown = found[: _limit(query)]
    return {
        "now_ms": broker.clock.now_ms(),
        "total": total,
        "erasures": [erasure_json(broker.erasing, each) for each in shown],
        # What to ask `after` for the rest; null where there is none.
        "next": shown[-1].id if shown and len(shown) < len(found) else None,
    }


def _after(erasures: list[Erasure], erasure_id: str | None) -> list[Erasure]:
    if erasure_id is None:
        return erasures
    for index, each in enumerate(erasures):
        if each.id == erasure_id:
            return erasures[index + 1 :]
    raise Refused(404, f"there is no erasure {erasure_id[:40]} among these")


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(MAX_LISTED))
    is_number = text.isascii() and text.isdecimal() and len(text) <= 9
    if not is_number or int(text) > MAX_LISTED:
        raise Refused(400, f"limit must be a number up to {MAX_LISTED}")
    return int(text)


def _one(broker: Broker, erasure_id: str, request: HttpRequest) -> object:
    return {
        "now_ms": broker.clock.now_ms(),
        **erasure_json(broker.erasing, _find(broker, erasure_id, request.asker)),
    }


def _cancel(broker: Broker, erasure_id: str, request: HttpRequest) -> object:
    _check_may_erase(broker, erasure_id, request.asker)
    by = request.asker.signed(_text(body_of(request), "by"))
    return _changed(
        broker, erasure_id, request, lambda: broker.erasing.requests.cancel(erasure_id, by)
    )


def _check_may_erase(broker: Broker, erasure_id: str, asker: Asker) -> None:
    erasure = _find(broker, erasure_id, asker)
    need(broker, asker, AclOperation.DELETE, AclResourceType.TOPIC, erasure.topic)


def _changed(
    broker: Broker, erasure_id: str, request: HttpRequest, change: Callable[[], JournalChange]
) -> Retried:
    _find(broker, erasure_id, request.asker)
    begun = change()

    def answer() -> object:
        _answering(begun.attempt)
        return erasure_json(broker.erasing, _find(broker, erasure_id, request.asker))

    return Retried(answer)


def _abandon(broker: Broker, erasure_id: str, request: HttpRequest) -> object:
    _check_may_erase(broker, erasure_id, request.asker)
    body = body_of(request)
    by, reason = request.asker.signed(_text(body, "by")), _text(body, "reason")
    return _changed(
        broker,
        erasure_id,
        request,
        lambda: broker.erasing.requests.abandon(erasure_id, by, reason),
    )


def _accept(broker: Broker, erasure_id: str, request: HttpRequest) -> object:
    _check_may_erase(broker, erasure_id, request.asker)
    body, requests = body_of(request), broker.erasing.requests
    file, by, reason = (_text(body, name) for name in ("file", "by", "reason"))
    by = request.asker.signed(by)
    broker_id = _number(body, "broker")
    if broker_id is not None and not file:
        return _changed(
            broker,
            erasure_id,
            request,
            lambda: requests.give_up_broker(erasure_id, broker_id=broker_id, reason=reason, by=by),
        )
    return _changed(
        broker,
        erasure_id,
        request,
        lambda: requests.accept(erasure_id, file=file, reason=reason, by=by, node_id=broker_id),
    )


def _receipt(broker: Broker, erasure_id: str, request: HttpRequest) -> object:
    erasure = _find(broker, erasure_id, request.asker)
    if erasure.receipt is None:
        raise Refused(409, f"{erasure_id} is {erasure.stage.value} and has no receipt")
    return Page(200, erasure.receipt, "application/json")


def _evidence(broker: Broker, erasure_id: str, request: HttpRequest) -> object:
    _find(broker, erasure_id, request.asker)
    need(broker, request.asker, AclOperation.WRITE, AclResourceType.TOPIC, JOURNAL.topic)
    body = body_of(request)
    words = body.get("words", [body])
    if not isinstance(words, list) or not 0 < len(words) <= MAX_WORDS:
        raise Refused(400, f"words must be a list of at most {MAX_WORDS}")
    evidence = [_word(broker, body, each) for each in words]
    return _changed(
        broker,
        erasure_id,
        request,
        lambda: broker.erasing.requests.give_evidence(erasure_id, evidence),
    )


def _word(broker: Broker, body: Mapping[str, Any], word: object) -> Evidence:
    verdicts = [each.value for each in ScanOutcome]
    if not isinstance(word, dict) or word.get("verdict") not in verdicts:
        raise Refused(400, f"verdict must be one of {', '.join(verdicts)}")
    return Evidence(
        verifier=_text(body, "verifier"),
        output=_text(word, "output"),
        outcome=ScanOutcome(word["verdict"]),
        evidence=_text(word, "evidence"),
        given_ms=broker.clock.now_ms(),
        group=_text(body, "group"),
    )


def _supplements(broker: Broker, erasure_id: str, request: HttpRequest) -> object:
    erasure = _find(broker, erasure_id, request.asker)
    return {"supplements": [json.loads(each.document) for each in erasure.supplements]}


def _supplement(broker: Broker, erasure_id: str, number: str, request: HttpRequest) -> object:
    for each in _find(broker, erasure_id, request.asker).supplements:
        if str(each.number) == number:
            return Page(200, each.document, "application/json")
    raise Refused(404, f"{erasure_id} has no supplement {number[:20]}")


def _acknowledge(broker: Broker, request: HttpRequest) -> object:
    by = request.asker.signed(_text(body_of(request), "by"))
    _answering(lambda: broker.erasing.requests.acknowledge_breaks(by))
    return journal_json(broker.erasing)


def _public_key(broker: Broker) -> object:
    return {"public_key": broker.erasing.journal.secrets_name}


# -- what bodies hold -----------------------------------------------------------------------------


def _find(broker: Broker, erasure_id: str, asker: Asker) -> Erasure:
    erasure = broker.erasing.journal.book.get(erasure_id)
    if erasure is None:
        broker.erasing.check_journal_is_known()
    # One of a topic that may not be described is one that does not exist.
    if erasure is None or not asker.sees_topic(erasure.topic):
        raise Refused(404, f"there is no erasure {erasure_id[:40]}")
    return erasure


def _keys(body: Mapping[str, Any]) -> list[bytes]:
    if "keys" not in body:
        return [_key(body.get("key"))]
    keys = body["keys"]
    if "key" in body or not isinstance(keys, list) or not 0 < len(keys) <= MAX_KEYS:
        raise Refused(400, f"either key, or keys: a list of at most {MAX_KEYS}")
    return [_key(each) for each in keys]


def _key(text: object) -> bytes:
    try:
        if isinstance(text, str):
            return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        pass
    raise Refused(400, "key must be the key's bytes in base64")


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name, "")
    if not isinstance(text, str):
        raise Refused(400, f"{name} must be a text")
    return text


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    number = body.get(name)
    if number is not None and (type(number) is not int or not 0 <= number < 1 << 53):
        raise Refused(400, f"{name} must be a whole number of milliseconds")
    return number


def _number(body: Mapping[str, Any], name: str) -> int | None:
    number = body.get(name)
    if number is not None and (type(number) is not int or not 0 <= number < 1 << 31):
        raise Refused(400, f"{name} must be a whole number")
    return number


def _flag(body: Mapping[str, Any], name: str) -> bool:
    flag = body.get(name, False)
    if type(flag) is not bool:
        raise Refused(400, f"{name} must be true or false")
    return flag


def _answering(call: Callable[[], T]) -> T:
    try:
        return call()
    except InvalidRequest as error:
        raise Refused(400, str(error)) from None
    except (KafkaError, StorageError, OSError) as error:
        raise Refused(503, str(error)) from None
