"""Open transactions, since when, and ending them. Grade D."""

from collections.abc import Mapping, Sequence
from typing import Final

from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.server.http.transactions import seen_transactions, transaction_json
from ledgerstone.web.router import Rendered

SHOWN: Final = 200
_SHOWN_IN_TOPIC: Final = 20


def transactions_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    found = seen_transactions(broker, request.asker)
    rows = [transaction_json(each, request.asker) for each in found[:SHOWN]]
    return Rendered("transactions.html", {"rows": rows, "hidden": max(len(found) - SHOWN, 0)})


def open_in(
    broker: Broker, partitions: Sequence[Partition], asker: Asker
) -> list[dict[str, object]]:
    """The open transactions of some partitions, for the page of their topic."""
    found: list[dict[str, object]] = []
    for partition in partitions:
        for each in broker.cleaning.open_txns(partition.log):
            if len(found) == _SHOWN_IN_TOPIC:
                return found
            owner = each.owner
            if owner is not None and not asker.sees_transactions_of(owner.transactional_id):
                owner = None
            found.append(
                {
                    "partition": partition.topic_partition.partition,
                    "first_offset": each.first_offset,
                    "producer_id": each.producer_id,
                    "transactional_id": owner.transactional_id if owner else None,
                    "since_ms": owner.since_ms if owner else None,
                }
            )
    return found
