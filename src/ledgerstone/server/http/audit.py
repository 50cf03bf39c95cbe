"""The part of the JSON API that is about the audit log. Grade D.

GET  /api/v1/audit/head    where this node's chain ends, how far it is sealed and with which key,
                           and how far the topic has it; to be kept elsewhere. For super users,
                           where there is an authorizer
"""

from collections.abc import Callable, Mapping

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.json_body import Refused
from ledgerstone.server.http.server import HttpRequest

Calls = Mapping[str, Callable[[], object]]


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about the audit log."""
    match parts:
        case ["audit", "head"]:
            return {"GET": lambda: _head(broker, request)}
        case _:
            return None


def _head(broker: Broker, request: HttpRequest) -> object:
    auditor = broker.auditor
    _check_is_super(request)
    if auditor is None or auditor.upkeep is None:
        raise Refused(404, "this node keeps no audit log: ledgerstone.audit.dir is not set")
    file, feed = auditor.file, auditor.feed
    return {
        "node_id": file.node_id,
        "seq": file.link.seq,
        "hash": file.link.hash,
        "head": str(file.link),
        "now_ms": broker.clock.now_ms(),
        "unsealed": file.unsealed,
        "public_key": auditor.upkeep.public_key,
        "topic": None
        if feed is None
        else {"sent_seq": feed.sent_seq, "lag": feed.lag, "trouble": feed.trouble},
    }


def _check_is_super(request: HttpRequest) -> None:
    rights = request.asker.rights
    if rights is not None and not rights.is_super:
        raise Refused(403, "the audit log is for super users")
