"""Erasures: requests, their progress, what they wait for, their receipts. Grade D."""

import json
from collections.abc import Generator, Mapping
from itertools import islice
from typing import Any, Final

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.receipt import parse
from ledgerstone.erasure.receipt_text import output_line, render
from ledgerstone.erasure.supplement import parse_supplement, together
from ledgerstone.metadata.config_entries import topic_values
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.broker import Broker
from ledgerstone.server.erasing.view import erasure_json, is_overdue
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.gate import need_on_topic
from ledgerstone.server.http.server import HttpRequest, Job, Page, PagePause
from ledgerstone.web.api_calls import asked
from ledgerstone.web.erasure_course import ALARMS, alarm_of, course_of_erasure
from ledgerstone.web.forms import as_field, path_of
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
    asker = request.asker
    topics = [name for name in topics if asker.may_on_topic(AclOperation.DELETE, name)]
    chosen, place = request.query.get("topic", ""), place_in(request.query)
    if place is not None:
        need_on_topic(broker, asker, AclOperation.READ, chosen)
    key = b"" if place is None else (yield from key_at(broker, chosen, place))
    text, written = as_field(key)
    shown = yield from _listed(broker, asker)
    facts = {
        **shown,
        "topics": [name for name in topics if _compacts(broker, name)],
        "topic": chosen,
        "key": text,
        "key_as": written,
        # Only the broker that runs the erasures hears of each change.
        "live": () if broker.erasing.is_elsewhere else ("erasures",),
    }
    return Rendered("erasures.html", facts)


def _compacts(broker: Broker, topic: str) -> bool:
    policy = topic_values(broker.image, broker.config, topic)["cleanup.policy"]
    assert isinstance(policy, tuple)
    return "compact" in policy


def erasures_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("erasures_fragment.html", _facts(broker, asker))


def _listed(
    broker: Broker, asker: Asker
) -> Generator[Job | PagePause | None, Any, dict[str, object]]:
    if not broker.erasing.is_elsewhere:
        return _facts(broker, asker)
    page = yield from asked(broker, asker, "/erasures", query={"limit": str(SHOWN)})
    told = json.loads(page.body)
    rows = [{**row, "alarm": alarm_of(row)} for row in told["erasures"]]
    return {"rows": rows, "hidden": told["total"] - len(rows), "trouble": None}


def _facts(broker: Broker, asker: Asker) -> dict[str, object]:
    every = [each for each in broker.erasing.journal.book if asker.sees_topic(each.topic)]
    newest = every[-SHOWN:][::-1]
    rows = [erasure_json(broker.erasing, each) for each in newest]
    return {
        "rows": [{**row, "alarm": alarm_of(row)} for row in rows],
        "hidden": len(every) - len(newest),
        "trouble": broker.erasing.trouble if asker.sees_cluster else None,
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


def erasure_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    page = yield from asked(broker, request.asker, path_of("erasures", parts["erasure"]))
    shown = json.loads(page.body)
    facts = _one(shown)
    if not shown["is_over"] and not broker.erasing.is_elsewhere:
        facts["live"] = (f"erasure:{shown['id']}",)
    return Rendered("erasure.html", facts)


def erasure_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    erasure = broker.erasing.journal.book.get(argument)
    if erasure is None or not asker.sees_topic(erasure.topic):
        raise NotShown(404, f"There is no erasure {argument[:40]}.")
    return Rendered("erasure_fragment.html", _one(erasure_json(broker.erasing, erasure)))


def _one(shown: dict[str, Any]) -> dict[str, Any]:
    return {
        "erasure": shown,
        "course": course_of_erasure(shown),
        "alarm": alarm_of(shown),
        "outputs": [output_line(each) for each in shown["outputs"][:_SHOWN_OUTPUTS]],
    }


def receipt_json(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    """Exactly the bytes that were signed."""
    path = path_of("erasures", parts["erasure"], "receipt")
    page = yield from asked(broker, request.asker, path)
    return _download(page.body, "application/json", f"{parts['erasure']}.json")


def receipt_text(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    erasure_id, asker = parts["erasure"], request.asker
    page = yield from asked(broker, asker, path_of("erasures", erasure_id, "receipt"))
    content = parse(_bytes(page.body))
    shown = json.loads((yield from asked(broker, asker, path_of("erasures", erasure_id))).body)
    added = []
    for each in shown["supplements"]:
        path = path_of("erasures", erasure_id, "supplements", str(each["number"]))
        paper = yield from asked(broker, asker, path)
        added.append(parse_supplement(_bytes(paper.body)))
    text = render(content) + "".join(f"{line}\n" for line in together(content, added))
    return _download(text, "text/plain; charset=utf-8", f"{erasure_id}.txt")


def supplement_json(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    """The very bytes that were signed."""
    erasure_id, number = parts["erasure"], parts["number"]
    path = path_of("erasures", erasure_id, "supplements", number)
    page = yield from asked(broker, request.asker, path)
    return _download(page.body, "application/json", f"{erasure_id}.supplement-{number}.json")


def _bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


def _download(body: str | bytes, content_type: str, name: str) -> Page:
    # The API has answered for this id, so it has only letters, digits and dashes.
    header = ("Content-Disposition", f'attachment; filename="{name}"')
    return Page(200, body, content_type, (header,))
