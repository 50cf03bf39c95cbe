"""Erasures: requests, their progress, what they wait for, their receipts. Grade D."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.receipt import parse
from ledgerstone.erasure.receipt_text import output_line, render
from ledgerstone.erasure.supplement import parse_supplement, together
from ledgerstone.server.broker import Broker
from ledgerstone.server.erasing.view import erasure_json, is_overdue
from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.web.erasure_course import ALARMS, alarm_of, course_of_erasure
from ledgerstone.web.forms import as_field
from ledgerstone.web.hosting import is_internal
from ledgerstone.web.record_at import key_at, place_in
from ledgerstone.web.router import NotShown, Rendered, SlowAnswer

SHOWN: Final = 100
_SHOWN_OUTPUTS: Final = 50
# How many the overview checks, once a second while it is open.
_LOOKED_AT: Final = 2_000
# Only in these stages can a scan have found what blocks the receipt.
_SCANNED: Final = (Stage.UNLINKED, Stage.VERIFIED)


def erasures_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    """Filled with the key of the record that `topic`, `partition` and `offset` name, if given."""
    topics = [name for name in sorted(broker.image.topics) if not is_internal(name)]
    chosen, place = request.query.get("topic", ""), place_in(request.query)
    key = b"" if place is None else (yield from key_at(broker, chosen, place))
    text, written = as_field(key)
    facts = {
        **_facts(broker),
        "topics": [name for name in topics if _compacts(broker, name)],
        "topic": chosen,
        "key": text,
        "key_as": written,
        "live": ("erasures",),
    }
    return Rendered("erasures.html", facts)


def _compacts(broker: Broker, topic: str) -> bool:
    policy = broker.image.topic_config(topic).get("cleanup.policy")
    if policy is None:
        policy = broker.config.raw.get("log.cleanup.policy", "delete")
    return "compact" in policy


def erasures_fragment(broker: Broker, argument: str) -> Rendered:
    return Rendered("erasures_fragment.html", _facts(broker))


def _facts(broker: Broker) -> dict[str, object]:
    every = list(broker.erasing.journal.book)
    newest = every[-SHOWN:][::-1]
    rows = [erasure_json(broker.erasing, each) for each in newest]
    return {
        "rows": [{**row, "alarm": alarm_of(row)} for row in rows],
        "hidden": len(every) - len(newest),
        "trouble": broker.erasing.trouble,
    }


def alarming(broker: Broker) -> list[dict[str, Any]]:
    """Unfinished erasures that need attention, worst first."""
    erasing, found = broker.erasing, []
    for erasure_id in islice(erasing.journal.unfinished, _LOOKED_AT):
        erasure, outlook = erasing.journal.get(erasure_id), erasing.outlooks.get(erasure_id)
        expected = outlook.forecast if outlook else None
        is_calm = expected is not None and not expected.will_miss and expected.expected_done_ms
        if is_calm and erasure.stage not in _SCANNED and not is_overdue(broker.erasing, erasure):
            continue
        row = erasure_json(broker.erasing, erasure)
        alarm = alarm_of(row)
        if alarm is not None:
            found.append({**row, "alarm": alarm})
    return sorted(found, key=lambda row: (ALARMS.index(row["alarm"]), row["deadline_ms"] or 0))


def erasure_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    erasure = _find(broker, parts)
    live = () if erasure.is_over else (f"erasure:{erasure.id}",)
    facts = {**_one(broker, erasure), "live": live}
    return Rendered("erasure.html", facts if live else _one(broker, erasure))


def erasure_fragment(broker: Broker, argument: str) -> Rendered:
    return Rendered("erasure_fragment.html", _one(broker, _find(broker, {"erasure": argument})))


def _one(broker: Broker, erasure: Erasure) -> dict[str, Any]:
    shown = erasure_json(broker.erasing, erasure)
    return {
        "erasure": shown,
        "course": course_of_erasure(shown),
        "alarm": alarm_of(shown),
        "outputs": [output_line(each) for each in shown["outputs"][:_SHOWN_OUTPUTS]],
    }


def receipt_json(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    """Exactly the bytes that were signed."""
    erasure = _find(broker, parts)
    return _download(_receipt(erasure), "application/json", f"{erasure.id}.json")


def receipt_text(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    erasure = _find(broker, parts)
    content = parse(_receipt(erasure).encode())
    added = [parse_supplement(each.document.encode()) for each in erasure.supplements]
    text = render(content) + "".join(f"{line}\n" for line in together(content, added))
    return _download(text, "text/plain; charset=utf-8", f"{erasure.id}.txt")


def supplement_json(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    """The very bytes that were signed."""
    erasure = _find(broker, parts)
    for each in erasure.supplements:
        if str(each.number) == parts["number"]:
            name = f"{erasure.id}.supplement-{each.number}.json"
            return _download(each.document, "application/json", name)
    raise NotShown(404, f"{erasure.id} has no supplement {parts['number'][:20]}.")


def _download(body: str, content_type: str, name: str) -> Page:
    # An id has only letters, digits and dashes.
    header = ("Content-Disposition", f'attachment; filename="{name}"')
    return Page(200, body, content_type, (header,))


def _receipt(erasure: Erasure) -> str:
    if erasure.receipt is None:
        raise NotShown(409, f"{erasure.id} is {erasure.stage.value} and has no receipt.")
    return erasure.receipt


def _find(broker: Broker, parts: Mapping[str, str]) -> Erasure:
    erasure = broker.erasing.journal.book.get(parts["erasure"])
    if erasure is None:
        raise NotShown(404, f"There is no erasure {parts['erasure'][:40]}.")
    return erasure
