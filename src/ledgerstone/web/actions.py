"""Actions of the JSON API, called by pages as a program would. Grade D."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.http import api as http_api
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.web.api_calls import asked
from ledgerstone.web.forms import bytes_in, form_of, path_of, see_other, whole_number
from ledgerstone.web.router import NotShown, SlowAnswer

_DAY_MS: Final = 86_400_000
_MOST_DAYS: Final = 36_500
_API: Final = http_api.PREFIX.rstrip("/")


def _call(broker: Broker, asker: Asker, path: str, body: Mapping[str, object]) -> dict[str, Any]:
    request = HttpRequest("POST", _API + path, {}, {}, json.dumps(body).encode(), asker)
    page = http_api.handle(broker, request)
    assert page is not None, path
    content: dict[str, Any] = json.loads(page.body)
    if page.status != 200:
        raise NotShown(page.status, content["error"])
    return content


def compact_topic(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    """The field `partition` names one, the field `back` the page to return to."""
    fields, topic = form_of(request), parts["topic"]
    body = {"partition": whole_number(fields, "partition", at_most=1 << 31)}
    made = _call(broker, request.asker, path_of("topics", topic, "compact"), body)
    count = len(made["tickets"])
    notice = f"{count} {'pass was' if count == 1 else 'passes were'} requested."
    if fields.get("back") == "cleaner":
        return see_other("/cleaner", notice=notice)
    return see_other(path_of("topics", topic, "anatomy"), notice=notice)


def erase_key(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    fields = form_of(request)
    key = bytes_in(fields, "key")
    if not key:
        raise NotShown(400, "The key is empty.")
    body: dict[str, object] = {
        "key": b64encode(key).decode("ascii"),
        "reason": fields.get("reason", "").strip(),
        "requested_by": fields.get("requested_by", "").strip(),
    }
    days = whole_number(fields, "within_days", at_most=_MOST_DAYS)
    if days is not None:
        body["within_ms"] = days * _DAY_MS
    path = path_of("topics", fields.get("topic", ""), "erasures")
    made = json.loads((yield from asked(broker, request.asker, path, body)).body)
    erasure_id = str(made["erasures"][0]["id"])
    return see_other(path_of("erasures", erasure_id), notice="The erasure has begun.")


def cancel_erasure(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    by = form_of(request).get("by", "").strip()
    path = path_of("erasures", parts["erasure"], "cancel")
    yield from asked(broker, request.asker, path, {"by": by})
    return see_other(path_of("erasures", parts["erasure"]), notice="The erasure is cancelled.")


def abort_transaction(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    """The field `topic` names the page to return to."""
    fields = form_of(request)
    name, topic = fields.get("transactional_id", ""), fields.get("topic", "")
    _call(broker, request.asker, path_of("transactions", "abort"), {"transactional_id": name})
    notice = f"The transaction of {name} is aborted."
    if topic:
        return see_other(path_of("topics", topic, "anatomy"), notice=notice)
    return see_other("/transactions", notice=notice)


def acknowledge_missed(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    """Acknowledges the deletes that a group missed in a topic."""
    group, topic = parts["group"], form_of(request).get("topic", "")
    _call(broker, request.asker, path_of("topics", topic, "tombstones", "ack"), {"group": group})
    return see_other(path_of("groups", group), notice=f"Acknowledged for {topic}.")
