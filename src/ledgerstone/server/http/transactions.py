"""The part of the JSON API that is about transactions. Grade D.

GET  /api/v1/transactions                          undecided ones that are coordinated here
POST /api/v1/transactions/abort {"transactional_id": …}    ends one, and fences its producer
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ledgerstone.coordinator.transactions.metadata import Transaction, TxnState
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.server.http.gate import need
from ledgerstone.server.http.json_body import Refused, body_of
from ledgerstone.server.http.server import HttpRequest

Calls = Mapping[str, Callable[[], object]]

MOST_SHOWN: Final = 1000
MOST_PARTITIONS: Final = 100


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about transactions."""
    match parts:
        case ["transactions"]:
            return {"GET": lambda: _list(broker, request.asker)}
        case ["transactions", "abort"]:
            return {"POST": lambda: _abort(broker, request)}
        case _:
            return None


def transaction_json(transaction: Transaction, asker: Asker = ANYBODY) -> dict[str, Any]:
    about = transaction.metadata
    seen = [each for each in about.partitions if asker.sees_topic(each.topic)]
    return {
        "transactional_id": transaction.transactional_id,
        "state": about.state.shown,
        "producer_id": about.producer_id,
        "producer_epoch": about.producer_epoch,
        "timeout_ms": about.timeout_ms,
        "start_ms": about.start_ms,
        "partition_count": len(seen),
        "partitions": [str(each) for each in seen[:MOST_PARTITIONS]],
        "can_abort": about.state is TxnState.ONGOING,
    }


def seen_transactions(broker: Broker, asker: Asker) -> list[Transaction]:
    """The oldest first."""
    found = sorted(broker.txn_shards.undecided(), key=lambda each: each.metadata.start_ms)
    return [each for each in found if asker.sees_transactions_of(each.transactional_id)]


def _list(broker: Broker, asker: Asker) -> object:
    found = seen_transactions(broker, asker)
    return {
        "now_ms": broker.clock.now_ms(),
        "total": len(found),
        "transactions": [transaction_json(each, asker) for each in found[:MOST_SHOWN]],
    }


def _abort(broker: Broker, request: HttpRequest) -> object:
    name = body_of(request).get("transactional_id")
    if type(name) is not str or not name:
        raise Refused(400, "transactional_id must be the name of one")
    need(broker, request.asker, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name)
    found = next(
        (each for each in broker.txn_shards.undecided() if each.transactional_id == name), None
    )
    if found is None or found.metadata.state is not TxnState.ONGOING:
        raise Refused(409, f"{name} has no open transaction here")
    broker.transactions.abort(name)
    return {"aborted": name, "producer_id": found.metadata.producer_id}
