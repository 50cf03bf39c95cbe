"""Erasures: what was asked for, where it stands, what it waits for, its receipt. Grade D."""

from collections.abc import Mapping
from typing import Any, Final

from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.receipt import parse
from ledgerstone.erasure.receipt_text import render
from ledgerstone.server.broker import Broker
from ledgerstone.server.erasing_view import erasure_json
from ledgerstone.server.http import HttpRequest, Page
from ledgerstone.web.hosting import is_internal
from ledgerstone.web.router import NotShown, Rendered

SHOWN: Final = 100
# Not on the way of every erasure: shown where one has been there.
_BESIDE: Final = (Stage.SCHEDULED, Stage.CANCELLED, Stage.ABANDONED, Stage.NOT_FOUND)


def erasures_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    topics = [name for name in sorted(broker.image.topics) if not is_internal(name)]
    chosen = request.query.get("topic", "")
    facts = {
        **_facts(broker),
        "topics": [name for name in topics if _compacts(broker, name)],
        "topic": chosen,
        "key": request.query.get("key", ""),
        "key_as": request.query.get("key_as", "text"),
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
    return {
        "rows": [erasure_json(broker, each) for each in newest],
        "hidden": len(every) - len(newest),
        "trouble": broker.erasing.trouble,
    }


def erasure_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    erasure = _find(broker, parts)
    live = () if erasure.is_over else (f"erasure:{erasure.id}",)
    facts = {**_one(broker, erasure), "live": live}
    return Rendered("erasure.html", facts if live else _one(broker, erasure))


def erasure_fragment(broker: Broker, argument: str) -> Rendered:
    return Rendered("erasure_fragment.html", _one(broker, _find(broker, {"erasure": argument})))


def _one(broker: Broker, erasure: Erasure) -> dict[str, Any]:
    reached = dict(erasure.stage_times)
    course = [stage for stage in Stage if stage in reached or stage not in _BESIDE]
    return {
        "erasure": erasure_json(broker, erasure),
        "course": [(stage.value, reached.get(stage)) for stage in course],
    }


def receipt_json(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    """The very bytes that were signed."""
    erasure = _find(broker, parts)
    return _download(_receipt(erasure), "application/json", f"{erasure.id}.json")


def receipt_text(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    erasure = _find(broker, parts)
    text = render(parse(_receipt(erasure).encode()))
    return _download(text, "text/plain; charset=utf-8", f"{erasure.id}.txt")


def _download(body: str, content_type: str, name: str) -> Page:
    # An id has letters, digits and dashes alone.
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
